package org.tfos.spark;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.tensorflow.hadoop.util.TFRecordWriter;
import org.tfos.RecordTable;

/**
 * DataFrames and TFRecord files, for drivers in Java and Scala: what the module {@code dfutil} is for those in Python.
 * All of it goes by the data source {@code tfrecord}.
 */
public final class DFUtil {
    private static final Set<Dataset<?>> LOADED =
            Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

    private DFUtil() {}

    /** Saves a DataFrame as a folder of TFRecord files, one Example a row. The folder must not exist. */
    public static void saveAsTFRecords(Dataset<Row> df, String outputDir) {
        widened(df).write().format("tfrecord").save(outputDir);
    }

    /**
     * A DataFrame of TFRecord files. Real numbers are double; bytes are strings if all of them are text and they are
     * not among the binary features.
     *
     * @param inputDir paths, with commas between them
     */
    public static Dataset<Row> loadTFRecords(SparkSession spark, String inputDir, String... binaryFeatures) {
        StructType found =
                spark.read().format("tfrecord").load(pathsOf(inputDir)).schema();
        return loadTFRecords(spark, inputDir, asLoaded(found, Arrays.asList(binaryFeatures)));
    }

    /** A DataFrame of TFRecord files with a schema that is known. */
    public static Dataset<Row> loadTFRecords(SparkSession spark, String inputDir, StructType schema) {
        Dataset<Row> df = spark.read().schema(schema).format("tfrecord").load(pathsOf(inputDir));
        LOADED.add(df);
        return df;
    }

    /** Whether a DataFrame is one that loadTFRecords has returned. */
    public static boolean isLoadedDF(Dataset<?> df) {
        return LOADED.contains(df);
    }

    /** The Examples of rows, ready to be saved by an output format of Hadoop's. */
    public static JavaPairRDD<BytesWritable, NullWritable> toTFExample(Dataset<Row> df) {
        Dataset<Row> rows = widened(df);
        return rows.queryExecution()
                .toRdd()
                .toJavaRDD()
                .mapPartitionsToPair(new RowsToRecords(rows.schema()));
    }

    /** The rows of Examples, such as an input format of Hadoop's gives. */
    public static Dataset<Row> fromTFExample(
            SparkSession spark, JavaPairRDD<BytesWritable, NullWritable> examples, StructType schema) {
        return spark.createDataFrame(examples.mapPartitions(new RecordsToRows(schema)), schema);
    }

    /** The schema of a DataFrame whose rows are like this Example. */
    public static StructType inferSchema(byte[] example, String... binaryFeatures) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try {
            new TFRecordWriter(new DataOutputStream(bytes)).write(example);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        MemoryFiles file = new MemoryFiles(bytes.toByteArray());
        try (RecordTable table = new RecordTable("{}")) {
            String survey = table.survey(
                    new String[] {MemoryFiles.PATH}, new long[] {bytes.size(), 0, bytes.size()}, file);
            StructType found = (StructType) DataType.fromJson(table.schema(new String[] {survey}));
            return asLoaded(found, Arrays.asList(binaryFeatures));
        }
    }

    /** As Hadoop reads such lists. */
    private static String[] pathsOf(String list) {
        return list.split(",(?![^{]*\\})");
    }

    /** With types that records have. */
    static Dataset<Row> widened(Dataset<Row> df) {
        StructField[] fields = df.schema().fields();
        Column[] columns = new Column[fields.length];
        for (int i = 0; i < fields.length; i++) {
            String name = fields[i].name();
            Column column = df.col("`" + name.replace("`", "``") + "`");
            DataType type = widened(fields[i].dataType());
            columns[i] = type.equals(fields[i].dataType()) ? column : column.cast(type).as(name);
        }
        return df.select(columns);
    }

    /** What records do not have as it is: they have 64 bits, and tables 32 of them. */
    private static DataType widened(DataType type) {
        if (type instanceof ArrayType) {
            ArrayType list = (ArrayType) type;
            DataType element = widened(list.elementType());
            return element.equals(list.elementType()) ? list : new ArrayType(element, list.containsNull());
        }
        return type instanceof ByteType || type instanceof ShortType ? DataTypes.IntegerType : type;
    }

    private static StructType asLoaded(StructType schema, List<String> binary) {
        StructType loaded = new StructType();
        for (StructField field : schema.fields()) {
            loaded = loaded.add(field.name(), asLoaded(field.dataType(), binary.contains(field.name())));
        }
        return loaded;
    }

    private static DataType asLoaded(DataType type, boolean binary) {
        if (type instanceof ArrayType) {
            return DataTypes.createArrayType(asLoaded(((ArrayType) type).elementType(), binary));
        }
        if (type instanceof StringType && binary) {
            return DataTypes.BinaryType;
        }
        return type instanceof FloatType ? DataTypes.DoubleType : type;
    }
}
