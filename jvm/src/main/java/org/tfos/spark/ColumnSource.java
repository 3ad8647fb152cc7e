package org.tfos.spark;

import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.tfos.PumpSource;
import scala.collection.Iterator;

/** The rows of a partition that Spark computes as columnar batches. */
class ColumnSource implements PumpSource, AutoCloseable {
    private final TaskContext context;
    private final FeedOrder order;
    private final SparkRows rows;
    private final Supplier<? extends Iterator<?>> partition;
    private Iterator<?> iterator; // null: nothing has been asked for
    private SparkColumns columns; // made when the rows know their limit, which the pump tells them
    private ColumnarBatch batch; // null: none has come
    private int row; // the next of it
    private boolean shown; // its vectors show what they are made of; otherwise it goes by rows
    private UnsafeProjection projection; // made where it is needed

    /** @param partition Spark computes nothing before it is asked for it */
    ColumnSource(TaskContext context, FeedOrder order, SparkRows rows, Supplier<? extends Iterator<?>> partition) {
        this.context = context;
        this.order = order;
        this.rows = rows;
        this.partition = partition;
    }

    @Override
    public boolean fill(long patienceMs, long heldBytes) {
        long since = System.nanoTime();
        long patience = TimeUnit.MILLISECONDS.toNanos(patienceMs);
        begin();
        // What was put before goes first; it may be more than the batch has room for.
        while (!rows.append() && !columns.append() && System.nanoTime() - since <= patience) {
            if (!hasRow()) {
                return false;
            }
            if (shown) {
                putColumns();
            } else if (!putRows()) {
                return true;
            }
        }
        return true;
    }

    private void begin() {
        if (iterator == null) {
            columns = new SparkColumns(rows);
            iterator = partition.get();
        }
    }

    private boolean hasRow() {
        while (batch == null || row == batch.numRows()) {
            if (!iterator.hasNext()) {
                return false;
            }
            batch = choose((ColumnarBatch) iterator.next());
            row = 0;
            shown = columns.take(batch);
        }
        return true;
    }

    /** The columns that are fed, in their order. */
    private ColumnarBatch choose(ColumnarBatch all) {
        ColumnVector[] chosen = new ColumnVector[order.ordinals.length];
        for (int i = 0; i < chosen.length; i++) {
            chosen[i] = all.column(order.ordinals[i]);
        }
        return new ColumnarBatch(chosen, all.numRows());
    }

    private void putColumns() {
        int count = columns.put(batch, row);
        order.inColumns.add(count);
        row += count;
    }

    /** For vectors of sources that do not show what their lists are made of. False: the batch of rows is full. */
    private boolean putRows() {
        if (projection == null) {
            projection = UnsafeProjection.create(order.schema);
        }
        for (; row < batch.numRows(); row++) {
            if (!rows.offer(projection.apply(batch.getRow(row)))) {
                return false;
            }
            order.inRows.add(1);
        }
        return true;
    }

    @Override
    public long skip(long count) {
        begin();
        long left = count;
        while (left > 0 && hasRow()) {
            int step = (int) Math.min(left, batch.numRows() - row);
            row += step;
            left -= step;
        }
        return count - left;
    }

    @Override
    public boolean interrupted() {
        return context.isInterrupted();
    }

    @Override
    public void close() {
        if (columns != null) {
            columns.close();
        }
    }
}
