"""What section "spark-records" measures, in a Spark of its own.

    spark_records_program.py OURS|THEIRS FOLDER PASSES JAR…

FOLDER has scalars.tfrecord, images.tfrecord and many.tfrecord. Ours also makes Parquet of the same rows, which both
sides write from. Prints {"work/file": seconds}, the best of some passes.
"""

import json
import os
import shutil
import sys
import time

from pyspark.sql import SparkSession

FILES = ("scalars", "images")


def best(passes, work):
    times = []
    for _ in range(passes):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def scan(frame):
    frame.write.format("noop").mode("overwrite").save()


class Ours:
    def __init__(self, spark):
        self.spark = spark

    def infer(self, path):
        return self.spark.read.format("tfrecord").load(path).schema

    def read(self, path, schema):
        return self.spark.read.schema(schema).format("tfrecord").load(path)

    def write(self, frame, path):
        frame.write.format("tfrecord").save(path)


class Theirs:
    def __init__(self, spark):
        self.spark = spark
        self.java = spark.sparkContext._jvm.SparkRecordsPeer

    def infer(self, path):
        return self.java.infer(self.spark._jsparkSession, path)

    def read(self, path, schema):
        from pyspark.sql import DataFrame

        return DataFrame(self.java.read(self.spark._jsparkSession, path, schema.json()), self.spark)

    def write(self, frame, path):
        self.java.write(frame._jdf, path)


def measure(spark, side, folder, passes, ours):
    found = {}
    for name in FILES:
        path, parquet = os.path.join(folder, f"{name}.tfrecord"), os.path.join(folder, f"{name}.parquet")
        found[f"infer/{name}"] = best(passes, lambda path=path: side.infer(path))
        if ours:
            schema = side.infer(path)
            side.read(path, schema).write.mode("overwrite").parquet(parquet)
        schema = spark.read.parquet(parquet).schema
        frame = side.read(path, schema)
        found[f"read/{name}"] = best(passes, lambda frame=frame: scan(frame))
        if ours:
            rows = spark.read.schema(schema).parquet(parquet)
            found[f"parquet/{name}"] = best(passes, lambda rows=rows: scan(rows))
        column = frame.select(schema.names[len(schema.names) // 2])
        found[f"column/{name}"] = best(passes, lambda column=column: scan(column))
        if ours:
            found[f"rows/{name}"] = best(passes, frame.count)
        source = spark.read.parquet(parquet).cache()
        source.count()
        out = os.path.join(folder, "out")

        def write(source=source, out=out):
            shutil.rmtree(out, ignore_errors=True)
            side.write(source, out)

        found[f"write/{name}"] = best(passes, write)
        source.unpersist()
        shutil.rmtree(out, ignore_errors=True)
    schema = spark.read.parquet(os.path.join(folder, "scalars.parquet")).schema
    many = side.read(os.path.join(folder, "many.tfrecord"), schema)
    found["count/many"] = best((passes + 1) // 2, many.count)
    return found


def main():
    ours, folder, passes, jars = sys.argv[1] == "ours", sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(jars))
    builder = builder.config("spark.driver.memory", "6g").config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    side = Ours(spark) if ours else Theirs(spark)
    print(json.dumps(measure(spark, side, folder, passes, ours)))
    spark.stop()


if __name__ == "__main__":
    main()
