package org.tfos.spark;

import java.io.Serializable;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.LongAccumulator;

/** What the driver tells the tasks of one epoch. */
final class FeedOrder implements Serializable {
    private static final long serialVersionUID = 1L;

    final byte[] ticket; // the cluster key is inside
    final String description; // of the columns, as tfos/spark.h says at tfos_spark_rows_new
    final StructType schema;
    final int[] ordinals; // of the columns in Spark's batches; null: there are rows
    // Spark's web page shows these with the stage.
    final LongAccumulator inColumns;
    final LongAccumulator inRows;

    FeedOrder(SparkContext context, byte[] ticket, String description, StructType schema, int[] ordinals) {
        this.ticket = ticket;
        this.description = description;
        this.schema = schema;
        this.ordinals = ordinals;
        this.inColumns = context.longAccumulator("rows fed from columns");
        this.inRows = context.longAccumulator("rows fed from rows");
    }
}
