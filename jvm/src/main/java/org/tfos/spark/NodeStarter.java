package org.tfos.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.python.PythonBroadcast;
import org.apache.spark.broadcast.Broadcast;

/**
 * Starts the nodes of a cluster: one Spark job with one task for each node.
 *
 * <p>The job is no barrier stage: Spark would take ten minutes to find that slots are missing, and would refuse dynamic
 * allocation. That all nodes are there before one starts its work is what the coordinator sees to.
 */
public final class NodeStarter {
    final byte[] ticket;
    final int cores;
    final boolean detach;
    final String packageFile;
    final List<String> includes;
    final Map<String, String> environment;
    final List<Broadcast<PythonBroadcast>> broadcasts;
    final String gpuResource;
    TensorFlowOffer tensorflow; // null: the program finds its own
    long killMs = NodeTask.KILL_MS;

    /**
     * @param ticket what the coordinator's client made for the nodes; the cluster key is inside
     * @param cores for the threads of each node
     * @param detach whether a task returns when its node runs, so that its slot can feed (InputMode.SPARK)
     * @param packageFile the name of the zip of the Python package among Spark's files; null: the program needs none
     * @param includes names of zip and egg files among Spark's files that are to be on the path of Python
     * @param environment of the node's program, as for Spark's Python workers
     * @param broadcasts that the function uses
     * @param gpuResource the name under which Spark hands out GPUs: {@code gpu}
     */
    public NodeStarter(
            byte[] ticket,
            int cores,
            boolean detach,
            String packageFile,
            List<String> includes,
            Map<String, String> environment,
            List<Broadcast<PythonBroadcast>> broadcasts,
            String gpuResource) {
        this.ticket = ticket;
        this.cores = cores;
        this.detach = detach;
        this.packageFile = packageFile;
        this.includes = includes;
        this.environment = environment;
        this.broadcasts = broadcasts;
        this.gpuResource = gpuResource;
    }

    /** For nodes whose program loads TensorFlow without Python: where executors have none, they get the driver's. */
    public NodeStarter tensorflow(TensorFlowOffer offer) {
        tensorflow = offer;
        return this;
    }

    /** Those of the cluster, as key=value: one says how long a node that stops waits for its program. */
    public NodeStarter settings(List<String> settings) {
        String key = "node.kill_ms=";
        for (String each : settings) {
            killMs = each.startsWith(key) ? Long.parseLong(each.substring(key.length())) : killMs;
        }
        return this;
    }

    /** Of programs without Python, such as trainers. */
    NodeStarter(byte[] ticket, int cores, boolean detach, Map<String, String> environment, String gpuResource) {
        this(ticket, cores, detach, null, List.of(), environment, List.of(), gpuResource);
    }

    /** Submits the job for {@code count} nodes from {@code firstIndex} on, and does not wait for it. */
    public SparkJob submit(JavaSparkContext context, String name, int firstIndex, int count) {
        List<Integer> indexes = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            indexes.add(firstIndex + i);
        }
        return SparkJob.submit(
                context.sc(),
                "tfos cluster " + name,
                () -> context.parallelize(indexes, count).foreachPartitionAsync(new NodeTask(this)));
    }
}
