"""Rows that no lane has room for: refused with the same words whichever way they come, at once and before they are
copied."""

import re
import sys
import time

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

LANE = 1 << 20
LARGE = 3 << 20
HUGE = 100 << 20


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    conf = {"spark.tfos.feed.lane_bytes": str(LANE)}
    with spark_context("local[2, 4]", tmp_path_factory.mktemp("spark"), conf=conf) as context:
        yield SparkSession(context)
    wait_for(lambda: not node_processes(), 10)


def take_all(args, ctx):
    feed = ctx.get_data_feed()
    while not feed.should_stop():
        feed.next_batch(100)


def refusal(sc, data):
    """What train says, and after how many seconds."""
    cluster = TFCluster.run(sc, take_all, None, 1, 0, input_mode=TFCluster.InputMode.SPARK)
    begin = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError) as caught:
        cluster.train(data, 1, feed_timeout=60)
    took = time.monotonic() - begin
    words = "their data was not fed: partition 0: row 10 of the partition takes"
    with pytest.raises(TFCluster.TFClusterError, match=words):
        cluster.shutdown(timeout=60)
    return str(caught.value), took


def frame_of(spark, size, value="repeat('x', size)"):
    """Ten small rows in a partition, and then one whose column is of this size, made by Spark."""
    sized = spark.range(0, 11, 1, 1).selectExpr(f"cast(if(id < 10, 10, {size}) as int) as size")
    return sized.selectExpr("size", f"{value} as image")


LISTS = "array_repeat(cast(1 as float), cast(size / 4 as int))"
TEXTS = "array_repeat('abcdefgh', cast(size / 8 as int))"
BINARY = "cast(repeat('x', size) as binary)"

WAYS = {
    "text in rows": lambda spark, folder: frame_of(spark, LARGE),
    "binary in rows": lambda spark, folder: frame_of(spark, LARGE, BINARY),
    "list in rows": lambda spark, folder: frame_of(spark, LARGE, LISTS),
    "text in columns": lambda spark, folder: stored(frame_of(spark, LARGE), folder),
    "binary in columns": lambda spark, folder: stored(frame_of(spark, LARGE, BINARY), folder),
    "list in columns": lambda spark, folder: stored(frame_of(spark, LARGE, LISTS), folder),
    "list of texts in columns": lambda spark, folder: stored(frame_of(spark, LARGE, TEXTS), folder),
    "rdd": lambda spark, folder: frame_of(spark, LARGE).rdd.map(lambda row: {"size": row.size, "image": row.image}),
}


def stored(frame, folder):
    frame.write.parquet(str(folder / "rows"))
    return frame.sparkSession.read.parquet(str(folder / "rows"))


@pytest.mark.parametrize("way", WAYS)
def test_the_same_is_said(spark, tmp_path, way):
    text, seconds = refusal(spark.sparkContext, WAYS[way](spark, tmp_path))
    assert re.fullmatch(
        r"partition 0: row 10 of the partition takes 3\d{6} bytes, 3\d{6} of them in column 'image': more than a lane "
        r"has, 1048576. Set feed.lane_bytes \(spark.tfos.feed.lane_bytes\) to more",
        text,
    ), text
    assert seconds < 20


def test_inference(spark):
    cluster = TFCluster.run(spark.sparkContext, take_all, None, 1, 0, input_mode=TFCluster.InputMode.SPARK)
    words = "partition 0: row 10 of the partition takes 3145728 bytes, 3145728 of them in column 'image'"
    try:
        with pytest.raises(Exception, match=words):
            cluster.inference(frame_of(spark, LARGE), schema="x int").collect()
    finally:
        cluster.shutdown(timeout=60)


@pytest.mark.parametrize("columns", [False, True])
def test_a_huge_row(spark, tmp_path, columns):
    """Spark makes the row, a hundred times a lane; nothing of ours does it again, and no task is tried twice."""
    frame = stored(frame_of(spark, HUGE), tmp_path) if columns else frame_of(spark, HUGE)
    text, seconds = refusal(spark.sparkContext, frame)
    assert f"row 10 of the partition takes {HUGE} bytes, {HUGE} of them in column 'image': more than a lane has" in text
    assert seconds < 20
