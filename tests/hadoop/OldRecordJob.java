import java.io.IOException;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.FileOutputFormat;
import org.apache.hadoop.mapred.JobClient;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapReduceBase;
import org.apache.hadoop.mapred.Mapper;
import org.apache.hadoop.mapred.OutputCollector;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;
import org.tensorflow.hadoop.io.TFRecordFileOutputFormatV1;

/** A job of Hadoop's older interface: lines of text become records. */
public class OldRecordJob extends Configured implements Tool {
    /** Emits each line. */
    public static class LineMapper extends MapReduceBase
            implements Mapper<LongWritable, Text, BytesWritable, NullWritable> {
        @Override
        public void map(
                LongWritable offset, Text line, OutputCollector<BytesWritable, NullWritable> records, Reporter reporter)
                throws IOException {
            records.collect(new BytesWritable(line.copyBytes()), NullWritable.get());
        }
    }

    @Override
    public int run(String[] arguments) throws Exception {
        JobConf job = new JobConf(getConf(), OldRecordJob.class);
        job.setMapperClass(LineMapper.class);
        job.setNumReduceTasks(0);
        job.setOutputKeyClass(BytesWritable.class);
        job.setOutputValueClass(NullWritable.class);
        job.setOutputFormat(TFRecordFileOutputFormatV1.class);
        FileInputFormat.addInputPath(job, new Path(arguments[0]));
        FileOutputFormat.setOutputPath(job, new Path(arguments[1]));
        return JobClient.runJob(job).isSuccessful() ? 0 : 1;
    }

    public static void main(String[] arguments) throws Exception {
        System.exit(ToolRunner.run(new OldRecordJob(), arguments));
    }
}
