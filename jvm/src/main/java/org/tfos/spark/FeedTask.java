package org.tfos.spark;

import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.tfos.TfosException;
import scala.collection.Iterator;

/** Feeds one partition, in the Spark task that computes it. */
final class FeedTask {
    /** Where rows come slowly, consumers do not wait for a batch to fill. */
    private static final long PATIENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

    private final TaskContext context;
    private final Feeder feeder;
    private final SparkRows rows;
    private long since; // when a batch was fed last

    private FeedTask(TaskContext context, Feeder feeder, SparkRows rows) {
        this.context = context;
        this.feeder = feeder;
        this.rows = rows;
    }

    /** Where the rows of the partition come from; Spark computes nothing before it is asked for them. */
    interface Source {
        Iterator<InternalRow> iterator();
    }

    /** Returns when every row was consumed, or when nobody wants them any more. */
    static void run(TaskContext context, byte[] ticket, String description, int partition, Source source) {
        String host = SparkEnv.get().blockManager().blockManagerId().host();
        try (Feeder feeder =
                Feeder.open(ticket, partition, context.taskAttemptId(), host, context::isInterrupted)) {
            if (feeder == null) {
                return;
            }
            try (SparkRows rows = new SparkRows(description)) {
                new FeedTask(context, feeder, rows).feed(source.iterator());
            }
        } catch (TfosException e) {
            context.killTaskIfInterrupted();
            throw e;
        }
    }

    private void feed(Iterator<InternalRow> iterator) {
        skip(iterator);
        if (put(iterator) && append() && feedBatch()) {
            feeder.finish();
        }
    }

    /** Leaves out what an earlier attempt has fed. */
    private void skip(Iterator<InternalRow> iterator) {
        long fed = feeder.fed();
        long left = fed;
        while (left > 0 && iterator.hasNext()) {
            iterator.next();
            left--;
        }
        feeder.skip(fed - left);
        rows.skip(fed - left);
    }

    /** False: the feed has ended. */
    private boolean put(Iterator<InternalRow> iterator) {
        since = System.nanoTime();
        while (iterator.hasNext()) {
            UnsafeRow row = (UnsafeRow) iterator.next();
            // Without rows there is room for any row.
            if (!rows.fits(row) && !(append() && rows.fits(row))) {
                return false;
            }
            rows.put(row);
            if (System.nanoTime() - since > PATIENCE_NANOS && !(append() && feedBatch())) {
                return false;
            }
        }
        return true;
    }

    /** Takes the rows of the block to batches and feeds those that are full. False: the feed has ended. */
    private boolean append() {
        context.killTaskIfInterrupted();
        while (appendOrFail()) {
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

    private boolean appendOrFail() {
        try {
            return rows.append();
        } catch (TfosException e) {
            TfosException failure =
                    new TfosException(e.status(), "partition " + context.partitionId() + ": " + e.reason(), e);
            feeder.fail(failure);
            throw failure;
        }
    }
}
