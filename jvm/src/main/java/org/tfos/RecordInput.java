package org.tfos;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Records of a file, or of a range of its bytes, as batches of columns in memory outside of the heap. */
public final class RecordInput extends Handle {
    /** Of each level of a column in {@link #words}: how many are null, and the addresses of validity, offsets, data. */
    public static final int WORDS = 4;

    private final long[] words;

    /**
     * @param bytes of the whole file
     * @param end of the range; -1: that of the file
     * @param sparkSchema of the columns, in its JSON form; without any, rows are counted
     * @param levels of all columns: one, and one more for each list
     * @param files serves paths that have a scheme; may be null
     */
    public RecordInput(
            RecordTable table,
            String path,
            long bytes,
            long start,
            long end,
            String sparkSchema,
            int levels,
            ServedFiles files) {
        super(open(table, path, bytes, start, end, sparkSchema, files), Native::readerClose);
        words = new long[levels * WORDS];
    }

    private static long open(
            RecordTable table, String path, long bytes, long start, long end, String schema, ServedFiles files) {
        byte[] name = RecordTable.utf8(path);
        return Native.readerOpen(
                table.nativeAddress(), name, bytes, start, end, RecordTable.utf8(schema), files);
    }

    /** The rows of the next batch; 0: there are no more. Those of the one before it are gone. */
    public int next() {
        return (int) Native.readerNext(address(), words);
    }

    /** Where the columns of the batch are. They change with each batch. */
    public long[] words() {
        return words;
    }

    /** Memory of the batch, for who has no better way to look at it. */
    public ByteBuffer memory(long begin, long bytes) {
        return Native.readerMemory(address(), begin, bytes).order(ByteOrder.nativeOrder());
    }

    /** Bytes of the file that were read. */
    public long doneBytes() {
        return Native.readerProgress(address())[0];
    }

    /** Records that were skipped because they are damaged, at least so many … */
    public long skippedRecords() {
        return Native.readerProgress(address())[2];
    }

    /** … in so many bytes. */
    public long skippedBytes() {
        return Native.readerProgress(address())[3];
    }
}
