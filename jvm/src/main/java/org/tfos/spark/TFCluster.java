package org.tfos.spark;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;
import org.tfos.Driver;
import org.tfos.DriverFeed;
import org.tfos.DriverOptions;
import org.tfos.Status;
import org.tfos.TfosException;
import scala.Tuple2;

/**
 * Trainers on the executors of a Spark cluster, for drivers in Java and Scala. There is no Python anywhere; each node
 * is a process in C.
 *
 * <pre>{@code
 * try (TFCluster cluster = TFCluster.run(spark, trainer, 2)) {
 *     cluster.train(digits, 3);
 *     cluster.shutdown(); // waits for the trainers; throws if one has failed
 *     System.out.println(cluster.results().get(0).values());
 * }
 * }</pre>
 *
 * <p>What fails is a {@link TFClusterException}; what makes no sense is refused with a {@link TfosException} of the
 * status INVALID; and what a Spark job of the caller's has thrown comes as it is. A cluster that is closed, whose
 * driver ends, or whose thread is interrupted while it waits, is stopped, and no process of it is left.
 */
public final class TFCluster implements AutoCloseable {
    /** For {@link #train}: so many epochs as the trainers want, by their steps or by early stopping. */
    public static final int ENDLESS = -1;

    private static final String SETTINGS = "spark.tfos.";
    private static final String NUM_PS = "num_ps"; // is for Python's programs; the other keys are settings of the core
    private static final String VALIDATION = ".validation";
    private static final long REPORT_MS = 10_000;
    private static final long REPORT_PAUSE_MS = 50;
    private static final double SETTLE_S = 0.2; // a node's word may have been under way for so long
    private static final long EVER_MS = Duration.ofDays(36_600).toMillis(); // as good as no limit

    /** How a cluster is started, where it is not as usual. */
    public static final class Options {
        private int restarts;
        private int gpus = -1;
        private long reservationMs = Duration.ofMinutes(10).toMillis();
        private long feedMs = Duration.ofMinutes(10).toMillis();
        private boolean again;
        private String tensorboard;
        private Consumer<String> people = System.err::println;

        /** How often the cluster is started again after a failure; trainers go on from their newest checkpoint. */
        public Options restarts(int value) {
            restarts = value;
            return this;
        }

        /** How long executors may take to start the nodes; ten minutes by default. */
        public Options reservationTimeout(Duration value) {
            reservationMs = millisOf("reservationTimeout", value);
            return this;
        }

        /** How long no row may be taken while there are some; ten minutes by default. */
        public Options feedTimeout(Duration value) {
            feedMs = millisOf("feedTimeout", value);
            return this;
        }

        /**
         * What happens when the task of a partition dies midway, and Spark does not promise to compute the partition in
         * the same order again: true feeds all of it again, with duplicates; by default the feed fails.
         */
        public Options feedAgain(boolean value) {
            again = value;
            return this;
        }

        /** GPUs of each node; by default one, where there are some. */
        public Options gpus(int value) {
            gpus = value;
            return this;
        }

        /** Starts TensorBoard beside the first node, with the Python of the trainers, on a folder of event files. */
        public Options tensorboard(String logDir) {
            tensorboard = Trainer.placeOf(logDir); // that of the trainers, who are told so, too
            return this;
        }

        /** Who are told how it goes; by default those who read stderr. */
        Options people(Consumer<String> value) {
            people = value;
            return this;
        }
    }

    private final ClusterSession session;
    private final TrainerPlan plan;
    private final Options options;
    private volatile long fedUntil; // System.nanoTime() when train returned last; 0: never

    private TFCluster(ClusterSession session, TrainerPlan plan, Options options) {
        this.session = session;
        this.plan = plan;
        this.options = options;
    }

    /** Starts trainers on so many nodes, and returns when every node knows its role. */
    public static TFCluster run(SparkSession spark, Trainer trainer, int nodes) {
        return run(spark, trainer, nodes, new Options());
    }

    /** The same with options. */
    public static TFCluster run(SparkSession spark, Trainer trainer, int nodes, Options options) {
        JavaSparkContext context = new JavaSparkContext(spark.sparkContext());
        if (context.sc().isStopped()) {
            throw invalid("the SparkSession was stopped; make a new one");
        }
        TrainerPlan plan = trainer.plan(context.hadoopConfiguration());
        check(plan, nodes, options, context.getConf());
        Map<String, String> environment = withPrefix(context.getConf(), "spark.executorEnv.");
        DriverOptions given = driverOptions(context, trainer, plan, options);
        given.nodes = nodes;
        TensorFlowOffer offer = offer(context, trainer, given);
        ClusterSession session = new ClusterSession(context, given, environment, offer, options.people);
        session.call(Driver::awaitNodes);
        return new TFCluster(session, plan, options);
    }

    /** Of TensorFlow, for nodes that have none; null: the trainer says where it is. */
    private static TensorFlowOffer offer(JavaSparkContext context, Trainer trainer, DriverOptions given) {
        return trainer.text("python").isEmpty()
                ? TensorFlowOffer.of(context.sc(), given.settings, pythonOf(context.getConf(), trainer), "")
                : null;
    }

    private static void check(TrainerPlan plan, int nodes, Options options, SparkConf conf) {
        if (options.restarts > 0 && plan.restartProblem() != null) {
            throw invalid(plan.restartProblem());
        }
        if (nodes > 1 && !plan.together()) {
            throw invalid("the model has no step of many workers, because it was exported with distributed=False:"
                    + " export it without that, or train it on one node");
        }
        if (plan.fed() && conf.getBoolean("spark.dynamicAllocation.enabled", false)) {
            throw invalid("to feed a cluster does not work with dynamic allocation: between two feeds the executors"
                    + " look idle, and Spark would remove them with the nodes on them. Set"
                    + " spark.dynamicAllocation.enabled to false, or let the trainers read files (Trainer.data)");
        }
    }

    private static DriverOptions driverOptions(
            JavaSparkContext context, Trainer trainer, TrainerPlan plan, Options options) {
        DriverOptions given = new DriverOptions();
        List<String> settings = new ArrayList<>();
        withPrefix(context.getConf(), SETTINGS).forEach((key, value) -> {
            if (!key.equals(NUM_PS)) {
                settings.add(key + "=" + value);
            }
        });
        String python = pythonOf(context.getConf(), trainer);
        try {
            given.command = Unpacked.here().command().toString();
            given.payload = trainer.payload(new ModelArchive(context).send(trainer.model()), python);
        } catch (IOException e) {
            throw new TfosException(Status.IO, "the nodes cannot be prepared: " + e.getMessage(), e);
        }
        given.folder = localFolder().toString();
        given.host = context.getConf().get("spark.driver.host", null);
        given.application = context.sc().applicationId();
        given.program = List.of("tfos", "trainer");
        given.settings = plan.settings(settings);
        given.sparkFeeds = plan.fed();
        given.restarts = options.restarts;
        given.gpus = options.gpus;
        given.timeoutMs = options.reservationMs;
        given.tensorboard = options.tensorboard == null ? null : tensorboardWords(python, options.tensorboard);
        return given;
    }

    /** For log files of nodes on this machine; Spark removes it with the application. */
    private static Path localFolder() {
        return SparkEnv.get().blockManager().diskBlockManager().localDirs()[0].toPath().toAbsolutePath();
    }

    /** The Python whose TensorFlow trainers use: the trainer's own, or Spark's; "": whichever the nodes find. */
    private static String pythonOf(SparkConf conf, Trainer trainer) {
        String given = trainer.text("python");
        String environment = System.getenv().getOrDefault("PYSPARK_PYTHON", "");
        return given.isEmpty() ? conf.get("spark.pyspark.python", environment) : given;
    }

    private static List<String> tensorboardWords(String python, String logDir) {
        String program = python.isEmpty() ? "python3" : python;
        return List.of(program, "-m", "tensorboard.main", "--logdir", logDir, "--host={host}", "--port={port}");
    }

    private static Map<String, String> withPrefix(SparkConf conf, String prefix) {
        Map<String, String> found = new TreeMap<>();
        for (Tuple2<String, String> each : conf.getAllWithPrefix(prefix)) {
            found.put(each._1(), each._2());
        }
        return found;
    }

    private static TfosException invalid(String reason) {
        return new TfosException(Status.INVALID, reason);
    }

    private static long millisOf(String name, Duration value) {
        if (value == null || value.isNegative()) {
            throw invalid(name + ": expected a time that is not negative, found " + value);
        }
        return value.compareTo(Duration.ofMillis(EVER_MS)) > 0 ? EVER_MS : value.toMillis();
    }

    // ---- what it is ----

    /** Each node, once they run: job_name, task_index, host, port, executor, … */
    public List<Map<String, Object>> nodes() {
        return session.nodes();
    }

    /** The page that shows the nodes, their states and logs; who knows it can read them. */
    public String statusUrl() {
        return session.statusUrl();
    }

    /** The address of TensorBoard, if it was asked for; waits until it is known. Null: there is none. */
    public String tensorboardUrl() {
        if (options.tensorboard != null) {
            session.call(Driver::awaitTensorboard);
        }
        return session.tensorboard().isEmpty() ? null : session.tensorboard();
    }

    // ---- feeding ----

    /**
     * Feeds rows to the trainers, and returns when they have taken all of them.
     *
     * @param data a DataFrame, of which the columns are fed that the model takes
     * @param epochs how often, or ENDLESS
     * @return false: the trainers want no more
     */
    public boolean train(Dataset<?> data, int epochs) {
        return train(data, null, epochs);
    }

    /** The same with rows to validate with, which are fed after each epoch: {@link Trainer#validated}. */
    public boolean train(Dataset<?> data, Dataset<?> validation, int epochs) {
        checkFed(data, validation, epochs);
        DriverFeed feed = new DriverFeed(validation == null ? 1 : 2, options.again, options.feedMs);
        List<FeedData> sources = session.whileAlive(() -> sources(feed, data, validation));
        fedUntil = 0;
        try {
            return new FeedCall(session, sources.toArray(new FeedData[0])).run(feed, epochs);
        } finally {
            fedUntil = System.nanoTime();
        }
    }

    private List<FeedData> sources(DriverFeed feed, Dataset<?> data, Dataset<?> validation) {
        List<FeedData> sources = new ArrayList<>();
        sources.add(source(feed, plan.queue(), data));
        if (validation != null) {
            sources.add(source(feed, plan.queue() + VALIDATION, validation));
        }
        return sources;
    }

    private FeedData source(DriverFeed feed, String name, Dataset<?> data) {
        FeedData source = new FeedData(plan.fedOf(data), "{}");
        feed.add(name, source.partitions(), source.determinate());
        return source;
    }

    private void checkFed(Dataset<?> data, Dataset<?> validation, int epochs) {
        if (!plan.fed()) {
            throw invalid("train feeds trainers that have no data of their own, and this one has files (Trainer.data)");
        }
        if (plan.validates() != (validation != null)) {
            throw invalid("the validation of train and Trainer.validated(true) belong together: give both, or neither");
        }
        if (epochs < 1 && epochs != ENDLESS) {
            throw invalid("epochs: expected a number from 1 on, or TFCluster.ENDLESS, found " + epochs);
        }
        if (data.isStreaming() || validation != null && validation.isStreaming()) {
            throw invalid("train feeds a DataFrame with an end, found a streaming one: feed each of its batches,"
                    + " in writeStream.foreachBatch");
        }
    }

    /**
     * How feeding goes. When train has returned, all numbers are those of the end; while it feeds, they are those of
     * the last heartbeat.
     */
    public FeedReport feedReport() {
        long deadline = System.nanoTime() + Duration.ofMillis(REPORT_MS).toNanos();
        Map<String, Object> status = session.status();
        while (fedUntil != 0 && !session.isOver() && !isSettled(status) && System.nanoTime() < deadline) {
            pause();
            status = session.status();
        }
        return new FeedReport(status);
    }

    private boolean isSettled(Map<String, Object> status) {
        return FeedReport.isSettled(status, (System.nanoTime() - fedUntil) / 1e9 - SETTLE_S);
    }

    private static void pause() {
        try {
            Thread.sleep(REPORT_PAUSE_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt(); // the next call sees it
        }
    }

    // ---- the end ----

    /** What the trainers have left behind, for each node in the order of the cluster. */
    public List<NodeResult> results() {
        List<NodeResult> found = new ArrayList<>();
        session.call(Driver::askResults, order -> found.add(new NodeResult(order)));
        return found;
    }

    /** Waits until every trainer has ended, for three days at most; throws if one, or the last train, has failed. */
    public void shutdown() {
        shutdown(Duration.ofDays(3));
    }

    /** The same for so long; a cluster that takes longer is stopped, and that is a failure. */
    public void shutdown(Duration timeout) {
        long limit = millisOf("timeout", timeout);
        session.call(driver -> driver.finish(0, limit));
    }

    /** Stops every node, at once. Trainers leave a last checkpoint. */
    public void stop() {
        session.end("stopped by the driver");
    }

    /** Stops what still runs; after {@link #shutdown} that is nothing. */
    @Override
    public void close() {
        if (!session.isOver()) {
            stop();
        }
    }
}
