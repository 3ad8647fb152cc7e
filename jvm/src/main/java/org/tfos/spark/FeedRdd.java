package org.tfos.spark;

import org.apache.spark.Partition;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import scala.collection.Iterator;
import scala.collection.Iterator$;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Feeds each partition of its parent when it is computed, and is empty.
 *
 * <p>It is an RDD and no function over one because Spark would begin to compute the parent before it calls a function:
 * a partition that nobody wants any more costs nothing here.
 */
final class FeedRdd extends RDD<Object> {
    private static final long serialVersionUID = 1L;

    private final FeedOrder order;

    /** @param parent rows, or columnar batches where the order says so */
    FeedRdd(RDD<InternalRow> parent, FeedOrder order) {
        super(parent, tag(Object.class));
        this.order = order;
    }

    private static <T> ClassTag<T> tag(Class<T> type) {
        return ClassTag$.MODULE$.apply(type);
    }

    private RDD<InternalRow> parent() {
        return firstParent(tag(InternalRow.class));
    }

    @Override
    public Partition[] getPartitions() {
        return parent().partitions();
    }

    @Override
    @SuppressWarnings("unchecked") // the type of an iterator without elements differs between the lines of Scala
    public Iterator<Object> compute(Partition split, TaskContext context) {
        FeedTask.run(context, order, split.index(), () -> parent().iterator(split, context));
        return (Iterator<Object>) (Iterator<?>) Iterator$.MODULE$.empty();
    }
}
