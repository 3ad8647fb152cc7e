package org.tfos.spark;

import java.io.Closeable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.StructType;
import org.tfos.RecordOutput;
import org.tfos.RecordTable;
import org.tfos.ServedFiles;

/** A file of records that rows are written to. One that is closed before it was finished is thrown away. */
final class RecordFile implements Closeable {
    private final StructType schema;
    private final SparkRows rows;
    private final RecordOutput output;
    private UnsafeProjection projection; // made where it is needed

    /** @param record the kind of record, by its name in the core */
    RecordFile(String options, String record, StructType schema, String path, ServedFiles files) {
        this.schema = schema;
        rows = new SparkRows("{\"records\":" + Json.of(record) + ",\"schema\":" + schema.json() + "}");
        try (RecordTable table = new RecordTable(options)) {
            output = new RecordOutput(table, path, files);
        } catch (RuntimeException e) {
            rows.close();
            throw e;
        }
    }

    /** Returns how many bytes the row has. */
    int write(InternalRow row) {
        UnsafeRow unsafe = row instanceof UnsafeRow ? (UnsafeRow) row : project(row);
        while (!rows.offer(unsafe)) {
            output.writeRows(rows.nativeAddress());
        }
        return unsafe.getSizeInBytes();
    }

    private UnsafeRow project(InternalRow row) {
        if (projection == null) {
            projection = UnsafeProjection.create(schema);
        }
        return projection.apply(row);
    }

    /** Makes the file whole. */
    void finish() {
        while (rows.append()) {
            output.writeRows(rows.nativeAddress());
        }
        output.writeRows(rows.nativeAddress());
        output.finish();
    }

    @Override
    public void close() {
        try {
            output.close();
        } finally {
            rows.close();
        }
    }
}
