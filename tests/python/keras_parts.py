"""What programs do beside one call of fit, done by several workers together (`together` is the module) and by one
process that has the batches of all of them (`together` is None).

    python keras_parts.py OUTPUT PACKAGE FOLDER
"""

import contextlib
import json
import os
import sys

import numpy as np

import keras_cases
from keras_cases import WORKERS, dense, loss, set_weights, variables_of

STEPS, EPOCHS = 3, 2


def batch_of(epoch, step, rank):
    return keras_cases.batch_of("numbers", epoch, rank, step, rows=2 + (rank + step) % 3)


def data_of(rank, steps=STEPS, epochs=None):
    """Batches of a worker, or those of all; every epoch the same ones, or as many as there are in so many epochs."""
    ranks = range(WORKERS) if rank is None else [rank]

    def generate():
        for epoch in range(epochs or 1):
            for step in range(steps):
                yield tuple(map(np.concatenate, zip(*[batch_of(epoch, step, each) for each in ranks])))

    data = keras_cases.from_batches("numbers", generate)
    return data.apply(keras_cases.tf.data.experimental.assert_cardinality(steps * (epochs or 1)))


def made(keras, rank, optimizer="adam"):
    model = dense(keras)
    set_weights(model, 1 + (rank or 0))
    options = {"jit_compile": False} if keras.__name__ == "tf_keras" else {}
    model.compile(optimizer, loss(keras), metrics=["accuracy"], **options)
    return model


def weights_of(model):
    variables = [*model.weights, *variables_of(model.optimizer)]
    return [np.asarray(each).tolist() for each in variables]


def distributed(together):
    return together.distributed() if together else contextlib.nullcontext()


# ---- parts ----


def loop(keras, together, rank, folder):
    """A loop of the program's own, whose batches differ in size."""
    tf = keras_cases.tf
    model = made(keras, rank)
    count = tf.Variable(0.0)
    optimizer = keras.optimizers.SGD(0.1)
    if together:
        optimizer = together.DistributedOptimizer(optimizer, weight=count)
    set_weights(model, 1)

    @tf.function(reduce_retracing=True)
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(keras)(y, model(x, training=True))
        count.assign(tf.cast(tf.shape(x)[0], tf.float32))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for x, y in data_of(rank):
        step(x, y)
    return [np.asarray(each).tolist() for each in model.weights]


def plain_fit(keras, together, rank, folder):
    """Fit without distributed. Batches of a step have the same size, so that the mean of workers is that of rows."""
    model = made(keras, rank, "sgd")
    ranks = range(WORKERS) if rank is None else [rank]
    batches = [[keras_cases.batch_of("numbers", 0, each, step, rows=4) for each in ranks] for step in range(STEPS)]
    whole = [tuple(map(np.concatenate, zip(*batch))) for batch in batches]
    data = keras_cases.from_batches("numbers", lambda: iter(whole))
    data = data.apply(keras_cases.tf.data.experimental.assert_cardinality(STEPS))
    callbacks = []
    if together:
        together.DistributedOptimizer(model.optimizer)
        callbacks = [together.BroadcastVariables(), together.MetricAverage()]
    found = model.fit(data, epochs=EPOCHS, callbacks=callbacks, verbose=0).history
    if together and rank == 1:
        model.save(os.path.join(folder, "merging.keras"))
    return [weights_of(model), [float(value) for value in found["loss"] + found["accuracy"]]]


def again(keras, together, rank, folder):
    """Models that are compiled again, cloned, and loaded."""
    path = os.path.join(folder, f"{rank}.keras")
    found = []
    with distributed(together):
        model = made(keras, rank)
        model.fit(data_of(rank), verbose=0)
        found.append(weights_of(model))
        options = {"jit_compile": False} if keras.__name__ == "tf_keras" else {}
        model.compile(keras.optimizers.SGD(0.2), loss(keras), **options)
        model.fit(data_of(rank), verbose=0)
        found.append(weights_of(model))
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        clone.compile("adam", loss(keras), **options)
        clone.fit(data_of(rank), verbose=0)
        found.append(weights_of(clone))
        saving = keras.callbacks.ModelCheckpoint(path)  # while it is fitted
        clone.fit(data_of(rank), callbacks=[saving], verbose=0)
        loaded = keras.models.load_model(path)
        loaded.fit(data_of(rank), verbose=0)
        found.append(weights_of(loaded))
    return found


def steps_per_epoch(keras, together, rank, folder):
    model = made(keras, rank)
    with distributed(together):
        found = model.fit(data_of(rank, epochs=2), steps_per_epoch=2, epochs=3, verbose=0).history
    return [weights_of(model), [float(value) for value in found["loss"]]]


def stopped(keras, together, rank, folder):
    """One worker has enough after an epoch."""
    model = made(keras, rank)
    callbacks = []
    if rank in (None, 1):
        stop = keras.callbacks.LambdaCallback(on_epoch_end=lambda *unused: setattr(model, "stop_training", True))
        callbacks = [stop]
    with distributed(together):
        found = model.fit(data_of(rank), epochs=5, callbacks=callbacks, verbose=0).history
    return [weights_of(model), [float(value) for value in found["loss"]]]


def resumed(keras, together, rank, folder):
    """Two epochs, and in a model of another process, as it were, two more."""
    path = os.path.join(folder, "checkpoints")
    if together is None:
        model = made(keras, rank)
        model.fit(data_of(rank), epochs=4, verbose=0)
        return [weights_of(model), [2, 3]]
    with distributed(together):
        model = made(keras, rank)
        model.fit(data_of(rank), epochs=2, callbacks=[together.CheckpointOnChief(path)], verbose=0)
        model = made(keras, 7 + rank)
        kept = together.CheckpointOnChief(path)
        found = model.fit(data_of(rank), epochs=4, callbacks=[kept], verbose=0)
    assert kept.resumed == (2, 0)
    return [weights_of(model), list(found.epoch)]


PARTS = (loop, plain_fit, again, steps_per_epoch, stopped, resumed)


def run(package, together, rank, folder):
    keras = keras_cases.load(package)
    return {part.__name__: part(keras, together, rank, folder) for part in PARTS}


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(run(sys.argv[2], None, None, sys.argv[3]), file)
