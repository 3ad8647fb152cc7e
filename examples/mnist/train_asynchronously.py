"""Trains a network on the MNIST digits of a DataFrame, asynchronously: Spark feeds them to workers without Python, and
only the chief is a program.

The chief gives out steps; whichever worker is free takes the next one and trains on a batch of the rows that it was
fed. A worker that has none left says so, and the chief goes on until every row of the epoch was trained on, once.

    spark-submit --master 'local-cluster[4,1,1024]' examples/mnist/train_asynchronously.py \\
        --data build/demo/digits.csv.gz
"""

import argparse
import os
import time

from train_dataframe import CLASSES, HIDDEN, PIXELS, read_digits


def train(args, ctx):
    """Runs on the chief."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    feed = ctx.get_data_feed()
    with strategy.scope():
        weights = make_weights(tf)
    step = make_step(tf, weights, args.learning_rate)
    columns = {"image": tf.TensorSpec([PIXELS], tf.float32), "label": tf.TensorSpec([], tf.int32)}
    for epoch in range(args.epochs):
        begin = time.time()
        data = coordinator.create_per_worker_dataset(lambda: feed.dataset(args.batch_size, columns, epochs=epoch))
        rows, correct = run_epoch(coordinator, step, iter(data), args)
        rate = rows / (time.time() - begin)
        print(f"epoch {epoch + 1} of {args.epochs}: {rows} rows, {rate:,.0f} a second, accuracy {correct / rows:.4f}")


def run_epoch(coordinator, step, iterator, args):
    """Gives out steps until each row was trained on."""
    rows = correct = 0
    while rows < args.rows:
        steps = [coordinator.schedule(step, args=(iterator,)) for _ in range(8 * args.workers)]
        coordinator.join()
        for each in steps:
            trained, right = each.fetch()
            rows += int(trained)
            correct += int(right)
    return rows, correct


def make_weights(tf):
    """Of a layer of HIDDEN units and one of CLASSES, on the parameter server."""
    random = tf.random.Generator.from_seed(7)
    return [
        tf.Variable(random.normal([PIXELS, HIDDEN], stddev=0.05)),
        tf.Variable(tf.zeros([HIDDEN])),
        tf.Variable(random.normal([HIDDEN, CLASSES], stddev=0.1)),
        tf.Variable(tf.zeros([CLASSES])),
    ]


def make_step(tf, weights, learning_rate):
    """A step on the worker that it is run by; gives how many rows it has trained on, and how many it had right."""

    def train_on(row):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(row["image"] / 255 @ weights[0] + weights[1])
            logits = hidden @ weights[2] + weights[3]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(row["label"], logits)
            loss = tf.reduce_mean(losses)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(learning_rate * gradient)
        right = tf.argmax(logits, 1, tf.int32) == row["label"]
        return tf.size(row["label"]), tf.reduce_sum(tf.cast(right, tf.int32))

    @tf.function
    def step(iterator):  # no `if`: the source of this program, which AutoGraph wants to read, is not on the nodes
        taken = iterator.get_next_as_optional()
        return tf.cond(taken.has_value(), lambda: train_on(taken.get_value()), lambda: (0, 0))

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="CSV file with 784 pixels and the label in each line")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=0.1)
    args = parser.parse_args()

    from pyspark.sql import SparkSession

    from tensorflowonspark import TFCluster

    spark = SparkSession.builder.appName("mnist_asynchronously").getOrCreate()
    digits = read_digits(spark, os.path.abspath(args.data)).cache()
    args.rows = digits.count()
    cluster = TFCluster.run(
        spark.sparkContext,
        train,
        args,
        num_executors=args.workers + 2,  # and a parameter server, and the chief
        num_ps=1,
        master_node="chief",
        native_ps=True,
        input_mode=TFCluster.InputMode.SPARK,
    )
    cluster.train(digits, args.epochs, columns={"image": {"shape": [PIXELS]}})
    cluster.shutdown()
    spark.stop()


if __name__ == "__main__":
    main()
