package org.tfos.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.tfos.Native;
import org.tfos.Status;
import org.tfos.TfosException;
import org.tfos.hadoop.HadoopFiles;
import scala.Tuple2;
import scala.collection.Iterator;

/**
 * The rows of DataFrames with results of a SavedModel: on the driver. What the model takes and gives is read from its
 * file, without TensorFlow, so whatever does not fit is refused before anything starts.
 */
public final class ModelTransform {
    private static final String TAGS = "serve";
    private static final int THREADS_MOST = 1024;
    private static final String SETTING = "spark.tfos.";
    private static final String NUM_PS = "spark.tfos.num_ps"; // of programs; all others are settings of the core

    private final String folder;
    private String tags = TAGS;
    private String signature = "";
    private Map<String, String> inputs = Map.of();
    private boolean lenient;
    private Map<String, String> outputs = Map.of();
    private List<String> kept = List.of();
    private List<String> libraries = List.of();
    private String python = "";
    private String driverPython = "";
    private long batchRows = 100;

    /** @param folder of the SavedModel, of any scheme that Hadoop knows */
    public ModelTransform(String folder) {
        Native.load();
        if (folder == null || folder.isEmpty()) {
            throw new TfosException(
                    Status.INVALID,
                    "the model has no folder: set export_dir, where a SavedModel was exported to, or model_dir");
        }
        this.folder = folder;
    }

    /** Tags of the graph, with commas between them; "serve" unless others are set. */
    public ModelTransform tags(String value) {
        tags = value == null || value.isEmpty() ? TAGS : value;
        return this;
    }

    /** The name of the signature; "serving_default" unless another is set. */
    public ModelTransform signature(String value) {
        signature = value == null ? "" : value;
        return this;
    }

    /** Inputs of the signature by columns; without any, by the names that both have. */
    public ModelTransform inputs(Map<String, String> value) {
        inputs = value == null ? Map.of() : Map.copyOf(value);
        return this;
    }

    /** Whether columns that are mapped to what is no input of the signature, labels say, are left out. */
    public ModelTransform lenient(boolean value) {
        lenient = value;
        return this;
    }

    /** Columns of results by outputs of the signature; without any, all of them under their names. */
    public ModelTransform outputs(Map<String, String> value) {
        outputs = value == null ? Map.of() : Map.copyOf(value);
        return this;
    }

    /** Columns of the DataFrame that stand in front of the results. */
    public ModelTransform keep(List<String> value) {
        kept = value == null ? List.of() : List.copyOf(value);
        return this;
    }

    /** Rows of each run of the model. */
    public ModelTransform batchRows(long value) {
        if (value < 1) {
            throw new TfosException(Status.INVALID, "batch_size: expected 1 or more rows, found " + value);
        }
        batchRows = value;
        return this;
    }

    /** Libraries of ops that the model needs, by their paths on the executors. */
    public ModelTransform libraries(List<String> value) {
        libraries = value == null ? List.of() : List.copyOf(value);
        return this;
    }

    /** The Python on the executors whose TensorFlow is used; unless it is set, that which Spark uses there. */
    public ModelTransform python(String value) {
        python = value == null ? "" : value;
        return this;
    }

    /** The Python on the driver whose TensorFlow executors get that have none; "" for whichever is found here. */
    public ModelTransform driverPython(String value) {
        driverPython = value == null ? "" : value;
        return this;
    }

    // ---- what it comes to ----

    /** The columns that the result has. */
    public StructType schema(SparkSession spark, StructType rows) {
        Configuration configuration = configurationOf(spark);
        return resultOf(rows, planOf(configuration, qualified(configuration), rows));
    }

    /** The DataFrame of kept columns and results, computed when it is needed; of a stream, a stream. */
    public Dataset<Row> transform(Dataset<?> data) {
        SparkSession spark = data.sparkSession();
        Configuration configuration = configurationOf(spark);
        String where = qualified(configuration);
        Plan plan = planOf(configuration, where, data.schema());
        StructType result = resultOf(data.schema(), plan);
        InferenceData rows = new InferenceData(selected(data, plan), plan.columns, !kept.isEmpty(), !kept.isEmpty());
        PumpOpener opener = orderOf(spark, configuration, where, plan);
        return data.isStreaming()
                ? rows.stream(opener, plan.results.json(), result)
                : frameOf(spark, rows.results(opener, plan.results.json()), result);
    }

    private static Configuration configurationOf(SparkSession spark) {
        return spark.sessionState().newHadoopConf();
    }

    /** What the native library makes of signature and columns. */
    private static final class Plan {
        StructType fed;
        String columns;
        StructType results;
        String order;
        long batchRows;
        String fingerprint;
    }

    private Plan planOf(Configuration configuration, String where, StructType rows) {
        HadoopFiles files = new HadoopFiles(configuration, () -> false);
        String local = nativeFolder(files, where);
        // A folder that is no model has no fingerprint, and the native library says better what is missing.
        String before = fingerprint(configuration, where);
        byte[][] texts =
                Native.modelPlan(bytesOf(local), bytesOf(tags), bytesOf(order()), bytesOf(rows.json()), files);
        Plan plan = new Plan();
        plan.fingerprint = fingerprint(configuration, where);
        if (!plan.fingerprint.equals(before)) {
            throw new TfosException(Status.MISMATCH, where + ": the model was replaced while it was looked at");
        }
        plan.fed = (StructType) DataType.fromJson(textOf(texts[0]));
        plan.columns = textOf(texts[1]);
        plan.results = (StructType) DataType.fromJson(textOf(texts[2]));
        plan.order = textOf(texts[3]);
        plan.batchRows = Long.parseLong(textOf(texts[4]));
        return plan;
    }

    /** Local folders, which the native library reads by itself, have no scheme. */
    private static String nativeFolder(HadoopFiles files, String where) {
        try {
            Path path = new Path(where);
            return files.isLocal(path) ? path.toUri().getPath() : where;
        } catch (IOException e) {
            throw new TfosException(Status.IO, where + ": " + e.getMessage(), e);
        }
    }

    private String qualified(Configuration configuration) {
        try {
            return new ModelFiles(configuration).qualified(folder);
        } catch (IOException e) {
            throw new TfosException(Status.IO, folder + ": " + e.getMessage(), e);
        }
    }

    private String order() {
        Map<String, Object> order = new LinkedHashMap<>();
        order.put("signature", signature);
        if (!inputs.isEmpty()) {
            order.put("inputs", inputs);
            order.put("lenient", lenient);
        }
        if (!outputs.isEmpty()) {
            order.put("outputs", outputs);
        }
        return Json.of(order);
    }

    private StructType resultOf(StructType rows, Plan plan) {
        List<StructField> fields = new ArrayList<>();
        for (String name : kept) {
            if (!Arrays.asList(rows.fieldNames()).contains(name)) {
                throw new TfosException(
                        Status.MISMATCH,
                        "the column '" + name + "' is to be kept; the DataFrame has "
                                + String.join(", ", rows.fieldNames()));
            }
            if (Arrays.asList(plan.results.fieldNames()).contains(name)) {
                throw new TfosException(
                        Status.MISMATCH,
                        "the column '" + name + "' is to be kept, and is one of the results, too: give the result"
                                + " another name (setOutputMapping, --outputs)");
            }
            fields.add(rows.apply(name));
        }
        fields.addAll(Arrays.asList(plan.results.fields()));
        return new StructType(fields.toArray(new StructField[0]));
    }

    private Dataset<Row> selected(Dataset<?> data, Plan plan) {
        Column[] fed = columns(data, Arrays.asList(plan.fed.fieldNames()));
        if (kept.isEmpty()) {
            return data.select(fed);
        }
        return data.select(
                functions.struct(fed).as("fed"), functions.struct(columns(data, kept)).as("kept"));
    }

    private static Column[] columns(Dataset<?> data, List<String> names) {
        return names.stream()
                .map(name -> column(data, name))
                .toArray(Column[]::new);
    }

    static Column column(Dataset<?> data, String name) {
        return data.col("`" + name.replace("`", "``") + "`");
    }

    private PumpOpener orderOf(SparkSession spark, Configuration configuration, String where, Plan plan) {
        SparkContext context = spark.sparkContext();
        Broadcast<SerializableConfiguration> broadcast =
                new JavaSparkContext(context).broadcast(new SerializableConfiguration(configuration));
        int cores = Math.min(context.conf().getInt("spark.task.cpus", 1), THREADS_MOST);
        List<String> settings = settingsOf(spark);
        String from = pythonOf(spark);
        TensorFlowOffer tensorflow = TensorFlowOffer.of(context, settings, from, driverPython);
        ModelOrder.Key key =
                new ModelOrder.Key(where, tags, plan.fingerprint, from, tensorflow, cores, libraries, settings);
        long rows = plan.batchRows > 0 ? plan.batchRows : batchRows;
        String whole = plan.order.substring(0, plan.order.length() - 1) + ",\"batch_rows\":" + rows + "}";
        return new ModelOrder(key, whole, broadcast);
    }

    /** As Spark itself looks for it; "" for whichever the executor finds. */
    private String pythonOf(SparkSession spark) {
        String given = python.isEmpty() ? spark.conf().get("spark.pyspark.python", "") : python;
        String variable = System.getenv("PYSPARK_PYTHON");
        return given.isEmpty() && variable != null ? variable : given;
    }

    /** Of the session: spark.tfos.key as key=value. */
    private static List<String> settingsOf(SparkSession spark) {
        List<String> settings = new ArrayList<>();
        Iterator<Tuple2<String, String>> all = spark.conf().getAll().iterator();
        while (all.hasNext()) {
            Tuple2<String, String> each = all.next();
            if (each._1().startsWith(SETTING) && !each._1().equals(NUM_PS)) {
                settings.add(each._1().substring(SETTING.length()) + "=" + each._2());
            }
        }
        Collections.sort(settings);
        return settings;
    }

    private static String fingerprint(Configuration configuration, String where) {
        try {
            return new ModelFiles(configuration).fingerprint(new Path(where));
        } catch (FileNotFoundException e) {
            return "";
        } catch (IOException e) {
            throw new TfosException(Status.IO, where + ": " + e.getMessage(), e);
        }
    }

    /** By name, because the lines of Spark have the method in different classes. */
    @SuppressWarnings("unchecked")
    private static Dataset<Row> frameOf(SparkSession spark, RDD<InternalRow> rows, StructType schema) {
        try {
            return (Dataset<Row>) spark.getClass()
                    .getMethod("internalCreateDataFrame", RDD.class, StructType.class, boolean.class)
                    .invoke(spark, rows, schema, false);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this Spark makes no DataFrame of rows of its own", e);
        }
    }

    private static byte[] bytesOf(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static String textOf(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
