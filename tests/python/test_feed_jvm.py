"""Drivers in Java and Scala, which train exported models on executors, with no Python process anywhere."""

import collections
import os
import re
import signal
import subprocess

import numpy
import pyspark
import pytest
from hadoop_tools import hdfs
from processes import ROOT, java_home, wait_for

import tensorflowonspark
from spark_tools import environment, marked_processes
from tensorflowonspark import native
from trainables import ROWS, make_model, make_rows

SOURCES = os.path.join(ROOT, "tests", "jvm")
SPARK = os.path.dirname(pyspark.__file__)
JAR = os.path.join(os.path.dirname(tensorflowonspark.__file__), "jars", "tfos.jar")
SCENARIOS = ["dataframe", "files", "enough", "early", "missing", "refused", "failures", "killed", "interrupted"]
SCENARIOS += ["halted"]
HALTED = 3  # the exit code of the last one


@pytest.fixture(scope="module")
def applications(tmp_path_factory):
    """A jar of the drivers, in both languages."""
    folder = tmp_path_factory.mktemp("applications")
    places = os.pathsep.join([JAR, f"{SPARK}/jars/*"])
    java = os.path.join(java_home(), "bin")
    javac = [f"{java}/javac", "--release", "11", "-proc:none", "-cp", places, "-d", f"{folder}/classes"]
    subprocess.run([*javac, f"{SOURCES}/TrainScenarios.java"], check=True)
    scalac = [f"{java}/java", "-XX:TieredStopAtLevel=1", "-cp", places, "scala.tools.nsc.Main", "-usejavacp"]
    subprocess.run([*scalac, "-d", f"{folder}/classes", f"{SOURCES}/TrainScala.scala"], check=True)
    jar = f"{folder}/applications.jar"
    subprocess.run([f"{java}/jar", "--create", "--file", jar, "-C", f"{folder}/classes", "."], check=True)
    return jar


def submit(folder, jar, name, *arguments, master, **conf):
    """Starts a driver, as its own process."""
    settings = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.executor.memory": "512m"}
    words = [word for key, value in (settings | conf).items() for word in ("--conf", f"{key}={value}")]
    return subprocess.Popen(
        [f"{SPARK}/bin/spark-submit", "--master", master, "--jars", JAR, *words, "--class", name, jar, *arguments],
        env={**os.environ, **environment(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def values_of(output):
    """{scenario: {name: values}} of what the driver in Java prints."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for line in output.splitlines():
        if line.count("\t") == 2:
            scenario, name, value = line.split("\t")
            found[scenario][name].append(value)
    return found


def of_ours():
    return {pid: command for pid, command in marked_processes().items() if re.search(r"\btfos \w", command)}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def told(tmp_path_factory, trainables, applications, out):
    """What the driver in Java has seen."""
    folder = tmp_path_factory.mktemp("spark")
    words = [str(trainables), str(out), *SCENARIOS]
    driver = submit(folder, applications, "TrainScenarios", *words, master="local-cluster[2,1,1024]")
    try:
        output, errors = driver.communicate(timeout=280)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == HALTED, output + errors
    found = values_of(output)
    found["driver"]["errors"] = errors
    return found


def test_dataframes_train_a_model(told, out):
    rows = make_rows()
    found = told["dataframe"]
    assert found["node"] == ["worker:0", "worker:1"] and found["page"][0].startswith("http")
    assert re.fullmatch(r"http://[^/]+:\d+/?", found["tensorboard"][0])
    assert found["more"] == ["true"] and found["consumed"] == [str(4 * ROWS + 4 * 100)]
    assert found["trainers"] == ["2"] and found["same"] == ["true"]
    for node in ("worker:0", "worker:1"):
        assert re.fullmatch(rf"finished data epochs=4 steps=\d+ rows={4 * ROWS}", found[node][0])
    assert found["epochs"] == ["[1.0, 2.0, 3.0, 4.0]"]
    assert float(found["accuracy"][0]) > 0.8 > float(found["loss"][0])

    import tensorflow as tf

    model = make_model()
    native.load_weights(model, out / "run")
    trained = tf.saved_model.load(str(out / "trained")).signatures["serving_default"](x=rows["x"])["output"]
    numpy.testing.assert_allclose(trained, model(rows["x"]), rtol=1e-5, atol=1e-5)
    assert numpy.mean(numpy.argmax(trained, axis=1) == rows["label"]) > 0.8


def test_files_train_a_model(told):
    found = told["files"]
    assert re.fullmatch(rf"finished data epochs=3 steps=\d+ rows={3 * ROWS}", found["worker:1"][0])
    assert found["train"][0].startswith("TfosException INVALID: train feeds trainers that have no data of their own")


def test_enough_steps_end_the_feed(told):
    assert told["enough"]["more"] == ["false"]
    assert told["enough"]["worker:0"][0].startswith("finished steps") and "steps=7" in told["enough"]["worker:1"][0]


def test_no_python_runs(told):
    """But that of TensorBoard, where one is asked for, by which we know that they are found."""
    assert told["enough"]["pythons"] == ["0", "0"] and told["dataframe"]["pythons"] == ["1"]


def test_early_stopping_ends_the_feed(told, out):
    """All workers go back to the state of the best epoch."""
    found = told["early"]
    step = max(int(path.stem.partition("-")[2]) for path in (out / "early").glob("ckpt-*.index"))
    assert found["more"] == ["false"] and found["history"] == ["2"]
    for node in ("worker:0", "worker:1"):
        ended = re.fullmatch(rf"finished early epochs=2 steps=(\d+) rows={2 * ROWS}", found[node][0])
        assert int(ended[1]) == step


def test_a_column_that_is_missing_is_named(told):
    found = told["missing"]
    said = "the model's label 'label' takes the column 'label', and the rows have: x float"
    assert found["train"][0].startswith("TFClusterException") and said in found["train"][0]
    assert found["shutdown"][0].startswith("TFClusterException") and said in found["shutdown"][0]


@pytest.mark.parametrize(
    "name, said",
    [
        ("batch", "INVALID: batch_size: expected a whole number from 1 to"),
        ("unknown", "INVALID: a trainer has no option 'batchsize'"),
        ("nan", "INVALID: learning_rate: expected a finite number, found NaN"),
        ("column", "no input, label or sample weight of that name"),
        ("model", "no model that can be trained"),
        ("alone", "INVALID: the model has no step of many workers"),
        ("none", "INVALID: "),
        ("slots", "spark.master is local-cluster[2,1,1024]"),
        ("time", "INVALID: reservationTimeout: expected a time that is not negative"),
        ("validation", "INVALID: the validation of train and Trainer.validated(true) belong together"),
        ("epochs", "INVALID: epochs: expected a number from 1 on, or TFCluster.ENDLESS, found 0"),
    ],
)
def test_what_makes_no_sense_is_refused(told, name, said):
    assert said in told["refused"][name][0]


def test_a_query_that_takes_long_to_plan_ends_with_the_cluster(told):
    assert told["failures"]["plan"][0].startswith("TFClusterException") and "SIGKILL" in told["failures"]["plan"][0]


def test_failures_come_to_the_driver(told):
    job, trainer = told["failures"]["job"][0], told["failures"]["nan"][0]
    assert job.startswith("org.apache.spark.SparkException") and "this row is refused" in job
    assert trainer.startswith("TFClusterException") and "worker:" in trainer and "not finite" in trainer


def test_training_goes_on_after_a_node_is_killed(told):
    found, said = told["killed"], told["driver"]["errors"]
    assert "starting the cluster again: 1 of 1 restarts" in said and "goes on from ckpt-" in said
    ended = re.fullmatch(r"finished data epochs=\d+ steps=(\d+) rows=(\d+)", found["worker:1"][0])
    steps, rows = map(int, ended.groups())
    assert found["more"] == ["true"] and steps >= 40 * ROWS // 32 and 0 < rows < 40 * ROWS  # of the second attempt


def test_an_interrupt_stops_the_cluster(told):
    assert told["interrupted"]["shutdown"][0].startswith("TFClusterException CANCELLED: the driver's thread was")
    assert told["interrupted"]["interrupted"] == ["true"]


def test_nothing_is_left(told):
    assert {name: told[name]["left"] for name in SCENARIOS[:-1]} == {name: ["0"] for name in SCENARIOS[:-1]}
    assert told["halted"]["trainers"] == ["2"]
    wait_for(lambda: not of_ours(), 5)


def test_a_driver_in_scala_that_is_stopped(trainables, applications, tmp_path):
    """Ctrl-C in its second training, which has a checkpoint for that alone."""
    words = [str(trainables / "model"), str(trainables / "data"), str(tmp_path)]
    driver = submit(tmp_path, applications, "TrainScala", *words, master="local[2]")
    log = tmp_path / "second" / "train"
    try:
        wait_for(lambda: driver.poll() is not None or os.path.isdir(log), 90)
        driver.send_signal(signal.SIGINT)
        output, errors = driver.communicate(timeout=60)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 128 + signal.SIGINT and f"rows {2 * ROWS}" in output, output + errors
    for folder in ("first", "second"):
        assert os.path.exists(tmp_path / folder / "checkpoint")
    wait_for(lambda: not of_ours(), 5)


@pytest.mark.long
def test_a_model_on_hdfs(trainables, applications, tmp_path):
    with hdfs(tmp_path) as files:
        for folder, _, names in os.walk(trainables / "model"):
            for name in names:
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    files.write(f"/model/{os.path.relpath(path, trainables / 'model')}", file.read())
        conf = {"spark.tests.model": f"{files.address}/model"}
        words = [str(trainables), str(tmp_path), "elsewhere"]
        driver = submit(tmp_path, applications, "TrainScenarios", *words, master="local[2]", **conf)
        output, errors = driver.communicate(timeout=240)
    assert driver.returncode == 0, output + errors
    found = values_of(output)["elsewhere"]
    assert found["worker:0"][0].startswith("finished data epochs=1") and f"rows={ROWS}" in found["worker:0"][0]
    assert "no model that can be trained" in found["none"][0]
