import java.time.Duration

import org.apache.spark.sql.SparkSession
import org.tfos.spark.{TFCluster, Trainer}

/** A driver in Scala: arguments are a model, TFRecords, and a folder for what comes out. It trains twice, the second
  * time until somebody ends it.
  */
object TrainScala {
  def main(arguments: Array[String]): Unit = {
    val Array(model, data, out) = arguments
    val spark = SparkSession.builder().getOrCreate()
    import spark.implicits._

    val digits = spark.read.format("tfrecord").load(data).withColumnRenamed("label", "digit").where($"digit" >= 0)
    def trainer(folder: String): Trainer = new Trainer(model)
      .option("batch_size", 16)
      .option("save_seconds", 1000.0)
      .option("resume", false)
      .option("model_dir", s"$out/$folder")
      .column("digit", "label")
    val options = new TFCluster.Options().reservationTimeout(Duration.ofSeconds(60))

    val first = TFCluster.run(spark, trainer("first"), 1, options)
    try {
      first.train(digits, 2)
      first.shutdown()
      println(s"rows ${first.results.get(0).rows}")
    } finally first.close()

    val second = TFCluster.run(spark, trainer("second"), 1, options)
    println(s"endless: ${second.statusUrl}")
    second.train(digits, TFCluster.ENDLESS)
  }
}
