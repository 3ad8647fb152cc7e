package org.tfos.spark;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import org.tfos.Handle;
import org.tfos.Native;

/** Results on their way to Spark: the native library writes them as rows of Spark's, a block at a time. */
public final class RowWriter extends Handle {
    private static final int SIZE_BYTES = 8; // in front of each row

    private final UnsafeRow row;
    private long at; // of the next row in the block
    private long end;

    /** @param schema of the rows, as {@code StructType.json()} gives it */
    public RowWriter(String schema, int columns) {
        super(make(schema), Native::writerFree);
        row = new UnsafeRow(columns);
    }

    private static long make(String schema) {
        Native.load();
        return Native.writerNew(schema.getBytes(StandardCharsets.UTF_8));
    }

    long nativeAddress() {
        return address();
    }

    /** A block was written: its rows are next. */
    void rewind() {
        at = Native.writerBlock(address());
        end = at + Native.writerBytes(address());
    }

    boolean hasNext() {
        return at < end;
    }

    /** The next row of the block. It is always the same object, and its memory that of the block. */
    UnsafeRow next() {
        int bytes = (int) Platform.getLong(null, at);
        row.pointTo(null, at + SIZE_BYTES, bytes);
        at += SIZE_BYTES + (long) bytes;
        return row;
    }
}
