package org.tfos.spark;

import java.util.function.Supplier;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.tfos.PumpSource;
import org.tfos.TfosException;
import scala.collection.Iterator;

/** Feeds one partition, in the Spark task that computes it. */
final class FeedTask {
    private FeedTask() {}

    /**
     * Returns when every row is on its way, or when nobody wants them any more.
     *
     * @param source of rows, or of columnar batches, whatever its type says; Spark computes nothing before it is asked
     */
    static void run(TaskContext context, FeedOrder order, int partition, Supplier<? extends Iterator<?>> source) {
        try (SparkRows rows = new SparkRows(order.description)) {
            if (order.ordinals == null) {
                Counted counted = new Counted(context, rows, source);
                pump(context, order, partition, rows, counted);
                order.inRows.add(counted.count);
            } else {
                try (ColumnSource columns = new ColumnSource(context, order, rows, source)) {
                    pump(context, order, partition, rows, columns);
                }
            }
        } catch (TfosException e) {
            context.killTaskIfInterrupted();
            throw e;
        }
    }

    private static void pump(TaskContext context, FeedOrder order, int partition, SparkRows rows, PumpSource source) {
        String host = SparkEnv.get().blockManager().blockManagerId().host();
        try (Pump pump = Pump.open(order.ticket, partition, context.taskAttemptId(), host, rows, source)) {
            if (pump != null) {
                pump.run();
            }
        }
    }

    private static final class Counted extends RowSource {
        private long count;

        Counted(TaskContext context, SparkRows rows, Supplier<? extends Iterator<?>> partition) {
            super(context, rows, partition);
        }

        @Override
        void taken(UnsafeRow row) {
            count++;
        }
    }
}
