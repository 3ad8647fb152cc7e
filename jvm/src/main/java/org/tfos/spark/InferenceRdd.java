package org.tfos.spark;

import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/** Rows with the results that programs give for them. */
final class InferenceRdd extends RDD<InternalRow> {
    private static final long serialVersionUID = 1L;
    private static final ClassTag<InternalRow> ROW = ClassTag$.MODULE$.apply(InternalRow.class);

    private final InferenceData.Plan plan;

    InferenceRdd(RDD<InternalRow> parent, InferenceData.Plan plan) {
        super(parent, ROW);
        this.plan = plan;
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
