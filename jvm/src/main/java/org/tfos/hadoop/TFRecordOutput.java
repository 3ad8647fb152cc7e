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
    private final RecordOutput output;
    private boolean failed;

    public TFRecordOutput(String options, Path path, Configuration configuration) throws IOException {
        HadoopFiles files = new HadoopFiles(configuration, Thread.currentThread()::isInterrupted);
        try (RecordTable table = new RecordTable(options)) {
            output = new RecordOutput(table, files.outputNameOf(path), files);
        } catch (TfosException e) {
            throw new IOException(e.getMessage(), e);
        }
    }

    public void write(BytesWritable record) throws IOException {
        try {
            output.write(record.getBytes(), 0, record.getLength());
        } catch (TfosException e) {
            failed = true;
            throw new IOException(e.getMessage(), e);
        }
    }

    @Override
    public void close() throws IOException {
        try (RecordOutput ended = output) {
            if (!failed) {
                ended.finish();
            }
        } catch (TfosException e) {
            throw new IOException(e.getMessage(), e);
        }
    }
}
