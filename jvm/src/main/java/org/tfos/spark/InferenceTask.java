package org.tfos.spark;

import java.util.ArrayDeque;
import java.util.EnumSet;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.util.TaskCompletionListener;
import org.tfos.Status;
import org.tfos.TfosException;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;

/**
 * Feeds one partition, in the Spark task that computes it, and gives the results as they come, behind the columns that
 * are kept.
 *
 * <p>Nothing happens before the first row is asked for, and no more rows are fed than whoever asks has use for: it may
 * stop at any time. Spark may ask in another thread than the one in which the task ends, so calls exclude each other.
 */
final class InferenceTask extends AbstractIterator<InternalRow> {
    /** Where rows come slowly, programs do not wait for a batch to fill. */
    private static final long PATIENCE_NANOS = TimeUnit.MILLISECONDS.toNanos(50);

    /** Bytes of kept rows that may wait for results, unless the program needs more rows to give any … */
    private static final long KEPT_BYTES = 32 << 20;

    /** … and how many are fed at a time. */
    private static final long KEPT_BATCH_BYTES = 2 << 20;

    private static final Set<Status> OF_DATA =
            EnumSet.of(Status.MISMATCH, Status.RANGE, Status.ENCODING, Status.LIMIT, Status.UNSUPPORTED);

    private final TaskContext context;
    private final InferenceData.Plan plan;
    private final int partition;
    private final Supplier<Iterator<InternalRow>> source;
    private final ArrayDeque<UnsafeRow> kept = new ArrayDeque<>();
    private final JoinedRow joined = new JoinedRow();

    private Iterator<InternalRow> input; // null: nothing has been asked for
    private Feeder feeder; // null: before and after
    private SparkRows rows;
    private RowWriter writer;
    private boolean feeding;
    private long given; // results
    private long keptBytes;
    private long unfedBytes; // of them, in the batch that is being made
    private long batches;
    private Thread user;
    private volatile boolean over;

    InferenceTask(
            TaskContext context, InferenceData.Plan plan, int partition, Supplier<Iterator<InternalRow>> source) {
        this.context = context;
        this.plan = plan;
        this.partition = partition;
        this.source = source;
        context.addTaskCompletionListener((TaskCompletionListener) ended -> end());
    }

    // ---- the iterator ----

    @Override
    public synchronized boolean hasNext() {
        if (over) {
            return false;
        }
        try {
            user = Thread.currentThread();
            if (input == null) {
                begin();
            }
            while (feeder != null && !writer.hasNext()) {
                advance();
            }
            return feeder != null && writer.hasNext();
        } catch (TfosException e) {
            context.killTaskIfInterrupted();
            throw e;
        }
    }

    @Override
    public synchronized InternalRow next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        given++;
        UnsafeRow result = writer.next();
        if (plan.kept == 0) {
            return result;
        }
        UnsafeRow row = kept.remove();
        keptBytes -= row.getSizeInBytes();
        return joined.apply(row, result);
    }

    /** Instead of results: the Spark schema that the first of them has, as JSON; null if there are none. */
    synchronized String firstSchema() {
        try {
            begin();
            while (feeder != null && feeding) {
                feedSome();
            }
            String schema = feeder == null ? null : feeder.resultSchema();
            finish();
            return schema;
        } catch (TfosException e) {
            context.killTaskIfInterrupted();
            throw e;
        }
    }

    // ---- beginning and end ----

    private void begin() {
        String host = SparkEnv.get().blockManager().blockManagerId().host();
        input = source.get();
        feeder = Feeder.open(
                plan.ticket, partition, context.taskAttemptId(), host, () -> over || context.isInterrupted());
        if (feeder == null) {
            return;
        }
        rows = new SparkRows(plan.description);
        rows.limit(feeder);
        if (plan.resultSchema != null) {
            writer = new RowWriter(plan.resultSchema, plan.results);
        }
        feeding = true;
    }

    private void finish() {
        if (feeder != null) {
            feeder.finish();
            close();
        }
    }

    /** The task is over, whoever may still be asking for rows. */
    private void end() {
        over = true;
        synchronized (this) {
            close();
            // Another thread may still look at its last row. Then the collector frees the memory.
            if (writer != null && user == Thread.currentThread()) {
                writer.close();
            }
            kept.clear();
        }
    }

    private void close() {
        if (feeder != null) {
            feeder.close();
            rows.close();
            feeder = null;
        }
    }

    // ---- feeding ----

    /** Feeds some rows if there are any, and takes results if there are any. */
    private void advance() {
        if (!feeding) {
            take(Feeder.Wait.FOR_RESULTS);
            return;
        }
        feedSome();
        if (feeder != null) {
            take(keptBytes > KEPT_BYTES && feeding ? Feeder.Wait.FOR_ROOM : Feeder.Wait.NOT);
        }
    }

    private void take(Feeder.Wait wait) {
        long count = resultsOrFail(wait);
        if (count > 0) {
            writer.rewind();
        } else if (count < 0 && !feeding) {
            finish();
        }
    }

    /** Feeds about a batch; at the end of the partition, what is left. */
    private void feedSome() {
        long since = System.nanoTime();
        long before = batches;
        while (input.hasNext()) {
            UnsafeRow row = (UnsafeRow) input.next();
            UnsafeRow fed = plan.pair ? row.getStruct(0, plan.fed) : row;
            // Without rows there is room for any row.
            if (!fits(fed) && !(append() && fits(fed))) {
                stopFeeding();
                return;
            }
            rows.put(fed);
            keep(row);
            if (unfedBytes > KEPT_BATCH_BYTES || System.nanoTime() - since > PATIENCE_NANOS) {
                feedAll();
                return;
            }
            if (batches != before) {
                return;
            }
        }
        if (feedAll()) {
            stopFeeding();
        }
    }

    private boolean fits(UnsafeRow row) {
        try {
            return rows.fits(row);
        } catch (TfosException e) {
            throw failed(e);
        }
    }

    private void keep(UnsafeRow row) {
        if (plan.kept > 0) {
            UnsafeRow copy = (plan.pair ? row.getStruct(1, plan.kept) : row).copy();
            kept.add(copy);
            keptBytes += copy.getSizeInBytes();
            unfedBytes += copy.getSizeInBytes();
        }
    }

    /** No more rows are fed: there are none, or a program has ended the feed. */
    private void stopFeeding() {
        feeding = false;
        if (!feeder.exhaust()) {
            close();
        }
    }

    private boolean feedAll() {
        boolean wanted = append() && feedBatch();
        if (!wanted) {
            stopFeeding();
        }
        return wanted;
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
        batches++;
        unfedBytes = 0;
        return wanted;
    }

    private boolean appendOrFail() {
        try {
            return rows.append();
        } catch (TfosException e) {
            throw failed(e);
        }
    }

    private long resultsOrFail(Feeder.Wait wait) {
        try {
            return feeder.results(writer, given, wait);
        } catch (TfosException e) {
            throw OF_DATA.contains(e.status()) ? failed(e) : e;
        }
    }

    /** Where data are to blame, another attempt would meet the same: the whole feed fails. */
    private TfosException failed(TfosException e) {
        boolean located = e.reason().contains("partition " + partition);
        String reason = located ? e.reason() : "partition " + partition + ", " + e.reason();
        TfosException failure = new TfosException(e.status(), reason, e);
        feeder.fail(failure);
        return failure;
    }
}
