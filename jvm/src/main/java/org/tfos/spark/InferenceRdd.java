package org.tfos.spark;

import java.util.function.Supplier;
import org.apache.spark.Dependency;
import org.apache.spark.OneToOneDependency;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Rows with the results that programs give for them.
 *
 * <p>Spark asks an RDD for what it depends on when a job needs it, in the thread that submits that, so the query behind
 * the rows is looked at no sooner.
 */
final class InferenceRdd extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;
    private static final ClassTag<InternalRow> ROW = ClassTag$.MODULE$.apply(InternalRow.class);

    private final transient Supplier<RDD<InternalRow>> rows; // on the driver
    private final InferenceData.Plan plan;

    InferenceRdd(SparkContext context, Supplier<RDD<InternalRow>> rows, InferenceData.Plan plan) {
        // It must be made of something; a list of nothing has another type in each line of Scala.
        super(context.emptyRDD(ROW), ROW);
        this.rows = rows;
        this.plan = plan;
    }

    /** Of the type that Scala 2.13 has for it; javac adds a method that has the one of Scala 2.12. */
    @Override
    public Seq<Dependency<?>> getDependencies() {
        return Nil$.MODULE$.$colon$colon(new OneToOneDependency<>(rows.get()));
    }

    @Override
    public Partition[] getPartitions() {
        return firstParent(ROW).partitions();
    }

    @Override
    @SuppressWarnings("unchecked")
    public Iterator<InternalRow> compute(Partition split, TaskContext context) {
        RDD<InternalRow> parent = (RDD<InternalRow>) (RDD<?>) firstParent(ROW);
        return new InferenceTask(context, plan, split.index(), () -> parent.iterator(split, context));
    }
}
