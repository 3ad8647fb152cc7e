package org.tfos.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.execution.ColumnarToRowExec;
import org.apache.spark.sql.execution.InputAdapter;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SQLExecutionRDD;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.WholeStageCodegenExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import scala.Product;
import scala.collection.Iterator;

/**
 * A plan whose last step makes rows of columns: a scan of Parquet, ORC or a cache, with nothing above it but a choice
 * of its columns.
 */
final class ColumnarPlan {
    private final SparkPlan plan;
    private final int[] ordinals;

    private ColumnarPlan(SparkPlan plan, int[] ordinals) {
        this.plan = plan;
        this.ordinals = ordinals;
    }

    /** @param executed a plan that will not change any more. Null: it gives rows */
    static ColumnarPlan of(SparkPlan executed) {
        SparkPlan plan = unwrap(executed);
        List<?> wanted = null;
        if (plan instanceof ProjectExec) {
            wanted = listOf(((Product) plan).productElement(0));
            plan = unwrap(((ProjectExec) plan).child());
        }
        if (plan instanceof ColumnarToRowExec) {
            plan = unwrap(((ColumnarToRowExec) plan).child());
        }
        if (!plan.supportsColumnar()) {
            return null;
        }
        int[] ordinals = ordinals(wanted, outputOf(plan));
        return ordinals == null ? null : new ColumnarPlan(plan, ordinals);
    }

    /** The batches; tasks see the settings of the session, as they do where rows are computed. */
    RDD<InternalRow> batches() {
        // What an RDD of Spark's plans has is known at run time only: its type says rows in any case.
        @SuppressWarnings({"unchecked", "rawtypes"})
        RDD<InternalRow> batches = (RDD<InternalRow>) (RDD) plan.executeColumnar();
        return new SQLExecutionRDD(batches, plan.conf());
    }

    /** Which columns of the batches are fed. */
    int[] ordinals() {
        return ordinals;
    }

    private static SparkPlan unwrap(SparkPlan plan) {
        if (plan instanceof AdaptiveSparkPlanExec) {
            return unwrap(((AdaptiveSparkPlanExec) plan).executedPlan());
        }
        if (plan instanceof QueryStageExec) {
            return unwrap(((QueryStageExec) plan).plan());
        }
        if (plan instanceof WholeStageCodegenExec) {
            return unwrap(((WholeStageCodegenExec) plan).child());
        }
        return plan instanceof InputAdapter ? unwrap(((InputAdapter) plan).child()) : plan;
    }

    /** Null: one of them is computed. {@code wanted} may be null, for all. */
    private static int[] ordinals(List<?> wanted, List<?> output) {
        List<Object> ids = new ArrayList<>();
        for (Object column : output) {
            ids.add(((AttributeReference) column).exprId());
        }
        int[] ordinals = new int[wanted == null ? ids.size() : wanted.size()];
        for (int i = 0; i < ordinals.length; i++) {
            Object column = wanted == null ? output.get(i) : wanted.get(i);
            Object source = column instanceof Alias ? ((Alias) column).child() : column;
            if (!(source instanceof AttributeReference)) {
                return null;
            }
            ordinals[i] = ids.indexOf(((AttributeReference) source).exprId());
            if (ordinals[i] < 0) {
                return null;
            }
        }
        return ordinals;
    }

    /** By name, because the lines of Scala differ in what type the method has. */
    private static List<?> outputOf(SparkPlan plan) {
        try {
            return listOf(SparkPlan.class.getMethod("output").invoke(plan));
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("Spark's plans have no output", e);
        }
    }

    private static List<Object> listOf(Object seq) {
        List<Object> list = new ArrayList<>();
        Iterator<?> iterator = ((scala.collection.Iterable<?>) seq).iterator();
        while (iterator.hasNext()) {
            list.add(iterator.next());
        }
        return list;
    }
}
