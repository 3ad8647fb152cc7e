package org.tfos.spark;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.ml.Transformer;
import org.apache.spark.ml.param.IntParam;
import org.apache.spark.ml.param.Param;
import org.apache.spark.ml.param.ParamMap;
import org.apache.spark.ml.param.ParamValidators;
import org.apache.spark.ml.param.StringArrayParam;
import org.apache.spark.ml.util.DefaultParamsReader;
import org.apache.spark.ml.util.DefaultParamsWritable;
import org.apache.spark.ml.util.Identifiable;
import org.apache.spark.ml.util.MLReader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.StructType;

/**
 * A model in a folder, which gives the rows of a DataFrame columns of predictions: a stage of Spark ML, for drivers in
 * Java and Scala. Its params are those of {@code tensorflowonspark.pipeline.TFModel}.
 *
 * <p>The model is a SavedModel, and stays in its folder when this is saved. Executors need TensorFlow, and no Python.
 */
public final class TFModel extends Transformer implements DefaultParamsWritable {
    private static final long serialVersionUID = 1L;
    private static final int BATCH_SIZE = 100;

    private final String uid;
    private final MapParam inputMapping;
    private final MapParam outputMapping;
    private final TextParam signatureDefKey;
    private final TextParam tagSet;
    private final TextParam exportDir;
    private final TextParam modelDir;
    private final IntParam batchSize;
    private final StringArrayParam keepCols;
    private final StringArrayParam opLibraries;

    public TFModel() {
        this(Identifiable.randomUID("TFModel"));
    }

    /** With a name among the stages of a pipeline. */
    public TFModel(String uid) {
        this.uid = uid; // params ask for it
        inputMapping = new MapParam(this, "input_mapping", "columns of the DataFrame, and their tensors");
        outputMapping = new MapParam(this, "output_mapping", "tensors of the model, and their columns");
        signatureDefKey = new TextParam(this, "signature_def_key", "signature of the SavedModel");
        tagSet = new TextParam(this, "tag_set", "tags of the SavedModel, with commas between them");
        exportDir = new TextParam(this, "export_dir", "folder of the SavedModel");
        modelDir = new TextParam(this, "model_dir", "folder of checkpoints");
        batchSize = new IntParam(this, "batch_size", "rows of a batch", ParamValidators.gt(0));
        keepCols = new StringArrayParam(this, "keep_cols", "columns in front of the results");
        opLibraries = new StringArrayParam(this, "op_libraries", "libraries of ops that the model needs");
        setDefault(inputMapping, Map.of());
        setDefault(outputMapping, Map.of());
        for (TextParam each : List.of(signatureDefKey, tagSet, exportDir, modelDir)) {
            setDefault(each, null);
        }
        setDefault(batchSize, (Object) BATCH_SIZE);
        setDefault(keepCols, new String[0]);
        setDefault(opLibraries, new String[0]);
    }

    @Override
    public String uid() {
        return uid;
    }

    // ---- a stage ----

    @Override
    public Dataset<Row> transform(Dataset<?> data) {
        return transformer().transform(data);
    }

    @Override
    public StructType transformSchema(StructType schema) {
        return transformer().schema(SparkSession.active(), schema);
    }

    private ModelTransform transformer() {
        String folder = getExportDir();
        return new ModelTransform(folder == null || folder.isEmpty() ? getModelDir() : folder)
                .tags(getTagSet())
                .signature(getSignatureDefKey())
                .inputs(getInputMapping())
                .outputs(getOutputMapping())
                .keep(Arrays.asList(getKeepCols()))
                .libraries(Arrays.asList(getOpLibraries()))
                .batchRows(getBatchSize());
    }

    @Override
    public TFModel copy(ParamMap extra) {
        return defaultCopy(extra);
    }

    // ---- saving ----

    /** What Spark asks for the model of a pipeline that is loaded. */
    public static MLReader<TFModel> read() {
        return new DefaultParamsReader<>();
    }

    public static TFModel load(String path) {
        return read().load(path);
    }

    // ---- params ----

    public MapParam inputMapping() {
        return inputMapping;
    }

    public TFModel setInputMapping(Map<String, String> value) {
        return with(inputMapping, new TreeMap<>(value));
    }

    public Map<String, String> getInputMapping() {
        return getOrDefault(inputMapping);
    }

    public MapParam outputMapping() {
        return outputMapping;
    }

    public TFModel setOutputMapping(Map<String, String> value) {
        return with(outputMapping, new TreeMap<>(value));
    }

    public Map<String, String> getOutputMapping() {
        return getOrDefault(outputMapping);
    }

    public TextParam signatureDefKey() {
        return signatureDefKey;
    }

    public TFModel setSignatureDefKey(String value) {
        return with(signatureDefKey, value);
    }

    public String getSignatureDefKey() {
        return getOrDefault(signatureDefKey);
    }

    public TextParam tagSet() {
        return tagSet;
    }

    public TFModel setTagSet(String value) {
        return with(tagSet, value);
    }

    public String getTagSet() {
        return getOrDefault(tagSet);
    }

    public TextParam exportDir() {
        return exportDir;
    }

    public TFModel setExportDir(String value) {
        return with(exportDir, value);
    }

    public String getExportDir() {
        return getOrDefault(exportDir);
    }

    public TextParam modelDir() {
        return modelDir;
    }

    public TFModel setModelDir(String value) {
        return with(modelDir, value);
    }

    public String getModelDir() {
        return getOrDefault(modelDir);
    }

    public IntParam batchSize() {
        return batchSize;
    }

    public TFModel setBatchSize(int value) {
        return with(batchSize, (Object) value);
    }

    public int getBatchSize() {
        return (Integer) getOrDefault(batchSize);
    }

    public StringArrayParam keepCols() {
        return keepCols;
    }

    public TFModel setKeepCols(String... value) {
        return with(keepCols, value);
    }

    public TFModel setKeepCols(List<String> value) {
        return setKeepCols(value.toArray(new String[0]));
    }

    public String[] getKeepCols() {
        return getOrDefault(keepCols);
    }

    public StringArrayParam opLibraries() {
        return opLibraries;
    }

    public TFModel setOpLibraries(String... value) {
        return with(opLibraries, value);
    }

    public TFModel setOpLibraries(List<String> value) {
        return setOpLibraries(value.toArray(new String[0]));
    }

    public String[] getOpLibraries() {
        return getOrDefault(opLibraries);
    }

    private <T> TFModel with(Param<T> param, T value) {
        set(param, value);
        return this;
    }
}
