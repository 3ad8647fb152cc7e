"""Models that were exported to be trained, with rows for them: made once for all test files."""

import os

import numpy

from tensorflowonspark import native, records

ROWS = 300


def make_model():
    import keras

    keras.utils.set_random_seed(3)
    layers = [keras.Input([8], name="x"), keras.layers.Dense(16, "relu"), keras.layers.BatchNormalization()]
    return keras.Sequential([*layers, keras.layers.Dense(3)])


def make_rows():
    x = numpy.random.default_rng(1).normal(size=[ROWS, 8]).astype(numpy.float32)
    return {"x": x, "label": numpy.argmax(x[:, :3], axis=1).astype(numpy.int64)}


def write(folder):
    """The models `model` and `alone`, which has no step of many workers, and the rows as TFRecords in `data`."""
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    native.export(make_model(), keras.optimizers.Adam(0.01), loss, ["accuracy"], folder / "model", sample_weight=True)
    native.export(make_model(), "adam", loss, None, folder / "alone", distributed=False)
    os.makedirs(folder / "data")
    for at in range(4):
        part = slice(at * ROWS // 4, (at + 1) * ROWS // 4)
        data = {name: values[part] for name, values in make_rows().items()}
        records.write(folder / "data" / f"part-{at}.tfrecord", data)
    return folder
