"""Trains an MLP 784-64-10 in Keras 3, after it has exported it for others.

    train_program.py MODEL ROWS BATCH EPOCHS    prints a line of JSON: steps of a second in each epoch

Rows are in memory, in a tf.data.Dataset that is prefetched.
"""

import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from tensorflowonspark import native


def main():
    folder, rows, batch, epochs = sys.argv[1], *map(int, sys.argv[2:])
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([784], name="image"), keras.layers.Dense(64, "relu"), keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    native.export(model, "adam", loss, ["accuracy"], folder, overwrite=True)
    random = np.random.default_rng(1)
    data = random.random([rows, 784], dtype=np.float32), random.integers(0, 10, [rows])
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(batch).prefetch(4)
    model.compile("adam", loss, metrics=["accuracy"])
    model.fit(dataset.take(5), verbose=0)
    speeds = []
    for _ in range(epochs):
        began = time.perf_counter()
        model.fit(dataset, verbose=0)
        speeds.append(-(-rows // batch) / (time.perf_counter() - began))
    print(json.dumps(speeds))


main()
