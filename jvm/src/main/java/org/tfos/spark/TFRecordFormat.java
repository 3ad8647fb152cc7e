package org.tfos.spark;

import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import org.tfos.RecordTable;
import scala.Function1;
import scala.Option;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * The data source {@code tfrecord}: TFRecord files as tables. Options are listed in tfos/table.h and docs/table.md.
 *
 * <p>Methods with a list among their arguments stand twice, because the lines of Scala differ in what type it has; each
 * line of Spark calls its own.
 */
public final class TFRecordFormat implements FileFormat, DataSourceRegister, java.io.Serializable {
    private static final long serialVersionUID = 1L;
    private static final int MOST_LISTS = 2;

    @Override
    public String shortName() {
        return "tfrecord";
    }

    @Override
    public String toString() {
        return "TFRecord";
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof TFRecordFormat;
    }

    @Override
    public int hashCode() {
        return TFRecordFormat.class.hashCode();
    }

    @Override
    public boolean supportDataType(DataType type) {
        int lists = 0;
        while (type instanceof ArrayType) {
            type = ((ArrayType) type).elementType();
            lists++;
        }
        return lists <= MOST_LISTS
                && (type instanceof IntegerType
                        || type instanceof LongType
                        || type instanceof FloatType
                        || type instanceof DoubleType
                        || type instanceof DecimalType
                        || type instanceof BooleanType
                        || type instanceof StringType
                        || type instanceof BinaryType);
    }

    /** Throws if Examples cannot have such columns. */
    static void check(StructType schema) {
        TFRecordFormat format = new TFRecordFormat();
        for (StructField field : schema.fields()) {
            if (!format.supportDataType(field.dataType())) {
                throw new IllegalArgumentException("column '" + field.name() + "': an Example has no place for "
                        + field.dataType().catalogString() + "; cast it, or leave it out");
            }
        }
        try (RecordTable table = new RecordTable("{}")) {
            table.check(schema.json());
        }
    }

    @Override
    public boolean supportBatch(SparkSession session, StructType schema) {
        return true;
    }

    @Override
    public boolean isSplitable(
            SparkSession session, scala.collection.immutable.Map<String, String> options, Path path) {
        try (RecordTable table = new RecordTable(json(options))) {
            return table.splits(path.getName());
        }
    }

    // ---- the schema ----

    public Option<StructType> inferSchema(
            SparkSession session,
            scala.collection.immutable.Map<String, String> options,
            scala.collection.Seq<FileStatus> files) {
        return infer(session, options, files);
    }

    public Option<StructType> inferSchema(
            SparkSession session,
            scala.collection.immutable.Map<String, String> options,
            scala.collection.immutable.Seq<FileStatus> files) {
        return infer(session, options, files);
    }

    private static Option<StructType> infer(
            SparkSession session,
            scala.collection.immutable.Map<String, String> options,
            scala.collection.Iterable<FileStatus> files) {
        return Option.apply(RecordInference.infer(
                session.sparkContext(),
                json(options),
                session.sessionState().newHadoopConfWithOptions(options),
                files));
    }

    // ---- reading ----

    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
            SparkSession session,
            StructType dataSchema,
            StructType partitionSchema,
            StructType requiredSchema,
            scala.collection.Seq<Filter> filters,
            scala.collection.immutable.Map<String, String> options,
            Configuration hadoop) {
        return scan(session, partitionSchema, requiredSchema, options, hadoop);
    }

    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
            SparkSession session,
            StructType dataSchema,
            StructType partitionSchema,
            StructType requiredSchema,
            scala.collection.immutable.Seq<Filter> filters,
            scala.collection.immutable.Map<String, String> options,
            Configuration hadoop) {
        return scan(session, partitionSchema, requiredSchema, options, hadoop);
    }

    private static RecordScan scan(
            SparkSession session,
            StructType partitionSchema,
            StructType schema,
            scala.collection.immutable.Map<String, String> options,
            Configuration hadoop) {
        SparkContext context = session.sparkContext();
        String text = json(options);
        boolean skips;
        try (RecordTable table = new RecordTable(text)) {
            table.check(schema.json());
            skips = table.skips();
        }
        Option<String> batches = options.get(FileFormat.OPTION_RETURNING_BATCH());
        ClassTag<SerializableConfiguration> tag = ClassTag$.MODULE$.apply(SerializableConfiguration.class);
        return new RecordScan(
                text,
                schema,
                partitionSchema,
                batches.isDefined() && batches.get().equals("true"),
                context.broadcast(new SerializableConfiguration(hadoop), tag),
                skips ? new SkipCounts(context) : null);
    }

    // ---- writing ----

    @Override
    public OutputWriterFactory prepareWrite(
            SparkSession session,
            Job job,
            scala.collection.immutable.Map<String, String> options,
            StructType schema) {
        String text = json(options);
        try (RecordTable table = new RecordTable(text)) {
            table.check(schema.json());
            return new RecordWrites(text, table.ending(), table.record());
        }
    }

    // ---- options ----

    private static Map<String, String> texts(scala.collection.immutable.Map<String, String> options) {
        Map<String, String> texts = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        Iterator<?> each = ((scala.collection.Iterable<?>) options).iterator();
        while (each.hasNext()) {
            Tuple2<?, ?> option = (Tuple2<?, ?>) each.next();
            if (option._2() != null) {
                texts.put((String) option._1(), (String) option._2());
            }
        }
        return texts;
    }

    private static String json(scala.collection.immutable.Map<String, String> options) {
        return Json.of(texts(options));
    }
}
