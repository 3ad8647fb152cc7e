"""Models that are exported, and trained by Keras beside: what to make, how to compile it, and batches of it.

A batch is {name in the signature: array}; `data` makes of it what Keras is given.
"""

import numpy as np

FEATURES, CLASSES, WORDS = 5, 3, 11
ROWS = (4, 3, 5)


class Case:
    def __init__(self, make, kind="numbers", data=None, options=None, **compiled):
        self.make = make
        self.kind = kind
        self.data = data or (lambda batch: (batch["input"], batch["label"]))
        self.options = options or {}
        self.compiled = compiled

    def batches(self, rows=ROWS, seed=3):
        return batches(self.kind, rows, seed)


def batches(kind, rows, seed):
    random = np.random.default_rng(seed)
    return [_batch(kind, random, count) for count in rows]


def _batch(kind, random, rows):
    numbers = random.normal(size=(rows, FEATURES)).astype("float32")
    classes = random.integers(0, CLASSES, rows)
    if kind == "texts":
        words = random.integers(1, WORDS, (rows, 4)) * (np.arange(4) < random.integers(1, 5, (rows, 1)))
        return {"input": words.astype("int32"), "label": random.integers(0, CLASSES, (rows, 4))}
    if kind == "strings":
        return {"input": random.choice(np.array([b"a", b"b", b"c", b"x"], object), (rows, 2)), "label": classes}
    if kind == "weighted":
        return {"input": numbers, "label": classes, "sample_weight": random.uniform(0, 3, rows).astype("float32")}
    if kind == "likely":
        return {"input": numbers, "label": random.integers(0, 2, (rows, 1)).astype("float32")}
    if kind == "people":
        age = random.uniform(0, 1, (rows, 1)).astype("float32")
        return {
            "face": numbers,
            "name": random.integers(0, WORDS, (rows, 4)).astype("int32"),
            "kind": classes,
            "age": age,
        }
    return {"input": numbers, "label": classes}


def weighted(batch):
    return batch["input"], batch["label"], batch["sample_weight"]


def texts(batch):
    import tensorflow as tf

    return tf.constant(batch["input"]), batch["label"]


# ---- models ----


def dense(keras, **options):
    layers = keras.layers
    first = layers.Dense(7, "tanh", **options)
    return keras.Sequential([layers.Input((FEATURES,)), first, layers.Dense(CLASSES)])


def regular(keras):
    return dense(keras, kernel_regularizer=keras.regularizers.L2(0.01))


def normal(keras):
    """With moving statistics, and random numbers of a seed."""
    layers = keras.layers
    first = [layers.Input((FEATURES,)), layers.Dense(7, use_bias=False), layers.BatchNormalization(momentum=0.5)]
    return keras.Sequential([*first, layers.Dropout(0.3, seed=7), layers.Dense(CLASSES)])


def tagger(keras):
    layers = keras.layers
    x = layers.Input((4,), dtype="int32")
    return keras.Model(x, layers.Dense(CLASSES)(layers.Embedding(WORDS, 3, mask_zero=True)(x)))


def people(keras, form=list):
    """Two inputs and two outputs, with names of layers or keys of dicts."""
    layers = keras.layers
    face, name = layers.Input((FEATURES,), name="face"), layers.Input((4,), dtype="int32", name="name")
    words = layers.Flatten()(layers.Embedding(WORDS, 2)(name))
    both = layers.Concatenate()([layers.Dense(4, "tanh")(face), words])
    kind, age = layers.Dense(CLASSES, name="kind")(both), layers.Dense(1, name="age")(both)
    if form is dict:
        return keras.Model({"name": name, "face": face}, {"kind": kind, "age": age})
    return keras.Model([face, name], [kind, age])


def own(keras):
    """A class of the program's own, with inputs in a dict."""

    class Own(keras.Model):
        def __init__(self):
            super().__init__()
            self.first = keras.layers.Dense(4, "relu")
            self.second = keras.layers.Dense(CLASSES)

        def call(self, given, training=False):
            return self.second(self.first(given["input"]))

    model = Own()
    model({"input": np.zeros((1, FEATURES), "float32")})
    return model


def own_step(keras):
    """A step of the program's own, with two optimizers and a loss that no metric of Keras has."""
    import tensorflow as tf

    class Two(keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = keras.layers.Dense(6, "relu"), keras.layers.Dense(CLASSES)

        def call(self, x):
            return self.second(self.first(x))

        def compile(self, first_optimizer, **options):
            super().compile(**options)
            self.first_optimizer = first_optimizer

        def train_step(self, data):
            x, y = data[:2]
            with tf.GradientTape(persistent=True) as tape:
                value = logits(keras)(y, self(x, training=True))
            for optimizer, layer in ((self.first_optimizer, self.first), (self.optimizer, self.second)):
                variables = layer.trainable_variables
                optimizer.apply_gradients(zip(tape.gradient(value, variables), variables))
            return {"own_loss": value}

    model = Two()
    model(np.zeros((1, FEATURES), "float32"))
    options = {"jit_compile": False} if keras.__name__ == "tf_keras" else {}
    model.compile(keras.optimizers.SGD(0.2), optimizer=keras.optimizers.Adam(0.01), loss=logits(keras), **options)
    return model


def halves(keras):
    set_policy = getattr(keras.mixed_precision, "set_global_policy", None) or keras.mixed_precision.set_dtype_policy
    set_policy("mixed_float16")
    try:
        return dense(keras)
    finally:
        set_policy("float32")


def strings(keras):
    layers = keras.layers
    x = layers.Input((2,), dtype="string")
    found = layers.Embedding(5, 3)(layers.StringLookup(vocabulary=["a", "b", "c"])(x))
    return keras.Model(x, layers.Dense(CLASSES)(layers.Flatten()(found)))


def logits(keras, **options):
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, **options)


# ---- cases ----


def models(keras):
    """{name: case}."""
    adam, loss = keras.optimizers.Adam, logits(keras)
    plain = {"loss": loss, "metrics": ["accuracy"]}
    heads = {"loss": {"kind": loss, "age": "mse"}, "loss_weights": {"kind": 1.0, "age": 0.3}}
    listed = {"loss": [loss, "mae"], "metrics": [["accuracy"], ["mse"]]}
    if keras.__name__ == "tf_keras":
        listed["metrics"] = {"kind": "accuracy", "age": "mse"}

    def list_of(batch):
        return [batch["face"], batch["name"]], [batch["kind"], batch["age"]]

    def dict_of(batch):
        return {key: batch[key] for key in ("face", "name")}, {key: batch[key] for key in ("kind", "age")}

    def inside(batch):
        return {"input": batch["input"]}, batch["label"]

    numbers = np.zeros((2, FEATURES), "float32"), np.zeros(2, "int64")
    sums = [keras.metrics.AUC(num_thresholds=20), keras.metrics.Precision(), "mse"]
    return {
        "dense": Case(regular, optimizer=lambda: adam(0.01), **plain),
        "moving statistics and seeds": Case(normal, optimizer=lambda: adam(0.01), **plain),
        "several, in lists": Case(people, "people", list_of, optimizer=lambda: adam(0.01), **listed),
        "several, in dicts": Case(
            lambda keras: people(keras, dict), "people", dict_of, optimizer=lambda: adam(0.01), **heads
        ),
        "masks": Case(tagger, "texts", optimizer=lambda: adam(0.05), **plain),
        "own class": Case(
            own,
            data=inside,
            options={"batch": ({"input": numbers[0]}, numbers[1])},
            optimizer=lambda: adam(0.01),
            **plain,
        ),
        "sample weights": Case(
            dense,
            "weighted",
            weighted,
            options={"sample_weight": True},
            optimizer=lambda: adam(0.01),
            loss=loss,
            weighted_metrics=["accuracy"],
        ),
        "half precision": Case(halves, optimizer=lambda: adam(0.01), **plain),
        "strings": Case(strings, "strings", texts, optimizer=lambda: adam(0.01), **plain),
        "curves": Case(_probability, "likely", optimizer=lambda: adam(0.01), loss="mse", metrics=sums),
    }


def _probability(keras):
    layers = keras.layers
    return keras.Sequential([layers.Input((FEATURES,)), layers.Dense(1, "sigmoid")])


def optimizers(keras):
    """{name: function that makes one}."""
    found = keras.optimizers
    three = keras.__name__ == "keras"
    scaled = found.LossScaleOptimizer if three else keras.mixed_precision.LossScaleOptimizer
    ema = {"use_ema": True, "ema_momentum": 0.8, "ema_overwrite_frequency": 3}
    made = {
        "schedule": lambda: found.SGD(found.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9, nesterov=True),
        "ema": lambda: found.SGD(0.1, **ema),
        "clip": lambda: found.SGD(0.5, global_clipnorm=0.05),
        "scale": lambda: scaled(found.Adam(0.01), initial_scale=2.0**10, dynamic_growth_steps=2),
        "accumulation": lambda: found.Adam(0.01, gradient_accumulation_steps=2),
        "sgd": lambda: found.SGD(0.1),
        "amsgrad": lambda: found.Adam(0.01, amsgrad=True),
        "adamw": lambda: found.AdamW(0.01, weight_decay=0.1),
        "rmsprop": lambda: found.RMSprop(0.01, centered=True, momentum=0.5),
        "adagrad": lambda: found.Adagrad(0.1),
        "adadelta": lambda: found.Adadelta(0.5),
        "adamax": lambda: found.Adamax(0.01),
        "nadam": lambda: found.Nadam(0.01),
        "ftrl": lambda: found.Ftrl(0.1),
        "lion": lambda: found.Lion(0.01),
        "adafactor": lambda: found.Adafactor(0.01),
        "clipnorm": lambda: found.SGD(0.5, clipnorm=0.1),
        "clipvalue": lambda: found.SGD(0.5, clipvalue=0.01),
        "lamb": lambda: found.Lamb(0.01),
        "muon": lambda: found.Muon(0.01),
        "loss scale factor": lambda: found.SGD(0.1, loss_scale_factor=4.0),
    }
    missing = {"lamb": "Lamb", "muon": "Muon"}
    made = {name: make for name, make in made.items() if hasattr(found, missing.get(name, "SGD"))}
    if not three:
        for name in ("accumulation", "loss scale factor", "nadam"):
            made.pop(name)
    return made


DAILY = ("schedule", "ema", "scale", "accumulation")
REST = ("clip", "sgd", "amsgrad", "adamw", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "ftrl", "lion")
REST += ("adafactor", "clipnorm", "clipvalue", "lamb", "muon", "loss scale factor")
