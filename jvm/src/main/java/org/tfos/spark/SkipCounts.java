package org.tfos.spark;

import java.io.Serializable;
import org.apache.spark.SparkContext;
import org.apache.spark.util.LongAccumulator;
import org.tfos.RecordInput;

/** Counts what readers skip because it is damaged, over all tasks of a scan: accumulators that Spark's pages show. */
final class SkipCounts implements Serializable {
    private static final long serialVersionUID = 1L;

    private final LongAccumulator records;
    private final LongAccumulator bytes;
    private transient long seenRecords;
    private transient long seenBytes;

    SkipCounts(SparkContext context) {
        records = context.longAccumulator("tfrecord: damaged records skipped");
        bytes = context.longAccumulator("tfrecord: damaged bytes skipped");
    }

    private SkipCounts(SkipCounts all) {
        records = all.records;
        bytes = all.bytes;
    }

    /** For one reader. */
    SkipCounts ofReader() {
        return new SkipCounts(this);
    }

    /** Adds what a reader has skipped since. */
    void add(RecordInput input) {
        long skipped = input.skippedRecords();
        if (skipped > seenRecords) {
            records.add(skipped - seenRecords);
            bytes.add(input.skippedBytes() - seenBytes);
            seenRecords = skipped;
            seenBytes = input.skippedBytes();
        }
    }
}
