package org.tfos.spark;

import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;
import org.tfos.Handle;
import org.tfos.Native;

/**
 * Rows of a DataFrame on their way to batches of columns.
 *
 * <p>Rows are copied as they are, wherever Spark has them (byte[], long[] or off the heap), to a block outside of the
 * heap, and cross to the native library a block at a time.
 */
public final class SparkRows extends Handle {
    private static final int FORM_WORDS = 5; // value, lists, precision, scale, bytes of a row
    private static final int SIZE_BYTES = 8; // in front of each row
    private static final long BLOCK_BYTES = 128 << 10;

    private long block;
    private long capacity;
    private long end; // of the rows in the block
    private long at; // the first of them that was not appended

    /** @param description of the columns, as tfos/spark.h says at tfos_spark_rows_new */
    public SparkRows(String description) {
        super(make(description), Native::rowsFree);
        makeRoom(BLOCK_BYTES);
    }

    private static long make(String description) {
        Native.load();
        return Native.rowsNew(description.getBytes(StandardCharsets.UTF_8));
    }

    private void makeRoom(long bytes) {
        block = Native.rowsBlock(address(), bytes);
        capacity = bytes;
    }

    /** The schema of the batches as JSON; before the first batch, lists of undeclared shape are ragged in it. */
    public String schema() {
        return new String(Native.rowsSchema(address()), StandardCharsets.UTF_8);
    }

    /** Whether there is room for a row. There always is in a block without rows, unless it cannot be fed at all. */
    public boolean fits(UnsafeRow row) {
        long bytes = SIZE_BYTES + (long) row.getSizeInBytes();
        if (end == 0 && bytes > capacity) {
            check(row);
            makeRoom(bytes);
        }
        return bytes <= capacity - end;
    }

    /** From what stands at its beginning, the sizes of its columns, it is seen whether a row can be fed. */
    private void check(UnsafeRow row) {
        int columns = row.numFields();
        long head = UnsafeRow.calculateBitSetWidthInBytes(columns) + (long) columns * Long.BYTES;
        if (head <= capacity) {
            Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(), null, block, head);
            Native.rowsCheck(address(), block);
        }
    }

    /** Throws what is to be said of the next row, which has too many bytes in a column. */
    void refuse(int column, long bytes) {
        Native.rowsRefuse(address(), column, bytes);
    }

    /** Puts a row that fits into the block. */
    public void put(UnsafeRow row) {
        int bytes = row.getSizeInBytes();
        Platform.putLong(null, block + end, bytes);
        row.writeToMemory(null, block + end + SIZE_BYTES);
        end += SIZE_BYTES + bytes;
    }

    /**
     * Puts a row, after the block before it has been appended where it has no room. False: that has filled the batch,
     * which must be taken before the row is offered again.
     */
    boolean offer(UnsafeRow row) {
        // Without rows there is room for any row.
        if (!fits(row) && (append() || !fits(row))) {
            return false;
        }
        put(row);
        return true;
    }

    /**
     * Appends rows of the block to the batch. Returns whether the batch is full, so that it must be taken before this
     * is called again; otherwise the block has become empty.
     */
    public boolean append() {
        if (at == end) {
            return false;
        }
        at += Native.rowsAppend(address(), block + at, end - at);
        if (at == end) {
            at = 0;
            end = 0;
        }
        return Native.rowsFull(address());
    }

    /** Whether the rows may come as columns: every type that they have can. */
    public boolean takeColumns() {
        return Native.rowsForms(address()) != null;
    }

    /** Empty vectors, one for each column, to bring columns in. */
    SparkVector[] vectors() {
        long[] forms = Native.rowsForms(address());
        SparkVector[] vectors = new SparkVector[forms.length / FORM_WORDS];
        for (int i = 0; i < vectors.length; i++) {
            int at = i * FORM_WORDS;
            vectors[i] = SparkVector.of(
                            (char) forms[at], (int) forms[at + 1], (int) forms[at + 2], (int) forms[at + 3])
                    .bounded(forms[at + 4]);
        }
        return vectors;
    }

    /** Appends rows of such vectors, up to the one with which the batch is full. Returns how many. */
    long appendColumns(long[] words, int first, int count) {
        return Native.rowsAppendColumns(address(), words, first, count);
    }

    /** Whether the batch is full, so that it must be taken. */
    boolean full() {
        return Native.rowsFull(address());
    }

    /** The next rows of the partition are not put; for the row numbers in messages. */
    public void skip(long rows) {
        Native.rowsSkip(address(), rows);
    }

    /** How many rows are in the batch. */
    public long count() {
        return Native.rowsCount(address());
    }

    long nativeAddress() {
        return address();
    }
}
