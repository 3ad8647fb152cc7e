package org.tfos.spark;

import java.io.Serializable;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;
import org.tfos.RecordInput;

/**
 * Counts what readers skip because it is damaged: over all tasks of a scan in accumulators, which Spark's pages show,
 * and over all scans of an executor among its metrics.
 */
final class SkipCounts implements Serializable {
    private static final long serialVersionUID = 1L;

    private final LongAccumulator records;
    private final LongAccumulator bytes;
    private transient long seenRecords;
    private transient long seenBytes;
    private transient SkipMetrics metrics; // null: none are kept

    SkipCounts(SparkContext context) {
        records = context.longAccumulator("tfrecord: damaged records skipped");
        bytes = context.longAccumulator("tfrecord: damaged bytes skipped");
    }

    private SkipCounts(SkipCounts all) {
        records = all.records;
        bytes = all.bytes;
        metrics = SkipMetrics.here();
    }

    /** For one reader. */
    SkipCounts ofReader() {
        return new SkipCounts(this);
    }

    /** Adds what a reader has skipped since. */
    void add(RecordInput input) {
        long skipped = input.skippedRecords();
        if (skipped > seenRecords) {
            long skippedBytes = input.skippedBytes();
            records.add(skipped - seenRecords);
            bytes.add(skippedBytes - seenBytes);
            if (metrics != null) {
                metrics.add(skipped - seenRecords, skippedBytes - seenBytes);
            }
            seenRecords = skipped;
            seenBytes = skippedBytes;
        }
    }
}
