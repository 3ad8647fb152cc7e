package org.tfos.spark;

import java.io.Serializable;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of a DataFrame that get results: on the driver.
 *
 * <p>Spark computes nothing before somebody needs to know the partitions, which for a plan that depends on what its
 * first stages give means computing these.
 */
public final class InferenceData {
    private final Dataset<?> data;
    private final StructType fed;
    private final boolean inColumns; // they may come as columns, if the plan has such
    private final Plan plan;
    private RDD<InternalRow> rows; // or columnar batches; null: nobody has needed them

    /** What a task must know. */
    static final class Plan implements Serializable {
        private static final long serialVersionUID = 1L;

        /** Of the columns that are fed, as tfos/spark.h says at tfos_spark_rows_new. */
        String description;

        /** How many columns are fed. */
        int fed;

        /** How many columns stand in front of the results; 0: none. */
        int kept;

        /** Rows have two columns: a struct of what is fed, and one of what is kept. Otherwise both are the row. */
        boolean pair;

        /** Of Spark's columnar batches, which are fed without making rows of them; null: there are rows. */
        FeedOrder columnar;

        PumpOpener opener;
        String resultSchema;
        int results;
    }

    /**
     * Checks the columns.
     *
     * @param data the columns to be fed; or, for a pair, a struct of these and a struct of the columns to be kept
     * @param columns JSON: what is declared for columns, as tfos/spark.h says at tfos_spark_rows_new; "{}" for nothing
     * @param keep whether results stand behind columns of their rows
     */
    public InferenceData(Dataset<?> data, String columns, boolean keep, boolean pair) {
        this.data = data;
        StructType schema = data.schema();
        fed = pair ? structOf(schema, 0) : schema;
        plan = new Plan();
        plan.description = "{\"schema\":" + fed.json() + ",\"columns\":" + columns + "}";
        plan.fed = fed.size();
        plan.kept = !keep ? 0 : pair ? structOf(schema, 1).size() : schema.size();
        plan.pair = pair;
        try (SparkRows checked = new SparkRows(plan.description)) {
            inColumns = checked.takeColumns() && !keep;
        }
    }

    /** What Spark's plan gives; it is the same one from then on. */
    private synchronized RDD<InternalRow> rows() {
        if (rows == null) {
            // A query of its own each time: in one that has failed, or was cancelled, a stage would stay so.
            Dataset<?> query = data.select(functions.col("*"));
            RDD<InternalRow> asRows = query.queryExecution().toRdd();
            ColumnarPlan columnar =
                    inColumns ? ColumnarPlan.of(query.queryExecution().executedPlan()) : null;
            RDD<InternalRow> found = columnar == null ? asRows : columnar.batches();
            if (columnar != null) {
                plan.columnar = new FeedOrder(context(), null, plan.description, fed, columnar.ordinals());
            }
            rows = found;
        }
        return rows;
    }

    private SparkContext context() {
        return data.sparkSession().sparkContext();
    }

    private static StructType structOf(StructType schema, int column) {
        return (StructType) schema.apply(column).dataType();
    }

    public int partitions() {
        return rows().getNumPartitions();
    }

    /** Whether a partition has the same rows in the same order each time it is computed. */
    public boolean determinate() {
        return rows().outputDeterministicLevel().toString().equals("DETERMINATE");
    }

    /** Fails if results cannot have these columns. */
    public static void check(String resultSchema) {
        new RowWriter(resultSchema, 0).close();
    }

    /**
     * The rows with their results, computed when they are needed.
     *
     * @param ticket of a feed for inference; the cluster key is inside
     * @param resultSchema of the results, as {@code StructType.json()} gives it
     */
    public RDD<InternalRow> results(byte[] ticket, String resultSchema) {
        return results(new TicketOpener(ticket), resultSchema);
    }

    /** The same, of whoever is reached in this way. */
    RDD<InternalRow> results(PumpOpener opener, String resultSchema) {
        return new InferenceRdd(context(), this::rows, planOf(opener, resultSchema));
    }

    /**
     * The same of a stream, whose queries have no RDD of their own before each of their batches.
     *
     * @param results the columns that are kept, and those of the results
     */
    Dataset<Row> stream(PumpOpener opener, String resultSchema, StructType results) {
        InferenceStream tasks = new InferenceStream(planOf(opener, resultSchema), data.schema(), results);
        return tasks.over(data.toDF());
    }

    private Plan planOf(PumpOpener opener, String resultSchema) {
        plan.opener = opener;
        plan.resultSchema = resultSchema;
        plan.results = ((StructType) DataType.fromJson(resultSchema)).size();
        return plan;
    }

    /** Feeds the rows now; the schema that their first results would have in Spark, as JSON. Null: there were none. */
    public String resultSchema(byte[] ticket) {
        plan.opener = new TicketOpener(ticket);
        List<String> schemas = new InferenceSchemaRdd(rows(), plan).toJavaRDD().collect();
        Iterator<String> first = schemas.iterator();
        return first.hasNext() ? first.next() : null;
    }
}
