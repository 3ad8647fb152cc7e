import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.spark.ml.Pipeline;
import org.apache.spark.ml.PipelineModel;
import org.apache.spark.ml.PipelineStage;
import org.apache.spark.ml.feature.SQLTransformer;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.StructType;
import org.tfos.spark.TFModel;

/**
 * What a driver in Java does with models. Arguments: the folder of a model, rows, a folder for what is seen, the folder
 * of a model with an op of its own, and the op's library.
 */
public class ModelJob {
    private static final int THREADS = 4;
    private static final String PIXELS = "transform(sequence(0, 783), i -> cast((id * 7 + i) % 256 / 255 as float))";

    private final SparkSession spark;
    private final String model;
    private final long rows;
    private final Path out;
    private final String doubling;
    private final String library;

    private ModelJob(SparkSession spark, String[] arguments) {
        this.spark = spark;
        model = arguments[0];
        rows = Long.parseLong(arguments[1]);
        out = Path.of(arguments[2]);
        doubling = arguments[3];
        library = arguments[4];
    }

    public static void main(String[] arguments) throws Exception {
        SparkSession spark = SparkSession.builder().getOrCreate();
        ModelJob job = new ModelJob(spark, arguments);
        job.saved();
        job.params();
        job.used();
        job.threads();
        job.refused();
        job.streamed();
        job.scala();
        spark.stop();
    }

    private void tell(String name, List<String> lines) throws Exception {
        Files.write(out.resolve(name), lines, StandardCharsets.UTF_8);
    }

    private static void check(boolean holds, Object found) {
        if (!holds) {
            throw new AssertionError(found);
        }
    }

    private Dataset<Row> frame() {
        return spark.range(0, rows, 1, 4).selectExpr("id", PIXELS + " AS pixels");
    }

    private TFModel digits() {
        return new TFModel()
                .setExportDir(model)
                .setInputMapping(Map.of("pixels", "image"))
                .setOutputMapping(Map.of("output_0", "digit"))
                .setKeepCols("id")
                .setBatchSize(128);
    }

    private void saved() throws Exception {
        SQLTransformer halves =
                new SQLTransformer().setStatement("SELECT id, transform(pixels, x -> x / 2) AS pixels FROM __THIS__");
        PipelineStage[] stages = {halves, digits()};
        String path = out.resolve("pipeline").toString();
        new Pipeline().setStages(stages).fit(frame()).write().overwrite().save(path);
        PipelineModel loaded = PipelineModel.load(path);
        Dataset<Row> found = loaded.transform(frame());
        StructType foreseen = loaded.transformSchema(frame().schema());
        check(foreseen.equals(found.schema()), foreseen + " " + found.schema());
        tell("halves", found.toJSON().collectAsList());
    }

    private void params() throws Exception {
        String path = out.resolve("model").toString();
        TFModel given = digits().setTagSet("serve").setOpLibraries("/a \"b\".so", "ü").setModelDir(null);
        given.setInputMapping(Map.of("a\"b\\", "ü\n", "c", "d")).setOutputMapping(Map.of());
        given.save(path);
        TFModel loaded = TFModel.load(path);
        check(loaded.uid().equals(given.uid()), loaded.uid());
        check(loaded.getInputMapping().equals(given.getInputMapping()), loaded.getInputMapping());
        check(loaded.getOutputMapping().isEmpty() && loaded.getModelDir() == null, loaded.explainParams());
        check(loaded.isSet(loaded.modelDir()) && !loaded.isSet(loaded.signatureDefKey()), loaded.explainParams());
        check(Arrays.equals(loaded.getOpLibraries(), given.getOpLibraries()), loaded.explainParams());
        check(loaded.getBatchSize() == 128 && loaded.getExportDir().equals(model), loaded.explainParams());
        TFModel copy = given.copy(new ParamMap().put(given.tagSet(), "other"));
        check(copy.getTagSet().equals("other") && given.getTagSet().equals("serve"), copy.explainParams());
        List<String> names = new ArrayList<>();
        Arrays.stream(new TFModel().params()).forEach(each -> names.add(each.name()));
        tell("params", names);
    }

    /** Params that say which model it is, and what it needs. */
    private void used() {
        TFModel model = new TFModel().setModelDir(doubling).setTagSet("serve").setOpLibraries(library);
        Dataset<Row> numbers = spark.range(0, 10, 1, 1).selectExpr("int(id) AS x");
        List<Integer> found = new ArrayList<>();
        model.transform(numbers).collectAsList().forEach(row -> found.add(row.getInt(0)));
        check(found.equals(List.of(0, 2, 4, 6, 8, 10, 12, 14, 16, 18)), found);
    }

    /** Each has rows of its own, and must get their results. */
    private void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<Callable<List<String>>> calls = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            String mine = "id % " + THREADS + " = " + i;
            calls.add(() -> digits().transform(frame().where(mine)).toJSON().collectAsList());
        }
        List<Future<List<String>>> found = pool.invokeAll(calls);
        pool.shutdown();
        for (int i = 0; i < THREADS; i++) {
            tell("thread-" + i, found.get(i).get());
        }
    }

    private void refused() throws Exception {
        List<String> messages = new ArrayList<>();
        List<TFModel> wrong = List.of(
                new TFModel(),
                digits().setTagSet("train"),
                digits().setSignatureDefKey("train"),
                digits().setInputMapping(Map.of("picture", "image")),
                digits().setKeepCols(List.of("label")));
        for (TFModel each : wrong) {
            messages.add(messageOf(() -> each.transformSchema(frame().schema())));
            check(messageOf(() -> each.transform(frame())).equals(messages.get(messages.size() - 1)), messages);
        }
        messages.add(messageOf(() -> digits().setBatchSize(0)));
        tell("refused", messages);
    }

    private static String messageOf(Callable<?> call) throws Exception {
        try {
            throw new AssertionError("this is not refused: " + call.call());
        } catch (RuntimeException e) {
            return e.getMessage().replace('\n', ' ');
        }
    }

    private void streamed() throws Exception {
        String folder = out.resolve("rows").toString();
        frame().repartition(3).write().parquet(folder);
        Dataset<Row> rows = spark.readStream()
                .schema(frame().schema())
                .option("maxFilesPerTrigger", 2)
                .parquet(folder);
        StreamingQuery query = new PipelineModel("stream", List.of(digits()))
                .transform(rows)
                .writeStream()
                .format("parquet")
                .option("checkpointLocation", out.resolve("state").toString())
                .trigger(Trigger.AvailableNow())
                .start(out.resolve("streamed").toString());
        query.awaitTermination();
        tell("stream", spark.read().parquet(out.resolve("streamed").toString()).toJSON().collectAsList());
    }

    private void scala() throws Exception {
        tell("scala", List.of(InScala.run(spark, model, frame())));
    }
}
