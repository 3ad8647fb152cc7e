package org.tfos.spark;

import java.util.Iterator;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.CatalystTypeConverters;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.tfos.Status;
import org.tfos.TfosException;
import scala.Function1;
import scala.collection.AbstractIterator;

/**
 * The rows of a stream with the results that programs give for them.
 *
 * <p>A streaming query has a plan of its own for every batch, so this is a step of plans, of the one kind that all
 * lines of Spark let others make: a function of rows as Java has them. Tasks make Spark's own of these, and back.
 */
final class InferenceStream implements MapPartitionsFunction<Row, Row> {
    private static final long serialVersionUID = 1L;
    private static final String CONTINUOUS = "__is_continuous_processing"; // as Spark tells its tasks

    private final InferenceData.Plan plan;
    private final StructType fed;
    private final StructType results;

    /** @param results the columns that are kept, and those of the results */
    InferenceStream(InferenceData.Plan plan, StructType fed, StructType results) {
        this.plan = plan;
        this.fed = fed;
        this.results = results;
    }

    Dataset<Row> over(Dataset<Row> data) {
        Dataset<Row> found = data.mapPartitions(this, Encoders.row(results));
        // An encoder drops what is known of columns: that one has the watermark, what a vector is made of.
        Column[] columns = new Column[results.size()];
        for (int i = 0; i < columns.length; i++) {
            StructField field = results.apply(i);
            columns[i] = ModelTransform.column(found, field.name()).as(field.name(), field.metadata());
        }
        return found.select(columns);
    }

    // ---- in a task ----

    @Override
    public Iterator<Row> call(Iterator<Row> partition) {
        TaskContext context = TaskContext.get();
        if (Boolean.parseBoolean(context.getLocalProperty(CONTINUOUS))) {
            // Rows would wait for others that are to be computed with them, for ever.
            throw new TfosException(
                    Status.UNSUPPORTED,
                    "a model computes the rows of a stream in batches, and the query has a continuous trigger: give it"
                            + " Trigger.ProcessingTime or Trigger.AvailableNow");
        }
        return new Found(new InferenceTask(context, plan, context.partitionId(), () -> new Fed(partition)));
    }

    /** The rows, as Spark has them. */
    private final class Fed extends AbstractIterator<InternalRow> {
        private final Iterator<Row> rows;
        private final Function1<Object, Object> convert = CatalystTypeConverters.createToCatalystConverter(fed);
        private final UnsafeProjection project = UnsafeProjection.create(fed);

        Fed(Iterator<Row> rows) {
            this.rows = rows;
        }

        @Override
        public boolean hasNext() {
            return rows.hasNext();
        }

        @Override
        public InternalRow next() {
            return project.apply((InternalRow) convert.apply(rows.next()));
        }
    }

    /** The results, as Java has them. */
    private final class Found implements Iterator<Row> {
        private final InferenceTask task;
        private final Function1<Object, Object> convert = CatalystTypeConverters.createToScalaConverter(results);

        Found(InferenceTask task) {
            this.task = task;
        }

        @Override
        public boolean hasNext() {
            return task.hasNext();
        }

        @Override
        public Row next() {
            return (Row) convert.apply(task.next());
        }
    }
}
