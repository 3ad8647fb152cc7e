"""Trains a small convolutional network on MNIST digits on two nodes of a Spark of its own, from CSV to a saved model.

    mnist_program.py export FOLDER               makes the trainable model for these two (ours)
    mnist_program.py native FOLDER CSV EPOCHS    trained without Python on the executors, fed by Spark (ours)
    mnist_program.py records FOLDER CSV EPOCHS   the same on TFRecords that are made of the CSV first (ours)
    mnist_program.py keras FOLDER CSV EPOCHS     a Keras program on each node, within keras.distributed (ours)
    mnist_program.py spark FOLDER                a job without work
    mnist_program.py peer FOLDER CSV EPOCHS      with tensorflowonspark 2.2.5, the way its example goes

Each is a whole job, from the start of Python to the end of Spark; whoever starts it has the clock. It prints a line of
JSON with the accuracy on the rows that were trained on, as a sign that something was learned.
"""

import argparse
import json
import os
import subprocess
import sys

BATCH, WORKERS, PIXELS, DIGITS = 64, 2, 784, 10
RATE = 0.05


def make_model(keras, *first):
    """The network of the peer's example."""
    layers = [keras.Input([PIXELS], name="image"), *first, keras.layers.Reshape([28, 28, 1])]
    layers += [keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.MaxPooling2D(), keras.layers.Flatten()]
    layers += [keras.layers.Dense(64, activation="relu"), keras.layers.Dense(DIGITS, activation="softmax")]
    return keras.Sequential(layers)


def context(folder):
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster(f"local-cluster[{WORKERS},1,2048]").setAppName("bench")
    conf.set("spark.ui.enabled", "false").set("spark.local.dir", folder)
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    return sc


def frame_of(sc, path, pixel="each"):
    from pyspark.sql import SparkSession

    numbers = SparkSession(sc).read.text(path).selectExpr("cast(split(value, ',') as array<float>) as n")
    image = f"slice(n, 1, {PIXELS})"
    if pixel != "each":
        image = f"transform({image}, each -> cast({pixel} as float))"
    digits = numbers.selectExpr(f"{image} as image", f"cast(n[{PIXELS}] as int) as label")
    return digits.repartition(2 * WORKERS).cache()


def export(folder):
    import keras

    from tensorflowonspark import native

    model = make_model(keras, keras.layers.Rescaling(1 / 255))
    loss = keras.losses.SparseCategoricalCrossentropy()
    native.export(model, keras.optimizers.SGD(RATE), loss, ["accuracy"], f"{folder}/model", overwrite=True)


def train_native(folder, path, epochs):
    from tensorflowonspark import TFCluster, native

    sc = context(folder)
    digits = frame_of(sc, path)
    trainer = native.Trainer(f"{folder}/model", batch_size=BATCH, export_dir=f"{folder}/trained")
    cluster = TFCluster.run(sc, trainer, None, WORKERS, num_ps=0, input_mode=TFCluster.InputMode.SPARK)
    cluster.train(digits, epochs)
    cluster.shutdown()
    accuracy = cluster.results()[0].value["values"]["accuracy"]
    sc.stop()
    return accuracy


def train_records(folder, path, epochs):
    """Files that all executors see: they read their shards themselves."""
    from tensorflowonspark import TFCluster, native

    records = f"{folder}/records"
    columns = ["--no-header", "--fold", f"image=0:{PIXELS}", "--label", "last"]
    tfos = os.path.join(os.path.dirname(sys.executable), "tfos")
    subprocess.run([tfos, "records", "convert", path, records, *columns, "--shards", "4", "--overwrite"], check=True)
    sc = context(folder)
    trainer = native.Trainer(
        f"{folder}/model", data=records, epochs=epochs, batch_size=BATCH, export_dir=f"{folder}/trained"
    )
    cluster = TFCluster.run(sc, trainer, None, WORKERS, num_ps=0)
    cluster.shutdown()
    accuracy = cluster.results()[0].value["values"]["accuracy"]
    sc.stop()
    return accuracy


def train_keras(folder, path, epochs):
    from tensorflowonspark import TFCluster

    def program(args, ctx):
        import keras

        from tensorflowonspark import keras as together

        rows = ctx.get_data_feed().dataset(BATCH, epochs="split")
        data = rows.map(lambda row: (row["image"], row["label"])).prefetch(2)
        model = make_model(keras)
        with together.distributed(ctx):
            model.compile(keras.optimizers.SGD(RATE), "sparse_categorical_crossentropy", metrics=["accuracy"])
            history = model.fit(data, epochs=epochs, verbose=0).history
        if ctx.task_index == 0:
            model.export(f"{folder}/trained")
        return history["accuracy"][-1]

    sc = context(folder)
    digits = frame_of(sc, path, "each / 255")
    cluster = TFCluster.run(sc, program, None, WORKERS, num_ps=0, input_mode=TFCluster.InputMode.SPARK)
    cluster.train(digits, epochs, columns={"image": {"shape": [PIXELS]}})
    cluster.shutdown()
    accuracy = cluster.results()[0].value
    sc.stop()
    return accuracy


def train_peer(folder, path, epochs):
    """Workers stop at nine tenths of the steps, as programs of the peer do: rows are not shared out evenly there."""
    from tensorflowonspark import TFCluster

    rows = sum(1 for _ in open_text(path))
    place = f"{folder}/trained"

    def program(args, ctx):
        import numpy
        import tensorflow as tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        feed = ctx.get_data_feed()

        def take():
            while not feed.should_stop():
                for image, label in feed.next_batch(1):
                    yield numpy.array(image, numpy.float32) / 255, label

        shapes = (tf.TensorSpec([PIXELS], tf.float32), tf.TensorSpec([], tf.int64))
        data = tf.data.Dataset.from_generator(take, output_signature=shapes).batch(BATCH)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        with strategy.scope():
            model = make_model(tf.keras)
            model.compile(tf.keras.optimizers.SGD(RATE), "sparse_categorical_crossentropy", metrics=["accuracy"])
        steps = int(rows / BATCH / WORKERS * 0.9)
        history = model.fit(data.with_options(options), epochs=epochs, steps_per_epoch=steps, verbose=0).history
        feed.terminate()
        model.save(place if ctx.job_name == "chief" else f"{place}-{ctx.job_name}", save_format="tf")
        with open(f"{folder}/accuracy-{ctx.job_name}", "w") as file:
            file.write(str(history["accuracy"][-1]))

    sc = context(folder)
    digits = sc.parallelize(list(open_text(path)), 2 * WORKERS).map(parse)
    options = argparse.Namespace()  # without arguments the peer fails
    cluster = TFCluster.run(sc, program, options, WORKERS, 0, input_mode=TFCluster.InputMode.SPARK, master_node="chief")
    cluster.train(digits, epochs)
    cluster.shutdown(grace_secs=3)
    sc.stop()
    with open(f"{folder}/accuracy-chief") as file:
        return float(file.read())


def start_and_end(folder):
    """What Spark takes by itself, with executors that have done something."""
    sc = context(folder)
    sc.parallelize(range(WORKERS), WORKERS).count()
    sc.stop()


def open_text(path):
    import gzip

    return gzip.open(path, "rt")


def parse(line):
    values = [int(float(each)) for each in line.split(",")]
    return values[:PIXELS], values[PIXELS]


def main():
    what, folder = sys.argv[1], os.path.abspath(sys.argv[2])
    if what == "export":
        return export(folder)
    if what == "spark":
        return start_and_end(folder)
    ways = {"native": train_native, "records": train_records, "keras": train_keras, "peer": train_peer}
    accuracy = ways[what](folder, sys.argv[3], int(sys.argv[4]))
    print("\n" + json.dumps({"accuracy": float(accuracy)}), flush=True)


if __name__ == "__main__":
    main()
