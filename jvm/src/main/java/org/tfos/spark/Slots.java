package org.tfos.spark;

import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;

/**
 * How many tasks Spark can run at a time: now, and at most by its configuration.
 *
 * <p>A cluster that needs more nodes than Spark can ever run at a time is refused before anything is submitted.
 */
public final class Slots {
    private static final Pattern LOCAL = Pattern.compile("local(?:\\[\\s*([0-9]+|\\*)\\s*(?:,\\s*[0-9]+\\s*)?\\])?");
    private static final Pattern LOCAL_CLUSTER =
            Pattern.compile("local-cluster\\[\\s*([0-9]+)\\s*,\\s*([0-9]+)\\s*,\\s*[0-9]+\\s*\\]");
    private static final String UNKNOWN = "";

    private final long most;
    private final String reason;

    private Slots(long most, String reason) {
        this.most = most;
        this.reason = reason;
    }

    /** Tasks that Spark can run at a time at most; -1 if its configuration does not say. */
    public long most() {
        return most;
    }

    /** Where the number comes from, for messages: {@code spark.master is local[2]}. Empty when it is unknown. */
    public String reason() {
        return reason;
    }

    /** Tasks of the default resource profile that the executors of this moment can run at a time, busy or not. */
    public static int now(JavaSparkContext context) {
        SparkContext scala = context.sc();
        return scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile());
    }

    /** What the configuration of the context allows. */
    public static Slots configured(JavaSparkContext context) {
        return configured(context.master(), key -> context.getConf().get(key, null));
    }

    /**
     * The same, where each task also gets some of a resource, such as GPUs: an executor runs no more tasks than it has
     * of that.
     */
    public static Slots configured(JavaSparkContext context, String resource) {
        return configured(context.master(), key -> context.getConf().get(key, null), resource);
    }

    /**
     * Cores for the threads of one node, when {@code nodes} are started: what {@code spark.task.cpus} says if it is
     * set; else all cores that the application has or will have, divided evenly among the nodes, and never more than
     * one executor has. While no executor is there, {@code spark.executor.cores} counts, or one.
     */
    public static int coresOfNode(JavaSparkContext context, int nodes) {
        UnaryOperator<String> conf = key -> context.getConf().get(key, null);
        int executors = context.sc().statusTracker().getExecutorInfos().length;
        // The driver is in that list; it is an executor in local mode alone.
        executors -= LOCAL.matcher(context.master()).matches() ? 0 : 1;
        return coresOfNode(conf, now(context), configured(context).most, executors, nodes);
    }

    static int coresOfNode(UnaryOperator<String> conf, long slots, long most, int executors, int nodes) {
        if (conf.apply("spark.task.cpus") != null) {
            return taskCpus(conf);
        }
        if (slots <= 0 || executors <= 0) {
            return (int) number(conf, "spark.executor.cores", 1);
        }
        // A task has one core, so slots are cores.
        return (int) Math.max(1, Math.min(slots / executors, Math.max(slots, most) / Math.max(1, nodes)));
    }

    static Slots configured(String master, UnaryOperator<String> conf) {
        Matcher local = LOCAL.matcher(master);
        if (local.matches()) {
            String cores = local.group(1) == null ? "1" : local.group(1);
            long count = cores.equals("*") ? Runtime.getRuntime().availableProcessors() : Long.parseLong(cores);
            return new Slots(count / taskCpus(conf), "spark.master is " + master + withTaskCpus(conf));
        }
        Slots byExecutors = byExecutors(master, conf);
        Slots byCores = master.startsWith("spark://") || master.startsWith("local-cluster") ? byCores(conf) : unknown();
        boolean fewerCores = byCores.most >= 0 && (byExecutors.most < 0 || byCores.most < byExecutors.most);
        return fewerCores ? byCores : byExecutors;
    }

    static Slots configured(String master, UnaryOperator<String> conf, String resource) {
        Slots byCores = configured(master, conf);
        long each = number(conf, "spark.executor.resource." + resource + ".amount", -1);
        String task = conf.apply("spark.task.resource." + resource + ".amount");
        long executors = executorsOf(master, conf);
        if (each < 0 || task == null || executors < 0) {
            return byCores;
        }
        long slots = executors * (long) (each / Double.parseDouble(task.trim()));
        String reason = "there are at most " + executors + " executors, spark.executor.resource." + resource
                + ".amount is " + each + " and spark.task.resource." + resource + ".amount is " + task.trim();
        return byCores.most >= 0 && byCores.most <= slots ? byCores : new Slots(slots, reason);
    }

    /** The most executors that there can be; -1 if the configuration does not say. */
    private static long executorsOf(String master, UnaryOperator<String> conf) {
        Matcher localCluster = LOCAL_CLUSTER.matcher(master);
        if (localCluster.matches()) {
            long cores = Long.parseLong(localCluster.group(2));
            long each = Math.min(cores, number(conf, "spark.executor.cores", cores));
            return each == 0 ? 0 : Long.parseLong(localCluster.group(1)) * (cores / each);
        }
        if (Boolean.parseBoolean(conf.apply("spark.dynamicAllocation.enabled"))) {
            long most = number(conf, "spark.dynamicAllocation.maxExecutors", -1);
            return most == Integer.MAX_VALUE ? -1 : most;
        }
        boolean counted = master.equals("yarn") || master.startsWith("k8s://");
        return counted ? number(conf, "spark.executor.instances", 2) : -1;
    }

    private static Slots unknown() {
        return new Slots(-1, UNKNOWN);
    }

    private static Slots byExecutors(String master, UnaryOperator<String> conf) {
        Matcher localCluster = LOCAL_CLUSTER.matcher(master);
        if (localCluster.matches()) {
            long cores = Long.parseLong(localCluster.group(2));
            long each = Math.min(cores, number(conf, "spark.executor.cores", cores));
            long slots = executorsOf(master, conf) * (each / taskCpus(conf));
            return new Slots(slots, "spark.master is " + master + withTaskCpus(conf));
        }
        if (Boolean.parseBoolean(conf.apply("spark.dynamicAllocation.enabled"))) {
            return byCount("spark.dynamicAllocation.maxExecutors", -1, master, conf);
        }
        boolean counted = master.equals("yarn") || master.startsWith("k8s://");
        return counted ? byCount("spark.executor.instances", 2, master, conf) : unknown();
    }

    private static Slots byCount(String key, long fallback, String master, UnaryOperator<String> conf) {
        long executors = number(conf, key, fallback);
        // An executor of a standalone cluster has all cores of its worker unless a number is set.
        long cores = number(conf, "spark.executor.cores", master.startsWith("spark://") ? -1 : 1);
        if (executors < 0 || cores < 0 || executors == Integer.MAX_VALUE) {
            return unknown();
        }
        String reason = key + " is " + executors + " and spark.executor.cores is " + cores + withTaskCpus(conf);
        return new Slots(executors * (cores / taskCpus(conf)), reason);
    }

    private static Slots byCores(UnaryOperator<String> conf) {
        long most = number(conf, "spark.cores.max", -1);
        if (most < 0) {
            return unknown();
        }
        long each = number(conf, "spark.executor.cores", -1);
        long slots = each > 0 ? most / each * (each / taskCpus(conf)) : most / taskCpus(conf);
        String cores = each > 0 ? " and spark.executor.cores is " + each : "";
        return new Slots(slots, "spark.cores.max is " + most + cores + withTaskCpus(conf));
    }

    private static int taskCpus(UnaryOperator<String> conf) {
        return (int) Math.max(1, number(conf, "spark.task.cpus", 1));
    }

    private static String withTaskCpus(UnaryOperator<String> conf) {
        return taskCpus(conf) == 1 ? "" : ", with spark.task.cpus " + taskCpus(conf);
    }

    private static long number(UnaryOperator<String> conf, String key, long fallback) {
        String text = conf.apply(key);
        return text == null ? fallback : Long.parseLong(text.trim());
    }
}
