package org.tfos.spark;

import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Rows of Spark's columnar batches on their way to {@link SparkRows}.
 *
 * <p>A batch of Spark's is copied a part at a time, small enough to be still in the processor's cache when the native
 * library takes it.
 */
final class SparkColumns implements AutoCloseable {
    private static final int MOST_ROWS = 1024;
    private static final int FIRST_ROWS = 32;
    private static final long PART_BYTES = SparkVector.PART_BYTES;

    private final SparkRows rows;
    private final SparkVector[] columns;
    private final long[] words;
    private int partRows = FIRST_ROWS;
    private int count; // rows of the part
    private int at; // the first of them that was not appended

    /** @param rows whose columns have forms */
    SparkColumns(SparkRows rows) {
        this.rows = rows;
        this.columns = rows.vectors();
        int depth = 0;
        for (SparkVector column : columns) {
            depth += column.depth();
        }
        words = new long[depth * SparkVector.WORDS];
    }

    /** Whether the rows of a batch can be put. */
    boolean take(ColumnarBatch batch) {
        for (int i = 0; i < columns.length; i++) {
            if (!columns[i].takes(batch.column(i))) {
                return false;
            }
        }
        return true;
    }

    /**
     * Puts the rows of a batch from {@code first} on, as many as make a part. Returns how many. Columns may have more
     * of them: what comes too much is not looked at.
     */
    int put(ColumnarBatch batch, int first) {
        count = Math.min(partRows, batch.numRows() - first);
        at = 0;
        int end = 0;
        long bytes = 1;
        for (int i = 0; i < columns.length; i++) {
            ColumnVector from = batch.column(i);
            columns[i].clear();
            count = columns[i].put(from, first, count);
            if (count == 0) {
                rows.refuse(i, columns[i].bytesOf(from, first, 1));
            }
            bytes += columns[i].bytes();
            end = columns[i].tell(words, end);
        }
        partRows = (int) Math.max(1, Math.min(MOST_ROWS, count * PART_BYTES / bytes));
        return count;
    }

    /** Appends rows of the part to the batch. Returns whether the batch is full; otherwise nothing is left. */
    boolean append() {
        if (at == count) {
            return false;
        }
        at += (int) rows.appendColumns(words, at, count - at);
        return rows.full();
    }

    @Override
    public void close() {
        for (SparkVector column : columns) {
            column.close();
        }
    }
}
