package org.tfos.spark;

import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.tfos.PumpSource;
import scala.collection.Iterator;

/** The rows of a partition, as Spark computes them. */
class RowSource implements PumpSource {
    private final TaskContext context;
    private final SparkRows rows;
    private final Supplier<? extends Iterator<?>> partition;
    private Iterator<?> iterator; // null: nothing has been asked for
    private UnsafeRow waiting; // until the batch before it has been taken

    /** @param partition Spark computes nothing before it is asked for it */
    RowSource(TaskContext context, SparkRows rows, Supplier<? extends Iterator<?>> partition) {
        this.context = context;
        this.rows = rows;
        this.partition = partition;
    }

    /** What is fed of a row. */
    UnsafeRow fed(UnsafeRow row) {
        return row;
    }

    /** A row is fed with this batch. */
    void taken(UnsafeRow row) {}

    @Override
    public boolean fill(long patienceMs, long heldBytes) {
        long since = System.nanoTime();
        long patience = TimeUnit.MILLISECONDS.toNanos(patienceMs);
        long most = heldBytes() + heldBytes;
        begin();
        if (rows.append()) {
            return true;
        }
        while (waiting != null || iterator.hasNext()) {
            UnsafeRow row = waiting != null ? waiting : (UnsafeRow) iterator.next();
            waiting = rows.offer(fed(row)) ? null : row;
            if (waiting != null) {
                return true;
            }
            taken(row);
            if (System.nanoTime() - since > patience || heldBytes() > most) {
                rows.append();
                return true;
            }
        }
        return rows.append();
    }

    private void begin() {
        if (iterator == null) {
            iterator = partition.get();
        }
    }

    @Override
    public long skip(long count) {
        begin();
        long left = count;
        while (left > 0 && iterator.hasNext()) {
            iterator.next();
            left--;
        }
        return count - left;
    }

    @Override
    public boolean interrupted() {
        return context.isInterrupted();
    }
}
