"""Models that are trained twice: by several workers together, each with its own batches, and by one process that is
given the batches of all workers put together. Both ways must come to the same.

    python keras_cases.py OUTPUT PACKAGE NAME…
"""

import json
import os
import sys

import numpy as np

tf = None  # until a package is loaded: who only wants the names needs no TensorFlow

NAMES = ("adam", "embedding", "mask", "accumulate slices")
MORE = ("steps", "two", "weighted", "overflow")
MORE += ("sgd", "clip", "decay", "ema", "eager", "sum", "accumulation", "mask before the end", "masking", "weights")
MORE += ("weighted mask", "class weight", "outputs", "own", "jit", "half", "accumulate eagerly", "accumulate steps")
MORE += ("accumulate", "accumulate overflow", "accumulate sum", "accumulate two")
ONLY_KERAS_3 = ("steps", "accumulation", "accumulate steps", "weighted")
ONLY_NEWER = ("weighted",)  # the oldest Keras 3 has no such reduction
WORKERS = 3
# Rows of the batches of each worker, epoch by epoch: uneven, and one without any, also the first.
EPOCHS = [
    [[4, 4, 2], [], [3, 5, 4, 4, 1]],
    [[], [6, 2], [4]],
    [[2, 2], [4], []],
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
    """The same rows wherever they are made: (x, y), or (x, y, sample weights)."""
    random = np.random.default_rng([epoch, worker, step])
    y = random.integers(0, CLASSES, rows)
    if kind == "words":
        return random.integers(0, WORDS, (rows, 4)), y
    if kind in ("texts", "texts twice"):  # words, of which those behind the last are 0; a class for each
        x = random.integers(1, WORDS, (rows, 4)) * (np.arange(4) < random.integers(1, 5, (rows, 1)))
        return x, random.integers(0, CLASSES, (rows, 4))
    if kind == "weighted texts":
        return *batch_of("texts", epoch, worker, step, rows), random.uniform(0, 3, (rows, 4)).astype("float32")
    if kind == "texts of one class":
        return batch_of("texts", epoch, worker, step, rows)[0], y
    if kind == "series":
        present = np.arange(4)[:, None] < random.integers(1, 5, (rows, 1, 1))
        return (random.normal(size=(rows, 4, 2)) * present).astype("float32"), random.integers(0, CLASSES, (rows, 4))
    x = random.normal(size=(rows, FEATURES)).astype("float32")
    if kind == "weighted":
        return x, y, random.uniform(0, 3, rows).astype("float32")
    if kind.startswith("overflow") and (epoch, worker, step) == (0, 2, 0):
        x *= {"overflow": 1e36, "overflow of halves": 1e4}[kind]
    return x, y


def batches(kind, epoch, worker):
    return [batch_of(kind, epoch, worker, step, rows) for step, rows in enumerate(EPOCHS[epoch][worker])]


def together(kind, epoch, group=1):
    """The batches of all workers, `group` steps at a time."""
    each = [batches(kind, epoch, worker) for worker in range(WORKERS)]
    for step in range(0, max(map(len, each)), group):
        present = [batch for one in each for batch in one[step : step + group]]
        yield tuple(map(np.concatenate, zip(*present)))


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


def tagger(keras, outputs=1):
    """A class for each word."""
    layers = keras.layers
    x = layers.Input((4,), dtype="int32")
    found = layers.Embedding(WORDS, 3, mask_zero=True)(x)
    made = [layers.Dense(CLASSES, name=f"out{number}")(found) for number in range(outputs)]
    return keras.Model(x, made if outputs > 1 else made[0])


def reader(keras):
    """A class for each text: nothing is masked at the end."""
    layers = keras.layers
    first = [layers.Input((4,), dtype="int32"), layers.Embedding(WORDS, 3, mask_zero=True)]
    return keras.Sequential([*first, layers.SimpleRNN(3), layers.Dense(CLASSES)])


def series(keras):
    layers = keras.layers
    return keras.Sequential([layers.Input((4, 2)), layers.Masking(), layers.Dense(CLASSES)])


def linear(keras, **options):
    layers = keras.layers
    return keras.Sequential([layers.Input((FEATURES,)), layers.Dense(4), layers.Dense(CLASSES, **options)])


def halves(keras):
    set_policy = getattr(keras.mixed_precision, "set_global_policy", None) or keras.mixed_precision.set_dtype_policy
    set_policy("mixed_float16")
    try:
        return linear(keras)
    finally:
        set_policy("float32")


def own_loss(y_true, y_pred):
    """A number for each row."""
    return tf.reduce_sum(tf.square(y_pred - tf.one_hot(tf.cast(tf.reshape(y_true, [-1]), tf.int32), CLASSES)), -1)


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


class Case:
    """A model, the data it is trained on, and the options of compile, fit and distributed."""

    def __init__(self, kind, make, optimizer, fit=(), together=(), **options):
        self.kind, self.make = kind, make
        self.fit, self.together = dict(fit), dict(together)
        self.options = {"optimizer": optimizer, **options}


def cases(keras):
    """{name: case}."""
    optimizers = keras.optimizers
    three = keras.__name__ == "keras"
    regular = keras.regularizers.L2(0.01)
    adam, sgd = optimizers.Adam, optimizers.SGD
    scaled = optimizers.LossScaleOptimizer if three else keras.mixed_precision.LossScaleOptimizer
    scale = {"initial_scale": 2.0**20, "dynamic_growth_steps": 3}
    two = {"accumulate": 2}
    ema = {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 3}
    found = {
        "sgd": Case("numbers", dense, sgd(0.1, momentum=0.9)),
        "adam": Case("numbers", lambda keras: dense(keras, kernel_regularizer=regular), adam(0.01)),
        "clip": Case("numbers", dense, sgd(0.5, global_clipnorm=0.05)),
        "decay": Case("numbers", dense, optimizers.AdamW(0.01, weight_decay=0.1)),
        "ema": Case("numbers", dense, sgd(0.1, **ema)),
        "eager": Case("numbers", dense, sgd(0.1), run_eagerly=True),
        "sum": Case("numbers", dense, sgd(0.01), loss=loss(keras, reduction="sum")),
        "embedding": Case("words", words, adam(0.05)),
        "two": Case("numbers", _two_optimizers, adam(0.02), first_optimizer=sgd(0.2)),
        "mask": Case("texts", tagger, adam(0.05)),
        "mask before the end": Case("texts of one class", reader, adam(0.05)),
        "masking": Case("series", series, sgd(0.1)),
        "weights": Case("weighted", dense, sgd(0.1)),
        "class weight": Case("numbers", dense, sgd(0.1), fit={"class_weight": {0: 1.0, 1: 0.2, 2: 3.0}}),
        "outputs": Case("texts twice", lambda keras: tagger(keras, 2), adam(0.05)),
        "own": Case("numbers", dense, sgd(0.1), loss=own_loss),
        "jit": Case("numbers", dense, sgd(0.1), jit_compile=True),
        "overflow": Case("overflow", linear, scaled(sgd(0.1), **scale)),
        "half": Case("overflow of halves", halves, scaled(sgd(0.1), initial_scale=1024.0)),
        "accumulate": Case("numbers", dense, adam(0.02, global_clipnorm=0.1, **ema), together=two),
        "accumulate slices": Case("words", words, adam(0.05), together=two),
        "accumulate eagerly": Case("words", words, adam(0.05), together={"accumulate": 3}, run_eagerly=True),
        "accumulate overflow": Case("overflow", linear, scaled(sgd(0.1), **scale), together=two),
        "accumulate sum": Case("numbers", dense, sgd(0.01), together=two, loss=loss(keras, reduction="sum")),
        "accumulate two": Case("numbers", _two_optimizers, adam(0.02), together=two, first_optimizer=sgd(0.2)),
    }
    if three:
        found["accumulation"] = Case("numbers", dense, adam(0.02, gradient_accumulation_steps=2))
        # Which tf_keras has for known lengths.
        found["steps"] = Case("numbers", dense, sgd(0.1), steps_per_execution=3)
        found["accumulate steps"] = Case("texts", tagger, adam(0.05), together=two, steps_per_execution=3)
    if three and _has_reduction(keras, "mean_with_sample_weight"):
        by_weight = loss(keras, reduction="mean_with_sample_weight")
        found["weighted"] = Case("weighted", dense, sgd(0.1), loss=by_weight)
        found["weighted mask"] = Case("weighted texts", tagger, adam(0.05), loss=by_weight)
    else:
        found["weighted mask"] = Case("weighted texts", tagger, adam(0.05))
    for case in found.values():
        case.options.setdefault("loss", loss(keras))
        if "first_optimizer" not in case.options and "of one" not in case.kind and "texts" not in case.kind:
            case.options["metrics"] = ["accuracy"]
    return found


def _has_reduction(keras, name):
    try:
        return bool(loss(keras, reduction=name))
    except ValueError:
        return False


def compiled(keras, name, alone=False):
    case = cases(keras)[name]
    model = case.make(keras)
    if not model.built:
        model(np.zeros((1, FEATURES), "float32"))
    options = dict(case.options)
    if alone:  # what is computed is the same without, and the oldest Keras cannot end amid several steps
        options = {key: value for key, value in options.items() if key not in ("jit_compile", "steps_per_execution")}
    if keras.__name__ == "tf_keras" and "run_eagerly" not in options:
        options.setdefault("jit_compile", False)
    model.compile(**options)
    return case, model


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
    case, model = compiled(keras, name, alone=True)
    kind, group = case.kind, case.together.get("accumulate", 1)
    set_weights(model, 1)
    history = {}
    for optimizer in (model.optimizer, getattr(model, "first_optimizer", model.optimizer)):
        if not getattr(optimizer, "built", False):
            optimizer.build(model.trainable_variables)
    finalize = getattr(model.optimizer, "finalize_variable_values", lambda variables: None)
    object.__setattr__(model.optimizer, "finalize_variable_values", lambda variables: None)
    for epoch in range(len(EPOCHS)):
        data = from_batches(kind, lambda epoch=epoch: together(kind, epoch, group))
        # At an end that it did not expect, Keras counts one step too many.
        data = data.apply(tf.data.experimental.assert_cardinality(len(list(together(kind, epoch, group)))))
        validation = None if "two" in name else from_batches(kind, lambda: together(kind, 0))
        found = model.fit(data, validation_data=validation, verbose=0, **case.fit)
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
    like = batch_of(kind, 0, 0, 0, 1)
    signature = tuple(tf.TensorSpec([None, *each.shape[1:]], each.dtype) for each in like)
    data = tf.data.Dataset.from_generator(generate, output_signature=signature)
    return data.map(lambda x, y: (x, (y, y))) if kind == "texts twice" else data


def worker(keras, name, rank, distributed):
    case, model = compiled(keras, name)
    set_weights(model, 1 + rank)  # those of the first worker count
    validation = None if "two" in name else dataset(case.kind, rank, validation=True)
    options = {"epochs": len(EPOCHS), "validation_data": validation, "verbose": 0}
    with distributed(**case.together):
        found = model.fit(dataset(case.kind, rank), **options, **case.fit)
    history = {key: [float(value) for value in values] for key, values in found.history.items()}
    return describe(model, history)


def all_of(package, names, train):
    """{name: what `train` comes to}, for those that the package has."""
    keras = load(package)
    return {name: train(keras, name) for name in names if name in cases(keras)}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(all_of(sys.argv[2], sys.argv[3:], reference), file)
