package org.tfos.spark;

import java.nio.charset.StandardCharsets;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.UUID;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.tfos.Native;
import org.tfos.Status;
import org.tfos.TfosException;
import org.tfos.hadoop.HadoopFiles;

/**
 * Trains a model that {@code native.export} has written in Python, on every node of a {@link TFCluster}, in a process
 * without Python.
 *
 * <pre>{@code
 * Trainer trainer = new Trainer("exported")
 *         .option("batch_size", 64)
 *         .option("model_dir", "/share/model")
 *         .column("digit", "label");
 * }</pre>
 *
 * <p>Options are those of {@code native.Trainer}, under the same names; docs/native.md lists them. What makes no sense
 * is refused, with the option by its name, before anything is started: by {@link #check} and by {@link TFCluster#run}.
 *
 * <p>Paths are those of the machine where they are used, and belong to the working folder of the driver if they do not
 * begin with a slash. The model alone may also be on another file system that Hadoop knows (hdfs://…).
 */
public final class Trainer {
    private static final String MODEL = "model";
    private static final List<String> PLACES = List.of(MODEL, "model_dir", "export_dir", "log_dir");
    private static final List<String> FILES = List.of("data", "validation");
    private static final Pattern SCHEME = Pattern.compile("[A-Za-z][A-Za-z0-9+.-]*:/.*");

    private final Map<String, Object> options = new LinkedHashMap<>();

    /** @param model the folder that was exported; it travels to the nodes with the application */
    public Trainer(String model) {
        option(MODEL, model);
    }

    /**
     * Sets an option.
     *
     * @param value a number, a text, a boolean, or a list or map of such; null: the default
     */
    public Trainer option(String name, Object value) {
        if (value == null) {
            options.remove(name);
            return this;
        }
        boolean odd = value instanceof Double && !Double.isFinite((Double) value)
                || value instanceof Float && !Float.isFinite((Float) value);
        if (odd) {
            throw new TfosException(Status.INVALID, name + ": expected a finite number, found " + value);
        }
        boolean place = PLACES.contains(name) || FILES.contains(name);
        options.put(name, place ? placesOf(value) : value);
        return this;
    }

    /** TFRecord files, folders and globs that the nodes see. Without any, Spark feeds: {@link TFCluster#train}. */
    public Trainer data(String... paths) {
        return option("data", Arrays.asList(paths));
    }

    /** The same to validate with after each epoch. */
    public Trainer validation(String... paths) {
        return option("validation", Arrays.asList(paths));
    }

    /** Whether Spark feeds rows to validate with, besides the data. */
    public Trainer validated(boolean value) {
        return option("validation", value);
    }

    /** A column has another name than the input, the label or the weights that it is for. */
    public Trainer column(String column, String name) {
        Map<String, String> columns = new TreeMap<>();
        ((Map<?, ?>) options.getOrDefault("columns", Map.of()))
                .forEach((key, value) -> columns.put(key.toString(), value.toString()));
        columns.put(column, name);
        return option("columns", columns);
    }

    /** Several of them. */
    public Trainer columns(Map<String, String> names) {
        names.forEach(this::column);
        return this;
    }

    /** The rate of every step; without any, the optimizer's own, with its schedule. */
    public Trainer learningRate(double rate) {
        return option("learning_rate", rate);
    }

    /** Rates by the steps from which on they count. */
    public Trainer learningRates(SortedMap<? extends Number, ? extends Number> rates) {
        List<Object> pairs = new ArrayList<>();
        rates.forEach((step, rate) -> pairs.add(List.of(step, rate)));
        return option("learning_rate", pairs);
    }

    /** Libraries of ops that the model needs, by their paths on the nodes. */
    public Trainer opLibraries(String... paths) {
        return option("op_libraries", Arrays.asList(paths));
    }

    /** Refuses options that make no sense, and a model that cannot be trained. */
    public Trainer check(SparkSession spark) {
        plan(spark.sparkContext().hadoopConfiguration());
        return this;
    }

    @Override
    public String toString() {
        return "Trainer" + Json.of(options);
    }

    // ---- what a cluster needs of it ----

    /** What the native library makes of the options. */
    TrainerPlan plan(Configuration configuration) {
        HadoopFiles files = new HadoopFiles(configuration, () -> false);
        Native.load();
        byte[] text = Native.trainerPlan(bytesOf(options), files);
        return new TrainerPlan(Json.parse(new String(text, StandardCharsets.UTF_8)));
    }

    /** What the nodes are told, once the model is with them under a name. Restarts are told the same. */
    byte[] payload(String model, String python) {
        Map<String, Object> told = new LinkedHashMap<>(options);
        told.put(MODEL, model);
        told.put("run", UUID.randomUUID().toString());
        if (!python.isEmpty()) {
            told.putIfAbsent("python", python);
        }
        return bytesOf(told);
    }

    /** The folder of the model, as Hadoop knows it. */
    Path model() {
        String path = text(MODEL);
        return SCHEME.matcher(path).matches() ? new Path(path) : new Path("file", null, path);
    }

    /** An option that is a text; "" if it is not set. */
    String text(String name) {
        return options.getOrDefault(name, "").toString();
    }

    private static byte[] bytesOf(Map<String, Object> given) {
        return Json.of(given).getBytes(StandardCharsets.UTF_8);
    }

    private static Object placesOf(Object given) {
        if (given instanceof List) {
            List<Object> all = new ArrayList<>();
            ((List<?>) given).forEach(each -> all.add(placesOf(each)));
            return all;
        }
        return given instanceof String ? placeOf((String) given) : given;
    }

    /** Nodes work in folders of their own. What is empty, or no path at all, is refused by the native library. */
    static String placeOf(String path) {
        boolean whole = path.isEmpty() || SCHEME.matcher(path).matches() || path.indexOf('\0') >= 0;
        return whole ? path : Paths.get(path).toAbsolutePath().normalize().toString();
    }
}
