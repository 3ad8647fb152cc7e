"""Models that are trained twice: by several workers together, each with its own batches, and by one process that is
given the batches of all workers put together. Both ways must come to the same.

    python keras_cases.py OUTPUT PACKAGE NAME…
"""

import json
import os
import sys

import numpy as np

tf = None  # until a package is loaded: who only wants the names needs no TensorFlow

NAMES = ("adam", "steps", "embedding", "two")
MORE = ("sgd", "clip", "decay", "ema", "eager", "sum", "accumulation")
WORKERS = 3
# Rows of the batches of each worker, epoch by epoch: uneven, and one without any, also the first.
EPOCHS = [
    [[4, 4, 2], [4], [3, 5, 4, 4, 1]],
    [[], [6, 2], [4]],
    [[2, 2], [], [1]],
]
FEATURES, CLASSES, WORDS = 5, 3, 11


def load(name):
    global tf
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    if name == "tf_keras":
        import tf_keras

        return tf_keras
    import keras

    return keras


def batch_of(kind, epoch, worker, step, rows):
    """The same rows wherever they are made."""
    random = np.random.default_rng([epoch, worker, step])
    y = random.integers(0, CLASSES, rows)
    if kind == "words":
        return random.integers(0, WORDS, (rows, 4)), y
    return random.normal(size=(rows, FEATURES)).astype("float32"), y


def batches(kind, epoch, worker):
    return [batch_of(kind, epoch, worker, step, rows) for step, rows in enumerate(EPOCHS[epoch][worker])]


def together(kind, epoch):
    """The batches of all workers, step by step."""
    each = [batches(kind, epoch, worker) for worker in range(WORKERS)]
    for step in range(max(map(len, each))):
        present = [one[step] for one in each if step < len(one)]
        yield np.concatenate([x for x, _ in present]), np.concatenate([y for _, y in present])


# ---- models ----


def dense(keras, **dense_options):
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Dense(7, "tanh", **dense_options),
            layers.Dense(CLASSES),
        ]
    )


def words(keras):
    layers = keras.layers
    return keras.Sequential(
        [layers.Input((4,), dtype="int32"), layers.Embedding(WORDS, 3), layers.Flatten(), layers.Dense(CLASSES)]
    )


def loss(keras, **options):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)


def _two_optimizers(keras):
    class Two(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = keras.layers.Dense(6, "relu")
            self.second = keras.layers.Dense(CLASSES)

        def call(self, x):
            return self.second(self.first(x))

        def compile(self, first_optimizer, **options):
            super().compile(**options)
            self.first_optimizer = first_optimizer

        def train_step(self, data):
            x, y = data[:2]
            with tf.GradientTape(persistent=True) as tape:
                y_pred = self(x, training=True)
                value = loss(keras)(y, y_pred)
            for optimizer, layer in ((self.first_optimizer, self.first), (self.optimizer, self.second)):
                variables = layer.trainable_variables
                optimizer.apply_gradients(zip(tape.gradient(value, variables), variables))
            return {"own_loss": value}

    return Two()


def cases(keras):
    """{name: (kind of data, model, options of compile)}."""
    optimizers = keras.optimizers
    three = keras.__name__ == "keras"
    regular = keras.regularizers.L2(0.01)
    found = {
        "sgd": ("numbers", lambda: dense(keras), {"optimizer": optimizers.SGD(0.1, momentum=0.9)}),
        "adam": ("numbers", lambda: dense(keras, kernel_regularizer=regular), {"optimizer": optimizers.Adam(0.01)}),
        "clip": ("numbers", lambda: dense(keras), {"optimizer": optimizers.SGD(0.5, global_clipnorm=0.05)}),
        "decay": ("numbers", lambda: dense(keras), {"optimizer": optimizers.AdamW(0.01, weight_decay=0.1)}),
        "ema": (
            "numbers",
            lambda: dense(keras),
            {"optimizer": optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3)},
        ),
        "eager": ("numbers", lambda: dense(keras), {"optimizer": optimizers.SGD(0.1), "run_eagerly": True}),
        "sum": (
            "numbers",
            lambda: dense(keras),
            {"optimizer": optimizers.SGD(0.01), "loss": loss(keras, reduction="sum")},
        ),
        "embedding": ("words", lambda: words(keras), {"optimizer": optimizers.Adam(0.05)}),
        "two": (
            "numbers",
            lambda: _two_optimizers(keras),
            {"optimizer": optimizers.Adam(0.02), "first_optimizer": optimizers.SGD(0.2)},
        ),
    }
    if three:
        accumulated = {"optimizer": optimizers.Adam(0.02, gradient_accumulation_steps=2)}
        found["accumulation"] = ("numbers", lambda: dense(keras), accumulated)
        several = {"optimizer": optimizers.SGD(0.1), "steps_per_execution": 3}  # which tf_keras has for known lengths
        found["steps"] = ("numbers", lambda: dense(keras), several)
    for _, _, options in found.values():
        options.setdefault("loss", loss(keras))
        if "first_optimizer" not in options:
            options["metrics"] = ["accuracy"]
    return found


def compiled(keras, name):
    kind, make, options = cases(keras)[name]
    model = make()
    if not model.built:
        model(np.zeros((1, FEATURES), "float32"))
    if keras.__name__ == "tf_keras":
        options = {**options, "jit_compile": False} if "run_eagerly" not in options else options
    model.compile(**options)
    return kind, model


def set_weights(model, seed):
    """Weights that do not depend on how a process draws its random numbers."""
    random = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(random.normal(scale=0.3, size=weight.shape).astype("float32"))


def variables_of(optimizer):
    variables = optimizer.variables
    return variables() if callable(variables) else variables


def describe(model, history):
    optimizers = [model.optimizer, *([model.first_optimizer] if hasattr(model, "first_optimizer") else [])]
    states = [np.asarray(each).tolist() for one in optimizers for each in variables_of(one)]
    weights = [np.asarray(each).tolist() for each in model.weights]
    return {"weights": weights, "optimizer": states, "history": history}


# ---- one process ----


def reference(keras, name):
    """As one call of fit would, if that went through epochs of different lengths."""
    kind, model = compiled(keras, name)
    set_weights(model, 1)
    history = {}
    for optimizer in (model.optimizer, getattr(model, "first_optimizer", model.optimizer)):
        if not getattr(optimizer, "built", True):
            optimizer.build(model.trainable_variables)
    finalize = getattr(model.optimizer, "finalize_variable_values", lambda variables: None)
    object.__setattr__(model.optimizer, "finalize_variable_values", lambda variables: None)
    for epoch in range(len(EPOCHS)):
        data = from_batches(kind, lambda epoch=epoch: together(kind, epoch))
        # At an end that it did not expect, Keras counts one step too many.
        data = data.apply(tf.data.experimental.assert_cardinality(len(list(together(kind, epoch)))))
        validation = None if name == "two" else from_batches(kind, lambda: together(kind, 0))
        found = model.fit(data, validation_data=validation, verbose=0)
        for key, values in found.history.items():
            history.setdefault(key, []).append(float(values[0]))
    finalize(model.trainable_variables)
    return describe(model, history)


# ---- a worker ----


def dataset(kind, worker, validation=False):
    """Of unknown length, which differs from epoch to epoch."""
    position = {"epoch": 0}

    def generate():
        epoch = 0 if validation else position["epoch"]
        position["epoch"] += 1
        yield from batches(kind, epoch, worker)

    return from_batches(kind, generate)


def from_batches(kind, generate):
    x = tf.TensorSpec([None, 4], tf.int64) if kind == "words" else tf.TensorSpec([None, FEATURES], tf.float32)
    return tf.data.Dataset.from_generator(generate, output_signature=(x, tf.TensorSpec([None], tf.int64)))


def worker(keras, name, rank, distributed):
    kind, model = compiled(keras, name)
    set_weights(model, 1 + rank)  # those of the first worker count
    validation = None if name == "two" else dataset(kind, rank, validation=True)
    with distributed():
        found = model.fit(dataset(kind, rank), epochs=len(EPOCHS), validation_data=validation, verbose=0)
    history = {key: [float(value) for value in values] for key, values in found.history.items()}
    return describe(model, history)


def all_of(package, names, train):
    """{name: what `train` comes to}, for those that the package has."""
    keras = load(package)
    return {name: train(keras, name) for name in names if name in cases(keras)}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(all_of(sys.argv[2], sys.argv[3:], reference), file)
