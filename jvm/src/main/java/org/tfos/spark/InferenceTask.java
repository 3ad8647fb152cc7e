package org.tfos.spark;

import java.util.ArrayDeque;
import java.util.NoSuchElementException;
import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.util.TaskCompletionListener;
import org.tfos.PumpSource;
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
    private final TaskContext context;
    private final InferenceData.Plan plan;
    private final int partition;
    private final Supplier<Iterator<InternalRow>> source;
    private final ArrayDeque<UnsafeRow> kept = new ArrayDeque<>();
    private final JoinedRow joined = new JoinedRow();

    private boolean begun;
    private Pump pump; // null: before and after
    private SparkRows rows;
    private ColumnSource columns; // null: the source gives rows
    private RowWriter writer;
    private long given; // results
    private long keptBytes;
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
            begin();
            while (pump != null && !writer.hasNext()) {
                if (pump.results(writer, given)) {
                    writer.rewind();
                } else {
                    close();
                }
            }
            return pump != null;
        } catch (TfosException e) {
            context.killTaskIfInterrupted();
            throw plan.opener.explained(e);
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
            String schema = pump == null ? null : pump.resultSchema();
            if (pump != null) {
                pump.run();
            }
            close();
            return schema;
        } catch (TfosException e) {
            context.killTaskIfInterrupted();
            throw e;
        }
    }

    // ---- beginning and end ----

    private void begin() {
        if (begun) {
            return;
        }
        begun = true;
        rows = new SparkRows(plan.description);
        pump = plan.opener.open(context, partition, rows, source());
        if (plan.resultSchema != null) {
            writer = new RowWriter(plan.resultSchema, plan.results);
        }
    }

    private PumpSource source() {
        if (plan.columnar == null) {
            return new Kept();
        }
        columns = new ColumnSource(context, plan.columnar, rows, source) {
            @Override
            public boolean interrupted() {
                return over || super.interrupted();
            }
        };
        return columns;
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
        if (pump != null) {
            pump.close();
            pump = null;
        }
        if (columns != null) {
            columns.close();
            columns = null;
        }
        if (rows != null) {
            rows.close();
            rows = null;
        }
    }

    /** The rows of the partition; what is to stand in front of their results waits for these. */
    private final class Kept extends RowSource {
        Kept() {
            super(context, rows, source);
        }

        @Override
        UnsafeRow fed(UnsafeRow row) {
            return plan.pair ? row.getStruct(0, plan.fed) : row;
        }

        @Override
        void taken(UnsafeRow row) {
            if (plan.kept > 0) {
                UnsafeRow copy = (plan.pair ? row.getStruct(1, plan.kept) : row).copy();
                kept.add(copy);
                keptBytes += copy.getSizeInBytes();
            }
        }

        @Override
        public long heldBytes() {
            return keptBytes;
        }

        @Override
        public boolean interrupted() {
            return over || super.interrupted();
        }
    }
}
