package org.tensorflow.hadoop.io;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.tfos.RecordTable;
import org.tfos.hadoop.TFRecordInput;

/** Records of TFRecord files as they are: keys are their bytes. Files that are not compressed are split. */
public class TFRecordFileInputFormat extends FileInputFormat<BytesWritable, NullWritable> {
    @Override
    public RecordReader<BytesWritable, NullWritable> createRecordReader(InputSplit split, TaskAttemptContext context)
            throws IOException, InterruptedException {
        return new TFRecordInput(TFRecordIOConf.optionsOf(context.getConfiguration()));
    }

    @Override
    protected boolean isSplitable(JobContext context, Path path) {
        try (RecordTable table = new RecordTable(TFRecordIOConf.optionsOf(context.getConfiguration()))) {
            return table.splits(path.getName());
        }
    }

    /** Indexes lie beside what they are of, and are no data. */
    @Override
    protected List<FileStatus> listStatus(JobContext context) throws IOException {
        List<FileStatus> found = new ArrayList<>(super.listStatus(context));
        found.removeIf(file -> !RecordTable.holds(file.getPath().getName()));
        return found;
    }
}
