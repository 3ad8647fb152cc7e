"""The program of a node for section "collective": it measures one thing, and the first worker writes it down.

    collective_program.py WHAT FOLDER STEPS

WHAT is `sums-ours` or `sums-theirs`: the time of a sum of all workers inside a function of TensorFlow, by size; or
`cnn-ours`, `cnn-theirs` or `cnn-alone`: the time of a step of Keras, with us, with tf_keras under
MultiWorkerMirroredStrategy, and of workers that have nothing to do with each other.
"""

import json
import os
import statistics
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

SIZES = [4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20]
BATCH = 64


def who():
    return json.loads(os.environ["TF_CONFIG"])["task"]["index"]


def workers():
    return len(json.loads(os.environ["TF_CONFIG"])["cluster"]["worker"])


# ---- sums ----


def ours():
    from tensorflowonspark import collective

    return lambda tensor: collective.allreduce(tensor, "sum"), tf.function


def theirs():
    """As a model under the strategy would do it: the collective op of TensorFlow, on the strategy's devices."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def add(tensor):
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tensor)

    return add, lambda function: tf.function(lambda: strategy.run(function))


def sums(how, steps):
    """{bytes: seconds}, the median of some runs of several sums each, one behind the other."""
    add, wrap = how()
    found = {}
    for size in SIZES:
        count = max(3, min(steps, 20, (64 << 20) // size))
        zeros = tf.zeros([size // 4])

        def several(zeros=zeros, count=count):
            tensor = zeros
            for _ in range(count):  # in Python: a strategy has no collectives inside a loop of TensorFlow's
                tensor = add(tensor)
            return tf.reduce_sum(tensor[:1])

        run = wrap(several)
        run()
        times = []
        for _ in range(15):
            begin = time.perf_counter()
            run()
            times.append((time.perf_counter() - begin) / count)
        found[size] = statistics.median(times)
    return found


# ---- steps ----


def cnn(keras):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )


def fit(keras, model, steps):
    """Seconds of a step: the best of some epochs, without the ends of these."""
    random = np.random.default_rng(who())
    x = random.normal(size=(BATCH * steps, 28, 28, 1)).astype("float32")
    y = random.integers(0, 10, BATCH * steps)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).cache()
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    times = []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.last, self.batches = time.perf_counter(), batch
            if batch == 0:
                self.first = self.last

        def on_epoch_end(self, epoch, logs=None):
            times.append((self.last - self.first) / self.batches)

    model.fit(data.with_options(options), epochs=4, verbose=0, callbacks=[Clock()])
    return min(times[1:])


def compiled(keras):
    model = cnn(keras)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def cnn_ours(steps):
    import keras

    from tensorflowonspark import keras as together

    with together.distributed():
        return fit(keras, compiled(keras), steps)


def cnn_alone(steps):
    import keras

    from tensorflowonspark import collective

    collective.barrier()  # they begin together, and have nothing to do with each other from then on
    return fit(keras, compiled(keras), steps)


def cnn_theirs(steps):
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    import tf_keras

    with strategy.scope():
        model = compiled(tf_keras)
    return fit(tf_keras, model, steps)


WORKS = {
    "sums-ours": lambda steps: sums(ours, steps),
    "sums-theirs": lambda steps: sums(theirs, steps),
    "cnn-ours": cnn_ours,
    "cnn-theirs": cnn_theirs,
    "cnn-alone": cnn_alone,
}


def wait_for(paths, seconds):
    """A worker of TensorFlow's that leaves takes what the others are still reading from it along."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not all(map(os.path.exists, paths)):
        time.sleep(0.05)


def main():
    what, folder, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
    found = WORKS[what](steps)
    paths = [os.path.join(folder, f"{what}.{rank}.json") for rank in range(workers())]
    with open(paths[who()], "w", encoding="utf-8") as file:
        json.dump(found, file)
    wait_for(paths, 60)
    os._exit(0)  # a strategy that is left waits for the others


if __name__ == "__main__":
    main()
