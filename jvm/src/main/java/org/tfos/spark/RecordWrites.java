package org.tfos.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.tfos.hadoop.HadoopFiles;

/** Writes files of records in tasks. */
final class RecordWrites extends OutputWriterFactory {
    private static final long serialVersionUID = 1L;

    private final String options;
    private final String ending;
    private final String record;

    /** @param record the kind of record, by its name in the core */
    RecordWrites(String options, String ending, String record) {
        this.options = options;
        this.ending = ending;
        this.record = record;
    }

    @Override
    public String getFileExtension(TaskAttemptContext context) {
        return ending;
    }

    @Override
    public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext context) {
        TaskContext task = TaskContext.get();
        HadoopFiles files = new HadoopFiles(context.getConfiguration(), () -> task != null && task.isInterrupted());
        try {
            String name = files.outputNameOf(new Path(path));
            return new Writer(path, new RecordFile(options, record, schema, name, files));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static final class Writer extends OutputWriter {
        private final String path;
        private final RecordFile file;
        private boolean failed;

        Writer(String path, RecordFile file) {
            this.path = path;
            this.file = file;
        }

        @Override
        public String path() {
            return path;
        }

        @Override
        public void write(InternalRow row) {
            failed = true; // until it has succeeded
            file.write(row);
            failed = false;
        }

        /** Spark also closes what has failed. */
        @Override
        public void close() {
            try (RecordFile ended = file) {
                if (!failed) {
                    ended.finish();
                }
            }
        }
    }
}
