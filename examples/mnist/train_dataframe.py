"""Trains a Keras network on the MNIST digits of a DataFrame that Spark feeds to several nodes.

Rows go from Spark's memory to TensorFlow's without Python between them. Spark gives them to whichever worker is hungry,
so workers need not get the same number; every worker learns of the end of an epoch, and there they average their
weights.

    spark-submit --master 'local-cluster[2,1,1024]' examples/mnist/train_dataframe.py --data build/demo/digits.csv.gz
"""

import argparse
import os
import time

PIXELS, CLASSES, HIDDEN = 784, 10, 64


def train(args, ctx):
    """Runs on every worker, in a Python of its own."""
    import keras
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    keras.utils.set_random_seed(7)  # all begin with the same weights
    layers = [keras.Input([PIXELS]), keras.layers.Dense(HIDDEN, "relu"), keras.layers.Dense(CLASSES)]
    model = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(args.learning_rate), loss, metrics=["accuracy"])

    data = ctx.get_data_feed().dataset(args.batch_size, epochs="split")
    data = data.map(lambda row: (row["image"] / 255, row["label"])).prefetch(2)
    for epoch in range(args.epochs):
        watch = Watch(f"epoch {epoch + 1} of {args.epochs}", args.batch_size)
        look = keras.callbacks.LambdaCallback(on_train_batch_end=watch.look)
        model.fit(data, shuffle=False, verbose=0, callbacks=[look])
        average(strategy, model.trainable_variables)
        watch.report()
    if ctx.task_index == 0 and args.model_dir:
        model.export(args.model_dir, verbose=False)


class Watch:
    """Prints how training goes, about twice a second."""

    def __init__(self, name, batch_size):
        self.name, self.batch_size, self.rows, self.logs = name, batch_size, 0, {}
        self.begin = self.said = time.time()

    def look(self, batch, logs):
        self.rows, self.logs = (batch + 1) * self.batch_size, logs
        if time.time() - self.said > 0.5:
            self.report()

    def report(self):
        self.said = time.time()
        rate = self.rows / (self.said - self.begin)
        numbers = ", ".join(f"{name} {value:.4f}" for name, value in self.logs.items())
        print(f"{self.name}: {self.rows} rows, {rate:,.0f} a second, {numbers}", flush=True)


def average(strategy, variables):
    """Gives the variables the mean of their values on all workers."""
    import tensorflow as tf

    def on_one_worker(values):
        mine = [tf.identity(value) for value in values]  # on the device of this worker
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, mine)

    mean = tf.function(lambda values: strategy.run(on_one_worker, args=(values,)))
    for variable, value in zip(variables, mean([variable.numpy() for variable in variables])):
        variable.assign(value)


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
