import org.apache.spark.ml.PipelineModel
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.tfos.spark.TFModel

/** The same from Scala: what it calls has other types there. */
object InScala {
  def run(spark: SparkSession, model: String, frame: DataFrame): String = {
    import spark.implicits._
    val mapping = new java.util.HashMap[String, String]()
    mapping.put("pixels", "image")
    val digits = new TFModel().setExportDir(model).setInputMapping(mapping).setKeepCols("id")
    val pairs = digits.transform(frame, digits.batchSize -> 64).as[(Long, Seq[Float])]
    val sums = pairs.map { case (id, scores) => id -> scores.sum }.collect()
    assert(sums.forall { case (_, sum) => math.abs(sum - 1) < 1e-4 }, sums.mkString(" "))
    digits.getOrDefault(digits.inputMapping).get("pixels") + " " + sums.map(_._1).sum
  }
}
