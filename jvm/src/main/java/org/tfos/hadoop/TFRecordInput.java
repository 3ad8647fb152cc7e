package org.tfos.hadoop;

import java.io.IOException;
import java.nio.ByteBuffer;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.tfos.RecordInput;
import org.tfos.RecordTable;
import org.tfos.TfosException;

/** The records of a split, as they are. They come from the native library a batch at a time. */
public final class TFRecordInput extends RecordReader<BytesWritable, NullWritable> {
    private static final String SCHEMA =
            "{\"type\":\"struct\",\"fields\":[{\"name\":\"record\",\"type\":\"binary\",\"nullable\":true}]}";
    private static final int OFFSETS = 2; // among the words of the column
    private static final int DATA = 3;

    private final String options;
    private BytesWritable key; // a new one for each record, of its very size: jobs keep them, and look at all of it
    private HadoopFiles files;
    private RecordInput input;
    private long splitBytes;
    private int rows; // of the batch
    private int row; // the next of them
    private ByteBuffer offsets;
    private ByteBuffer data;

    /** @param options of a table of records as they are */
    public TFRecordInput(String options) {
        this.options = options;
    }

    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) throws IOException {
        FileSplit part = (FileSplit) split;
        Path path = part.getPath();
        Configuration configuration = context.getConfiguration();
        files = new HadoopFiles(configuration, () -> false);
        long bytes = path.getFileSystem(configuration).getFileStatus(path).getLen();
        splitBytes = part.getLength();
        long end = part.getStart() + splitBytes;
        try (RecordTable table = new RecordTable(options)) {
            String name = files.nameOf(path, bytes);
            input = new RecordInput(table, name, bytes, part.getStart(), end, SCHEMA, 1, files);
        } catch (TfosException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    @Override
    public boolean nextKeyValue() throws IOException {
        if (row == rows && (input == null || !nextBatch())) {
            return false;
        }
        int begin = offsets.getInt(row * Integer.BYTES);
        int count = offsets.getInt((row + 1) * Integer.BYTES) - begin;
        row++;
        byte[] record = new byte[count];
        data.position(begin);
        data.get(record);
        key = new BytesWritable(record);
        return true;
    }

    private boolean nextBatch() throws IOException {
        try {
            rows = input.next();
        } catch (TfosException e) {
            throw new IOException(e.getMessage(), e);
        }
        files.countReads(input);
        row = 0;
        if (rows > 0) {
            long[] words = input.words();
            offsets = input.memory(words[OFFSETS], (rows + 1L) * Integer.BYTES);
            data = input.memory(words[DATA], offsets.getInt(rows * Integer.BYTES));
        }
        return rows > 0;
    }

    @Override
    public BytesWritable getCurrentKey() {
        return key;
    }

    @Override
    public NullWritable getCurrentValue() {
        return NullWritable.get();
    }

    @Override
    public float getProgress() {
        return splitBytes == 0 || input == null ? 1 : Math.min(1, (float) input.doneBytes() / splitBytes);
    }

    @Override
    public void close() {
        if (input != null) {
            input.close();
            input = null;
            rows = row;
        }
    }
}
