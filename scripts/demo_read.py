"""Reads the shards of the demo into NumPy, and one of them with tf.data, and compares: scripts/demo calls it."""

import glob
import sys

import numpy as np

from tensorflowonspark import records


def read_all(paths):
    batches = list(records.read(paths, columns=["image", "label"]))
    return np.concatenate([batch["image"] for batch in batches]), np.concatenate([batch["label"] for batch in batches])


def read_with_tensorflow(path):
    import tensorflow as tf

    features = {"image": tf.io.FixedLenFeature([784], tf.int64), "label": tf.io.FixedLenFeature([], tf.int64)}
    dataset = tf.data.TFRecordDataset(path).batch(1024).map(lambda batch: tf.io.parse_example(batch, features))
    batches = list(dataset.as_numpy_iterator())
    return np.concatenate([batch["image"] for batch in batches]), np.concatenate([batch["label"] for batch in batches])


def main(folder):
    images, labels = read_all(folder)
    print(f"images {images.shape} {images.dtype}, labels {labels.shape} {labels.dtype}")
    counts = np.bincount(labels, minlength=10)
    print("digits of each class: " + ", ".join(f"{digit}: {count}" for digit, count in enumerate(counts)))
    shard = sorted(glob.glob(f"{folder}/*.tfrecord"))[0]
    ours, theirs = read_all(shard), read_with_tensorflow(shard)
    if not all(map(np.array_equal, ours, theirs)):
        sys.exit(f"tf.data reads {shard} differently")
    print(f"tf.data reads the {len(theirs[1])} digits of the first shard: equal, value by value")


if __name__ == "__main__":
    main(sys.argv[1])
