import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.tfos.TfosException;
import org.tfos.spark.NodeResult;
import org.tfos.spark.TFCluster;
import org.tfos.spark.Trainer;

/**
 * A driver in Java, which trains exported models in many ways, and prints what it has seen: lines of a scenario, a name
 * and a value, with tabs between them.
 */
public final class TrainScenarios {
    private static String scenario;

    private final SparkSession spark;
    private final Path models;
    private final Path data;
    private final Path out;

    private TrainScenarios(SparkSession spark, Path folder, Path out) {
        this.spark = spark;
        this.models = folder;
        this.data = folder.resolve("data");
        this.out = out;
    }

    /** The folder of models and data, the folder for what comes out, and the scenarios. */
    public static void main(String[] arguments) throws Exception {
        try (SparkSession spark = SparkSession.builder().getOrCreate()) {
            TrainScenarios all = new TrainScenarios(spark, Paths.get(arguments[0]), Paths.get(arguments[1]));
            for (String name : Arrays.asList(arguments).subList(2, arguments.length)) {
                scenario = name;
                all.getClass().getDeclaredMethod(name).invoke(all);
                tell("left", tfosProcesses("").size());
            }
        }
    }

    private static void tell(String name, Object value) {
        System.out.println(scenario + "\t" + name + "\t" + String.valueOf(value).replaceAll("\\s+", " "));
    }

    /** What a call has thrown: its class, and what it says. */
    private static void tellThrown(String name, Callable<?> call) {
        try {
            call.call();
            tell(name, "nothing was thrown");
        } catch (TfosException e) {
            tell(name, e.getClass().getSimpleName() + " " + e.getMessage());
        } catch (Throwable e) {
            tell(name, e.getClass().getName() + " " + e.getMessage());
        }
    }

    /** Processes of ours below this one whose first argument begins so. */
    private static List<ProcessHandle> tfosProcesses(String first) {
        return ProcessHandle.current()
                .descendants()
                .filter(each -> each.info().command().orElse("").endsWith("/tfos"))
                .filter(each -> each.info().arguments().map(words -> words[0]).orElse("").startsWith(first))
                .collect(Collectors.toList());
    }

    private static void awaitTrainers() throws InterruptedException {
        while (tfosProcesses("trainer").size() < 2) {
            Thread.sleep(20);
        }
    }

    /** How many interpreters of Python are below this process, executors and nodes among them. */
    private static long pythons() {
        return ProcessHandle.current()
                .descendants()
                .map(each -> Paths.get(each.info().command().orElse("unknown")).getFileName().toString())
                .filter(name -> name.startsWith("python"))
                .count();
    }

    private Trainer trainer() {
        return new Trainer(models.resolve("model").toString()).option("batch_size", 16);
    }

    private Dataset<Row> rows() {
        return spark.read().format("tfrecord").load(data.toString());
    }

    private Dataset<Row> digits() {
        return rows().withColumnRenamed("label", "digit").withColumn("more", functions.lit("text"));
    }

    private static void tellResults(TFCluster cluster) {
        for (NodeResult each : cluster.results()) {
            tell(each.node(), each.state() + " " + each.end() + " epochs=" + each.epochs() + " steps=" + each.steps()
                    + " rows=" + each.rows());
        }
    }

    // ---- scenarios ----

    void dataframe() {
        Dataset<Row> digits = digits().repartition(3).cache();
        Trainer trainer = trainer()
                .column("digit", "label")
                .validated(true)
                .option("model_dir", out.resolve("run").toString())
                .option("export_dir", out.resolve("trained").toString());
        TFCluster.Options options = new TFCluster.Options().tensorboard(out.resolve("run").toString());
        try (TFCluster cluster = TFCluster.run(spark, trainer, 2, options)) {
            tell("page", cluster.statusUrl());
            tell("tensorboard", cluster.tensorboardUrl());
            cluster.nodes().forEach(node -> tell("node", node.get("job_name") + ":" + node.get("task_index")));
            tell("more", cluster.train(digits, digits.limit(100), 4));
            tell("consumed", cluster.feedReport().consumedRows());
            tell("trainers", tfosProcesses("trainer").size());
            tell("pythons", pythons()); // that of TensorBoard
            cluster.shutdown();
            tellResults(cluster);
            NodeResult first = cluster.results().get(0);
            tell("same", first.values().equals(cluster.results().get(1).values()));
            tell("epochs", Arrays.toString(first.history().get("epoch")));
            tell("accuracy", first.history().get("val_accuracy")[3]);
            tell("loss", first.values().get("loss"));
        }
    }

    void files() {
        Trainer trainer = new Trainer("file://" + models.resolve("model"))
                .option("batch_size", 16)
                .data(data.toString())
                .option("epochs", 3)
                .learningRates(new TreeMap<>(Map.of(0L, 0.02, 20L, 0.01)));
        try (TFCluster cluster = TFCluster.run(spark, trainer, 2)) {
            cluster.shutdown(Duration.ofMinutes(2));
            tellResults(cluster);
            tellThrown("train", () -> cluster.train(rows(), 1));
        }
    }

    /** The model is on another file system. */
    void elsewhere() {
        Trainer trainer = new Trainer(spark.conf().get("spark.tests.model")).data(data.toString());
        try (TFCluster cluster = TFCluster.run(spark, trainer, 1)) {
            cluster.shutdown();
            tellResults(cluster);
        }
        String none = spark.conf().get("spark.tests.model") + "/variables";
        tellThrown("none", () -> new Trainer(none).check(spark));
    }

    void enough() throws InterruptedException {
        try (TFCluster cluster = TFCluster.run(spark, trainer().option("steps", 7), 2)) {
            awaitTrainers();
            tell("pythons", pythons());
            tell("more", cluster.train(rows(), TFCluster.ENDLESS));
            tell("pythons", pythons());
            cluster.shutdown();
            tellResults(cluster);
        }
    }

    /** No epoch is better by so much than the first one. */
    void early() {
        Trainer trainer = trainer()
                .validated(true)
                .option("patience", 1)
                .option("min_delta", 100.0)
                .option("model_dir", out.resolve("early").toString());
        try (TFCluster cluster = TFCluster.run(spark, trainer, 2)) {
            tell("more", cluster.train(rows(), rows().limit(100), TFCluster.ENDLESS));
            cluster.shutdown();
            tellResults(cluster);
            tell("history", cluster.results().get(0).history().get("val_loss").length);
        }
    }

    void missing() {
        try (TFCluster cluster = TFCluster.run(spark, trainer(), 2)) {
            tellThrown("train", () -> cluster.train(digits(), 1));
            tellThrown("shutdown", () -> {
                cluster.shutdown();
                return null;
            });
            tell("failure", cluster.results().get(0).failure());
        }
    }

    void refused() {
        String model = models.resolve("model").toString();
        tellThrown("batch", () -> new Trainer(model).option("batch_size", 0).check(spark));
        tellThrown("unknown", () -> new Trainer(model).option("batchsize", 1).check(spark));
        tellThrown("nan", () -> new Trainer(model).learningRate(Double.NaN));
        tellThrown("column", () -> new Trainer(model).column("a", "b").check(spark));
        tellThrown("model", () -> TFCluster.run(spark, new Trainer(models.toString()), 1));
        tellThrown("alone", () -> TFCluster.run(spark, new Trainer(models.resolve("alone").toString()), 2));
        tellThrown("none", () -> TFCluster.run(spark, trainer(), 0));
        tellThrown("slots", () -> TFCluster.run(spark, trainer(), 3));
        tellThrown("time", () -> new TFCluster.Options().reservationTimeout(Duration.ofSeconds(-1)));
        try (TFCluster cluster = TFCluster.run(spark, trainer(), 1)) {
            tellThrown("validation", () -> cluster.train(rows(), rows(), 1));
            tellThrown("epochs", () -> cluster.train(rows(), 0));
        }
    }

    /** The data of a job that fails, and those of a trainer that does; and a query whose plan takes long. */
    void failures() {
        Dataset<Row> slow = spark.range(0, 2, 1, 2)
                .map((MapFunction<Long, Long>) TrainScenarios::wait, Encoders.LONG())
                .crossJoin(rows().limit(1))
                .repartition(2);
        try (TFCluster cluster = TFCluster.run(spark, trainer(), 1)) {
            new Thread(() -> killOne(out)).start();
            tellThrown("plan", () -> cluster.train(slow, 1));
        }
        Dataset<Long> bad = spark.range(100).map((MapFunction<Long, Long>) TrainScenarios::refuse, Encoders.LONG());
        try (TFCluster cluster = TFCluster.run(spark, trainer(), 2)) {
            tellThrown("job", () -> cluster.train(rows().crossJoin(bad.filter("value > 1").limit(1)), 1));
        }
        Trainer diverging = trainer().data(data.toString()).option("epochs", 100).learningRate(1e38);
        try (TFCluster cluster = TFCluster.run(spark, diverging, 2)) {
            tellThrown("nan", () -> {
                cluster.shutdown();
                return null;
            });
        }
    }

    private static Long wait(Long value) throws InterruptedException {
        Thread.sleep(100_000);
        return value;
    }

    private static Long refuse(Long value) {
        throw new IllegalStateException("this row is refused");
    }

    /** A trainer dies while it is fed; the cluster starts again, and what was not taken is fed again. */
    void killed() throws InterruptedException {
        Path run = out.resolve("killed");
        Dataset<Row> rows = rows().repartition(2).cache();
        Trainer trainer = trainer().option("save_steps", 20).option("model_dir", run.toString());
        try (TFCluster cluster = TFCluster.run(spark, trainer, 2, new TFCluster.Options().restarts(1))) {
            Thread killer = new Thread(() -> killOne(run.resolve("checkpoint")));
            killer.start();
            tell("more", cluster.train(rows, 40));
            killer.join();
            cluster.shutdown();
            tellResults(cluster);
        }
    }

    private static void killOne(Path afterwards) {
        try {
            while (!Files.exists(afterwards) || tfosProcesses("trainer").isEmpty()) {
                Thread.sleep(5);
            }
            tfosProcesses("trainer").get(0).destroyForcibly();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    void interrupted() {
        try (TFCluster cluster = TFCluster.run(spark, trainer(), 2)) {
            Thread.currentThread().interrupt();
            tellThrown("shutdown", () -> {
                cluster.shutdown();
                return null;
            });
            tell("interrupted", Thread.interrupted());
        }
    }

    /** A driver that dies. */
    void halted() throws InterruptedException {
        TFCluster.run(spark, trainer(), 2);
        awaitTrainers();
        tell("trainers", 2);
        Runtime.getRuntime().halt(3);
    }
}
