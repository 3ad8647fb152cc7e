"""TFModel.transform: SavedModels on the rows of DataFrames, in processes beside the executors, against TensorFlow."""

import contextlib
import os
import re
import shutil
import signal
import threading

import numpy
import pytest
from processes import parent_of, wait_for
from pyspark.ml import PipelineModel
from pyspark.ml.feature import SQLTransformer, VectorAssembler
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

import spark_tools
from spark_tools import counted, executors_of, spark_context
from tensorflowonspark import attach, pipeline

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

ROWS = 3000
IDLE_MS = 2000


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    conf = {"spark.sql.shuffle.partitions": "2", "spark.task.maxFailures": "2"}
    conf["spark.tfos.model.idle_ms"] = str(IDLE_MS)
    conf["spark.executorEnv.TF_ENABLE_ONEDNN_OPTS"] = "0"  # with it, TensorFlow looks for memory for ten seconds
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
    model.export(folder)
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
    executors = [parent_of(pid) for pid in model_processes()]
    assert executors and len(set(executors)) == len(executors)  # one for each


def test_output_columns_only(frame, digits, images):
    folder, model = digits
    found = model_of(None, model_dir=folder).transform(frame)  # which is where models are if nothing is exported
    assert found.columns == ["output_0"]  # of the signature
    total = numpy.sum([row[0] for row in found.collect()], axis=0)
    numpy.testing.assert_allclose(total, model.predict(images, verbose=0).sum(axis=0), rtol=1e-4)


def test_columns_are_taken_without_rows(spark, frame, digits):
    folder, _ = digits
    before = counted(spark)
    plan = model_of(folder).transform(frame)
    assert plan.count() == ROWS
    assert counted(spark) == (before[0] + ROWS, before[1])  # of Parquet, the pages of Spark's stages say
    assert model_of(folder).transform(frame.where("id % 2 = 0")).count() == ROWS / 2  # a filter gives rows
    assert counted(spark) == (before[0] + ROWS, before[1])
    vectorized = frame.select("pixels").limit(5)
    assert model_of(folder).transform(vectorized).count() == 5


def test_rows_of_every_way(spark, frame, digits, images):
    """After a shuffle, a sort, from a cache, with a limit, and twice."""
    folder, model = digits
    expected = model.predict(images, verbose=0)
    # The signature calls it output_0, and the layer that makes it has this name.
    transform = model_of(folder, output_mapping={"digit": "digit"}, keep_cols=["id"]).transform
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


# ---- when it is computed ----


@contextlib.contextmanager
def no_job(spark):
    """Spark is given nothing to compute meanwhile."""
    spark.sparkContext.setJobGroup("quiet", "")
    try:
        yield
        spark._jsc.sc().listenerBus().waitUntilEmpty()
        assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("quiet")) == []
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)


def test_nothing_is_computed_before_somebody_asks(spark, frame, digits, images):
    """Also where Spark computes the first stages of a query before it knows the plan of the others."""
    folder, model = digits
    transform = model_of(folder, output_mapping={"0": "digit"}, keep_cols=["id"]).transform
    with no_job(spark):
        shuffled = frame.groupBy("id").agg(F.first("pixels").alias("pixels")).sort("id")
        plans = [transform(shuffled), transform(frame.join(shuffled.select("id"), "id"))]
        joined = plans[0].withColumnRenamed("digit", "again").join(plans[1], "id").limit(ROWS)
        joined.explain(True)
        kept = joined.cache()
        broadcast = frame.join(F.broadcast(plans[0].drop("digit")), "id")
        twice = transform(transform(broadcast).drop("digit").join(broadcast, "id"))  # rows of a model's, for a model
        columns = model_of(folder).transform(frame)  # which has columns
        assert columns.schema["output_0"].dataType.simpleString() == "array<float>"
    expected = model.predict(images, verbose=0)
    numpy.testing.assert_allclose(by_id(kept.collect()), expected, atol=1e-5)
    numpy.testing.assert_allclose(by_id(kept.collect()), expected, atol=1e-5)
    assert plans[0].first()["id"] == 0 and plans[0].count() == columns.count() == ROWS
    numpy.testing.assert_allclose(by_id(twice.collect()), expected, atol=1e-5)
    kept.unpersist()


def test_a_query_that_has_failed_is_computed_again(spark, frame, digits, tmp_path):
    folder, _ = digits
    data = str(tmp_path / "data")
    frame.limit(10).coalesce(1).write.parquet(data)
    found = model_of(folder).transform(spark.read.parquet(data).repartition(3))
    os.rename(data, data + "-away")
    assert "data" in failure_of(found)
    os.rename(data + "-away", data)
    assert found.count() == 10


# ---- streams ----


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    """Rows in three files, for streams."""
    folder = str(tmp_path_factory.mktemp("data") / "stream")
    of_many_types = "id / 8.0bd as a, date_from_unix_date(id) as b, cast(text as binary) as c, array(text) as d"
    with_more = frame.selectExpr("*", "if(id % 3 = 0, null, concat('n', id)) as text", "timestamp_seconds(id) as at")
    with_more = with_more.selectExpr("*", f"struct({of_many_types}) as much")
    for number in range(3):
        with_more.where(f"id % 3 = {number}").coalesce(1).write.mode("append").parquet(folder)
    return folder


def stream_of(spark, files, **options):
    return spark.readStream.schema(spark.read.parquet(files).schema).options(**options).parquet(files)


def run_stream(frame, folder, name="out", **options):
    """Writes what is there to a folder of Parquet; returns the query, which has ended."""
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{folder}/{name}-state")
    query = writer.trigger(availableNow=True).options(**options).start(f"{folder}/{name}")
    query.awaitTermination()
    return query


def test_streams(spark, files, digits, images, tmp_path):
    folder, model = digits
    rows, data = stream_of(spark, files, maxFilesPerTrigger=1), spark.read.parquet(files)
    transform = model_of(folder, output_mapping={"0": "digit"}, keep_cols=["text", "id", "at", "much"]).transform
    with no_job(spark):
        found = transform(rows)
    assert found.isStreaming and found.schema == transform(data).schema
    query = run_stream(found, tmp_path)
    assert len(query.recentProgress) >= 3 and sum(each["numInputRows"] for each in query.recentProgress) == ROWS
    written = spark.read.parquet(str(tmp_path / "out"))
    numpy.testing.assert_allclose(by_id(written.collect()), model.predict(images, verbose=0), atol=1e-5)
    assert written.drop("digit").exceptAll(data.select("text", "id", "at", "much")).count() == 0


def test_a_stream_of_events(spark, files, plain, tmp_path):
    """What Spark knows of a column stays: that it is the one with the watermark, by which groups end."""
    rows = stream_of(spark, files).withWatermark("at", "1 second")
    small = VectorAssembler(inputCols=["id", "one"], outputCol="a").transform(rows.selectExpr("at", "id", "1 as one"))
    counts = transform_plain(plain, "three", small, keep_cols=["at", "a"]).groupBy(F.window("at", "1 minute")).count()
    run_stream(counts.coalesce(1), tmp_path)
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert len(found) >= ROWS // 60 - 1 and {row["count"] for row in found} == {60}


def test_a_stream_with_a_row_that_cannot_be_computed(spark, files, plain, tmp_path):
    rows = stream_of(spark, files, maxFilesPerTrigger=1)
    small = rows.selectExpr("id", "if(id = 2000, null, array(cast(id as float), 1f)) as a").where("id % 500 = 0")
    found = transform_plain(plain, "three", small, keep_cols=["id"])
    with pytest.raises(Exception, match="column 'a'"):
        run_stream(found, tmp_path)
    mended = transform_plain(plain, "three", small.where("a is not null"), keep_cols=["id"])
    run_stream(mended, tmp_path)
    written = spark.read.parquet(str(tmp_path / "out"))
    assert sorted(row["id"] for row in written.collect()) == [0, 500, 1000, 1500, 2500]


def test_a_stream_without_batches_is_refused(spark, plain, tmp_path):
    numbers = spark.readStream.format("rate").option("numPartitions", 1).load()
    found = transform_plain(plain, "three", numbers.selectExpr("array(cast(value as float), 1f) as a"))
    query = found.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "state"))
    with pytest.raises(Exception, match="continuous trigger: give it|Continuous execution does not support task retry"):
        query.trigger(continuous="1 second").start().awaitTermination()


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
    odd = (True, bytearray(b"\xff\x00\xfe"), [bytearray(b"\xc3"), bytearray(b"\x28")])  # no text of any encoding
    frame = spark.createDataFrame([odd], "a boolean, b binary, c array<binary>")
    found = transform_plain(plain, "texts", frame).first().asDict()
    assert found == {"both": [odd[1]] * 2, "joined": b"\xc3\x28", "not_a": False, "upper": odd[1]}
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


def test_what_does_not_fit_is_refused_at_once(frame, digits, tmp_path):
    folder, _ = digits
    cases = [
        ({"export_dir": str(tmp_path / "gone")}, "expected a SavedModel, found no saved_model.pb in this folder"),
        ({"tag_set": "train"}, "expected a graph with the tag set 'train', found 'serve'"),
        ({"signature_def_key": "train"}, "expected a signature 'train', found 'serve', 'serving_default'"),
        ({"input_mapping": {"pixels": "x"}}, "the signature 'serving_default' has the inputs image float32"),
        ({"input_mapping": {"picture": "image"}}, "the rows have the columns id long, pixels array<float>;"),
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


@pytest.mark.parametrize("value, kind", [(1e300, "double"), (16777217, "bigint"), (16777217, "int")])
def test_no_number_becomes_another_one(spark, plain, value, kind):
    """The model takes floats: these would be infinite, or the number before. Others are rounded, or stay the same."""
    good, bad = ([1, 2], [3, value]) if kind != "double" else ([0.1, 0.2], [0.3, value])
    both, alone = (spark.createDataFrame(rows, f"a array<{kind}>") for rows in ([(good,), (bad,)], [(good,)]))
    found = failure_of(transform_plain(plain, "three", both.coalesce(1)))
    assert "column 'a'" in found and (f"{value:g}" if kind == "double" else str(value)) in found
    assert transform_plain(plain, "three", alone).first()["sum"] == pytest.approx(sum(good))


def test_a_model_that_calls_python(spark, plain):
    folder = os.path.join(os.path.dirname(plain), "py_func")
    frame = spark.createDataFrame([(1.0,)], "x float")
    assert "the model calls Python" in failure_of(pipeline.TFModel({}).setExportDir(folder).transform(frame))


@pytest.fixture(scope="module")
def hungry(tmp_path_factory):
    """A model that has as many numbers in memory as it is told to, made by the op all_the_numbers; or a text of 2 GB,
    made by an op that does not ask whether there is memory for it."""
    import tensorflow as tf

    counts = [tf.TensorSpec([None], tf.float32, "count")]

    @tf.function(input_signature=counts)
    def numbers(count):
        found = tf.fill([tf.cast(tf.reduce_max(count), tf.int32)], count[0], name="all_the_numbers")
        return {"sum": count + tf.reduce_sum(found)}

    @tf.function(input_signature=counts)
    def text(count):
        found = tf.strings.as_string(count, width=1000)
        for _ in range(3):
            found = tf.strings.join([found] * 128)
        return {"size": tf.strings.length(found)}

    folder = str(tmp_path_factory.mktemp("models") / "hungry")
    tf.saved_model.save(tf.Module(), folder, signatures={"serving_default": numbers, "text": text})
    return folder


@contextlib.contextmanager
def settings(spark, values):
    """Meanwhile; what was unset would not be what the context has, but nothing."""
    before = {name: spark.conf.get(name, None) for name in values}
    for name, value in values.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def test_a_model_that_needs_more_memory_than_it_may_have(spark, hungry):
    model = pipeline.TFModel({}).setExportDir(hungry)
    little, much = (spark.range(0, 2, 1, 2).selectExpr(f"float({count}) as count") for count in (10.0, 1e9))
    before = executors_of(spark)
    with settings(spark, {"spark.tfos.model.memory_bytes": str(1 << 30), "spark.tfos.model.idle_ms": "600000"}):
        fits, fails = model.transform(little), model.transform(much)
        aborts = model.copy().setSignatureDefKey("text").transform(little)
    wait_for(lambda: not model_processes(), IDLE_MS / 1000 + 10)  # of the tests before

    def processes():
        assert [row["sum"] for row in fits.collect()] == [110, 110]
        return set(model_processes())

    served = wait_for(lambda: len(processes()) == 2 and processes(), 60)  # on both executors
    assert "all_the_numbers" in failure_of(fails)
    assert processes() == served  # an op that asks for memory costs nobody more than its task
    said = failure_of(aborts)
    assert re.search(r"signal 6 \(it aborted\)\. It said last:\n(.*\n)*?.*std::bad_alloc", said), said
    assert not served <= set(model_processes())
    assert executors_of(spark) == before
    for pid in model_processes():
        os.kill(pid, signal.SIGKILL)


def test_a_model_with_ops_of_its_own(spark, double_op, tmp_path):
    import tensorflow as tf

    library, double = double_op

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.int32, "x")])
    def predict(x):
        return {"doubled": tf.ensure_shape(double(x), [None, 2])}

    module = tf.Module()
    module.predict = predict
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.predict)
    model = pipeline.TFModel({}).setExportDir(str(tmp_path / "model"))
    frame = spark.range(1, 5, 2, 1).selectExpr("array(int(id), int(id + 1)) as x")
    assert "TfosTestDouble" in failure_of(model.transform(frame))
    assert "no/such.so" in failure_of(model.copy().setOpLibraries(["/no/such.so"]).transform(frame))
    found = model.setOpLibraries([library]).transform(frame).collect()
    assert [row["doubled"] for row in found] == [[2, 4], [6, 8]]


def test_a_model_that_is_replaced(spark, frame, digits, tmp_path):
    folder = str(tmp_path / "model")
    shutil.copytree(digits[0], folder)
    found = model_of(folder).transform(frame)
    os.utime(os.path.join(folder, "saved_model.pb"), (1, 1))
    assert "the model was replaced after transform() was called" in failure_of(found)
    assert model_of(folder).transform(frame).count() == ROWS


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
