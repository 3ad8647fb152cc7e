"""Inference over DataFrames: rows and results go between Spark's memory and programs, without a Python worker."""

import contextlib
import functools
import sys

import pytest
from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import ArrayType, FloatType, LongType, StructField, StructType

import spark_tools
from spark_tools import counted, node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster
from tensorflowonspark.TFCluster import TFClusterError

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    # Programs take the second core of a machine with two; a task that fails is tried again, as everywhere.
    master = "local-cluster[2,2,900]"
    conf = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "900m"}
    with spark_context(master, tmp_path_factory.mktemp("spark"), executors=2, conf=conf) as context:
        yield SparkSession(context)
    wait_for(lambda: not node_processes(), 10)


@contextlib.contextmanager
def running(spark, program, nodes=2, fails=None, args=None):
    """A cluster; `fails` is in the message with which it ends, if it does not end well."""
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(spark.sparkContext, program, args, nodes, 0, input_mode=mode)
    cluster.inference = functools.partial(cluster.inference, feed_timeout=60)
    try:
        yield cluster
    finally:
        with pytest.raises(TFClusterError, match=fails) if fails else contextlib.nullcontext():
            cluster.shutdown(timeout=60)


def answering(make):
    """A program that answers each batch of rows with what `make` gives for its columns."""

    def program(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        while not feed.should_stop():
            arrays = feed.next_arrays(100)
            if arrays:
                feed.batch_results(make(arrays))

    return program


def numbers(spark, count, partitions=4):
    return spark.range(0, count, 1, partitions).selectExpr("id", "id / 2.0D as half")


# ---- results ----


def test_results_stand_behind_their_rows(spark):
    def answer(arrays):
        import numpy as np

        return {"twice": arrays["id"] * 2, "pair": np.stack([arrays["half"], -arrays["half"]], 1).astype("float32")}

    with running(spark, answering(answer)) as cluster:
        frame = numbers(spark, 5000)
        results = cluster.inference(frame, schema="twice long, pair array<float>")
        assert results.columns == ["id", "half", "twice", "pair"]
        rows = results.collect()
        assert rows == [Row(id=i, half=i / 2, twice=2 * i, pair=[i / 2, -i / 2]) for i in range(5000)]
        assert results.selectExpr("sum(twice)").first()[0] == 5000 * 4999  # computed again
        names = cluster.inference(frame, schema="pair array<double>, twice short", keep=[])
        assert names.where("twice > 5").orderBy("twice").first() == Row(pair=[1.5, -1.5], twice=6)
        assert cluster.inference(frame.limit(0), schema="twice int, pair array<float>").collect() == []


def test_columns_are_mapped_and_kept(spark):
    def answer(arrays):
        return [f"{number:.0f}" for number in arrays["x"]]

    with running(spark, answering(answer), 1) as cluster:
        frame = numbers(spark, 300).selectExpr("id", "if(id = 7, null, id) as `a.b`", "'much' as text")
        columns = {"x": {"default": -1, "cast": "double"}}
        results = cluster.inference(
            frame, schema="found string", keep=["text", "id"], input_mapping={"a.b": "x"}, columns=columns
        )
        assert results.columns == ["text", "id", "found"]
        rows = results.collect()
        assert rows[:9] == [Row(text="much", id=i, found="-1" if i == 7 else str(i)) for i in range(9)]
        assert len(rows) == 300
        with pytest.raises(ValueError, match="keep names the column 'other'"):
            cluster.inference(frame, schema="found string", keep=["other"])
        with pytest.raises(ValueError, match="a column 'text', and so have the results"):
            cluster.inference(frame, schema="text string", input_mapping={"id": "x"})
        with pytest.raises(ValueError, match="column 'x': results cannot have the type .*decimal"):
            cluster.inference(frame, schema="x decimal(10,2)", input_mapping={"id": "x"})
        with pytest.raises(ValueError, match="for DataFrames"):
            cluster.inference(frame.rdd, schema="x int")


def test_lists_of_results_by_position_and_by_name(spark):
    def program(args, ctx):
        import numpy as np

        feed = ctx.get_data_feed(train_mode=False)
        turn = 0
        while not feed.should_stop():
            rows = feed.next_batch(64)
            makers = [
                lambda i, half: (half, [i, i], f"é{i}", b"\xff" * (i % 3), i % 2 == 0, None),
                lambda i, half: {"f": b"text", "e": False, "d": b"", "c": None, "b": [], "a": 1},
                lambda i, half: (np.float16(0.5), np.array([i], dtype="uint8"), "", None, np.bool_(True), "z"),
            ]
            feed.batch_results([makers[turn % 3](i % 200, half) for i, half in rows])
            turn += 1

    schema = "a float, b array<short>, c string, d binary, e boolean, f string"
    with running(spark, program, 1) as cluster:
        rows = cluster.inference(numbers(spark, 192, 1), schema=schema).collect()
        assert tuple(rows[3])[:2] == (3, 1.5)
        assert tuple(rows[3])[2:] == (1.5, [3, 3], "é3", bytearray(), False, None)
        assert tuple(rows[64])[2:] == (1.0, [], None, bytearray(), False, "text")
        assert tuple(rows[130])[2:] == (0.5, [130], "", None, True, "z")


def test_columns_come_from_the_first_result_where_none_are_declared(spark):
    def answer(arrays):
        import numpy as np

        return {"scores": np.ones((len(arrays["id"]), 3), dtype="float32"), "best": arrays["id"]}

    with running(spark, answering(answer), 1) as cluster:
        results = cluster.inference(numbers(spark, 100), keep=["id"])
        expected = [
            StructField("id", LongType(), False),
            StructField("scores", ArrayType(FloatType())),
            StructField("best", LongType()),
        ]
        assert results.schema == StructType(expected)
        assert results.where("id = best and scores[2] = 1").count() == 100
        with pytest.raises(ValueError, match="no rows.*schema="):
            cluster.inference(numbers(spark, 0))


def test_tensors_of_a_dataset(spark):
    def program(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        for batch in feed.dataset(100):
            feed.batch_results(batch["half"] + 1)

    with running(spark, program, 1) as cluster:
        results = cluster.inference(numbers(spark, 1000), schema="more float")
        assert [row.more for row in results.collect()] == [i / 2 + 1 for i in range(1000)]


# ---- much, and little ----


def test_a_partition_of_more_than_memory_is_streamed(spark):
    """400 MB of kept rows, and as many of results, in an executor of 512 MB."""

    def answer(arrays):
        import numpy as np

        return np.repeat(arrays["id"].astype("float32")[:, None], 500, 1)

    with running(spark, answering(answer), 1) as cluster:
        frame = spark.range(0, 200_000, 1, 1).selectExpr("id", "repeat('x', 2000) as text")
        results = cluster.inference(frame, schema="much array<float>", input_mapping={"id": "id"})
        found = results.selectExpr("count(*)", "sum(much[499])", "min(length(text))").first()
        assert tuple(found) == (200_000, 199_999 * 100_000.0, 2000)


def test_tasks_that_stop_early_leave_the_cluster_in_order(spark):
    with running(spark, answering(lambda arrays: arrays["id"])) as cluster:
        results = cluster.inference(numbers(spark, 200_000, 3), schema="same long")
        for _ in range(3):
            assert [row.same for row in results.limit(5).collect()] == [0, 1, 2, 3, 4]
            assert results.first().same == 0
        assert results.rdd.map(lambda row: row.same).take(3) == [0, 1, 2]  # a thread of Python's reads it
        assert results.where("id = same").count() == 200_000


def test_results_can_be_written_and_joined(spark, tmp_path):
    with running(spark, answering(lambda arrays: arrays["id"] % 10)) as cluster:
        frame = numbers(spark, 10_000)
        results = cluster.inference(frame, schema="digit int", keep=["id"])
        results.write.parquet(str(tmp_path / "digits"))
        joined = spark.read.parquet(str(tmp_path / "digits")).join(results, ["id", "digit"])
        assert joined.groupBy("digit").count().orderBy("digit").collect() == [Row(i, 1000) for i in range(10)]


def test_columns_of_files_are_taken_without_rows(spark, tmp_path):
    """Unless some are kept: those wait as rows for their results."""
    numbers(spark, 10_000).write.parquet(str(tmp_path / "numbers"))
    frame = spark.read.parquet(str(tmp_path / "numbers"))
    with running(spark, answering(lambda arrays: arrays["id"] * 2), 1) as cluster:
        before = counted(spark)
        found = cluster.inference(frame, schema="twice long", keep=[]).collect()
        assert sorted(row.twice for row in found) == list(range(0, 20_000, 2))
        assert counted(spark) == (before[0] + 10_000, before[1])
        found = cluster.inference(frame, schema="twice long", keep=["half"]).collect()
        assert sorted(found) == [Row(half=i / 2, twice=2 * i) for i in range(10_000)]
        assert counted(spark) == (before[0] + 10_000, before[1])


# ---- errors ----


def failing(results, *words):
    with pytest.raises(Exception) as caught:
        results.collect()
    found = str(caught.value)
    assert all(any(either in found for either in word.split("|")) for word in words), found


# What the last attempt of a task says: the first ones came before the cluster was gone, or while it was ending.
GONE = "it has ended or failed|the cluster has failed: "


def test_a_result_of_another_type_names_column_and_row(spark):
    def answer(arrays):
        return [("text" if i == 250 else 0.5,) for i in arrays["id"]]

    with running(spark, answering(answer), 1) as cluster:
        results = cluster.inference(numbers(spark, 1000, 1), schema="score float")
        failing(results, "partition 0: result 2", "expected float in column 'score', found")
        narrow = cluster.inference(numbers(spark, 100, 1), schema="score int")
        failing(narrow, "partition 0: result 0", "expected int in column 'score', found double")
        two = cluster.inference(numbers(spark, 100, 1), schema="score float, other float")
        failing(two, "expected a result of 2 values", "found a tuple or list of 1")


def test_a_number_that_does_not_fit_names_its_row(spark):
    with running(spark, answering(lambda arrays: arrays["id"] * 1000), 1) as cluster:
        results = cluster.inference(numbers(spark, 100, 1), schema="score short")
        failing(results, "partition 0: result 33: column 'score': the value 33000 does not fit short")


def test_fewer_results_than_rows(spark):
    """The first program ends, the other goes on: later attempts hear what the first one has met."""

    def program(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        while not feed.should_stop():
            feed.batch_results([row[0] for row in feed.next_batch(100)][:-1])
            if ctx.task_index == 0:
                break

    with running(spark, program) as cluster:
        results = cluster.inference(numbers(spark, 10, 1), feed_timeout=5, schema="x long")
        failing(results, "no result", "one result for each row (batch_results)")


def test_programs_that_end_before_all_rows_have_results(spark):
    """No attempt may take the end of the programs for the end of its rows."""

    def program(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        feed.batch_results(feed.next_arrays(100)["id"][:-1])

    with running(spark, program, 1) as cluster, pytest.raises(Exception, match=f"result|{GONE}"):
        cluster.inference(numbers(spark, 10, 1), schema="x long").collect()


def test_more_results_than_rows(spark):
    def program(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        feed.batch_results([1] * (len(feed.next_batch(100)) + 1))

    with running(spark, program, 1, fails="11 results were given, but only 10 rows") as cluster:
        failing(cluster.inference(numbers(spark, 10, 1), schema="x long"), GONE)


def test_a_program_that_never_answers(spark):
    def program(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        while not feed.should_stop():
            feed.next_batch(100)

    with running(spark, program, 1) as cluster:
        results = cluster.inference(numbers(spark, 10, 1), feed_timeout=3, schema="x long")
        failing(results, "no result came for 3 s (feed_timeout)", "batch_results")


def test_a_program_that_raises_midway(spark):
    def program(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        feed.batch_results(feed.next_arrays(100)["id"])
        raise RuntimeError("no more ideas")

    with running(spark, program, 1, fails="no more ideas") as cluster:
        failing(cluster.inference(numbers(spark, 100_000, 1), schema="x long"), GONE)
