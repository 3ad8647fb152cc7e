"""Feeds on two executors: lost executors, streams, and Keras with validation data."""

import json
import os
import sys
import time
from collections import Counter

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import Answers, executor_count, node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster

pytestmark = pytest.mark.filterwarnings(
    *spark_tools.SPARK_WARNINGS, "ignore:DStream is deprecated", "ignore::FutureWarning"
)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    conf = {"spark.tfos.cluster.lease_ms": "6000", "spark.tfos.cluster.beat_ms": "500"}
    with spark_context("local-cluster[2,1,1024]", tmp_path_factory.mktemp("spark"), executors=2, conf=conf) as context:
        yield context
    wait_for(lambda: not node_processes(), 10)


@pytest.fixture
def sc(context):
    """With both executors: a test may have killed one."""
    wait_for(lambda: executor_count(context) >= 2, 60)
    return context


@pytest.fixture
def answers(tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    return Answers(folder)


def start(sc, program, args=None, workers=2, **options):
    mode = TFCluster.InputMode.SPARK
    return TFCluster.run(sc, program, args or {}, workers, 0, input_mode=mode, **options)


def take_all(args, ctx):
    feed = ctx.get_data_feed()
    rows = []
    while not feed.should_stop():
        rows.extend(feed.next_batch(100))
    return rows


# ---- streams ----


def take_and_terminate(args, ctx):
    feed = ctx.get_data_feed()
    rows = []
    while len(rows) < args["enough"] and not feed.should_stop():
        rows.extend(feed.next_batch(1))
    feed.terminate()
    return rows


def test_stream_of_rdds_feeds_until_a_program_has_enough(sc, answers):
    """shutdown(ssc) stops the stream when the programs have ended."""
    streaming = pytest.importorskip("pyspark.streaming")
    ssc = streaming.StreamingContext(sc, 1)
    stream = ssc.queueStream([sc.parallelize(range(10 * i, 10 * i + 10), 2) for i in range(100)])
    cluster = start(sc, answers.program(take_and_terminate), {"enough": 25}, workers=1)
    try:
        cluster.train(stream, feed_timeout=60)
        ssc.start()
    finally:
        cluster.shutdown(ssc, timeout=60)
    (rows,) = answers.read()
    assert len(rows) == len(set(rows)) == 25 and set(rows) <= set(range(30))


@pytest.fixture
def bring(tmp_path):
    """Brings a file with numbers to the folder that a stream reads."""
    (tmp_path / "source").mkdir()

    def bring(name, numbers):
        (tmp_path / name).write_text("".join(json.dumps({"x": number}) + "\n" for number in numbers))
        os.rename(tmp_path / name, tmp_path / "source" / name)

    return bring


def stream_of(sc, folder):
    reader = SparkSession(sc).readStream.schema("x long").option("maxFilesPerTrigger", "1")
    return reader.json(str(folder / "source"))


def test_streaming_dataframe_feeds_what_comes(sc, answers, tmp_path, bring):
    bring("a.json", range(100))
    frame = stream_of(sc, tmp_path)
    cluster = start(sc, answers.program(lambda args, ctx: [row[0] for row in take_all(args, ctx)]))
    try:
        query = cluster.train(frame, feed_timeout=60)
        query.processAllAvailable()
        bring("b.json", range(100, 250))
        query.processAllAvailable()
        query.stop()
    finally:
        cluster.shutdown(timeout=60)
    assert sorted(sum(answers.read(), [])) == list(range(250))


def test_query_ends_with_its_consumers(sc, answers, tmp_path, bring):
    """A program has enough: nothing more is read for nobody, neither before shutdown nor after it."""
    bring("a.json", range(100))
    bring("b.json", range(100, 200))
    cluster = start(sc, answers.program(take_and_terminate), {"enough": 25}, workers=1)
    try:
        query = cluster.train(stream_of(sc, tmp_path), feed_timeout=60)
        wait_for(lambda: not query.isActive, 30)
        bring("c.json", range(200, 300))
    finally:
        cluster.shutdown(timeout=60)
    assert query.exception() is None and not query.isActive
    assert sum(progress["numInputRows"] for progress in query.recentProgress) <= 200
    (rows,) = answers.read()
    assert len(rows) == 25


def test_shutdown_ends_a_query(sc, answers, tmp_path, bring):
    """The batch that is being fed arrives; no other begins."""

    def take_slowly(args, ctx):
        import time

        feed = ctx.get_data_feed()
        rows = []
        while not feed.should_stop():
            rows.extend(row[0] for row in feed.next_batch(10))
            open(args["begun"], "w").close()
            time.sleep(0.05)
        return rows

    bring("a.json", range(300))
    cluster = start(sc, answers.program(take_slowly), {"begun": str(tmp_path / "begun")}, workers=1)
    try:
        query = cluster.train(stream_of(sc, tmp_path), feed_timeout=60)
        wait_for((tmp_path / "begun").exists, 30)
    finally:
        cluster.shutdown(timeout=60)
    assert query.exception() is None and not query.isActive
    bring("b.json", range(300, 400))
    assert sorted(answers.read()[0]) == list(range(300)) and not query.isActive


# ---- Keras ----


def fit(args, ctx):
    """As many epochs as wanted, each with its validation; then nothing more."""
    import tensorflow as tf

    def pairs(dataset):
        return dataset.map(lambda row: (row["x"], row["y"]))

    feed = ctx.get_data_feed()
    columns = {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], tf.float32)}
    training = pairs(feed.dataset(16, columns, epochs="split"))
    validation = pairs(feed.dataset(16, columns, epochs="split", validation=True))
    seen = []

    class Look(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append(sorted(logs))
            if args["raises"]:
                raise ArithmeticError("a fault of a callback")

    model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(training, validation_data=validation, epochs=args["epochs"], callbacks=[Look()], verbose=0)
    feed.terminate()
    return seen


def frames(sc):
    spark = SparkSession(sc)
    frame = spark.range(0, 300, 1, 2).selectExpr(
        "array(cast(id % 7 as float), cast(id % 5 as float)) as x", "cast(id % 3 as float) as y"
    )
    return frame, frame.limit(50)


def test_keras_validates_after_each_epoch_and_stops_early(sc, answers):
    training, validation = frames(sc)
    cluster = start(sc, answers.program(fit), {"epochs": 3, "raises": False}, workers=1)
    try:
        cluster.train(training, None, feed_timeout=60, validation=validation)
    finally:
        cluster.shutdown(timeout=60)
    assert answers.read() == [[["loss", "val_loss"]] * 3]


def test_callback_that_raises_ends_the_feed(sc):
    training, validation = frames(sc)
    cluster = start(sc, fit, {"epochs": 3, "raises": True}, workers=1)
    with pytest.raises(TFCluster.TFClusterError, match="ArithmeticError: a fault of a callback"):
        cluster.train(training, None, feed_timeout=60, validation=validation)
        cluster.shutdown(timeout=60)


# ---- executors that are lost ----


def kill_executor_midway(args, ctx):
    """The first worker's first attempt kills its executor when it has some rows; the other one leaves it some, however
    much later it comes."""
    import signal

    feed = ctx.get_data_feed()
    rows = feed.next_batch(10)
    while ctx.attempt == 0 and ctx.task_index != 0 and not os.path.exists(args["begun"]):
        time.sleep(0.05)
    if ctx.attempt == 0 and ctx.task_index == 0:
        open(args["begun"], "w").close()
        with open(f"/proc/{os.getppid()}/stat", encoding="utf-8") as file:
            os.kill(int(file.read().rpartition(")")[2].split()[1]), signal.SIGKILL)
        time.sleep(600)
    while not feed.should_stop():
        rows.extend(feed.next_batch(100))
    return rows


def test_executor_that_is_lost_fails_the_feed(sc, tmp_path):
    cluster = start(sc, kill_executor_midway, {"begun": str(tmp_path / "begun")})
    begin = time.monotonic()
    try:
        with pytest.raises(TFCluster.TFClusterError, match="worker:0 on .*(lost its executor|disappeared)"):
            cluster.train(sc.parallelize(range(100_000), 4), 1)
        assert time.monotonic() - begin < 30
    finally:
        cluster._session.stop("the test is over")


def test_epoch_is_fed_again_when_the_cluster_starts_again(sc, answers, tmp_path):
    cluster = start(sc, answers.program(kill_executor_midway), {"begun": str(tmp_path / "begun")}, restarts=1)
    try:
        cluster.train(sc.parallelize(range(100_000), 4), 1)
    finally:
        cluster.shutdown(timeout=60)
    assert Counter(sum(answers.read(attempt=1), [])) == Counter(range(100_000))
