package org.tfos.spark;

import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;

/** For each partition that gets results, the Spark schema of the first of them. */
final class InferenceSchemaRdd extends RDD<String> {
    private static final long serialVersionUID = 1L;

    private final InferenceData.Plan plan;

    InferenceSchemaRdd(RDD<InternalRow> parent, InferenceData.Plan plan) {
        super(parent, ClassTag$.MODULE$.apply(String.class));
        this.plan = plan;
    }

    private RDD<InternalRow> rows() {
        return firstParent(ClassTag$.MODULE$.apply(InternalRow.class));
    }

    @Override
    public Partition[] getPartitions() {
        return rows().partitions();
    }

    @Override
    public Iterator<String> compute(Partition split, TaskContext context) {
        InferenceTask task = new InferenceTask(context, plan, split.index(), () -> rows().iterator(split, context));
        return new Once(task.firstSchema());
    }

    private static final class Once extends AbstractIterator<String> {
        private String value;

        Once(String value) {
            this.value = value;
        }

        @Override
        public boolean hasNext() {
            return value != null;
        }

        @Override
        public String next() {
            String given = value;
            value = null;
            return given;
        }
    }
}
