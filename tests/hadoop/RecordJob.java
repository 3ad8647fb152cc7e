import java.io.IOException;
import java.util.Arrays;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.Counter;
import org.apache.hadoop.mapreduce.CounterGroup;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;
import org.tensorflow.hadoop.io.TFRecordFileInputFormat;
import org.tensorflow.hadoop.io.TFRecordFileOutputFormat;

/** A job as users of tensorflow-hadoop have it: counts equal records. Prints its counters. */
public class RecordJob extends Configured implements Tool {
    /** Emits each record. */
    public static class RecordMapper extends Mapper<BytesWritable, NullWritable, BytesWritable, LongWritable> {
        private static final LongWritable ONE = new LongWritable(1);

        @Override
        protected void setup(Context context) {
            context.getCounter("job", "splits").increment(1);
        }

        @Override
        protected void map(BytesWritable record, NullWritable nothing, Context context)
                throws IOException, InterruptedException {
            context.getCounter("job", "bytes").increment(record.getLength());
            context.write(record, ONE);
        }
    }

    /** Writes each record once, with the number of its copies behind a space. */
    public static class CountReducer extends Reducer<BytesWritable, LongWritable, BytesWritable, NullWritable> {
        @Override
        protected void reduce(BytesWritable record, Iterable<LongWritable> counts, Context context)
                throws IOException, InterruptedException {
            long count = 0;
            for (LongWritable each : counts) {
                count += each.get();
            }
            byte[] end = (" " + count).getBytes();
            byte[] whole = Arrays.copyOf(record.getBytes(), record.getLength() + end.length);
            System.arraycopy(end, 0, whole, record.getLength(), end.length);
            context.write(new BytesWritable(whole), NullWritable.get());
        }
    }

    @Override
    public int run(String[] arguments) throws Exception {
        Job job = Job.getInstance(getConf(), "records");
        job.setJarByClass(RecordJob.class);
        job.setInputFormatClass(TFRecordFileInputFormat.class);
        job.setMapperClass(RecordMapper.class);
        job.setMapOutputKeyClass(BytesWritable.class);
        job.setMapOutputValueClass(LongWritable.class);
        job.setReducerClass(CountReducer.class);
        job.setNumReduceTasks(2);
        job.setOutputKeyClass(BytesWritable.class);
        job.setOutputValueClass(NullWritable.class);
        job.setOutputFormatClass(TFRecordFileOutputFormat.class);
        FileInputFormat.addInputPath(job, new Path(arguments[0]));
        FileOutputFormat.setOutputPath(job, new Path(arguments[1]));
        boolean succeeded = job.waitForCompletion(true);
        for (CounterGroup group : job.getCounters()) {
            for (Counter counter : group) {
                System.out.println(group.getName() + "." + counter.getName() + "=" + counter.getValue());
            }
        }
        return succeeded ? 0 : 1;
    }

    public static void main(String[] arguments) throws Exception {
        System.exit(ToolRunner.run(new RecordJob(), arguments));
    }
}
