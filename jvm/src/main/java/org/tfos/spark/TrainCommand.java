package org.tfos.spark;

import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/**
 * {@code tfos train --master …}: trains on executors, which read files by themselves, or are fed tables of TFRecords
 * that Spark reads.
 */
public final class TrainCommand {
    private static final Duration EVER = Duration.ofDays(36_600);

    private TrainCommand() {}

    public static void main(String[] words) {
        Command.run(words, TrainCommand::run);
    }

    private static Map<String, ?> run(SparkSession spark, CommandOrder order, Consumer<String> people) {
        Dataset<Row> data = table(spark, order, "data"); // a path that is not there is found before a node starts
        Dataset<Row> validation = table(spark, order, "validation");
        TFCluster.Options options =
                new TFCluster.Options().restarts(number(order, "restarts")).people(people);
        try (TFCluster cluster = TFCluster.run(spark, trainer(order), number(order, "nodes"), options)) {
            if (data != null) {
                cluster.train(data, validation, number(order, "epochs"));
            }
            cluster.shutdown(EVER);
            return cluster.results().get(0).answer();
        }
    }

    private static Trainer trainer(CommandOrder order) {
        Map<String, Object> options = Json.parse(order.text("trainer"));
        Trainer trainer = new Trainer(options.get("model").toString());
        options.forEach(trainer::option);
        return trainer;
    }

    /** Null: trainers read files by themselves, or there is nothing to validate with. */
    private static Dataset<Row> table(SparkSession spark, CommandOrder order, String key) {
        return order.has(key)
                ? spark.read()
                        .format("tfrecord")
                        .options(order.pairs("read"))
                        .load(order.list(key).toArray(new String[0]))
                : null;
    }

    private static int number(CommandOrder order, String key) {
        return Integer.parseInt(order.text(key));
    }
}
