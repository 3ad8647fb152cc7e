"""native.Trainer on Spark: exported models are trained on executors without Python, fed with DataFrames or on files."""

import json
import os
import signal
import urllib.request

import numpy
import pytest
from processes import parent_of, wait_for
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import marked_processes, node_processes, spark_context
from tensorflowonspark import TFCluster, attach, native
from trainables import ROWS, make_model, make_rows

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

BATCH = 16
FED = TFCluster.InputMode.SPARK


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with spark_context("local-cluster[2,1,1024]", tmp_path_factory.mktemp("spark"), executors=2) as context:
        session = SparkSession(context)
        attach(session)
        yield session


@pytest.fixture(scope="module")
def rows():
    return make_rows()


@pytest.fixture(scope="module")
def place(trainables):
    return trainables


@pytest.fixture(scope="module")
def frame(spark, rows):
    data = [(at, values.tolist(), int(label)) for at, (values, label) in enumerate(zip(*rows.values()))]
    return spark.createDataFrame(data, "number long, x array<float>, digit long").repartition(3).cache()


def run(spark, trainer, **options):
    return TFCluster.run(spark.sparkContext, trainer, None, options.pop("num_executors", 2), 0, **options)


def children(name):
    """Processes of this run's nodes whose command line begins with this. Other suites run beside it."""
    return [pid for pid, command in marked_processes().items() if command.split()[:2] == ["tfos", name]]


def executor_with_a_node():
    executors = marked_processes("CoarseGrainedExecutorBackend")
    return next(parent_of(pid) for pid in marked_processes("tfos node") if parent_of(pid) in executors)


def curves_of(cluster, name):
    """What the page of the cluster draws of the first worker, if this is among it."""
    with urllib.request.urlopen(cluster.status_url + "status.json", timeout=30) as answer:
        curves = json.load(answer)["nodes"][0]["progress"].get("curves", {})
    return curves if name in curves else None


def test_dataframes_train_a_model_on_two_nodes(spark, place, frame, rows, tmp_path):
    trainer = native.Trainer(
        place / "model",
        columns={"digit": "label"},
        batch_size=BATCH,
        validation=True,
        model_dir=tmp_path / "run",
        export_dir=tmp_path / "trained",
    )
    cluster = run(spark, trainer, input_mode=FED)
    wait_for(lambda: len(children("trainer")) == 2, 30)
    cluster.train(frame, num_epochs=4, validation=frame.limit(100))
    report = cluster.feed_report()
    curves = wait_for(lambda: curves_of(cluster, "val_loss"), 10)
    cluster.shutdown()
    assert sum(node["consumed_rows"] for node in report.nodes) == 4 * ROWS + 4 * 100
    first, second = (each.value for each in cluster.results())
    assert first["rows"] == 4 * ROWS and first["epochs"] == 4 and first["end"] == "data"
    assert first["values"] == second["values"] and first["steps"] == second["steps"]
    history = cluster.results()[0].history
    assert history["epoch"] == [1, 2, 3, 4] and history["val_accuracy"][3] > 0.8 > history["loss"][3]
    assert {"epoch", "step", "loss", "accuracy", "val_loss", "val_accuracy"} <= set(curves)
    assert len(curves["loss"]) == len(curves["step"]) >= 2 and curves["step"] == sorted(curves["step"])
    assert not children("trainer") and not node_processes()

    import tensorflow as tf

    model = make_model()
    native.load_weights(model, tmp_path / "run")
    found = tf.saved_model.load(str(tmp_path / "trained")).signatures["serving_default"](x=rows["x"])["output"]
    numpy.testing.assert_allclose(found, model(rows["x"]), rtol=1e-5, atol=1e-5)
    assert numpy.mean(numpy.argmax(found, axis=1) == rows["label"]) > 0.8


def test_files_train_a_model_on_two_nodes(spark, place, tmp_path):
    trainer = native.Trainer(
        place / "model", data=place / "data", epochs=3, batch_size=BATCH, model_dir=tmp_path / "run"
    )
    cluster = run(spark, trainer)
    cluster.shutdown()
    assert [each.value["rows"] for each in cluster.results()] == [3 * ROWS] * 2
    assert os.path.exists(tmp_path / "run" / "checkpoint")


def test_enough_steps_end_the_feed(spark, place, frame):
    cluster = run(
        spark, native.Trainer(place / "model", columns={"digit": "label"}, batch_size=BATCH, steps=7), input_mode=FED
    )
    cluster.train(frame, num_epochs=None)
    cluster.shutdown()
    assert [(each.value["steps"], each.value["end"]) for each in cluster.results()] == [(7, "steps")] * 2


def test_enough_steps_amid_an_epoch_are_validated(spark, place, tmp_path):
    """Rows of the epoch that nobody learns any more are in the way of those to validate with."""
    numbers = "transform(sequence(0, 7), i -> cast((id * 7 + i) % 256 / 255 as float))"
    many = spark.range(0, 300_000, 1, 6).selectExpr(f"{numbers} as x", "id % 3 as label")
    trainer = native.Trainer(
        place / "model", batch_size=BATCH, steps=7, validation=True, patience=3, export_dir=tmp_path / "trained"
    )
    cluster = run(spark, trainer, input_mode=FED)
    cluster.train(many, num_epochs=2, validation=many.limit(50), feed_timeout=60)
    cluster.shutdown()
    for each in cluster.results():
        assert (each.value["end"], each.value["steps"], each.value["epochs"]) == ("steps", 7, 0)
        assert each.value["values"]["val_loss"] > 0
    assert (tmp_path / "trained").is_dir()


def test_enough_steps_do_not_wait_for_the_rest_of_an_epoch(spark, place):
    """One look says that it is not complete, so nothing is judged, and nothing else depends on what is left."""
    numbers = "transform(sequence(0, 7), i -> cast((id * 7 + i) % 256 / 255 as float))"
    endless = spark.range(0, 10**12, 1, 6).selectExpr(f"{numbers} as x", "id % 3 as label")
    cluster = run(
        spark, native.Trainer(place / "model", batch_size=BATCH, steps=7, patience=3), input_mode=FED, num_executors=1
    )
    cluster.train(endless, num_epochs=1)
    cluster.shutdown()
    [result] = cluster.results()
    assert (result.value["end"], result.value["steps"], result.value["epochs"]) == ("steps", 7, 0)


def test_an_epoch_that_ends_with_the_last_step_is_judged(spark, place, frame, tmp_path):
    steps = 2 * -(-ROWS // BATCH)
    options = {"columns": {"digit": "label"}, "batch_size": BATCH, "patience": 5}
    trainer = native.Trainer(place / "model", steps=steps, model_dir=tmp_path / "run", **options)
    cluster = run(spark, trainer, input_mode=FED, num_executors=1)
    cluster.train(frame, num_epochs=9)
    cluster.shutdown()
    [result] = cluster.results()
    assert (result.value["end"], result.value["epochs"], result.value["steps"]) == ("steps", 2, steps)
    note = json.loads((tmp_path / "run" / f"ckpt-{steps}.json").read_text())
    assert note["stopping"]["best_epoch"] == 2


def test_what_was_fed_nothing_is_no_trained_model(spark, place, frame, tmp_path):
    options = {"columns": {"digit": "label"}, "export_dir": tmp_path / "trained", "patience": 1}
    options["model_dir"] = tmp_path / "run"
    cluster = run(spark, native.Trainer(place / "model", **options), input_mode=FED)
    cluster.shutdown()
    assert [(each.value["rows"], each.value["export_dir"]) for each in cluster.results()] == [(0, None)] * 2
    for empty in (frame.where("number < 0"), frame.limit(0)):
        cluster = run(spark, native.Trainer(place / "model", **options), input_mode=FED)
        cluster.train(empty, num_epochs=2)
        with pytest.raises(TFCluster.TFClusterError, match="expected rows to train on, found none"):
            cluster.shutdown()
    # Rows that were consumed are not fed again, nor is that there were none.
    cluster = run(spark, native.Trainer(place / "model", **options), input_mode=FED, restarts=1)
    cluster.train(frame.limit(0), num_epochs=2)
    with pytest.raises(TFCluster.TFClusterError, match="found none: the cluster was started again after a failure"):
        cluster.shutdown()
    assert not (tmp_path / "trained").exists() and not list((tmp_path / "run").glob("ckpt-*"))


def test_early_stopping_ends_the_feed(spark, place, frame, rows, tmp_path):
    """No epoch is better by so much than the first one, to which all workers go back."""
    run_dir = tmp_path / "run"
    options = {"columns": {"digit": "label"}, "batch_size": BATCH, "validation": True, "model_dir": run_dir}
    cluster = run(spark, native.Trainer(place / "model", patience=1, min_delta=100, **options), input_mode=FED)
    cluster.train(frame, num_epochs=None, validation=frame)
    cluster.shutdown()
    first, second = (each.value for each in cluster.results())
    assert first["end"] == second["end"] == "early" and first["steps"] == second["steps"]
    history = cluster.results()[0].history
    assert len(history["val_loss"]) == 2 and history["val_loss"][1] < history["val_loss"][0]
    assert first["rows"] == 2 * ROWS and first["checkpoint"].endswith(f"ckpt-{first['steps']}")
    model = make_model()
    model.compile(loss=keras_loss())
    native.load_weights(model, run_dir)
    numpy.testing.assert_allclose(
        model.evaluate(rows["x"], rows["label"], verbose=0), history["val_loss"][0], rtol=1e-4
    )


def keras_loss():
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@pytest.mark.parametrize("lost", ["executor", pytest.param("trainer", marks=pytest.mark.long)])
def test_training_goes_on_after_one_is_lost(spark, place, tmp_path, lost):
    run_dir = tmp_path / "run"
    trainer = native.Trainer(
        place / "model",
        data=place / "data",
        epochs=100000,
        steps=3000,
        save_steps=100,
        batch_size=BATCH,
        model_dir=run_dir,
    )
    cluster = run(spark, trainer, restarts=1)
    wait_for(lambda: os.path.exists(run_dir / "checkpoint"), 60)
    os.kill(children("trainer")[0] if lost == "trainer" else executor_with_a_node(), signal.SIGKILL)
    cluster.shutdown()
    assert [each.value["steps"] for each in cluster.results()] == [3000] * 2
    assert cluster.results()[0].value["rows"] < 3000 * 2 * BATCH  # of the second attempt


def test_no_epoch_is_forgotten_when_a_trainer_is_lost(spark, place, frame, tmp_path):
    """Spark feeds the epoch that was under way again, and not those before it: their steps must be in a checkpoint."""
    run_dir, steps = tmp_path / "run", -(-ROWS // BATCH)
    options = {"columns": {"digit": "label"}, "batch_size": BATCH, "model_dir": run_dir}
    with pytest.raises(ValueError, match="give it a model_dir"):
        run(spark, native.Trainer(place / "model"), input_mode=FED, restarts=1)
    cluster = run(spark, native.Trainer(place / "model", **options), input_mode=FED, num_executors=1, restarts=1)
    cluster.train(frame, num_epochs=3)
    wait_for(lambda: (run_dir / f"ckpt-{3 * steps}.json").exists(), 30)  # rows that were taken have yet to be learned
    os.kill(children("trainer")[0], signal.SIGKILL)
    cluster.train(frame, num_epochs=2)
    cluster.shutdown()
    [result] = cluster.results()
    assert result.value["steps"] == 5 * steps and result.value["epochs"] == 5 and result.value["rows"] == 2 * ROWS
    assert result.history["epoch"] == [4, 5]


def test_a_trainer_answers_no_rows(spark, place, frame):
    cluster = run(spark, native.Trainer(place / "model", columns={"digit": "label"}), input_mode=FED)
    with pytest.raises(ValueError, match="a native.Trainer answers no rows: pipeline.TFModel"):
        cluster.inference(frame)
    with pytest.raises(ValueError, match="reads the queue 'input', found 'output'"):
        cluster.train(frame, qname="output")
    cluster.shutdown()


def test_a_column_that_is_missing_is_named(spark, place, frame):
    cluster = run(spark, native.Trainer(place / "model", batch_size=BATCH), input_mode=FED)
    with pytest.raises(
        TFCluster.TFClusterError, match="the model's label 'label' takes the column 'label', and the rows have: x float"
    ):
        cluster.train(frame, num_epochs=1)
    with pytest.raises(TFCluster.TFClusterError):
        cluster.shutdown()


@pytest.mark.parametrize(
    "options, arguments, said",
    [
        ({}, {}, "start the cluster with input_mode=InputMode.SPARK"),
        ({"data": "data"}, {"input_mode": FED}, "start the cluster with input_mode=InputMode.TENSORFLOW"),
        ({}, {"input_mode": FED, "eval_node": True}, "eval_node=True needs input_mode=InputMode.TENSORFLOW"),
        ({"model": "alone", "data": "data"}, {}, "exported with distributed=False"),
    ],
)
def test_what_does_not_go_together_is_refused(spark, place, options, arguments, said):
    options = {name: place / value for name, value in options.items()}
    trainer = native.Trainer(options.pop("model", place / "model"), **options)
    with pytest.raises(ValueError, match=said):
        run(spark, trainer, **arguments)


def test_validation_is_fed_if_it_is_wanted(spark, place, frame):
    cluster = run(spark, native.Trainer(place / "model", columns={"digit": "label"}, validation=True), input_mode=FED)
    with pytest.raises(ValueError, match="validation= of train and of native.Trainer belong together"):
        cluster.train(frame)
    cluster.shutdown()


def test_options_that_make_no_sense_are_refused_at_once(place):
    with pytest.raises(ValueError, match="batch_size: expected a whole number from 1 to"):
        native.Trainer(place / "model", batch_size=0)
    with pytest.raises(FileNotFoundError, match="no model that can be trained"):
        native.Trainer(place)
    with pytest.raises(ValueError, match="no input, label or sample weight of that name"):
        native.Trainer(place / "model", columns={"a": "b"})
