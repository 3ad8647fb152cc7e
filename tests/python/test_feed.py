"""RDDs to programs on nodes, on real Spark: every row comes once, to somebody, and everybody learns of the end."""

import _thread
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from itertools import islice

import numpy as np
import pyspark
import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import Row, SparkSession, functions

import spark_tools
from spark_tools import Answers, node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    with spark_context("local[2,4]", tmp_path_factory.mktemp("spark")) as context:
        yield context
    wait_for(lambda: not node_processes(), 10)


@pytest.fixture
def answers(tmp_path):
    return Answers(tmp_path)


def start(sc, program, workers=2, **options):
    return TFCluster.run(sc, program, {}, workers, 0, input_mode=TFCluster.InputMode.SPARK, **options)


def train(sc, answers, look, rdd, workers=2, queues=("input",), **options):
    """What the programs have seen of the data."""
    cluster = start(sc, answers.program(look), workers, queues=queues)
    try:
        cluster.train(rdd, **{"num_epochs": 1, "feed_timeout": 60} | options)
    finally:
        cluster.shutdown(timeout=60)
    return answers.read()


def take_all(args, ctx):
    feed = ctx.get_data_feed()
    rows = []
    while not feed.should_stop():
        rows.extend(feed.next_batch(100))
    return rows


def describe(value):
    """The value with its type, and those of its parts."""
    if isinstance(value, np.ndarray):
        return f"array({value.dtype.str} {value.shape} {value.tolist()!r})"
    if isinstance(value, Row):
        return f"Row({', '.join(f'{name}={describe(value[name])}' for name in value.__fields__)})"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(describe, value))})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{describe(key)}: {describe(value[key])}' for key in value)})"
    return f"{type(value).__name__} {value!r}"


# ---- rows ----

KINDS = {
    "ints": [0, -1, 2**62, -(2**63)],
    "big ints": [2**64, -(2**100)],
    "floats": [0.5, -0.0, float("inf"), 1e-300],
    "text": ["", "é", "a longer text\n" * 100],
    "bytes": [b"", b"\0\xff", bytearray(b"abc")],
    "flags": [True, False],
    "nothing": [None, None],
    "lists": [[1, 2], [], [3.5], ["a", None], [[1], [2, 3]]],
    "tuples": [(1, "a", 0.5), (2, "b", 1.5)],
    "dicts": [{"a": 1, "b": [1.0, 2.0]}, {"a": 2, "b": []}],
    "other dicts": [{}, {1: 2}, {"a": {"b": None}}],
    "Rows": [Row(name="x", value=1), Row(name="y", value=None)],
    "NumPy numbers": [np.float32(0.5), np.int8(-3), np.uint64(2**63), np.bool_(True)],
    "arrays": [np.arange(6, dtype=np.float32).reshape(2, 3), np.zeros((0, 2)), np.array(["a", "bc"])],
    "arrays in tuples": [(np.arange(4, dtype=np.uint8), 1), (np.arange(4, dtype=np.uint8) * 2, 0)],
    "a mixture": [1, "a", None, (1, 2), [1], {"a": 1}, 2.5, b"x", np.int16(4)],
}


def test_rows_of_every_kind_arrive_as_they_are_once_per_epoch(sc, answers):
    def look(args, ctx):
        return [describe(row) for row in take_all(args, ctx)]

    kinds = sc.parallelize(list(KINDS), len(KINDS))  # each in a partition of its own
    found = Counter(sum(train(sc, answers, look, kinds.flatMap(KINDS.get), num_epochs=2), []))
    assert found == Counter(2 * [describe(row) for rows in KINDS.values() for row in rows])


def test_columns_and_full_batches_over_partitions(sc, answers):
    def look(args, ctx):
        feed = ctx.get_data_feed(qname_in="other", input_mapping={"b": "second", "a": "first"})
        batches = []
        while not feed.should_stop():
            batches.append(feed.next_batch(64))
        return batches

    rdd = sc.parallelize([(i, str(i)) for i in range(1000)], 7)
    (batches,) = train(sc, answers, look, rdd, workers=1, queues=["input", "other"], qname="other")
    sizes = [len(batch["first"]) for batch in batches if batch["first"]]
    assert all(list(batch) == ["first", "second"] for batch in batches)
    assert sizes[:-1] == [64] * 15 and sum(sizes) == 1000
    rows = [row for batch in batches for row in zip(batch["first"], batch["second"])]
    assert sorted(rows) == [(i, str(i)) for i in range(1000)]


# ---- hunger, and the end ----


@pytest.mark.parametrize("count", [0, 1, 999, 10_000])
def test_one_partition_for_two_workers_that_wait(sc, answers, count):
    """Both learn of the end; if there are rows for both, both get some."""
    cluster = start(sc, answers.program(take_all))
    try:
        wait_for(lambda: all(node.get("hungry") for node in cluster.feed_report()["nodes"]), 30)
        cluster.train(sc.parallelize(range(count), 1), 1)
    finally:
        cluster.shutdown(timeout=60)
    found = answers.read()
    assert len(found) == 2 and sorted(found[0] + found[1]) == list(range(count))
    if count >= 999:
        assert found[0] and found[1]


def test_partitions_of_any_size(sc, answers):
    def grow(index, rows):
        return iter(range([0, 1, 999, 10_000, 0][index]))

    rdd = sc.parallelize(range(5), 5).mapPartitionsWithIndex(grow)
    found = train(sc, answers, take_all, rdd, num_epochs=2)
    assert Counter(found[0] + found[1]) == Counter(2 * [row for size in (1, 999, 10_000) for row in range(size)])


@pytest.mark.parametrize("options", [{}, {"num_epochs": 0}])
def test_data_is_fed_ten_times_unless_a_number_is_given(sc, answers, options):
    """As programs know it that read until the data ends."""

    def look(args, ctx):
        feed = ctx.get_data_feed()
        rows = []
        while not feed.should_stop() and len(rows) < 1000:
            rows.extend(feed.next_batch(100))
        return rows

    cluster = start(sc, answers.program(look), workers=1)
    try:
        cluster.train(sc.parallelize(range(50), 2), feed_timeout=60, **options)
    finally:
        cluster.shutdown(timeout=60)
    assert Counter(sum(answers.read(), [])) == Counter(10 * list(range(50)))


def test_report_says_what_was_fed(sc, answers):
    """The numbers are those of the end as soon as train has returned."""
    cluster = start(sc, answers.program(take_all))
    try:
        for times in (1, 2):
            cluster.train(sc.parallelize(range(5000), 3), 2)
            report = cluster.feed_report()
            sums = {key: sum(node[key] for node in report.nodes) for key in ("fed_rows", "consumed_rows")}
            assert sums == {"fed_rows": times * 10_000, "consumed_rows": times * 10_000}
            feed = report["feeds"][-1]
            assert (feed["queue"], feed["epoch"], feed["partitions"], feed["complete"]) == ("input", 1, 3, 3)
            assert (feed["fed_rows"], feed["consumed_rows"], feed["skipped_rows"]) == (5000, 5000, 0)
            rows = {each.partition: each for each in report.partitions if each.feed == feed["feed"]}
            sizes = {0: 1666, 1: 1667, 2: 1667}
            assert {number: each[2:] for number, each in rows.items()} == {
                number: ("complete", size, size, size, 0, 1) for number, size in sizes.items()
            }
            assert f"{3 * times} partitions are complete" in str(report) and "consumed_rows" in str(report)
    finally:
        cluster.shutdown(timeout=60)
    assert len(cluster.feed_report().partitions) == len(cluster.feed_report().partitions)  # when all is over, too


def test_report_says_what_was_skipped(sc, tmp_path):
    """The only program takes ten rows and wants no more."""
    path = str(tmp_path / "reported")

    def look(args, ctx):
        feed = ctx.get_data_feed()
        feed.next_batch(10)
        feed.terminate()
        while not os.path.exists(path):
            time.sleep(0.02)

    cluster = start(sc, look, workers=1)
    try:
        cluster.train(sc.parallelize(range(40_000), 40), 1)
        report = cluster.feed_report()
    finally:
        open(path, "w").close()
        cluster.shutdown(timeout=60)
    states = Counter(each.state for each in report.partitions)
    assert len(report.partitions) == 40 and states["skipped"] > 30 and set(states) <= {"skipped", "complete"}
    for each in report.partitions:
        assert each.fed == each.consumed + each.skipped
    consumed = sum(each.consumed for each in report.partitions)
    assert consumed == report.nodes[0]["consumed_rows"] >= 10
    assert "skipped" in str(report)
    last = cluster.feed_report()  # what was so when the cluster ended
    assert last.nodes[0]["consumed_rows"] == consumed and len(last.partitions) == 40


def test_terminate_ends_the_feed_for_all_and_leaves_partitions_out(sc, answers):
    computed = sc.accumulator(0)

    def count(rows):
        computed.add(1)
        return rows

    def look(args, ctx):
        feed = ctx.get_data_feed()
        if ctx.task_index == 0:
            rows = feed.next_batch(10)
            feed.terminate()
            return len(rows)
        return len(take_all(args, ctx))

    begin = time.monotonic()
    found = train(sc, answers, look, sc.parallelize(range(40_000), 400).mapPartitions(count), num_epochs=None)
    assert found[0] == 10 and found[1] < 40_000
    assert time.monotonic() - begin < 20 and 0 < computed.value < 400


def test_programs_that_return_early_end_the_feed(sc, answers):
    """Nobody is there to take rows: that is the end, however many epochs were asked for."""

    def look(args, ctx):
        return len(ctx.get_data_feed().next_batch(10))

    assert train(sc, answers, look, sc.parallelize(range(10_000), 4), num_epochs=None) == [10, 10]


# ---- bad ends ----


def failure(cluster, rdd, seconds, **options):
    """What train raises, which must be soon; the cluster is shut down."""
    begin = time.monotonic()
    try:
        with pytest.raises(TFCluster.TFClusterError) as caught:
            cluster.train(rdd, **{"num_epochs": 1, "feed_timeout": 60} | options)
        took = time.monotonic() - begin
        assert took < seconds, f"{took:.1f} s: {caught.value}"
    finally:
        cluster._session.stop("the test is over")
    return str(caught.value)


def test_program_that_raises_midway(sc, answers):
    def look(args, ctx):
        ctx.get_data_feed().next_batch(10)
        raise ArithmeticError("a fault of the program")

    text = failure(start(sc, look), sc.parallelize(range(100_000), 4), 15)
    assert "Traceback" in text and "ArithmeticError: a fault of the program" in text and "worker:" in text


def test_program_that_never_reads(sc):
    def look(args, ctx):
        print("something else to do", flush=True)
        time.sleep(600)

    text = failure(start(sc, look, workers=1), sc.parallelize(range(10), 1), 15, feed_timeout=3)
    assert "no program has opened the queue 'input' for 3 s (feed_timeout)" in text
    assert "The last lines of the log of worker:0:\n" in text and "something else to do" in text


def test_program_that_stops_reading(sc):
    def look(args, ctx):
        print("reading once", flush=True)
        ctx.get_data_feed().next_batch(1)
        time.sleep(600)

    text = failure(start(sc, look, workers=1), sc.parallelize(range(10), 1), 15, feed_timeout=3)
    assert "no row was consumed for 3 s (feed_timeout): worker:0 on " in text and "reading once" in text


def test_shutdown_does_not_wait_for_programs_that_take_nothing(sc):
    cluster = start(sc, lambda args, ctx: time.sleep(600), workers=1)
    with pytest.raises(TFCluster.TFClusterError, match="feed_timeout"):
        cluster.train(sc.parallelize(range(10), 1), 1, feed_timeout=1)
    begin = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError, match="their data was not fed: .*feed_timeout"):
        cluster.shutdown(timeout=60)
    assert time.monotonic() - begin < 20


def test_row_that_is_larger_than_a_lane(sc, monkeypatch):
    """The limit and what exceeds it are told, and the setting."""
    settings = sc.getConf().set("spark.tfos.feed.lane_bytes", str(1 << 16))
    monkeypatch.setattr(sc, "getConf", lambda: settings)
    text = failure(start(sc, take_all, workers=1), sc.parallelize([b"", bytes(100_000)], 1), 15)
    assert "partition 0: row 1 of the partition takes 100" in text
    assert "65536" in text and "spark.tfos.feed.lane_bytes" in text


def test_function_of_the_user_that_raises(sc, answers):
    """The user's exception is told with its traceback, and the cluster goes on."""

    def fail(row):
        return 1 // (row - 70)

    cluster = start(sc, answers.program(take_all))
    try:
        begin = time.monotonic()
        with pytest.raises(Exception, match="ZeroDivisionError") as caught:
            cluster.train(sc.parallelize(range(100), 2).map(fail), 1)
        assert "in fail" in str(caught.value) and time.monotonic() - begin < 20
        cluster.train(sc.parallelize(["after"], 1), 1)
    finally:
        cluster.shutdown(timeout=60)
    assert "after" in sum(answers.read(), [])


def test_shutdown_tells_of_data_that_was_not_fed(sc, answers):
    """Whoever has caught what train raised is told at the end; the programs ended in good order all the same."""
    cluster = start(sc, answers.program(take_all), workers=1)
    cluster.train(sc.parallelize(["before"], 1), 1)
    with pytest.raises(Exception, match="ZeroDivisionError"):
        cluster.train(sc.parallelize(range(10), 2).map(lambda row: 1 // (row - 7)), 1)
    for _ in range(2):
        with pytest.raises(TFCluster.TFClusterError, match="(?s)their data was not fed: .*ZeroDivisionError"):
            cluster.shutdown(timeout=60)
    assert "before" in answers.read()[0]


def test_an_exception_whose_text_is_no_text(sc):
    """Whatever it says, it ends the feed."""

    def fail(row):
        raise ValueError("a\0b")

    cluster = start(sc, take_all)
    try:
        with pytest.raises(Exception, match="ValueError"):
            cluster.train(sc.parallelize(range(10), 1).map(fail), 1, feed_timeout=60)
    finally:
        cluster._session.stop("the test is over")


def test_a_job_that_cannot_be_run(sc, monkeypatch):
    """It has failed, like any other: train raises what has kept it from running, and shutdown tells of it."""

    def no_thread(thread):
        raise RuntimeError("can't start new thread")

    cluster = start(sc, take_all)
    try:
        monkeypatch.setattr(pyspark.InheritableThread, "start", no_thread)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            cluster.train(sc.parallelize(range(10), 1), 1, feed_timeout=60)
        monkeypatch.undo()
        with pytest.raises(TFCluster.TFClusterError, match="their data was not fed: can't start new thread"):
            cluster.shutdown(timeout=60)
    finally:
        cluster._session.stop("the test is over")


def test_a_thread_that_spark_ends_before_its_work(sc, monkeypatch):
    """A thread that inherits properties asks Spark for them, and does not come to its work if that fails."""
    cluster = start(sc, take_all)
    try:
        monkeypatch.setattr(pyspark.InheritableThread, "run", lambda thread: None)
        with pytest.raises(RuntimeError, match="before the job began"):
            cluster.train(sc.parallelize(range(10), 1), 1, feed_timeout=60)
    finally:
        cluster._session.stop("the test is over")


def test_shutdown_after_an_interrupt_tells_of_nothing(sc):
    """Ctrl-C is no fault of the data."""
    cluster = start(sc, take_all, workers=1)
    threading.Timer(1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        cluster.train(sc.parallelize(range(10), 1), 10_000)
    cluster.shutdown(timeout=60)


def test_column_that_is_not_there(sc):
    def look(args, ctx):
        ctx.get_data_feed(input_mapping={"a": "a", "b": "b", "c": "c"}).next_batch(1)

    cluster = start(sc, look, workers=1)
    with pytest.raises(TFCluster.TFClusterError, match="(?s)Traceback.*'?c'?"):
        cluster.train(sc.parallelize([(1, 2)], 1), 1)
        cluster.shutdown(timeout=60)


def test_arguments_of_another_kind_are_refused_by_name(sc, answers):
    """At once, and the cluster goes on."""
    cluster = start(sc, answers.program(take_all))
    rdd, frame = sc.parallelize(range(10), 2), SparkSession(sc).range(3)
    refused = [
        (TypeError, lambda: cluster.train(rdd, "2"), r"num_epochs is a whole number; found '2' \(str\)"),
        (TypeError, lambda: cluster.train(rdd, True), "num_epochs is a whole number"),
        (TypeError, lambda: cluster.train(rdd, 1.0), "num_epochs is a whole number"),
        (ValueError, lambda: cluster.train(rdd, -1), "num_epochs cannot be negative, found -1"),
        (TypeError, lambda: cluster.train(rdd, 1, "600"), "feed_timeout is a number of seconds"),
        (ValueError, lambda: cluster.train(rdd, 1, -1), "feed_timeout .* not negative, found -1"),
        (TypeError, lambda: cluster.train([1, 2, 3], 1), "expected an RDD or a DataFrame"),
        (TypeError, lambda: cluster.train(frame, 1, input_mapping=["id"]), "input_mapping is a dict"),
        (TypeError, lambda: cluster.train(frame, 1, columns=["id"]), "columns is a dict"),
        (TypeError, lambda: cluster.inference(rdd, feed_timeout="1"), "feed_timeout is a number of seconds"),
        (TypeError, lambda: cluster.shutdown("ssc"), "ssc is a StreamingContext"),
        (TypeError, lambda: cluster.shutdown(grace_secs="1"), "grace_secs is a number of seconds"),
        (ValueError, lambda: cluster.shutdown(grace_secs=-1), "grace_secs .* not negative"),
        (TypeError, lambda: cluster.shutdown(timeout="60"), "timeout is a number of seconds"),
        (TypeError, lambda: cluster.shutdown(timeout=None), "timeout is a number of seconds"),
        (ValueError, lambda: cluster.shutdown(timeout=float("nan")), "timeout is a number of seconds, found nan"),
    ]
    try:
        for kind, call, message in refused:
            with pytest.raises(kind, match=message):
                call()
        cluster.train(rdd, np.int64(1), feed_timeout=np.float32(60))
    finally:
        cluster.shutdown(timeout=10**12)
    assert sorted(sum(answers.read(), [])) == list(range(10))


def test_queue_that_the_cluster_has_not_is_refused(sc, answers):
    """By train and inference on the driver, and in the program that opens it."""

    def look(args, ctx):
        try:
            ctx.get_data_feed(qname_in="inptu")
        except ValueError as error:
            return [str(error), *take_all(args, ctx)]

    cluster = start(sc, answers.program(look), workers=1)
    rdd = sc.parallelize(range(3), 1)
    known = r"a queue of the cluster, which has 'input', 'output', 'error'; found 'inptu' \(str\)\. .*queues="
    try:
        with pytest.raises(ValueError, match="^qname is the name of " + known):
            cluster.train(rdd, 1, qname="inptu")
        with pytest.raises(ValueError, match="^qname is the name of " + known):
            cluster.inference(rdd, qname="inptu")
        cluster.train(rdd, 1)
    finally:
        cluster.shutdown(timeout=60)
    (answer,) = answers.read()
    assert re.match("qname_in is the name of " + known, answer[0]) and answer[1:] == [0, 1, 2]


# ---- tasks that die ----


def die_once(at):
    """Kills the Python of the first attempt of partition 1 at this row."""

    def rows_of(index, rows):
        for number, row in enumerate(rows):
            if (index, number, TaskContext.get().attemptNumber()) == (1, at, 0):
                os.kill(os.getpid(), signal.SIGKILL)
            yield row

    return rows_of


def test_rows_of_a_task_that_is_killed_come_once(sc, answers):
    rdd = sc.parallelize(range(40_000), 4).mapPartitionsWithIndex(die_once(9000))
    found = train(sc, answers, take_all, rdd, num_epochs=2)
    assert Counter(sum(found, [])) == Counter(2 * list(range(40_000)))


def fail_once(number):
    if number == 10_000 and TaskContext.get().attemptNumber() == 0:
        raise OSError("a fault that is over the next time")
    return number


def test_rows_that_break_off_are_not_the_end(sc, answers):
    """Spark fails in the midst of a partition, before the rows come to Python: PySpark ends them as if it were the end.
    The next attempt goes on."""
    frame = SparkSession(sc).range(0, 40_000, 1, 2).select(functions.udf(fail_once, "long")("id").alias("id"))
    found = train(sc, answers, take_all, frame.rdd.map(lambda row: row.id))
    assert Counter(sum(found, [])) == Counter(range(40_000))


def test_rows_that_were_not_asked_for_may_be_missing(sc, answers):
    """A function that leaves rows alone has come to its end."""
    found = train(sc, answers, take_all, sc.parallelize(range(100_000), 2).mapPartitions(lambda rows: islice(rows, 5)))
    assert Counter(sum(found, [])) == Counter([*range(5), *range(50_000, 50_005)])


def test_rows_without_a_fixed_order_are_not_fed_again(sc, answers):
    rdd = sc.parallelize(range(40_000), 2).repartition(2).mapPartitionsWithIndex(die_once(9000))
    text = failure(start(sc, take_all), rdd, 30)
    assert "checkpoint" in text and "partition 1" in text
    found = Counter(sum(train(sc, answers, take_all, rdd, retry="again"), []))
    assert set(found) == set(range(40_000)) and len(found) < found.total() <= 60_000


# ---- inference ----


def double(args, ctx):
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        rows = feed.next_batch(100)
        feed.batch_results([2 * row for row in rows])


def test_results_come_in_the_order_of_the_rows(sc):
    cluster = start(sc, double)
    try:
        results = cluster.inference(sc.parallelize(range(20_000), 4))
        assert results.collect() == [2 * i for i in range(20_000)]
        assert results.take(3) == [0, 2, 4]
        assert results.map(str).count() == 20_000
        assert cluster.inference(sc.parallelize([], 2)).collect() == []
    finally:
        cluster.shutdown(timeout=60)


def test_more_results_than_rows_fail(sc):
    """Spark tells of its task, and shutdown what the program did."""

    def look(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        rows = feed.next_batch(100)
        feed.batch_results([*rows, 1])

    cluster = start(sc, look, workers=1)
    begin = time.monotonic()
    with pytest.raises(Exception, match="tensorflowonspark"):
        cluster.inference(sc.parallelize(range(10), 1)).collect()
    with pytest.raises(TFCluster.TFClusterError, match="11 results were given, but only 10 rows are without one"):
        cluster.shutdown(timeout=20)
    assert time.monotonic() - begin < 30


def test_fewer_results_than_rows_fail(sc):
    def look(args, ctx):
        feed = ctx.get_data_feed(train_mode=False)
        while not feed.should_stop():
            feed.batch_results(feed.next_batch(100)[1:])

    cluster = start(sc, look, workers=1)
    begin = time.monotonic()
    try:
        with pytest.raises(Exception, match="one result for each row"):
            cluster.inference(sc.parallelize(range(10), 1), feed_timeout=3).collect()
    finally:
        cluster.shutdown(timeout=20)
    assert time.monotonic() - begin < 30
