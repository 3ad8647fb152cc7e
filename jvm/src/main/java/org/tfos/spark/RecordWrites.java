package org.tfos.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.OutputWriter;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.types.StructType;
import org.tfos.RecordOutput;
import org.tfos.RecordTable;
import org.tfos.hadoop.HadoopFiles;

/** Writes files of records in tasks. */
final class RecordWrites extends OutputWriterFactory {
    private static final long serialVersionUID = 1L;

    private final String options;
    private final String ending;
    private final String description;

    /** @param record the kind of record, by its name in the core */
    RecordWrites(String options, String ending, String record, StructType schema) {
        this.options = options;
        this.ending = ending;
        this.description = "{\"records\":" + Json.of(record) + ",\"schema\":" + schema.json() + "}";
    }

    @Override
    public String getFileExtension(TaskAttemptContext context) {
        return ending;
    }

    @Override
    public OutputWriter newInstance(String path, StructType schema, TaskAttemptContext context) {
        return new File(path, schema, context);
    }

    private final class File extends OutputWriter {
        private final String path;
        private final StructType schema;
        private final SparkRows rows;
        private final RecordOutput output;
        private UnsafeProjection projection; // made where it is needed
        private boolean failed;

        File(String path, StructType schema, TaskAttemptContext context) {
            TaskContext task = TaskContext.get();
            HadoopFiles files =
                    new HadoopFiles(context.getConfiguration(), () -> task != null && task.isInterrupted());
            this.path = path;
            this.schema = schema;
            try (RecordTable table = new RecordTable(options)) {
                output = new RecordOutput(table, files.outputNameOf(new Path(path)), files);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            rows = new SparkRows(description);
        }

        @Override
        public String path() {
            return path;
        }

        @Override
        public void write(InternalRow row) {
            UnsafeRow unsafe = row instanceof UnsafeRow ? (UnsafeRow) row : project(row);
            failed = true; // until it has succeeded
            while (!rows.offer(unsafe)) {
                output.writeRows(rows.nativeAddress());
            }
            failed = false;
        }

        private UnsafeRow project(InternalRow row) {
            if (projection == null) {
                projection = UnsafeProjection.create(schema);
            }
            return projection.apply(row);
        }

        /** Spark also closes what has failed. */
        @Override
        public void close() {
            try (RecordOutput ended = output;
                    SparkRows given = rows) {
                if (!failed) {
                    while (given.append()) {
                        ended.writeRows(given.nativeAddress());
                    }
                    ended.writeRows(given.nativeAddress());
                    ended.finish();
                }
            }
        }
    }
}
