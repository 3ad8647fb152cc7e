package org.tfos.spark;

import java.util.Iterator;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.function.VoidFunction;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.StructType;

/** The rows of a DataFrame, ready to be fed: on the driver. */
public final class FeedData {
    private final String description;
    private final String schema;
    private final StructType types;
    private final RDD<InternalRow> rows; // or columnar batches
    private final int[] ordinals; // of the columns in these; null: there are none

    /**
     * Checks the columns, and has Spark plan the query; where a plan depends on what its first stages give, these are
     * computed now.
     *
     * @param data the columns to be fed, under the names that they are to have
     * @param columns JSON: what is declared for columns, as tfos/spark.h says at tfos_spark_rows_new; "{}" for nothing
     */
    public FeedData(Dataset<?> data, String columns) {
        types = data.schema();
        description = "{\"schema\":" + types.json() + ",\"columns\":" + columns + "}";
        boolean inColumns;
        try (SparkRows checked = new SparkRows(description)) {
            schema = checked.schema();
            inColumns = checked.takeColumns();
        }
        RDD<InternalRow> asRows = data.queryExecution().toRdd();
        ColumnarPlan plan = inColumns ? ColumnarPlan.of(data.queryExecution().executedPlan()) : null;
        rows = plan == null ? asRows : plan.batches();
        ordinals = plan == null ? null : plan.ordinals();
    }

    /** The schema of the rows in its JSON form; lists of undeclared shape are ragged in it. */
    public String schema() {
        return schema;
    }

    public int partitions() {
        return rows.getNumPartitions();
    }

    /** Whether Spark offers the rows as columns, so that none has to be made. */
    public boolean columnar() {
        return ordinals != null;
    }

    /** Whether a partition has the same rows in the same order each time it is computed. */
    public boolean determinate() {
        return rows.outputDeterministicLevel().toString().equals("DETERMINATE");
    }

    /**
     * Feeds every partition once: a Spark job in the job group of the caller, which is waited for.
     *
     * @param ticket for an epoch of a feed; the cluster key is inside
     */
    public void feed(byte[] ticket) {
        job(ticket).foreachPartition(new Nothing());
    }

    /** Submits such a job under a title, and does not wait for it. */
    public SparkJob submit(byte[] ticket, String title) {
        return SparkJob.submit(rows.sparkContext(), title, () -> job(ticket).foreachPartitionAsync(new Nothing()));
    }

    private JavaRDD<Object> job(byte[] ticket) {
        FeedOrder order = new FeedOrder(rows.sparkContext(), ticket, description, types, ordinals);
        return new FeedRdd(rows, order).toJavaRDD();
    }

    /** What is left to be done with the empty partitions of a {@link FeedRdd}. */
    private static final class Nothing implements VoidFunction<Iterator<Object>> {
        private static final long serialVersionUID = 1L;

        @Override
        public void call(Iterator<Object> empty) {}
    }
}
