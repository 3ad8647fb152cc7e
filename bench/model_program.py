"""Gives the rows of a cached DataFrame the results of an MLP 784-64-10, and prints a line of JSON for each pass.

    model_program.py model FOLDER ROWS PASSES    TFModel.transform: of this project, and of tensorflowonspark 2.2.5
    model_program.py udf FOLDER ROWS PASSES      PySpark's predict_batch_udf
    model_program.py scan FOLDER ROWS PASSES     nothing: Spark's own pass over the rows

The model is in FOLDER, made by the first that needs it. The clock runs while all results are written to nowhere; the
first pass starts whatever is needed, the others are warm.
"""

import json
import os
import sys
import time

from pyspark.sql import SparkSession

BATCH = 1024
PARTITIONS = 4


def make_model(folder):
    """A tf.Module, which every TensorFlow reads."""
    import tensorflow as tf

    class Mlp(tf.Module):
        def __init__(self):
            super().__init__()
            shapes = [[784, 64], [64], [64, 10], [10]]
            self.weights = [tf.Variable(tf.random.stateless_normal(shape, [1, 2]) / 20) for shape in shapes]

        @tf.function(input_signature=[tf.TensorSpec([None, 784], tf.float32, "image")])
        def predict(self, image):
            hidden = tf.nn.relu(tf.matmul(image, self.weights[0]) + self.weights[1])
            return {"digit": tf.nn.softmax(tf.matmul(hidden, self.weights[2]) + self.weights[3])}

    module = Mlp()
    tf.saved_model.save(module, folder, signatures={"serving_default": module.predict})


def session(folder):
    builder = SparkSession.builder.master("local-cluster[2,1,3072]").appName("bench")
    settings = {"spark.ui.enabled": "false", "spark.local.dir": folder, "spark.driver.memory": "2g"}
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def with_model(frame, model):
    from tensorflowonspark import pipeline

    stage = pipeline.TFModel({}).setExportDir(model).setSignatureDefKey("serving_default").setTagSet("serve")
    stage.setInputMapping({"image": "image"}).setOutputMapping({"digit": "digit"}).setBatchSize(BATCH)
    return stage.transform(frame)


def with_udf(frame, model):
    from pyspark.ml.functions import predict_batch_udf
    from pyspark.sql.types import ArrayType, FloatType

    def make():
        import tensorflow as tf

        loaded = tf.saved_model.load(model)
        function = loaded.signatures["serving_default"]
        return lambda images: function(tf.constant(images))["digit"].numpy() if loaded else None

    shape = {"return_type": ArrayType(FloatType()), "batch_size": BATCH, "input_tensor_shapes": [[784]]}
    return frame.select(predict_batch_udf(make, **shape)("image").alias("digit"))


WAYS = {"model": with_model, "udf": with_udf, "scan": lambda frame, model: frame}


def main():
    what, folder, rows, passes = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    model = os.path.join(folder, "mlp")
    if not os.path.isdir(model):
        make_model(model)
    spark = session(folder)
    values = "cast(transform(sequence(1, 784), x -> (id * 7 + x) % 255 / 255.0) as array<float>) as image"
    frame = spark.range(rows).selectExpr(values).repartition(PARTITIONS).cache()
    frame.count()
    for _ in range(passes):
        start, worked = time.monotonic(), processor_seconds()
        WAYS[what](frame, model).write.format("noop").mode("overwrite").save()
        found = {"seconds": time.monotonic() - start, "processor_seconds": processor_seconds() - worked}
        print("\n" + json.dumps({"rows": rows} | found), flush=True)
    spark.stop()


def processor_seconds():
    """Of this process and all below it: the driver's JVM, executors, and what they have started."""
    ticks, parents = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(pid)], ticks[int(pid)] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(ticks[pid] for pid in below) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
