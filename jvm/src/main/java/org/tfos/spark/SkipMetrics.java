package org.tfos.spark;

import com.codahale.metrics.Counter;
import com.codahale.metrics.MetricRegistry;
import org.apache.spark.SparkEnv;
import org.apache.spark.metrics.source.Source;

/** What the scans of an executor have skipped, among its metrics: tfrecord.skippedRecords and …skippedBytes. */
final class SkipMetrics implements Source {
    private static SparkEnv registered;
    private static SkipMetrics metrics;

    private final MetricRegistry registry = new MetricRegistry();
    private final Counter records = registry.counter("skippedRecords");
    private final Counter bytes = registry.counter("skippedBytes");

    private SkipMetrics() {}

    /** Those of this executor, or null where there is none. */
    static synchronized SkipMetrics here() {
        SparkEnv env = SparkEnv.get();
        if (env != registered) {
            metrics = env == null ? null : new SkipMetrics();
            registered = env;
            if (env != null) {
                env.metricsSystem().registerSource(metrics);
            }
        }
        return metrics;
    }

    void add(long newRecords, long newBytes) {
        records.inc(newRecords);
        bytes.inc(newBytes);
    }

    @Override
    public String sourceName() {
        return "tfrecord";
    }

    @Override
    public MetricRegistry metricRegistry() {
        return registry;
    }
}
