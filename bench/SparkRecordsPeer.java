import com.google.protobuf.ByteString;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.tensorflow.example.BytesList;
import org.tensorflow.example.Example;
import org.tensorflow.example.Feature;
import org.tensorflow.example.Features;
import org.tensorflow.example.FloatList;
import org.tensorflow.example.Int64List;
import org.tensorflow.hadoop.io.TFRecordFileInputFormat;
import org.tensorflow.hadoop.io.TFRecordFileOutputFormat;
import scala.Tuple2;

/**
 * The peer of section "spark-records": TFRecords in Spark as its Java connectors have them, by the formats of
 * tensorflow-hadoop and protobuf's own Example. Of types only what the files of the benchmark have.
 */
public final class SparkRecordsPeer {
    private SparkRecordsPeer() {}

    private static JavaRDD<Example> examples(SparkSession spark, String path) {
        JavaSparkContext context = JavaSparkContext.fromSparkContext(spark.sparkContext());
        return context.newAPIHadoopFile(
                        path,
                        TFRecordFileInputFormat.class,
                        BytesWritable.class,
                        NullWritable.class,
                        new Configuration(context.hadoopConfiguration()))
                .map(pair -> Example.parseFrom(pair._1().copyBytes()));
    }

    public static Dataset<Row> read(SparkSession spark, String path, String schema) {
        StructType type = (StructType) DataType.fromJson(schema);
        StructField[] fields = type.fields();
        JavaRDD<Row> rows = examples(spark, path).map(example -> {
            Map<String, Feature> features = example.getFeatures().getFeatureMap();
            Object[] values = new Object[fields.length];
            for (int i = 0; i < fields.length; i++) {
                values[i] = valueOf(features.get(fields[i].name()), fields[i]);
            }
            return RowFactory.create(values);
        });
        return spark.createDataFrame(rows, type);
    }

    private static Object valueOf(Feature feature, StructField field) {
        if (feature == null) {
            return null;
        }
        boolean list = field.dataType() instanceof ArrayType;
        if (feature.getKindCase() == Feature.KindCase.INT64_LIST) {
            List<Long> values = feature.getInt64List().getValueList();
            return list ? values.toArray() : values.get(0);
        }
        if (feature.getKindCase() == Feature.KindCase.BYTES_LIST) {
            return feature.getBytesList().getValue(0).toStringUtf8();
        }
        List<Float> values = feature.getFloatList().getValueList();
        return list ? values.toArray() : values.get(0);
    }

    /** Over all records, as the connectors do it. */
    public static String infer(SparkSession spark, String path) {
        Map<String, Integer> found = examples(spark, path)
                .map(example -> {
                    Map<String, Integer> kinds = new TreeMap<>();
                    example.getFeatures().getFeatureMap().forEach((name, feature) -> kinds.put(name, kindOf(feature)));
                    return kinds;
                })
                .reduce((left, right) -> {
                    right.forEach((name, kind) -> left.merge(name, kind, Math::max));
                    return left;
                });
        List<StructField> fields = new ArrayList<>();
        DataType[] types = {DataTypes.LongType, DataTypes.FloatType, DataTypes.StringType};
        found.forEach((name, kind) -> {
            DataType one = types[kind / 2];
            fields.add(DataTypes.createStructField(name, kind % 2 == 1 ? DataTypes.createArrayType(one) : one, true));
        });
        return DataTypes.createStructType(fields).json();
    }

    /** 0, 2 or 4, and one more for lists. */
    private static int kindOf(Feature feature) {
        switch (feature.getKindCase()) {
            case INT64_LIST:
                return feature.getInt64List().getValueCount() > 1 ? 1 : 0;
            case FLOAT_LIST:
                return feature.getFloatList().getValueCount() > 1 ? 3 : 2;
            default:
                return feature.getBytesList().getValueCount() > 1 ? 5 : 4;
        }
    }

    public static void write(Dataset<Row> data, String path) {
        String[] names = data.columns();
        JavaPairRDD<BytesWritable, NullWritable> records = data.toJavaRDD().mapToPair(row -> {
            Features.Builder features = Features.newBuilder();
            for (int i = 0; i < names.length; i++) {
                features.putFeature(names[i], featureOf(row, i));
            }
            byte[] bytes = Example.newBuilder().setFeatures(features).build().toByteArray();
            return new Tuple2<>(new BytesWritable(bytes), NullWritable.get());
        });
        records.saveAsNewAPIHadoopFile(path, BytesWritable.class, NullWritable.class, TFRecordFileOutputFormat.class);
    }

    private static Feature featureOf(Row row, int index) {
        Object value = row.get(index);
        if (value instanceof Long) {
            return Feature.newBuilder().setInt64List(Int64List.newBuilder().addValue((Long) value)).build();
        }
        if (value instanceof String) {
            BytesList.Builder bytes = BytesList.newBuilder().addValue(ByteString.copyFromUtf8((String) value));
            return Feature.newBuilder().setBytesList(bytes).build();
        }
        FloatList.Builder floats = FloatList.newBuilder();
        if (value instanceof Float) {
            floats.addValue((Float) value);
        } else {
            for (Object each : row.getList(index)) {
                floats.addValue((Float) each);
            }
        }
        return Feature.newBuilder().setFloatList(floats).build();
    }
}
