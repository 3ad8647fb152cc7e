package org.tfos.spark;

import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.tfos.TfosException;
import scala.collection.Iterator;

/** Feeds one partition, in the Spark task that computes it. */
final class FeedTask {
    /** Where rows come slowly, consumers do not wait for a batch to fill. */
    private static final long PATIENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

    private final TaskContext context;
    private final FeedOrder order;
    private final Feeder feeder;
    private final SparkRows rows;
    private UnsafeProjection projection; // made where it is needed
    private long since; // when a batch was fed last

    private FeedTask(TaskContext context, FeedOrder order, Feeder feeder, SparkRows rows) {
        this.context = context;
        this.order = order;
        this.feeder = feeder;
        this.rows = rows;
    }

    /** Where the rows of the partition come from; Spark computes nothing before it is asked for them. */
    interface Source {
        /** Of rows, or of columnar batches, whatever its type says. */
        Iterator<?> iterator();
    }

    /** Returns when every row was consumed, or when nobody wants them any more. */
    static void run(TaskContext context, FeedOrder order, int partition, Source source) {
        String host = SparkEnv.get().blockManager().blockManagerId().host();
        try (Feeder feeder =
                Feeder.open(order.ticket, partition, context.taskAttemptId(), host, context::isInterrupted)) {
            if (feeder == null) {
                return;
            }
            try (SparkRows rows = new SparkRows(order.description)) {
                rows.limit(feeder);
                new FeedTask(context, order, feeder, rows).feed(source.iterator());
            }
        } catch (TfosException e) {
            context.killTaskIfInterrupted();
            throw e;
        }
    }

    private void feed(Iterator<?> iterator) {
        since = System.nanoTime();
        boolean wanted = order.ordinals == null ? feedRows(iterator) : feedBatches(iterator);
        if (wanted && feedBatch()) {
            feeder.finish();
        }
    }

    /** So many rows are left out, because an earlier attempt has fed them. */
    private void skipped(long count) {
        feeder.skip(count);
        rows.skip(count);
    }

    // ---- rows; each method returns false when the feed has ended ----

    private boolean feedRows(Iterator<?> iterator) {
        long fed = feeder.fed();
        long left = fed;
        while (left > 0 && iterator.hasNext()) {
            iterator.next();
            left--;
        }
        skipped(fed - left);
        long count = 0;
        while (iterator.hasNext()) {
            if (!put((UnsafeRow) iterator.next())) {
                return false;
            }
            count++;
        }
        order.inRows.add(count);
        return append();
    }

    private boolean put(UnsafeRow row) {
        // Without rows there is room for any row.
        if (!fits(row) && !(append() && fits(row))) {
            return false;
        }
        rows.put(row);
        return !isLate() || (append() && feedBatch());
    }

    private boolean fits(UnsafeRow row) {
        try {
            return rows.fits(row);
        } catch (TfosException e) {
            throw failed(e);
        }
    }

    private boolean isLate() {
        return System.nanoTime() - since > PATIENCE_NANOS;
    }

    /** Takes the rows of the block to batches and feeds those that are full. */
    private boolean append() {
        return appendAll(rows::append);
    }

    // ---- columns ----

    private boolean feedBatches(Iterator<?> iterator) {
        long left = feeder.fed();
        try (SparkColumns columns = new SparkColumns(rows)) {
            while (iterator.hasNext()) {
                ColumnarBatch batch = choose((ColumnarBatch) iterator.next());
                int first = (int) Math.min(left, batch.numRows());
                if (first > 0) {
                    left -= first;
                    skipped(first);
                }
                if (!(columns.take(batch) ? feedColumns(columns, batch, first) : feedRowsOf(batch, first))) {
                    return false;
                }
            }
        }
        return true;
    }

    /** The columns that are fed, in their order. */
    private ColumnarBatch choose(ColumnarBatch batch) {
        ColumnVector[] chosen = new ColumnVector[order.ordinals.length];
        for (int i = 0; i < chosen.length; i++) {
            chosen[i] = batch.column(order.ordinals[i]);
        }
        return new ColumnarBatch(chosen, batch.numRows());
    }

    private boolean feedColumns(SparkColumns columns, ColumnarBatch batch, int first) {
        order.inColumns.add(batch.numRows() - first);
        for (int row = first; row < batch.numRows(); ) {
            row += put(columns, batch, row);
            if (!appendAll(columns::append) || (isLate() && !feedBatch())) {
                return false;
            }
        }
        return true;
    }

    private int put(SparkColumns columns, ColumnarBatch batch, int row) {
        try {
            return columns.put(batch, row);
        } catch (TfosException e) {
            throw failed(e);
        }
    }

    /** For vectors of sources that do not show what their lists are made of. */
    private boolean feedRowsOf(ColumnarBatch batch, int first) {
        if (projection == null) {
            projection = UnsafeProjection.create(order.schema);
        }
        order.inRows.add(batch.numRows() - first);
        java.util.Iterator<InternalRow> iterator = batch.rowIterator();
        for (int row = 0; row < batch.numRows(); row++) {
            InternalRow next = iterator.next();
            if (row >= first && !put(projection.apply(next))) {
                return false;
            }
        }
        return append();
    }

    // ---- both ----

    /** Appends something to batches until nothing is left of it. True: the batch is full. */
    private interface Appending {
        boolean append();
    }

    private boolean appendAll(Appending what) {
        context.killTaskIfInterrupted();
        while (appendOrFail(what)) {
            if (!feedBatch()) {
                return false;
            }
        }
        return true;
    }

    private boolean feedBatch() {
        boolean wanted = feeder.batch(rows);
        since = System.nanoTime();
        return wanted;
    }

    private boolean appendOrFail(Appending what) {
        try {
            return what.append();
        } catch (TfosException e) {
            throw failed(e);
        }
    }

    /** What is wrong with a row, another attempt would meet again: the whole feed fails. */
    private TfosException failed(TfosException e) {
        String place = "partition " + context.partitionId();
        String reason = e.reason().contains(place) ? e.reason() : place + ": " + e.reason();
        TfosException failure = new TfosException(e.status(), reason, e);
        feeder.fail(failure);
        return failure;
    }
}
