package org.tfos.spark;

import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import org.apache.hadoop.security.AccessControlException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.vectorized.ColumnVectorUtils;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.tfos.RecordInput;
import org.tfos.ServedFiles;
import org.tfos.Status;
import org.tfos.TfosException;
import scala.collection.AbstractIterator;

/**
 * The batches of a file, columns of records first and those of its partition behind them. A batch lasts until the next
 * one is asked for.
 *
 * <p>What goes wrong is thrown by {@link #next}, never by {@link #hasNext}: Spark wraps what the latter throws in an
 * exception of its own, whose first line tells the file and not the reason.
 */
final class RecordBatches extends AbstractIterator<Object> implements Closeable {
    private final RecordInput input;
    private final ServedFiles files;
    private final SkipCounts skips;
    private final RecordVector[] columns;
    private final ColumnarBatch batch;
    private boolean looked;
    private int rows; // of the next batch
    private TfosException failure;
    private boolean open = true;

    /** @param skips may be null */
    RecordBatches(
            RecordInput input,
            ServedFiles files,
            SkipCounts skips,
            StructType schema,
            StructType partitionSchema,
            InternalRow partition) {
        this.input = input;
        this.files = files;
        this.skips = skips;
        columns = new RecordVector[schema.length()];
        ColumnVector[] all = new ColumnVector[columns.length + partitionSchema.length()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = new RecordVector(schema.fields()[i].dataType());
            all[i] = columns[i];
        }
        for (int i = columns.length; i < all.length; i++) {
            StructField field = partitionSchema.fields()[i - columns.length];
            ConstantColumnVector constant = new ConstantColumnVector(1, field.dataType());
            ColumnVectorUtils.populate(constant, partition, i - columns.length);
            all[i] = constant;
        }
        batch = new ColumnarBatch(all);
    }

    @Override
    public boolean hasNext() {
        if (!looked && open) {
            look();
        }
        return rows > 0 || failure != null;
    }

    private void look() {
        looked = true;
        rows = 0;
        try {
            rows = input.next();
        } catch (TfosException e) {
            failure = e;
        }
        files.countReads(input);
        if (skips != null) {
            skips.add(input);
        }
        if (rows == 0 && failure == null) {
            close();
        }
    }

    @Override
    public ColumnarBatch next() {
        if (!hasNext()) {
            throw new java.util.NoSuchElementException();
        }
        looked = false;
        if (failure != null) {
            TfosException thrown = failure;
            failure = null;
            close();
            throw RecordBatches.<RuntimeException>explain(thrown, files.failure());
        }
        int at = 0;
        for (RecordVector column : columns) {
            at = column.point(input.words(), at);
        }
        batch.setNumRows(rows);
        rows = 0;
        return batch;
    }

    /** Where Spark looks for exceptions of Java's or Hadoop's, they are these: a file that is gone, or forbidden. */
    @SuppressWarnings("unchecked")
    private static <E extends Throwable> E explain(TfosException failure, IOException cause) throws E {
        if (failure.status() == Status.NOT_FOUND) {
            throw (E) new FileNotFoundException(failure.reason());
        }
        if (failure.status() == Status.PERMISSION) {
            throw (E) new AccessControlException(failure.reason());
        }
        if (failure.status() != Status.IO || cause == null) {
            throw failure;
        }
        throw new TfosException(failure.status(), failure.fault(), failure.reason(), cause);
    }

    @Override
    public void close() {
        if (open) {
            open = false;
            looked = true;
            rows = 0;
            input.close();
        }
    }
}
