"""Trains a Keras network on the MNIST digits of a DataFrame that Spark feeds to several nodes.

Rows go from Spark's memory to TensorFlow's without Python between them. Each worker trains on those that it gets, and
every step is one of all workers: they average their gradients over the rows of all batches, and end with the same
weights, bit for bit. Workers need not get the same number of rows, and every row is trained on once in each epoch.

    spark-submit --master 'local-cluster[2,1,1024]' examples/mnist/train_dataframe.py --data build/demo/digits.csv.gz
"""

import argparse
import os
import time
import zlib

PIXELS, CLASSES, HIDDEN = 784, 10, 64


def train(args, ctx):
    """Runs on every worker, in a Python of its own."""
    import keras

    from tensorflowonspark import keras as together

    model = keras.Sequential([keras.Input([PIXELS]), keras.layers.Dense(HIDDEN, "relu"), keras.layers.Dense(CLASSES)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    data = ctx.get_data_feed().dataset(args.batch_size, epochs="split")
    data = data.map(lambda row: (row["image"] / 255, row["label"])).prefetch(2)
    watch = Watch(args.epochs, args.batch_size)
    looks = {"on_epoch_begin": watch.begin, "on_train_batch_end": watch.look, "on_epoch_end": watch.end}
    with together.distributed(ctx):
        model.compile(keras.optimizers.SGD(args.learning_rate), loss, metrics=["accuracy"])
        model.fit(data, epochs=args.epochs, verbose=0, callbacks=[keras.callbacks.LambdaCallback(**looks)])
    weights = b"".join(each.numpy().tobytes() for each in model.weights)
    print(f"the weights have the checksum {zlib.crc32(weights):08x}", flush=True)
    if ctx.task_index == 0 and args.model_dir:
        model.export(args.model_dir)


class Watch:
    """Prints how training goes, about twice a second, and what all workers came to at the end of an epoch."""

    def __init__(self, epochs, batch_size):
        self.epochs, self.batch_size = epochs, batch_size

    def begin(self, epoch, logs):
        self.name = f"epoch {epoch + 1} of {self.epochs}"
        self.began = self.said = time.time()

    def look(self, batch, logs):
        if time.time() - self.said > 0.5:
            self.said = time.time()
            rows = (batch + 1) * self.batch_size
            self.say(f"{rows} rows here, {rows / (self.said - self.began):,.0f} a second", logs)

    def end(self, epoch, logs):
        self.say("all workers", logs)

    def say(self, what, logs):
        print(f"{self.name}: {what}, " + ", ".join(f"{name} {value:.4f}" for name, value in logs.items()), flush=True)


def read_digits(spark, path):
    """The digits as a DataFrame: image, 784 floats; label."""
    from pyspark.sql import functions as F

    columns = ", ".join(f"c{i} FLOAT" for i in range(PIXELS)) + ", label INT"
    pixels = F.array(*[f"c{i}" for i in range(PIXELS)])
    return spark.read.csv(path, schema=columns).select(pixels.alias("image"), "label").repartition(4)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="CSV file with 784 pixels and the label in each line")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    parser.add_argument("--model_dir", default="", help="where the first worker saves the model")
    args = parser.parse_args()

    from pyspark.sql import SparkSession

    from tensorflowonspark import TFCluster

    args.model_dir = os.path.abspath(args.model_dir) if args.model_dir else ""
    spark = SparkSession.builder.appName("mnist_dataframe").getOrCreate()
    digits = read_digits(spark, os.path.abspath(args.data)).cache()
    print(f"[tfos] {digits.count()} digits are cached", flush=True)
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(spark.sparkContext, train, args, num_executors=args.workers, num_ps=0, input_mode=mode)
    begin = time.time()
    cluster.train(digits, args.epochs, columns={"image": {"shape": [PIXELS]}})
    rows = args.epochs * digits.count()
    print(f"[tfos] {rows} rows were fed in {time.time() - begin:.1f} s, with the start of TensorFlow", flush=True)
    cluster.shutdown()
    spark.stop()


if __name__ == "__main__":
    main()
