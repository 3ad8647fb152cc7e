"""Does a little of everything that tests do with Spark, so that its classes are loaded; see scripts/spark-archive."""

import contextlib
import sys

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

# What only the processes of other applications load.
OTHERS = [
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.deploy.worker.Worker",
    "org.apache.spark.deploy.worker.ExecutorRunner",
    "org.apache.spark.deploy.master.Master",
    "org.apache.spark.deploy.client.StandaloneAppClient",
    "org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend",
    "org.apache.spark.streaming.api.java.JavaStreamingContext",
]


def main():
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    frame = spark.range(1000).selectExpr("id", "id * 0.5 AS half", "array(id, id) AS both", "string(id) AS text")
    frame.cache()
    frame.repartition(4).groupBy("text").count().orderBy("text").collect()
    frame.rdd.map(lambda row: row[0]).sum()
    spark.sparkContext.parallelize(range(100), 4).map(lambda i: (i, [i])).reduceByKey(lambda a, b: a + b).count()
    spark.createDataFrame([(1, [1.0])], "a long, b array<float>").write.format("noop").mode("overwrite").save()
    java = spark.sparkContext._jvm.java.lang
    loader = java.Thread.currentThread().getContextClassLoader()
    for name in OTHERS:
        with contextlib.suppress(Py4JJavaError):
            getattr(java, "Class").forName(name, False, loader)
    spark.stop()
    # The JVM writes the archive when it ends, which is when its standard input does.
    gateway = pyspark.SparkContext._gateway
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    return process.wait()


if __name__ == "__main__":
    sys.exit(main())
