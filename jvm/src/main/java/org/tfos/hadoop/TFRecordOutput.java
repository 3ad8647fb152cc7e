package org.tfos.hadoop;

import java.io.Closeable;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.tfos.RecordOutput;
import org.tfos.RecordTable;
import org.tfos.TfosException;

/** A TFRecord file that a job of Hadoop's writes. */
public final class TFRecordOutput implements Closeable {
    private static final String ENDING = ".tfrecord"; // of files in Spark's tables

    private final RecordOutput output;
    private boolean ended;

    public TFRecordOutput(String options, Path path, Configuration configuration) throws IOException {
        HadoopFiles files = new HadoopFiles(configuration, Thread.currentThread()::isInterrupted);
        try (RecordTable table = new RecordTable(options)) {
            output = new RecordOutput(table, files.outputNameOf(path), files);
        } catch (TfosException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    /** What Hadoop's names for such files end with: the codec, and nothing else. */
    public static String ending(String options) {
        try (RecordTable table = new RecordTable(options)) {
            return table.ending().substring(ENDING.length());
        }
    }

    public void write(BytesWritable record) throws IOException {
        try {
            output.write(record.getBytes(), 0, record.getLength());
        } catch (TfosException e) {
            ended = true;
            throw new IOException(e.getMessage(), e);
        }
    }

    @Override
    public void close() throws IOException {
        boolean finishes = !ended;
        ended = true;
        try (RecordOutput closed = output) {
            if (finishes) {
                closed.finish();
            }
        } catch (TfosException e) {
            throw new IOException(e.getMessage(), e);
        }
    }
}
