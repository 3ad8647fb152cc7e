"""Training without Python, on this machine: `tfos train` on exported models, against Keras, and what becomes of
checkpoints, of losses that are not finite, and of options that make no sense."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow", allow_module_level=True)

import keras
import tensorflow as tf
from processes import wait_for

from tensorflowonspark import native, records
from test_cli import TFOS

ROWS, BATCH, SECONDS = 200, 16, 120


# ---- models and data ----


def make_model(dropout=False):
    keras.utils.set_random_seed(3)
    layers = [keras.Input([8], name="x"), keras.layers.Dense(16, "relu")]
    layers += [keras.layers.Dropout(0.3, seed=5)] if dropout else []
    return keras.Sequential([*layers, keras.layers.Dense(3)])


def loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("train")
    random = np.random.default_rng(1)
    x = random.normal(size=[ROWS, 8]).astype(np.float32)
    y = np.argmax(x[:, :3] + random.normal(size=[ROWS, 3]) / 5, axis=1).astype(np.int64)
    np.savez(folder / "rows.npz", x=x, y=y)
    os.makedirs(folder / "data")
    for at in range(4):
        part = slice(at * ROWS // 4, (at + 1) * ROWS // 4)
        records.write(folder / "data" / f"part-{at}.tfrecord", {"x": x[part], "label": y[part]})
    records.write(folder / "holes.tfrecord", {"x": np.where(x == x[100, 0], np.inf, x), "label": y})
    records.write(folder / "other.tfrecord", {"x": x[:, :5], "label": y})
    records.write(folder / "words.tfrecord", {"x": x, "label": [str(each) for each in y]})
    records.write(folder / "reals.tfrecord", {"x": x, "label": y.astype(np.float32)})
    native.export(make_model(), "adam", loss(), ["accuracy"], folder / "plain")
    native.export(
        make_model(dropout=True), keras.optimizers.SGD(0.1, momentum=0.9), loss(), ["accuracy"], folder / "random"
    )
    return folder


def train(place, model="plain", data="data", *options, code=0, folder=None, **variables):
    """The outcome of a run, and what it said. A variable that is None is not in its environment."""
    words = [TFOS, "train", "--model", place / model, "--data", place / data, "--python", sys.executable, "--json"]
    words += ["--batch-size", BATCH, *options]
    done = subprocess.run(
        [str(each) for each in words],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=folder or place,
        env={name: value for name, value in (os.environ | variables).items() if value is not None},
    )
    assert done.returncode == code, done.stderr
    return (json.loads(done.stdout) if done.stdout else {}), done.stderr


def start(place, model, data, *options):
    words = [TFOS, "train", "--model", place / model, "--data", place / data, "--python", sys.executable]
    words += ["--batch-size", BATCH, *options]
    return subprocess.Popen([str(each) for each in words], stderr=subprocess.PIPE, text=True)


def newest_step(run):
    found = tf.train.latest_checkpoint(str(run)) if os.path.isdir(run) else None
    return int(os.path.basename(found).split("-")[1]) if found else -1


def weights_in(place, model, checkpoint):
    reader = tf.train.load_checkpoint(str(checkpoint))
    names = sorted(name for name in reader.get_variable_to_shape_map() if "VARIABLE_VALUE" in name)
    kept = [name for name in names if not name.startswith(("metrics/", "token"))]
    return {name: reader.get_tensor(name) for name in kept}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


# ---- what it computes ----


def test_one_worker_comes_to_what_keras_comes_to(place, tmp_path):
    out, said = train(place, "plain", "data", "--epochs", 3, "--shuffle", 0, "--model-dir", tmp_path / "run")
    rows = np.load(place / "rows.npz")
    model = make_model()
    model.compile("adam", loss(), metrics=["accuracy"])
    fit = model.fit(rows["x"], rows["y"], batch_size=BATCH, epochs=3, shuffle=False, verbose=0)
    trained = make_model()
    native.load_weights(trained, tmp_path / "run")
    for one, other in zip(trained.get_weights(), model.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out["history"]["loss"], fit.history["loss"], rtol=1e-5)
    np.testing.assert_allclose(out["history"]["accuracy"], fit.history["accuracy"], rtol=1e-6)
    assert out["steps"] == 3 * -(-ROWS // BATCH) and out["epochs"] == 3 and out["rows"] == 3 * ROWS
    assert out["end"] == "data" and "trained 3 epochs" in said


def test_a_model_with_an_op_of_its_own(place, double_op, tmp_path):
    library, double = double_op

    class Doubled(keras.layers.Layer):
        def call(self, x):
            return tf.ensure_shape(tf.cast(double(tf.cast(10 * x, tf.int32)), tf.float32) / 20, [None, 8])

    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input([8], name="x"), Doubled(), keras.layers.Dense(3)])
    native.export(model, "adam", loss(), ["accuracy"], tmp_path / "model")
    options = ["--epochs", 2, "--shuffle", 0]
    _, said = train(place, tmp_path / "model", "data", *options, code=3)
    assert "the model has an op TfosTestDouble" in said
    out, _ = train(place, tmp_path / "model", "data", *options, "--op-library", library)
    rows = np.load(place / "rows.npz")
    model.compile("adam", loss(), metrics=["accuracy"])
    fit = model.fit(rows["x"], rows["y"], batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
    np.testing.assert_allclose(out["history"]["loss"], fit.history["loss"], rtol=1e-5)


def test_workers_together_take_the_step_of_all_rows(place, tmp_path):
    out, _ = train(
        place, "plain", "data", "--nodes", 3, "--batch-size", ROWS, "--model-dir", tmp_path / "run", "--epochs", 2
    )
    rows = np.load(place / "rows.npz")
    model = make_model()
    model.compile("adam", loss(), metrics=["accuracy"])
    fit = model.fit(rows["x"], rows["y"], batch_size=ROWS, epochs=2, verbose=0)
    trained = make_model()
    native.load_weights(trained, tmp_path / "run")
    for one, other in zip(trained.get_weights(), model.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out["history"]["loss"], fit.history["loss"], rtol=1e-5)
    assert out["rows"] == 2 * ROWS and out["steps"] == 2


def test_a_worker_whose_data_ends_early_knows_what_the_others_have_seen(place, tmp_path):
    """The first one has a small file; the others go on, and tell of it while it has joined."""
    rows = np.load(place / "rows.npz")
    os.makedirs(tmp_path / "rows")
    for name, part, times in (("a", slice(0, 20), 1), ("b", slice(20, ROWS), 5)):
        data = {"x": np.tile(rows["x"][part], [times, 1]), "label": np.tile(rows["y"][part], times)}
        records.write(tmp_path / "rows" / f"{name}.tfrecord.gz", data)
    options = ["--nodes", 2, "--epochs", 2, "--learning-rate", 0, "--save-steps", 5, "--model-dir", tmp_path / "run"]
    out, _ = train(place, "plain", tmp_path / "rows", *options)
    model = make_model()
    model.compile("adam", loss(), metrics=["accuracy"])
    weights = np.where(np.arange(ROWS) < 20, 1, 5)
    expected = model.evaluate(rows["x"].repeat(weights, axis=0), rows["y"].repeat(weights), verbose=0)
    assert out["rows"] == 2 * weights.sum()
    np.testing.assert_allclose(out["history"]["loss"], [expected[0]] * 2, rtol=1e-5)
    np.testing.assert_allclose(out["history"]["accuracy"], [expected[1]] * 2, rtol=1e-6)


def test_learning_rates_are_used_from_their_steps_on(place, tmp_path):
    options = ["--shuffle", 0, "--epochs", 2, "--save-steps", 13, "--save-seconds", 0]
    train(place, "plain", "data", *options, "--learning-rate", "0:0.01,13:0", "--model-dir", tmp_path / "run")
    before = weights_in(place, "plain", tmp_path / "run" / "ckpt-13")
    after = weights_in(place, "plain", tmp_path / "run" / "ckpt-26")
    assert_equal(*({k: v for k, v in each.items() if k.startswith("weights/")} for each in (before, after)))
    assert any(np.any(value != 0) for key, value in after.items() if "velocity" in key)


def test_the_export_predicts_what_the_model_predicts(place, tmp_path):
    export = tmp_path / "trained"
    for _ in range(2):  # the second replaces the first
        out, _ = train(place, "plain", "data", "--epochs", 1, "--export-dir", export, "--model-dir", tmp_path / "run")
    assert out["export_dir"] == str(export)
    rows = np.load(place / "rows.npz")
    model = make_model()
    native.load_weights(model, tmp_path / "run")
    found = tf.saved_model.load(str(export)).signatures["serving_default"](x=rows["x"])
    np.testing.assert_allclose(found["output"], model(rows["x"]), rtol=1e-6, atol=1e-6)
    assert sorted(os.listdir(tmp_path)) == ["run", "trained"]  # nothing half-written stays


def test_the_model_for_training_is_not_the_one_for_prediction(place, tmp_path):
    words = [TFOS, "infer", "--data", place / "data", "--output", "out.jsonl", "--python", sys.executable, "-q"]
    words = [str(each) for each in [*words, "--inputs", "x=x", "--model", place / "plain"]]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2 and "give the folder serving in it" in done.stderr
    subprocess.run([*words[:-1], str(place / "plain" / "serving")], cwd=tmp_path, check=True)
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == ROWS


# ---- uneven data ----


@pytest.fixture(scope="module")
def uneven(place):
    """Two files, each of which is read by one of two workers, with few rows and with many."""
    rows = np.load(place / "rows.npz")
    parts = {"few": slice(0, 40), "many": slice(40, ROWS)}
    for order in (["few", "many"], ["many", "few"]):
        os.makedirs(place / order[0])
        for at, name in enumerate(order):
            data = {"x": rows["x"][parts[name]], "label": rows["y"][parts[name]]}
            records.write(place / order[0] / f"{at}-{name}.tfrecord.gz", data)
    return {name: (rows["x"][part], rows["y"][part]) for name, part in parts.items()}


def batches_of_all(*workers):
    """What the steps of workers together see."""
    for at in range(0, max(len(x) for x, _ in workers), BATCH):
        yield tuple(np.concatenate([each[at : at + BATCH] for each in arrays]) for arrays in zip(*workers))


@pytest.mark.parametrize("first", ["few", "many"])
def test_all_rows_count_where_one_worker_has_few(place, uneven, tmp_path, first):
    """However many steps behind the last tally a worker leaves, and whichever: sums are those of all."""
    options = ["--nodes", 2, "--shuffle", 0, "--epochs", 3, "--save-steps", 2, "--model-dir", tmp_path / "run"]
    out, _ = train(place, "plain", first, *options)
    model = make_model()
    model.compile("adam", loss(), metrics=["accuracy"])
    history = {"loss": [], "accuracy": []}
    for _ in range(3):
        fit = model.fit(batches_of_all(*uneven.values()), steps_per_epoch=10, verbose=0)
        for name, values in history.items():
            values += fit.history[name]
    assert out["rows"] == 3 * ROWS and out["steps"] == 3 * 10
    for name, values in history.items():
        np.testing.assert_allclose(out["history"][name], values, rtol=1e-4)
    trained = make_model()
    native.load_weights(trained, tmp_path / "run")
    for one, other in zip(trained.get_weights(), model.get_weights()):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_worker_without_rows_agrees_with_the_others(place, tmp_path):
    rows = np.load(place / "rows.npz")
    records.write(tmp_path / "one.tfrecord", {"x": rows["x"][:1], "label": rows["y"][:1]})
    options = ["--nodes", 2, "--epochs", 3, "--monitor", "loss", "--patience", 2, "--model-dir", tmp_path / "run"]
    out, _ = train(place, "plain", tmp_path / "one.tfrecord", *options)
    assert out["rows"] == 3 and out["epochs"] == 3 and len(out["history"]["loss"]) == 3


def test_steps_end_amid_an_epoch_where_one_worker_has_few_rows(place, uneven, tmp_path):
    """It is complete only if nobody has rows left."""
    options = ["--nodes", 2, "--shuffle", 0, "--epochs", 2]
    whole, _ = train(place, "plain", "few", *options, "--model-dir", tmp_path / "whole")
    part, _ = train(place, "plain", "few", *options, "--steps", 5, "--model-dir", tmp_path / "parts")
    assert part["epochs"] == 0 and part["steps"] == 5
    rest, said = train(place, "plain", "few", *options, "--model-dir", tmp_path / "parts")
    assert "goes on from ckpt-5: epoch 1" in said and rest["values"] == whole["values"]
    assert part["rows"] + rest["rows"] == whole["rows"]


def test_damage_behind_the_last_step_is_nobodys_business(place, tmp_path):
    rows = np.load(place / "rows.npz")
    path = tmp_path / "rows.tfrecord"
    records.write(path, {"x": np.tile(rows["x"], [10, 1]), "label": np.tile(rows["y"], 10)})
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) * 3 // 4] ^= 1  # in batch 94, far behind those that the schema is inferred from
    path.write_bytes(damaged)
    options = ["--shuffle", 0, "--model-dir", tmp_path / "run", "--export-dir", tmp_path / "trained"]
    out, _ = train(place, "plain", path, *options, "--steps", 93)
    assert (out["end"], out["steps"], out["epochs"]) == ("steps", 93, 0) and (tmp_path / "trained").is_dir()
    _, said = train(place, "plain", path, *options, code=3)
    assert "goes on from ckpt-93" in said and "rows.tfrecord: offset" in said


# ---- going on ----


@pytest.mark.parametrize(
    "model, data, nodes, middle",
    [("random", "data", 1, 20), ("plain", "data", 2, 10), ("random", "data", 2, 10), ("random", "few", 2, 15)],
)
def test_training_that_was_ended_goes_on_to_the_bit(place, uneven, tmp_path, model, data, nodes, middle):
    """Amid the second epoch; also where one worker has no rows left in it."""
    options = ["--nodes", nodes, "--epochs", 3, "--seed", 9]
    whole, _ = train(place, model, data, *options, "--model-dir", tmp_path / "whole")
    parts, _ = train(place, model, data, *options, "--steps", middle, "--model-dir", tmp_path / "parts")
    assert parts["end"] == "steps" and parts["steps"] == middle
    rest, said = train(place, model, data, *options, "--model-dir", tmp_path / "parts")
    assert f"goes on from ckpt-{middle}: epoch 2, step {middle}" in said
    assert rest["steps"] == whole["steps"] and rest["values"] == whole["values"]
    names = [tf.train.latest_checkpoint(str(tmp_path / each)) for each in ("whole", "parts")]
    assert_equal(*(weights_in(place, model, name) for name in names))


def test_the_last_checkpoints_are_kept_as_tensorflow_keeps_them(place, tmp_path):
    run = tmp_path / "run"
    train(place, "plain", "data", "--epochs", 2, "--save-steps", 5, "--keep", 3, "--model-dir", run)
    state = tf.train.get_checkpoint_state(str(run))
    assert [os.path.basename(each) for each in state.all_model_checkpoint_paths] == ["ckpt-20", "ckpt-25", "ckpt-26"]
    assert tf.train.latest_checkpoint(str(run)).endswith("ckpt-26")
    assert {each.partition(".")[0] for each in os.listdir(run)} == {
        "checkpoint",
        "train",
        "ckpt-20",
        "ckpt-25",
        "ckpt-26",
    }


def test_checkpoints_every_second(place, tmp_path):
    run, begun = tmp_path / "run", time.monotonic()
    options = ["--epochs", 1_000_000, "--save-seconds", 1, "--keep", 1000, "--model-dir", run]
    process = start(place, "plain", "data", *options)
    wait_for(lambda: len(list(run.glob("ckpt-*.index"))) >= 4, 30)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    times = sorted(os.path.getmtime(path) for path in run.glob("ckpt-*.index"))
    assert len(times) <= time.monotonic() - begun + 1
    every = [after - before for before, after in zip(times, times[1:-1])]  # the last is of the end
    assert sum(every) > 0.8 * len(every) and max(every) > 0.8, times


def test_a_checkpoint_that_was_cut_short_is_passed_over(place, tmp_path):
    run = tmp_path / "run"
    train(place, "plain", "data", "--epochs", 2, "--save-steps", 5, "--keep", 2, "--model-dir", run)
    for name in ("ckpt-26", "ckpt-25"):
        os.truncate(run / f"{name}.data-00000-of-00001", 1000)
        if name == "ckpt-26":
            out, said = train(place, "plain", "data", "--epochs", 3, "--model-dir", run)
            assert "ckpt-26 is damaged, and the checkpoint before it is tried" in said
            assert "goes on from ckpt-25" in said and out["epochs"] == 3
    shutil.rmtree(run)
    train(place, "plain", "data", "--model-dir", run)
    os.remove(run / "ckpt-13.index")
    _, said = train(place, "plain", "data", "--epochs", 2, "--model-dir", run, code=3)
    assert "none of its 1 checkpoints can be read" in said and "resume=False" in said


def test_a_checkpoint_whose_index_was_cut_short_is_passed_over(place, tmp_path):
    run = tmp_path / "run"
    train(place, "plain", "data", "--epochs", 2, "--save-steps", 13, "--model-dir", run)
    whole = (run / "ckpt-26.index").read_bytes()
    for left in (len(whole) - 1, len(whole) // 2, 0):
        again = shutil.copytree(run, tmp_path / str(left))
        (again / "ckpt-26.index").write_bytes(whole[:left])
        out, said = train(place, "plain", "data", "--epochs", 2, "--model-dir", again)
        assert "ckpt-26 is damaged, and the checkpoint before it is tried" in said
        assert "goes on from ckpt-13: epoch 1" in said and out["steps"] == 26


def test_going_on_behind_the_last_step_of_an_epoch_judges_it_once(place, tmp_path):
    options = ["--epochs", 6, "--learning-rate", "0:0.01,26:0.5", "--monitor", "loss", "--patience", 1]
    whole, _ = train(place, "plain", "data", *options, "--model-dir", tmp_path / "whole")
    part, _ = train(place, "plain", "data", *options, "--steps", 26, "--model-dir", tmp_path / "parts")
    assert part["epochs"] == 2 and part["end"] == "steps"
    rest, _ = train(place, "plain", "data", *options, "--model-dir", tmp_path / "parts")
    assert rest["end"] == whole["end"] == "early" and rest["steps"] == whole["steps"]
    assert part["history"]["loss"] + rest["history"]["loss"] == whole["history"]["loss"]


def test_a_best_epoch_that_cannot_be_read_costs_nothing_else(place, tmp_path):
    run = tmp_path / "run"
    options = ["--learning-rate", "0:0.01,26:0.5", "--patience", 3, "--model-dir", run]
    train(place, "plain", "data", *options, "--epochs", 4, "--save-steps", 13)
    assert json.loads((run / "ckpt-39.json").read_text())["best_checkpoint"] == "ckpt-26"
    os.truncate(run / "ckpt-26.data-00000-of-00001", 1000)
    (run / "checkpoint").write_text('model_checkpoint_path: "ckpt-39"\n')
    out, said = train(place, "plain", "data", *options, "--epochs", 9, "--export-dir", tmp_path / "trained")
    assert out["end"] == "early" and "the best epoch, 2, cannot be read" in said
    assert out["steps"] == 65 and os.path.exists(tmp_path / "trained" / "saved_model.pb")


def test_an_epoch_that_nobody_has_kept_as_the_best_costs_nothing_else(place, tmp_path):
    options = ["--learning-rate", "0:0.01,26:0.5", "--patience", 3, "--model-dir", tmp_path / "run"]
    train(place, "plain", "data", *options, "--epochs", 4, "--no-restore-best")
    out, said = train(place, "plain", "data", *options, "--epochs", 9)
    assert out["end"] == "early" and "the best epoch, 2, cannot be read" in said


def test_more_patience_goes_on_behind_early_stopping(place, tmp_path):
    options = ["--learning-rate", "0:0.01,26:0.5", "--monitor", "loss", "--epochs", 30, "--model-dir", tmp_path / "run"]
    first, _ = train(place, "plain", "data", *options, "--patience", 1)
    _, said = train(place, "plain", "data", *options, "--patience", 1)
    assert first["end"] == "early" and "more patience, or resume=False, goes on" in said
    second, _ = train(place, "plain", "data", *options, "--patience", 4)
    assert second["epochs"] > first["epochs"]


@pytest.mark.parametrize(
    "key, value",
    [
        ("seen", [None]),
        ("seen", ["x"] * 9),
        ("epoch", 1 << 62),
        ("epoch", -1),
        ("batches", "7"),
        (None, "[]"),
        (None, "{"),
    ],
)
def test_a_note_that_makes_no_sense_is_passed_over(place, tmp_path, key, value):
    run = tmp_path / "run"
    train(place, "plain", "data", "--epochs", 2, "--steps", 20, "--save-steps", 18, "--model-dir", run)
    note = json.loads((run / "ckpt-20.json").read_text())
    (run / "ckpt-20.json").write_text(value if key is None else json.dumps(note | {key: value}))
    out, said = train(place, "plain", "data", "--epochs", 2, "--model-dir", run)
    assert "ckpt-20 is damaged, and the checkpoint before it is tried" in said and "ckpt-20.json" in said
    assert "goes on from ckpt-18: epoch 2" in said and out["steps"] == 26


def test_what_the_file_of_checkpoints_says_counts(place, tmp_path):
    run = tmp_path / "run"
    train(place, "plain", "data", "--epochs", 2, "--save-steps", 13, "--model-dir", run)
    (run / "checkpoint").write_text('model_checkpoint_path: "ckpt-13"\n')  # as people write it by hand
    out, said = train(place, "plain", "data", "--epochs", 2, "--model-dir", run)
    assert "goes on from ckpt-13: epoch 1" in said and out["steps"] == 26
    (run / "checkpoint").write_text("nonsense\n")
    _, said = train(place, "plain", "data", "--model-dir", run, code=3)
    assert "remove this file" in said


def test_a_checkpoint_of_another_model_is_refused(place, tmp_path):
    train(place, "plain", "data", "--model-dir", tmp_path / "run")
    _, said = train(place, "random", "data", "--epochs", 2, "--model-dir", tmp_path / "run", code=3)
    assert "is a checkpoint of another model" in said
    out, said = train(place, "random", "data", "--model-dir", tmp_path / "run", "--no-resume")
    assert "which are not used (resume=False)" in said and out["epochs"] == 1


def test_memory_that_is_short_makes_no_other_model(place, tmp_path):
    """One of the values of the checkpoint is said to be a part of a tensor that no machine has memory for."""
    train(place, "plain", "data", "--steps", 1, "--model-dir", tmp_path)
    reader = tf.train.load_checkpoint(str(tmp_path))
    shapes = reader.get_variable_to_shape_map()
    names = sorted(shapes)
    large = next(name for name in names if name.startswith("weights/") and len(shapes[name]) == 1)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "ckpt-1"),
        tensor_names=names,
        shape_and_slices=[f"{2**46} 0,{shapes[name][0]}" if name == large else "" for name in names],
        tensors=[tf.constant(reader.get_tensor(name)) for name in names],
    )
    # oneDNN's memory is asked for again for ten seconds.
    _, said = train(place, "plain", "data", "--model-dir", tmp_path, code=3, TF_ENABLE_ONEDNN_OPTS="0")
    assert "OOM when allocating tensor" in said and "another model" not in said


def test_an_epoch_begins_anew_if_its_data_has_changed(place, tmp_path):
    run = tmp_path / "run"
    train(place, "plain", "data", "--epochs", 2, "--steps", 20, "--model-dir", run)
    out, said = train(place, "plain", "data", "--epochs", 2, "--seed", 1, "--model-dir", run)
    assert "epoch 2 begins anew" in said and out["steps"] == 20 + 13


def test_an_epoch_that_was_broken_off_behind_its_last_step_goes_on(place, tmp_path):
    """Nobody has kept what was seen in it, so nobody can judge it."""
    run = tmp_path / "run"
    options = ["--nodes", 2, "--model-dir", run, "--monitor", "loss", "--patience", 3]
    out, _ = train(place, "plain", "data", *options)
    name = os.path.basename(tf.train.latest_checkpoint(str(run)))
    note = json.loads((run / f"{name}.json").read_text())
    assert (note["epoch"], note["batches"]) == (1, 0)
    (run / f"{name}.json").write_text(json.dumps({**note, "epoch": 0, "batches": out["steps"], "seen": None}))
    out, said = train(place, "plain", "data", *options, "--epochs", 2)
    assert "what was seen in epoch 1 before is not known" in said
    assert (out["epochs"], out["rows"]) == (2, ROWS)


def test_an_epoch_begins_anew_if_other_workers_go_on_with_it(place, tmp_path):
    """Nobody knows which rows each of them would have to pass over."""
    run = tmp_path / "run"
    for nodes, steps in ((1, 13), (2, 7)):
        train(place, "plain", "data", "--nodes", nodes, "--epochs", 2, "--steps", steps + 3, "--model-dir", run)
        out, said = train(place, "plain", "data", "--nodes", 3 - nodes, "--epochs", 2, "--model-dir", run)
        assert f"goes on from ckpt-{steps + 3}" in said and "epoch 2 begins anew" in said
        assert out["steps"] == steps + 3 + 20 - steps and out["epochs"] == 2 and out["rows"] == ROWS
        shutil.rmtree(run)


# ---- early stopping ----


@pytest.mark.parametrize("nodes", [1, 2])
def test_training_ends_when_it_gets_no_better(place, tmp_path, nodes):
    steps = -(-ROWS // (nodes * BATCH))
    options = ["--validation", place / "data", "--epochs", 50, "--model-dir", tmp_path / "run", "--patience", 2]
    options += ["--nodes", nodes, "--learning-rate", f"0:0.01,{2 * steps}:0.3"]
    out, said = train(place, "plain", "data", *options, "--monitor", "val_loss")
    assert out["end"] == "early" and out["epochs"] < 50
    losses = out["history"]["val_loss"]
    best = int(np.argmin(losses)) + 1
    assert best == len(losses) - 2 and f"goes back to epoch {best}, the best by val_loss" in said
    assert tf.train.latest_checkpoint(str(tmp_path / "run")).endswith(f"ckpt-{best * steps}")
    _, said = train(place, "plain", "data", *options)
    assert "nothing left to train" in said and "early stopping" in said


def test_steps_that_were_taken_are_not_taken_again_from_the_best_epoch(place, tmp_path):
    options = ["--validation", place / "data", "--epochs", 10, "--steps", 39, "--model-dir", tmp_path / "run"]
    options += ["--patience", 5, "--learning-rate", "0:0.01,26:0.3", "--save-steps", 13]
    out, said = train(place, "plain", "data", *options)
    assert out["end"] == "steps" and "goes back to epoch 2" in said and out["steps"] == 26
    out, said = train(place, "plain", "data", *options)
    assert "nothing left to train" in said and out["steps"] == 26 and out["rows"] == 0


@pytest.mark.parametrize("options", [["--mode", "max"], ["--mode", "min", "--min-delta", 10]])
def test_what_is_better_can_be_said(place, options):
    """The loss falls in each epoch. For whom more is better, or less by far, the first epoch is the best."""
    options = ["--epochs", 3, "--monitor", "loss", "--patience", 1, *options]
    out, said = train(place, "plain", "data", *options)
    assert out["end"] == "early" and "goes back to epoch 1, the best by loss" in said
    assert len(out["history"]["loss"]) == 2 and out["history"]["loss"][1] < out["history"]["loss"][0]


# ---- numbers that are not finite ----


def test_what_was_undone_while_the_first_worker_had_no_rows_is_counted(place, tmp_path):
    rows = np.load(place / "rows.npz")
    os.makedirs(tmp_path / "data")
    for at, part in enumerate([slice(0, 40), slice(40, ROWS)]):
        x = rows["x"][part].copy()
        x[100:101] = np.inf  # of the second
        records.write(tmp_path / "data" / f"{at}.tfrecord.gz", {"x": x, "label": rows["y"][part]})
    out, _ = train(place, "plain", tmp_path / "data", "--nodes", 2, "--shuffle", 0, "--on-nan", "skip", "--epochs", 2)
    assert (out["skipped_steps"], out["skipped_rows"], out["steps"]) == (2, 2 * BATCH, 2 * 9)


@pytest.mark.parametrize("nodes, batch, step", [(1, 7, 6), (2, 1, 0)])
def test_a_loss_that_is_not_finite_ends_training(place, tmp_path, nodes, batch, step):
    """Of two workers one alone has the row, and what it says is what is told."""
    options = ["--shuffle", 0, "--nodes", nodes, "--model-dir", tmp_path / "run"]
    _, said = train(place, "plain", "holes.tfrecord", *options, code=3)
    found = f"the loss is nan in batch {batch} of epoch 1, behind step {step}, with the optimizer's own learning rate"
    assert re.search(rf"^tfos: worker:{nodes - 1} on \S+ raised an exception: {found}", said, re.MULTILINE), said
    assert "on_nan" in said and not os.path.exists(tmp_path / "run" / "checkpoint")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_step_that_is_not_finite_can_be_undone(place, tmp_path, nodes):
    options = ["--shuffle", 0, "--on-nan", "skip", "--nodes", nodes, "--model-dir", tmp_path / "run"]
    out, _ = train(place, "plain", "holes.tfrecord", *options)
    assert out["skipped_steps"] == 1 and out["skipped_rows"] == BATCH * nodes
    assert out["rows"] == ROWS - BATCH * nodes and np.isfinite(out["values"]["loss"])
    weights = weights_in(place, "plain", tf.train.latest_checkpoint(str(tmp_path / "run")))
    assert all(np.all(np.isfinite(each)) for each in weights.values())


@pytest.mark.parametrize(
    "nodes, steps, at_last",
    [
        (1, 13, "20 steps in a row, up to batch 12 of epoch 2, were not finite"),
        (2, 7, "no step of epoch 2 was finite, and all 7 of them were undone"),
    ],
)
def test_a_step_that_spoils_the_weights_is_undone(place, tmp_path, nodes, steps, at_last):
    """Its loss is that from before it."""
    options = ["--on-nan", "skip", "--nodes", nodes]
    some = [*options, "--learning-rate", "0:0.01,5:1e39", "--export-dir", tmp_path / "trained"]
    out, _ = train(place, "plain", "data", *some, "--model-dir", tmp_path / "run")
    assert out["steps"] == 5 and out["skipped_steps"] == steps - 5 and np.isfinite(out["values"]["loss"])
    weights = weights_in(place, "plain", tf.train.latest_checkpoint(str(tmp_path / "run")))
    assert all(np.all(np.isfinite(each)) for each in weights.values())
    _, said = train(place, "plain", "data", *some, "--epochs", 9, code=3)
    assert at_last in said
    _, said = train(place, "plain", "data", *options, "--learning-rate", 1e39, code=3)
    assert f"no step of epoch 1 was finite, and all {steps} of them were undone" in said


def test_weights_that_are_not_finite_are_not_kept(place, tmp_path):
    options = ["--save-steps", 1, "--model-dir", tmp_path / "run"]
    _, said = train(place, "plain", "data", *options, "--learning-rate", "0:0.01,5:1e39", code=3)
    assert "that are not finite. Behind step 6" in said
    assert newest_step(tmp_path / "run") == 5
    out, said = train(place, "plain", "data", *options)
    assert "goes on from ckpt-5" in said and out["steps"] == 13 and np.isfinite(out["values"]["loss"])
    _, said = train(
        place, "plain", "data", "--learning-rate", "0:0.01,12:1e39", "--export-dir", tmp_path / "trained", code=3
    )
    assert "that are not finite" in said and not os.path.exists(tmp_path / "trained")


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_loss_that_is_not_finite_can_be_let_pass(place, nodes):
    options = ["--shuffle", 0, "--on-nan", "continue", "--nodes", nodes]
    out, _ = train(place, "plain", "holes.tfrecord", *options)
    assert out["values"]["loss"] == "NaN" and out["rows"] == ROWS
    assert out["steps"] == -(-ROWS // (nodes * BATCH)) and out["skipped_steps"] == 0


# ---- what is shown ----


def test_tensorboard_shows_it(place, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(place, "plain", "data", "--validation", place / "data", "--epochs", 3, "--log-dir", tmp_path / "logs")
    shown = {each: EventAccumulator(str(tmp_path / "logs" / each)).Reload() for each in ("train", "validation")}
    tags = set(shown["train"].Tags()["tensors"])
    assert {"epoch_loss", "epoch_accuracy", "epoch_learning_rate", "loss", "rows_per_second"} <= tags
    losses = [float(tf.make_ndarray(each.tensor_proto)) for each in shown["train"].Tensors("epoch_loss")]
    assert len(losses) == 3 and losses[2] < losses[0]
    assert [each.step for each in shown["validation"].Tensors("epoch_loss")] == [0, 1, 2]  # as Keras counts
    assert any(node.op == "StatefulPartitionedCall" for node in shown["train"].Graph().node)


def test_rows_per_second_are_those_of_the_time_it_took(place, tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    options = ["--epochs", 1, "--batch-size", 1, "--log-dir", tmp_path / "logs"]
    out, _ = train(place, "plain", "data", *options)
    shown = EventAccumulator(str(tmp_path / "logs" / "train")).Reload().Tensors("rows_per_second")
    rates = [float(tf.make_ndarray(each.tensor_proto)) for each in shown]
    assert len(rates) > 1 and min(rates) > 0
    rows = np.diff([0, *(each.step for each in shown)])  # a step is a row
    # The first steps take longer than all others, and what comes behind the last tally of an epoch has no rate.
    assert out["seconds"] / 100 < sum(rows / rates) < out["seconds"] + 0.001 * len(rates)


# ---- what TensorFlow says ----


def test_tensorflow_is_silent_unless_it_is_asked(place):
    """It looks at a variable once, when it is loaded."""
    _, said = train(place, TF_CPP_MIN_LOG_LEVEL="0")
    assert "Reading SavedModel from" in said
    _, said = train(place, TF_CPP_MIN_LOG_LEVEL=None)
    assert "trained 1 epoch" in said and "SavedModel" not in said


# ---- what makes no sense ----


@pytest.mark.parametrize(
    "model, data, options, code, said",
    [
        ("plain", "other.tfrecord", [], 3, "it wants 8 values a row, and the column has"),
        (
            "plain",
            "data",
            ["--columns", "label=digit"],
            1,
            "the model has no input, label or sample weight of that name",
        ),
        ("plain", "data", ["--columns", "digit=label"], 3, "takes the column 'digit', and the rows have: label int64"),
        ("plain", "words.tfrecord", [], 3, "column 'label' string: values of string do not become int64 by themselves"),
        ("plain", "reals.tfrecord", [], 3, "column 'label' float: values of float do not become int64 by themselves"),
        ("plain", "nothing", [], 3, "nothing"),
        ("plain", "data", ["--batch-size", 0], 2, "batch_size: expected a whole number from 1 to"),
        ("plain", "data", ["--learning-rate", "1:x"], 2, "--learning-rate: expected a rate"),
        (
            "plain",
            "data",
            ["--monitor", "val_loss", "--patience", 1],
            2,
            "'val_loss' is a value of validation, and there is none",
        ),
        (
            "plain",
            "data",
            ["--monitor", "nonsense", "--patience", 1],
            3,
            "expected one of the values of an epoch (loss, accuracy)",
        ),
        ("plain", "data", ["--monitor", "loss"], 2, "monitor: expected patience beside it"),
        ("plain", "data", ["--save-steps", 5], 2, "save_steps: expected model_dir beside it"),
        ("plain", "data", ["--columns", "a=x,b=x"], 1, "the columns 'a' and 'b' are both mapped to 'x'"),
        ("plain", "data", ["--export-dir", "letters"], 3, "is no SavedModel, so it is not replaced"),
        ("plain", "data", ["--export-dir", "."], 3, "says where a folder is and not what it is called"),
        ("plain", "data", ["--model-dir", "hdfs://host/run"], 2, "'hdfs://host/run' is no local path"),
        ("plain", "data", ["--model-dir", "hdfs:/run"], 2, "'hdfs:/run' is no local path"),
        ("plain", "data", ["--op-library", "/no/such.so"], 3, "/no/such.so"),
        ("data", "data", [], 3, "it is no model that can be trained"),
        ("plain", "data", ["--data", os.fsdecode(b"bad\xff")], 2, "data: expected UTF-8, found '"),
    ],
)
def test_what_makes_no_sense_is_refused(place, tmp_path, model, data, options, code, said):
    os.makedirs(tmp_path / "letters" / "of")
    (tmp_path / "file").touch()
    _, text = train(place, model, data, *options, code=code, folder=tmp_path)
    assert said in text
    assert "Traceback" not in text and sorted(os.listdir(tmp_path)) == ["file", "letters"]


def test_batches_of_the_one_size_that_the_model_takes(place, tmp_path):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input(batch_shape=[24, 8], name="x"), keras.layers.Dense(3)])
    native.export(model, "sgd", loss(), None, tmp_path / "fixed")
    words = [TFOS, "train", "--model", "fixed", "--data", place / "data", "--python", sys.executable, "--json", "-q"]
    done = subprocess.run([str(each) for each in words], capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS)
    out = json.loads(done.stdout)
    assert out["steps"] == ROWS // 24 and out["dropped_rows"] == ROWS % 24
    done = subprocess.run(
        [str(each) for each in [*words, "--batch-size", 16]], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 3 and "the model was exported for batches of 24 rows, found 16" in done.stderr

    # What is left out counts for the epochs that were, not for one that was begun ahead and is not wanted.
    shutil.copytree(place / "data", tmp_path / "rows")
    part = tmp_path / "rows" / "part-1.tfrecord"
    damaged = bytearray(part.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    part.write_bytes(damaged)
    words[words.index(place / "data")] = tmp_path / "rows"
    options = [
        "--on-corrupt",
        "skip",
        "--epochs",
        5,
        "--monitor",
        "loss",
        "--patience",
        1,
        "--learning-rate",
        "0:0.01,8:1000",
    ]
    done = subprocess.run([str(each) for each in [*words, *options]], capture_output=True, text=True, cwd=tmp_path)
    out = json.loads(done.stdout)
    assert out["end"] == "early" and out["epochs"] == 2, done.stderr
    assert (out["damaged_records"], out["dropped_rows"]) == (2, 2 * ((ROWS - 1) % 24))
    words.remove("-q")
    done = subprocess.run([str(each) for each in [*words, *options]], capture_output=True, text=True, cwd=tmp_path)
    assert "damaged records were skipped (on_corrupt=skip): 2" in done.stderr
    left_out = f"rows that fill no batch of the one size that the model takes were left out: {out['dropped_rows']}"
    assert left_out in done.stderr


def test_too_few_rows_for_a_batch_are_no_success(tmp_path, place):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input(batch_shape=[24, 8], name="x"), keras.layers.Dense(3)])
    native.export(model, "sgd", loss(), None, tmp_path / "fixed", check=False)
    rows = np.load(place / "rows.npz")
    records.write(tmp_path / "few.tfrecord", {"x": rows["x"][:17], "label": rows["y"][:17]})
    words = [
        TFOS,
        "train",
        "--model",
        tmp_path / "fixed",
        "--data",
        tmp_path / "few.tfrecord",
        "--python",
        sys.executable,
    ]
    done = subprocess.run([str(each) for each in words], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 3 and "expected rows enough for a batch of 24, found 17" in done.stderr


def test_steps_of_several_batches_are_saved_once(tmp_path, place):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input([8], name="x"), keras.layers.Dense(3)])
    native.export(
        model, keras.optimizers.SGD(0.1, gradient_accumulation_steps=4), loss(), None, tmp_path / "slow", check=False
    )
    words = [
        TFOS,
        "train",
        "--model",
        tmp_path / "slow",
        "--data",
        place / "data",
        "--python",
        sys.executable,
        "--keep",
        9,
    ]
    words += ["--batch-size", BATCH, "--save-steps", 1, "--model-dir", tmp_path / "run"]
    done = subprocess.run([str(each) for each in words], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    state = tf.train.get_checkpoint_state(str(tmp_path / "run"))
    names = [os.path.basename(each) for each in state.all_model_checkpoint_paths]
    if counts_batches():
        assert names == [f"ckpt-{step}" for step in range(5, 14)]
    else:
        assert names == ["ckpt-1", "ckpt-2", "ckpt-3", "ckpt-3-2"]  # the last has a batch more, which is no step yet


def counts_batches():
    """Whether a batch is a step for this Keras, also if it changes nothing yet. Keras 3.3 counts so."""
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=4)
    weight = keras.Variable([1.0])
    optimizer.build([weight])
    optimizer.apply_gradients([(tf.constant([1.0]), weight)])
    return int(keras.ops.convert_to_numpy(optimizer.iterations)) == 1
