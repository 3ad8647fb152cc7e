package org.tfos.spark;

import java.io.Closeable;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructType;
import scala.collection.AbstractIterator;

/** The rows of batches, where Spark asks for rows. */
final class RecordRows extends AbstractIterator<Object> implements Closeable {
    private final RecordBatches batches;
    private final UnsafeProjection projection;
    private Iterator<InternalRow> rows = Collections.emptyIterator();

    /** @param schema of the rows: columns of records, then those of the partition */
    RecordRows(RecordBatches batches, StructType schema) {
        this.batches = batches;
        projection = UnsafeProjection.create(schema);
    }

    @Override
    public boolean hasNext() {
        return rows.hasNext() || batches.hasNext();
    }

    @Override
    public InternalRow next() {
        if (!rows.hasNext()) {
            rows = batches.next().rowIterator();
        }
        return projection.apply(rows.next());
    }

    @Override
    public void close() {
        rows = Collections.emptyIterator();
        batches.close();
    }
}
