package org.tensorflow.hadoop.io;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.RecordWriter;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.tfos.hadoop.TFRecordOutput;

/** Writes keys as records of TFRecord files. */
public class TFRecordFileOutputFormat extends FileOutputFormat<BytesWritable, NullWritable> {
    @Override
    public RecordWriter<BytesWritable, NullWritable> getRecordWriter(TaskAttemptContext context)
            throws IOException, InterruptedException {
        Configuration configuration = context.getConfiguration();
        String options = TFRecordIOConf.outputOptionsOf(configuration);
        TFRecordOutput output = new TFRecordOutput(
                options, getDefaultWorkFile(context, TFRecordOutput.ending(options)), configuration);
        return new RecordWriter<BytesWritable, NullWritable>() {
            @Override
            public void write(BytesWritable record, NullWritable nothing) throws IOException {
                output.write(record);
            }

            @Override
            public void close(TaskAttemptContext ended) throws IOException {
                output.close();
            }
        };
    }
}
