package org.tfos.spark;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.TaskContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.tfos.RecordInput;
import org.tfos.RecordTable;
import org.tfos.hadoop.HadoopFiles;
import scala.collection.Iterator;
import scala.collection.Iterator$;
import scala.runtime.AbstractFunction1;

/**
 * What a task does with each of its files: opens it, and hands out its batches or rows. Spark closes these when the
 * task ends, when nobody looks at them any more; a listener of our own would come before those who wait for threads
 * that still do.
 */
final class RecordScan extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>> implements Serializable {
    private static final long serialVersionUID = 1L;

    private final String options;
    private final StructType schema;
    private final StructType partitionSchema;
    private final boolean batches;
    private final Broadcast<SerializableConfiguration> configuration;
    private final SkipCounts skips; // null: nothing is skipped

    RecordScan(
            String options,
            StructType schema,
            StructType partitionSchema,
            boolean batches,
            Broadcast<SerializableConfiguration> configuration,
            SkipCounts skips) {
        this.options = options;
        this.schema = schema;
        this.partitionSchema = partitionSchema;
        this.batches = batches;
        this.configuration = configuration;
        this.skips = skips;
    }

    @Override
    @SuppressWarnings("unchecked") // batches pass for rows: so it is in Spark
    public Iterator<InternalRow> apply(PartitionedFile file) {
        if (!RecordTable.holds(file.toPath().getName())) {
            return (Iterator<InternalRow>) (Iterator<?>) Iterator$.MODULE$.empty();
        }
        TaskContext task = TaskContext.get();
        Configuration hadoop = configuration.value().value();
        HadoopFiles files = new HadoopFiles(hadoop, () -> task != null && task.isInterrupted());
        RecordBatches found = new RecordBatches(
                open(file, files),
                files,
                skips == null ? null : skips.ofReader(),
                schema,
                partitionSchema,
                file.partitionValues());
        return (Iterator<InternalRow>) (Iterator<?>) (batches ? found : new RecordRows(found, rowSchema()));
    }

    private RecordInput open(PartitionedFile file, HadoopFiles files) {
        try (RecordTable table = new RecordTable(options)) {
            String path = files.nameOf(file.toPath(), file.fileSize());
            long end = file.start() + file.length();
            int levels = RecordVector.levels(schema);
            return new RecordInput(
                    table, path, file.fileSize(), file.start(), end, schema.json(), levels, files);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private StructType rowSchema() {
        StructType all = schema;
        for (StructField field : partitionSchema.fields()) {
            all = all.add(field);
        }
        return all;
    }
}
