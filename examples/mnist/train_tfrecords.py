"""Trains a small network on the MNIST digits in TFRecord files, on several nodes at a time.

Every worker reads its own share of the files (InputMode.TENSORFLOW); TensorFlow's MultiWorkerMirroredStrategy keeps
their weights the same after each step.

    spark-submit --master 'local-cluster[2,1,1024]' examples/mnist/train_tfrecords.py --data build/demo/digits
"""

import argparse
import glob
import os

PIXELS, CLASSES, HIDDEN = 784, 10, 64


def train(args, ctx):
    """Runs on every worker, in a Python of its own."""
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import records

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    files = sorted(glob.glob(os.path.join(args.data, "*.tfrecord")))
    share = files[ctx.task_index :: ctx.num_workers]
    batches = list(records.read(share, columns=["image", "label"]))
    images = np.concatenate([batch["image"] for batch in batches]).astype(np.float32) / 255
    labels = np.concatenate([batch["label"] for batch in batches])
    print(f"reads {len(labels)} digits from {len(share)} of {len(files)} files", flush=True)

    # Every worker takes the same number of steps: each step is taken together.
    steps = args.rows // ctx.num_workers // args.batch_size
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels), seed=7).repeat()
    data = iter(strategy.distribute_datasets_from_function(lambda _: data.batch(args.batch_size)))

    with strategy.scope():
        model = Network()

    @tf.function
    def step(iterator):
        def on_one_worker(image, label):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, model(image)))
            gradients = tape.gradient(loss, model.trainable_variables)
            together = tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)
            for variable, gradient in zip(model.trainable_variables, together):
                variable.assign_sub(args.learning_rate * gradient)
            return loss

        losses = strategy.run(on_one_worker, args=next(iterator))
        return strategy.reduce(tf.distribute.ReduceOp.MEAN, losses, axis=None)

    for epoch in range(args.epochs):
        mean = np.mean([step(data).numpy() for _ in range(steps)])
        if ctx.task_index == 0:
            print(f"epoch {epoch + 1} of {args.epochs}: loss {mean:.4f}", flush=True)

    guesses = np.argmax(model(tf.constant(images)).numpy(), axis=1)
    print(f"knows {np.mean(guesses == labels):.1%} of its digits", flush=True)
    if ctx.task_index == 0 and args.model_dir:
        tf.saved_model.save(model, args.model_dir)


def Network():
    """Two layers of plain variables; TensorFlow must not be imported before the function runs on its node."""
    import tensorflow as tf

    class TwoLayers(tf.Module):
        def __init__(self):
            super().__init__()
            start = tf.random_normal_initializer(stddev=0.05, seed=1)
            self.hidden = tf.Variable(start([PIXELS, HIDDEN]), name="hidden")
            self.hidden_bias = tf.Variable(tf.zeros([HIDDEN]), name="hidden_bias")
            self.output = tf.Variable(start([HIDDEN, CLASSES]), name="output")
            self.output_bias = tf.Variable(tf.zeros([CLASSES]), name="output_bias")

        @tf.function(input_signature=[tf.TensorSpec([None, PIXELS], tf.float32)])
        def __call__(self, image):
            return tf.nn.relu(image @ self.hidden + self.hidden_bias) @ self.output + self.output_bias

    return TwoLayers()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of TFRecord files with image (784 numbers) and label")
    parser.add_argument("--rows", type=int, default=5000, help="digits in all files together")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=50)
    parser.add_argument("--learning_rate", type=float, default=0.3)
    parser.add_argument("--model_dir", default="", help="where the first worker saves the model")
    args = parser.parse_args()

    from pyspark import SparkContext

    from tensorflowonspark import TFCluster

    args.data = os.path.abspath(args.data)
    args.model_dir = os.path.abspath(args.model_dir) if args.model_dir else ""
    with SparkContext(appName="mnist_tfrecords") as sc:
        cluster = TFCluster.run(sc, train, args, num_executors=args.workers, num_ps=0)
        cluster.shutdown()


if __name__ == "__main__":
    main()
