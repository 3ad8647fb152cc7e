"""TFModel.transform: SavedModels on the rows of DataFrames, in processes beside the executors, against TensorFlow."""

import contextlib
import os
import shutil
import signal
import threading

import numpy
import pytest
from processes import wait_for
from pyspark.ml import PipelineModel
from pyspark.ml.feature import SQLTransformer
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import spark_tools
from spark_tools import spark_context
from tensorflowonspark import attach, pipeline

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

ROWS = 3000
IDLE_MS = 2000


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    conf = {"spark.sql.shuffle.partitions": "2", "spark.task.maxFailures": "2"}
    conf["spark.tfos.model.idle_ms"] = str(IDLE_MS)
    with spark_context("local-cluster[2,1,1024]", tmp_path_factory.mktemp("spark"), conf=conf) as context:
        session = SparkSession(context)
        attach(session)
        yield session
    wait_for(lambda: not model_processes(), 10)


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A Keras 3 model: image [784] → 10 numbers. Its folder, and the model."""
    import keras

    folder = str(tmp_path_factory.mktemp("models") / "digits")
    keras.utils.set_random_seed(7)
    image = keras.Input([784], name="image")
    hidden = keras.layers.Dense(64, "relu")(image)
    model = keras.Model(image, keras.layers.Dense(10, "softmax", name="digit")(hidden))
    model.export(folder, verbose=False)
    return folder, model


@pytest.fixture(scope="module")
def images():
    return numpy.random.default_rng(3).random((ROWS, 784), dtype=numpy.float32)


@pytest.fixture(scope="module")
def frame(spark, images, tmp_path_factory):
    """The images with their numbers, in a file of Parquet."""
    folder = str(tmp_path_factory.mktemp("data") / "images")
    rows = [(index, image.tolist()) for index, image in enumerate(images)]
    spark.createDataFrame(rows, "id long, pixels array<float>").repartition(4).write.parquet(folder)
    return spark.read.parquet(folder)


def model_of(folder, **params):
    model = pipeline.TFModel({}).setExportDir(folder).setInputMapping({"pixels": "image"})
    return model._set(**params)


def model_processes():
    return [pid for pid, command in spark_tools.marked_processes().items() if "tfos model" in command]


def by_id(rows, column="digit"):
    return numpy.array([row[column] for row in sorted(rows, key=lambda row: row["id"])], numpy.float32)


# ---- results ----


def test_results_are_those_of_the_model(frame, digits, images):
    folder, model = digits
    found = model_of(folder, output_mapping={"output_0": "digit"}, keep_cols=["id"], batch_size=128).transform(frame)
    assert found.dtypes == [("id", "bigint"), ("digit", "array<float>")]
    assert model_processes() == []  # nothing is computed before somebody asks
    numpy.testing.assert_allclose(by_id(found.collect()), model.predict(images, verbose=0), atol=1e-5)
    assert len(model_processes()) <= 2  # one for each executor


def test_output_columns_only(frame, digits, images):
    folder, model = digits
    found = model_of(folder).transform(frame)
    assert found.columns == ["output_0"]  # of the signature
    total = numpy.sum([row[0] for row in found.collect()], axis=0)
    numpy.testing.assert_allclose(total, model.predict(images, verbose=0).sum(axis=0), rtol=1e-4)


def test_columns_are_taken_without_rows(spark, frame, digits):
    folder, _ = digits
    plan = model_of(folder).transform(frame)
    assert plan.count() == ROWS
    assert model_of(folder).transform(frame.where("id % 2 = 0")).count() == ROWS / 2  # a filter gives rows
    vectorized = frame.select("pixels").limit(5)
    assert model_of(folder).transform(vectorized).count() == 5


def test_rows_of_every_way(spark, frame, digits, images):
    """After a shuffle, a sort, from a cache, with a limit, and twice."""
    folder, model = digits
    expected = model.predict(images, verbose=0)
    transform = model_of(folder, output_mapping={"0": "digit"}, keep_cols=["id"]).transform
    joined = transform(frame).drop("digit").join(frame, "id")
    for rows in (frame.repartition(3), frame.sort("id"), frame.cache(), joined):
        found = transform(rows)
        numpy.testing.assert_allclose(by_id(found.collect()), expected, atol=1e-5)
    frame.unpersist()
    assert len(transform(frame).limit(7).collect()) == 7
    assert len(transform(frame).take(3)) == 3
    assert transform(frame.where("id < 0")).collect() == []


def test_stages_of_a_pipeline_that_is_saved(spark, frame, digits, images, tmp_path):
    folder, model = digits
    halves = SQLTransformer(statement="SELECT id, transform(pixels, x -> x / 2) AS pixels FROM __THIS__")
    digit = model_of(folder, output_mapping={"output_0": "digit"}, keep_cols=["id"])
    PipelineModel([halves, digit]).save(str(tmp_path / "saved"))
    loaded = PipelineModel.load(str(tmp_path / "saved"))
    numpy.testing.assert_allclose(
        by_id(loaded.transform(frame).collect()), model.predict(images / 2, verbose=0), atol=1e-5
    )


# ---- types and shapes ----


@pytest.fixture(scope="module")
def plain():
    return os.path.join(spark_tools.ROOT, "tests", "vectors", "tensorflow", "saved_model", "plain")


def transform_plain(plain, signature, frame, **params):
    return pipeline.TFModel({}).setExportDir(plain).setSignatureDefKey(signature)._set(**params).transform(frame)


def test_types(spark, plain):
    values = {"a": True, "b": "Grün", "c": ["x", "y"]}
    frame = spark.createDataFrame([Row(**values)], "a boolean, b string, c array<string>")
    found = transform_plain(plain, "texts", frame).first()
    assert found.asDict() == {"both": [b"Gr\xc3\xbcn"] * 2, "joined": b"xy", "not_a": False, "upper": b"GR\xc3\xbcN"}
    frame = spark.createDataFrame([(bytearray([1, 2, 3, 250]),)], "a binary")
    assert transform_plain(plain, "bytes_in", frame).first().asDict() == {"sum": 256}
    lists = spark.createDataFrame([([[1.0, 2.0], [3.0, 4.0]],), ([[5.0, 6.0]],)], "a array<array<float>>")
    found = sorted(transform_plain(plain, "lists", lists.coalesce(1)).collect(), key=lambda row: row["sum"])
    assert [row["same"] for row in found] == [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [0.0, 0.0]]]


def test_numbers(spark, plain):
    types = "a byte, b short, c int, d long, e int, f long, g long, h long, i double, j float, k decimal(10, 2)"
    from decimal import Decimal

    frame = spark.createDataFrame([(1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, Decimal("2.5"))], types)
    found = transform_plain(plain, "numbers", frame).first().asDict()
    order = ["uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "float16", "bfloat16", "float32"]
    assert [found[name] for name in order] == [2, 3, 4, 5, 6, 7, 8, 9, 1.5, 2.5, 3.5]


def test_batches_of_a_fixed_size(spark, plain):
    frame = spark.range(10).select(F.array(F.col("id").cast("float"), F.lit(1.0).cast("float")).alias("a")).coalesce(1)
    found = transform_plain(plain, "three", frame).collect()
    assert [row["sum"] for row in found] == [float(n + 1) for n in range(10)]


# ---- what is refused, and what fails ----


def test_what_does_not_fit_is_refused_at_once(spark, frame, digits, plain, tmp_path):
    folder, _ = digits
    cases = [
        ({"export_dir": str(tmp_path / "gone")}, "expected a SavedModel, found no saved_model.pb in this folder"),
        ({"tag_set": "train"}, "expected a graph with the tag set 'train', found 'serve'"),
        ({"signature_def_key": "train"}, "expected a signature 'train', found 'serve', 'serving_default'"),
        ({"input_mapping": {"pixels": "x"}}, "the signature 'serving_default' has the inputs image float32"),
        ({"input_mapping": {"picture": "image"}}, "names a column 'picture': the rows have id, pixels"),
        ({"input_mapping": {"id": "image"}}, "it wants 784 values a row, and the column has 1"),
        ({"output_mapping": {"logits": "y"}}, "has the outputs output_0 float32"),
        ({"keep_cols": ["label"]}, "'label' is to be kept; the DataFrame has id, pixels"),
        ({"keep_cols": ["id"], "output_mapping": {"0": "id"}}, "and is one of the results, too"),
    ]
    for params, message in cases:
        with pytest.raises(ValueError, match=message.replace("[", r"\[")):
            model_of(folder, **params).transform(frame)
    with pytest.raises(ValueError, match="the model has no folder: set export_dir"):
        pipeline.TFModel({}).transform(frame)
    with pytest.raises(ValueError, match="take no streaming|takes no streaming"):
        model_of(folder).transform(spark.readStream.schema(frame.schema).parquet(str(tmp_path)))


def failure_of(frame):
    with pytest.raises(Exception) as caught:
        frame.collect()
    return str(caught.value)


def test_rows_that_cannot_be_computed(spark, plain):
    short = spark.createDataFrame([([1.0, 2.0],), ([1.0],)], "a array<float>").coalesce(1)
    assert "column 'a'" in failure_of(transform_plain(plain, "three", short))
    large = spark.createDataFrame([([1.0, 2.0],), ([1.0, 200.0],)], "a array<float>").coalesce(1)
    assert "too large for me" in failure_of(transform_plain(plain, "checked", large))
    null = spark.createDataFrame([(None,)], "a array<float>")
    assert "column 'a'" in failure_of(transform_plain(plain, "three", null))
    wrong = transform_plain(plain, "wrong", spark.createDataFrame([([1.0, 2.0],)], "a array<float>"))
    assert "results for 1 rows" in failure_of(wrong)


def test_a_model_that_calls_python(spark, plain):
    folder = os.path.join(os.path.dirname(plain), "py_func")
    frame = spark.createDataFrame([(1.0,)], "x float")
    assert "the model calls Python" in failure_of(pipeline.TFModel({}).setExportDir(folder).transform(frame))


def test_a_model_that_is_replaced(spark, frame, digits, tmp_path):
    folder = str(tmp_path / "model")
    shutil.copytree(digits[0], folder)
    found = model_of(folder).transform(frame)
    os.utime(os.path.join(folder, "saved_model.pb"), (1, 1))
    assert "the model was replaced after transform() was called" in failure_of(found)
    assert model_of(folder).transform(frame).count() == ROWS


def executors_of(spark):
    return spark._jsc.sc().getExecutorMemoryStatus().size()


def test_a_process_that_is_killed_costs_no_executor(spark, frame, digits):
    folder, _ = digits
    before = executors_of(spark)
    many = frame.crossJoin(spark.range(1000)).select("pixels")
    results = []
    thread = threading.Thread(target=lambda: results.append(outcome(model_of(folder).transform(many))))
    thread.start()
    while thread.is_alive():  # each time that Spark tries a task again
        wait_for(lambda: model_processes() or not thread.is_alive(), 60)
        for pid in model_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)
        thread.join(0.3)
    assert "signal 6 (it aborted)" in results[0]
    assert executors_of(spark) == before
    assert model_of(folder).transform(frame).count() == ROWS


def outcome(frame):
    try:
        frame.write.format("noop").mode("overwrite").save()
        return "ok"
    except Exception as error:
        return str(error)


def test_processes_end_when_nobody_needs_them(spark, frame, digits):
    folder, _ = digits
    assert model_of(folder).transform(frame).count() == ROWS
    assert model_processes()
    wait_for(lambda: not model_processes(), IDLE_MS / 1000 + 10)
    assert model_of(folder).transform(frame).count() == ROWS
