package org.tensorflow.hadoop.io;

import java.io.IOException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.Writable;
import org.apache.hadoop.mapred.FileOutputFormat;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordWriter;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.util.Progressable;
import org.tfos.hadoop.TFRecordOutput;

/** Writes keys as records of TFRecord files, for jobs of the older interface. */
public class TFRecordFileOutputFormatV1 extends FileOutputFormat<BytesWritable, Writable> {
    @Override
    public RecordWriter<BytesWritable, Writable> getRecordWriter(
            FileSystem ignored, JobConf job, String name, Progressable progress) throws IOException {
        String options = TFRecordIOConf.outputOptionsOf(job);
        String whole = name + TFRecordOutput.ending(options);
        TFRecordOutput output =
                new TFRecordOutput(options, FileOutputFormat.getTaskOutputPath(job, whole), job);
        return new RecordWriter<BytesWritable, Writable>() {
            @Override
            public void write(BytesWritable record, Writable nothing) throws IOException {
                output.write(record);
            }

            @Override
            public void close(Reporter reporter) throws IOException {
                output.close();
            }
        };
    }
}
