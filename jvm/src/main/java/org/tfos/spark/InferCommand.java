package org.tfos.spark;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.DataFrameReader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Observation;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF2;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.tfos.Status;
import org.tfos.TfosException;

/** {@code tfos infer --master …}: rows of files with results of a SavedModel, in other files. */
public final class InferCommand {
    private static final String TFRECORD = "tfrecord";
    private static final String TEXT = "tfos_text"; // a function of SQL, while the application lives
    private static final double SECOND_NS = 1e9;

    private InferCommand() {}

    public static void main(String[] words) {
        Command.run(words, (spark, order, people) -> run(spark, order));
    }

    private static Map<String, ?> run(SparkSession spark, CommandOrder order) throws Exception {
        try (WholeFolder target = new WholeFolder(
                spark.sessionState().newHadoopConf(), order.text("output"), order.has("overwrite"))) {
            Dataset<Row> results = modelOf(spark, order).transform(rows(spark, order));
            Observation counted = new Observation();
            Dataset<Row> written = fitting(results, order.text("to"))
                    .observe(counted, functions.count(functions.lit(1)).as("rows"));
            long start = System.nanoTime();
            shards(written, order)
                    .write()
                    .format(formatOf(order.text("to")))
                    .options(writeOptions(written.schema(), order))
                    .save(target.hidden());
            long rows = ((Number) counted.getAsJava().get("rows")).longValue();
            List<String> files = target.appear();
            double seconds = (System.nanoTime() - start) / SECOND_NS;
            return Map.of("rows", rows, "seconds", seconds, "files", files);
        }
    }

    // ---- rows ----

    private static Dataset<Row> rows(SparkSession spark, CommandOrder order) {
        DataFrameReader reader =
                spark.read().format(formatOf(order.text("from"))).options(order.pairs("read"));
        if (order.has("schema")) {
            reader = reader.schema((StructType) DataType.fromJson(order.text("schema")));
        }
        Dataset<Row> rows = reader.load(order.list("data").toArray(new String[0]));
        // Without a header Spark says _c0, and this command c0.
        return order.has("renumber")
                ? rows.toDF(Arrays.stream(rows.columns())
                        .map(name -> name.replaceFirst("^_c", "c"))
                        .toArray(String[]::new))
                : rows;
    }

    /** Spark's name of a format. */
    private static String formatOf(String name) {
        return name.equals("jsonl") ? "json" : name;
    }

    // ---- the model ----

    private static ModelTransform modelOf(SparkSession spark, CommandOrder order) {
        return new ModelTransform(order.text("model"))
                .tags(order.text("tags"))
                .signature(order.text("signature"))
                .inputs(order.pairs("input"))
                .outputs(order.pairs("result"))
                .keep(order.list("keep"))
                .batchRows(Long.parseLong(order.text("batch_size")))
                .libraries(order.list("op_library"))
                .python(order.text("python"));
    }

    // ---- results ----

    /** As many files as were asked for, or one for each task that computes some. */
    private static Dataset<Row> shards(Dataset<Row> results, CommandOrder order) {
        return order.has("shards") ? results.repartition(Integer.parseInt(order.text("shards"))) : results;
    }

    private static Map<String, String> writeOptions(StructType schema, CommandOrder order) {
        Map<String, String> options = order.pairs("write");
        boolean sequences = Arrays.stream(schema.fields())
                .anyMatch(field -> field.dataType() instanceof ArrayType
                        && ((ArrayType) field.dataType()).elementType() instanceof ArrayType);
        if (order.text("to").equals(TFRECORD) && sequences) {
            options.put("recordType", "SequenceExample");
        }
        return options;
    }

    /** What the format can hold: strings of a model, which are bytes, are texts in files of text. */
    private static Dataset<Row> fitting(Dataset<Row> results, String format) {
        if (format.equals(TFRECORD)) {
            return DFUtil.widened(results);
        }
        if (!format.equals("csv") && !format.equals("jsonl")) {
            return results;
        }
        UDF2<byte[], String, String> text = InferCommand::text;
        results.sparkSession().udf().register(TEXT, text, DataTypes.StringType);
        List<String> columns = new ArrayList<>();
        for (StructField field : results.schema().fields()) {
            if (format.equals("csv") && field.dataType() instanceof ArrayType) {
                throw new TfosException(
                        Status.UNSUPPORTED,
                        "the column '" + field.name() + "' is " + field.dataType().catalogString()
                                + ", and Spark's CSV has no lists: use --to jsonl, tfrecord or parquet, or leave the"
                                + " column out (--outputs, --keep)");
            }
            String name = "`" + field.name().replace("`", "``") + "`";
            columns.add(asText(field.dataType(), name, field.name()) + " AS " + name);
        }
        return results.selectExpr(columns.toArray(new String[0]));
    }

    /** The SQL that makes text of binaries, also inside of lists. */
    private static String asText(DataType type, String value, String column) {
        if (type instanceof ArrayType) {
            DataType inner = ((ArrayType) type).elementType();
            String each = value.equals("x") ? "y" : "x";
            String made = asText(inner, each, column);
            return made.equals(each) ? value : "transform(" + value + ", " + each + " -> " + made + ")";
        }
        String name = column.replace("\\", "\\\\").replace("'", "\\'");
        return type instanceof BinaryType ? TEXT + "(" + value + ", '" + name + "')" : value;
    }

    private static String text(byte[] bytes, String column) {
        try {
            return bytes == null
                    ? null
                    : StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException e) {
            throw new TfosException(
                    Status.ENCODING,
                    "column '" + column + "': expected text in UTF-8, as files of text have it, found other bytes: use"
                            + " --to tfrecord or parquet",
                    e);
        }
    }
}
