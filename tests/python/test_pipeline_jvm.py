"""org.tfos.spark.TFModel: a driver in Java, part of it in Scala, on a cluster of executors, against Keras."""

import glob
import json
import os
import subprocess

import numpy
import pyspark
import pytest
from processes import java_home, wait_for

import spark_tools
import tensorflowonspark

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = 1000
OURS = os.path.join(os.path.dirname(tensorflowonspark.__file__), "jars", "tfos.jar")
SPARK = os.path.dirname(pyspark.__file__)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A Keras 3 model, and what it gives for the rows of the job, and for half of them."""
    import keras

    keras.utils.set_random_seed(7)
    image = keras.Input([784], name="image")
    model = keras.Model(image, keras.layers.Dense(10, "softmax")(image))
    folder = str(tmp_path_factory.mktemp("models") / "digits")
    model.export(folder)
    numbers = numpy.arange(ROWS)[:, None] * 7 + numpy.arange(784)
    pixels = (numbers % 256 / 255).astype("float32")
    return folder, model.predict(pixels, verbose=0), model.predict(pixels / 2, verbose=0)


def compile_job(folder):
    """A jar of the job."""
    java, scala = os.path.join(HERE, "ModelJob.java"), os.path.join(HERE, "InScala.scala")
    places = os.pathsep.join([OURS, *glob.glob(f"{SPARK}/jars/*.jar")])
    classes = str(folder / "classes")
    os.mkdir(classes)
    options = spark_tools.JAVA_OPTIONS.split()
    scalac = [f"{java_home()}/bin/java", *options, "-cp", places, "scala.tools.nsc.Main", "-usejavacp"]
    subprocess.run([*scalac, "-d", classes, scala], check=True)
    javac = [f"{java_home()}/bin/javac", "--release", "11", "-proc:none"]
    subprocess.run([*javac, "-cp", f"{classes}{os.pathsep}{places}", "-d", classes, java], check=True)
    jar = str(folder / "job.jar")
    subprocess.run([f"{java_home()}/bin/jar", "--create", "--file", jar, "-C", classes, "."], check=True)
    return jar


@pytest.fixture(scope="module")
def seen(digits, doubling, tmp_path_factory):
    """What the job has left, by name: the lines of each file."""
    folder = tmp_path_factory.mktemp("job")
    out = folder / "out"
    out.mkdir()
    variables = {**os.environ, **spark_tools.environment(folder)}
    submit = [f"{variables['SPARK_HOME']}/bin/spark-submit", "--master", "local-cluster[2,1,1024]", "--jars", OURS]
    conf = ["spark.ui.enabled=false", "spark.executor.memory=512m", "spark.sql.shuffle.partitions=2"]
    conf += [f"spark.sql.warehouse.dir={folder}/warehouse", "spark.tfos.model.idle_ms=2000"]
    settings = [word for each in conf for word in ("--conf", each)]
    job = [compile_job(folder), digits[0], str(ROWS), str(out), *doubling]
    done = subprocess.run(
        [*submit, *settings, "--class", "ModelJob", *job], env=variables, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-6000:]
    wait_for(lambda: not spark_tools.marked_processes("tfos model"), 10)
    return {path.name: path.read_text("utf-8").splitlines() for path in out.iterdir() if path.is_file()}


def results_of(lines, ids=range(ROWS)):
    rows = sorted(map(json.loads, lines), key=lambda row: row["id"])
    assert [row["id"] for row in rows] == list(ids)
    return numpy.array([row["digit"] for row in rows], numpy.float32)


def test_a_pipeline_that_was_saved_and_loaded(seen, digits):
    numpy.testing.assert_allclose(results_of(seen["halves"]), digits[2], atol=1e-5)


def test_a_stream(seen, digits):
    numpy.testing.assert_allclose(results_of(seen["stream"]), digits[1], atol=1e-5)


def test_threads_get_the_results_of_their_own_rows(seen, digits):
    for number in range(4):
        found = results_of(seen[f"thread-{number}"], range(number, ROWS, 4))
        numpy.testing.assert_allclose(found, digits[1][number::4], atol=1e-5)


def test_params_are_those_of_python(seen):
    from tensorflowonspark.pipeline import TFModel

    assert sorted(seen["params"]) == sorted(param.name for param in TFModel({}).params)


def test_what_does_not_fit_is_refused_at_once(seen):
    expected = [
        "the model has no folder: set export_dir",
        "expected a graph with the tag set 'train', found 'serve'",
        "expected a signature 'train', found 'serve', 'serving_default'",
        "names a column 'picture': the rows have the columns id long, pixels array<float>;",
        "'label' is to be kept; the DataFrame has id, pixels",
        "batch_size given invalid value 0",
    ]
    assert len(seen["refused"]) == len(expected)
    for message, part in zip(seen["refused"], expected):
        assert part in message


def test_from_scala(seen):
    assert seen["scala"] == [f"image {ROWS * (ROWS - 1) // 2}"]
