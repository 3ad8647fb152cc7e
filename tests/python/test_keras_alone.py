"""What `tensorflowonspark.keras` refuses, and its checkpoints, in a process that is a group of one."""

import contextlib
import os
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow", allow_module_level=True)

import keras_cases
from keras_cases import CLASSES, FEATURES, WORDS, dense, loss, tagger
from tensorflowonspark import _keras_gradients
from tensorflowonspark import keras as together


@pytest.fixture(scope="module", params=["keras", "tf_keras"])
def keras(request):
    return keras_cases.load(request.param)


def compiled(keras, model, optimizer="sgd", **options):
    if keras.__name__ == "tf_keras":
        options["jit_compile"] = False
    model.compile(optimizer, **options)
    return model


def fit(model, kind="numbers", steps=4, **options):
    batches = [keras_cases.batch_of(kind, 0, 0, step, 4) for step in range(steps)]
    data = keras_cases.from_batches(kind, lambda: iter(batches))
    data = data.apply(keras_cases.tf.data.experimental.assert_cardinality(steps))
    return model.fit(data, verbose=0, **options)


# ---- what is refused ----


def one_number(y_true, y_pred):
    return keras_cases.tf.reduce_mean(keras_cases.own_loss(y_true, y_pred))


def adds_to_loss(keras):
    class Adds(keras.layers.Layer):
        def call(self, x):
            self.add_loss(keras_cases.tf.reduce_sum(x))
            return x

    return keras.Sequential([keras.layers.Input((FEATURES,)), Adds(), keras.layers.Dense(CLASSES)])


def half_masked(keras):
    layers = keras.layers
    x = layers.Input((4,), dtype="int32")
    words = [layers.Embedding(WORDS, 3, mask_zero=mask)(x) for mask in (True, False)]
    return keras.Model(x, [layers.Dense(CLASSES)(each) for each in words])


def sum_in_a_step(keras):
    class Sums(keras.Sequential):
        def train_step(self, data):
            x, y = data
            with keras_cases.tf.GradientTape() as tape:
                value = loss(keras, reduction="sum")(y, self(x, training=True))
            gradients = tape.gradient(value, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"own": value}

    return Sums([keras.layers.Input((FEATURES,)), keras.layers.Dense(CLASSES)])


def regular(keras):
    return dense(keras, kernel_regularizer=keras.regularizers.L2(0.1))


def twice(keras):
    class Twice(keras.Sequential):
        def train_step(self, data):
            super().train_step(data)
            return super().train_step(data)

    return Twice([keras.layers.Input((FEATURES,)), keras.layers.Dense(CLASSES)])


REFUSED = {
    "one number": (dense, lambda keras: one_number, "numbers", {}, "one number for the whole batch"),
    "none": (dense, lambda keras: loss(keras, reduction="none"), "numbers", {}, r"reductions \['none'\]"),
    "added": (adds_to_loss, loss, "numbers", {}, "adds to the loss"),
    "half masked": (half_masked, loss, "texts twice", {}, "what is not masked, others over all"),
    "sum of a step": (sum_in_a_step, lambda keras: None, "numbers", {}, "reduction of a loss is 'sum'"),
    "regularizers": (regular, lambda keras: loss(keras, reduction="sum"), "numbers", {}, "regularizers"),
    "twice": (twice, loss, "numbers", {"accumulate": 2}, "applied twice in one step"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(keras, name):
    make, loss_of, kind, options, words = REFUSED[name]
    model = compiled(keras, make(keras), loss=loss_of(keras))
    with together.distributed(**options), pytest.raises(ValueError, match=words):
        fit(model, kind)


@pytest.mark.parametrize("option", [{"op": "mean"}, {"op": "sum"}, {"weight": lambda batch: 3.0}])
@pytest.mark.parametrize("name", [name for name in REFUSED if name != "twice"])
def test_what_is_said_is_not_refused(keras, name, option):
    make, loss_of, kind, _, _ = REFUSED[name]
    model = compiled(keras, make(keras), loss=loss_of(keras))
    with together.distributed(**option):
        fit(model, kind, steps=1)


def test_masks_of_different_lengths(keras):
    """Two outputs whose losses divide by different numbers, which only the rows tell."""
    layers = keras.layers
    words = [layers.Input((4,), dtype="int32") for _ in range(2)]
    made = [layers.Dense(CLASSES)(layers.Embedding(9, 3, mask_zero=True)(each)) for each in words]
    model = compiled(keras, keras.Model(words, made), loss=loss(keras))
    x, y = np.array([[1, 2, 3, 0]]), np.array([[0, 1, 2, 0]])
    with together.distributed():
        model.fit([x, x], [y, y], verbose=0)
        with pytest.raises(keras_cases.tf.errors.InvalidArgumentError, match="divide by different numbers"):
            model.fit([x, np.array([[1, 0, 0, 0]])], [y, y], verbose=0)


def test_arguments():
    for wrong, words in (({"accumulate": 0}, "accumulate"), ({"op": "max"}, "op is 'mean' or 'sum'")):
        with pytest.raises(ValueError, match=words), together.distributed(**wrong):
            pass
    with pytest.raises(ValueError, match="op is 'mean' or 'sum'"):
        together.DistributedOptimizer(None, op="max")


def test_half_precision_needs_the_outer_optimizer(keras):
    set_policy = getattr(keras.mixed_precision, "set_global_policy", None) or keras.mixed_precision.set_dtype_policy
    outer = getattr(keras.optimizers, "LossScaleOptimizer", None) or keras.mixed_precision.LossScaleOptimizer
    set_policy("mixed_float16")
    try:
        with pytest.raises(ValueError, match="give DistributedOptimizer a LossScaleOptimizer"):
            together.DistributedOptimizer(keras.optimizers.SGD())
        together.DistributedOptimizer(outer(keras.optimizers.SGD()))
    finally:
        set_policy("float32")


def test_gradients_are_merged_once(keras, monkeypatch):
    """Also by a DistributedOptimizer inside of distributed()."""
    model = compiled(keras, dense(keras), together.DistributedOptimizer(keras.optimizers.SGD()), loss=loss(keras))
    calls = []
    merge = _keras_gradients.merge_gradients
    monkeypatch.setattr(_keras_gradients, "merge_gradients", lambda *given: calls.append(given) or merge(*given))
    model.run_eagerly = True
    fit(model, steps=3)
    assert len(calls) == 3
    with together.distributed():
        fit(model, steps=3)
    assert len(calls) == 6


@pytest.mark.parametrize("rows", [None, 4])
def test_nothing_is_counted_at_the_end_of_the_data(keras, rows):
    """Where a step begins that gets no rows."""
    tf = keras_cases.tf

    class Steps(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="steps")
            self.count = self.add_weight(shape=(), initializer="zeros", name="count")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.count.assign_add(1.0)

        def result(self):
            return self.count + 0.0

        def reset_state(self):
            self.count.assign(0.0)

    model = compiled(keras, dense(keras), loss=loss(keras), metrics=[Steps()])
    signature = (tf.TensorSpec([rows, FEATURES], tf.float32), tf.TensorSpec([rows], tf.int64))
    batches = [keras_cases.batch_of("numbers", 0, 0, 0, 4)] * 3
    data = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    with together.distributed():
        found = model.fit(data, validation_data=data, epochs=2, verbose=0).history
    assert (found["steps"], found["val_steps"]) == ([3.0, 3.0], [3.0, 3.0])


# ---- checkpoints ----


class Killed(Exception):
    pass


def kill_at(keras, epoch, batch):
    at = {}

    def kill(number, logs):
        if (at["epoch"], number) == (epoch, batch):
            raise Killed

    return keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda number, logs: at.update(epoch=number), on_train_batch_end=kill
    )


@pytest.mark.parametrize("scope", [together.distributed, contextlib.nullcontext])
def test_goes_on_where_it_was(keras, tmp_path, scope):
    """Killed in the third batch of the second epoch, when two batches of it were saved."""
    model = compiled(keras, dense(keras), "adam", loss=loss(keras))
    kept = together.CheckpointOnChief(tmp_path, every_steps=2)
    with scope(), pytest.raises(Killed):
        fit(model, epochs=3, callbacks=[kept, kill_at(keras, 1, 2)])
    again = compiled(keras, dense(keras), "adam", loss=loss(keras))
    kept = together.CheckpointOnChief(tmp_path, every_steps=2, keep=2)
    with scope():
        found = fit(again, epochs=3, callbacks=[kept])
    assert kept.resumed == (1, 2)
    assert found.epoch == [1, 2]
    assert np.asarray(again.optimizer.iterations) == 4 + 2 + 2 * 4
    with scope():
        assert fit(again, epochs=5, initial_epoch=3).epoch == [3, 4]  # nothing of that stays
        assert fit(again, epochs=3, callbacks=[kept]).epoch == []  # which it has come to
    assert sum(name.endswith(".index") for name in os.listdir(tmp_path)) == 2


def test_half_written_checkpoints_are_not_taken(keras, tmp_path):
    tf = keras_cases.tf
    model = compiled(keras, dense(keras), "adam", loss=loss(keras))
    fit(model, epochs=2, callbacks=[together.CheckpointOnChief(tmp_path)])
    whole = tf.train.latest_checkpoint(tmp_path)
    (tmp_path / "ckpt-3.index").write_bytes(b"half of an index")
    (tmp_path / "ckpt-3_temp").mkdir()
    (tmp_path / "ckpt-3_temp" / "part-00000-of-00001.data-00000-of-00001").write_bytes(b"half")
    again = compiled(keras, dense(keras), "adam", loss=loss(keras))
    kept = together.CheckpointOnChief(tmp_path)
    assert fit(again, epochs=2, callbacks=[kept]).epoch == []
    assert kept.resumed == (2, 0)
    assert [w.tolist() for w in again.get_weights()] == [w.tolist() for w in model.get_weights()]
    assert sorted(os.listdir(tmp_path))[-1].startswith(os.path.basename(whole))
    # As TensorFlow restores it by itself.
    third = compiled(keras, dense(keras), "adam", loss=loss(keras))
    tf.train.Checkpoint(model=third).restore(whole).expect_partial()
    assert [w.tolist() for w in third.get_weights()] == [w.tolist() for w in model.get_weights()]


def test_checkpoint_of_another_model(keras, tmp_path):
    model = compiled(keras, dense(keras), "adam", loss=loss(keras))
    fit(model, callbacks=[together.CheckpointOnChief(tmp_path)])
    other = compiled(keras, tagger(keras), "adam", loss=loss(keras))
    with pytest.raises(ValueError, match=r"ckpt-1 is of another model"):
        fit(other, "texts", callbacks=[together.CheckpointOnChief(tmp_path)])


def test_checkpoints_on_a_file_system_of_tensorflow(keras):
    path = f"ram://checkpoints/{keras.__name__}"
    fit(compiled(keras, dense(keras), "adam", loss=loss(keras)), callbacks=[together.CheckpointOnChief(path)])
    kept = together.CheckpointOnChief(path)
    model = compiled(keras, dense(keras), "adam", loss=loss(keras))
    assert fit(model, epochs=2, callbacks=[kept]).epoch == [1]
    assert kept.resumed == (1, 0)
