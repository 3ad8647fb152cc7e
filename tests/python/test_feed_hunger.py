"""Hunger and dryness: nobody starves while there are rows, and everybody learns of the end.

There is one slot for feeding: a job of the test has the others.
"""

import os
import sys
import time
from collections import Counter

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import Answers, node_processes, spark_context, taken_slots, wait_for
from tensorflowonspark import TFCluster

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SLOTS = 4
EPOCHS = 2


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    with spark_context(f"local[{SLOTS},4]", tmp_path_factory.mktemp("spark")) as context:
        yield context
    wait_for(lambda: not node_processes(), 10)


def take_epochs(args, ctx):
    """The rows of each epoch; the last list is what comes after the last end of one."""
    from tensorflowonspark import _native

    queue, epochs = _native.Feed("input"), [[]]
    while not queue.ended():
        batch = queue.next(10, True)
        if batch is None:
            epochs.append([])
        else:
            epochs[-1].extend(row if isinstance(row, int) else row[0] for row in _native.decode_rows(batch))
    return epochs


def data_of(sc, kind, sizes):
    """Partitions of these sizes; the rows of partition n begin with n million."""

    def grow(index, rows):
        return iter(range(index * 1_000_000, index * 1_000_000 + sizes[index]))

    rdd = sc.parallelize(sizes, len(sizes)).mapPartitionsWithIndex(grow)
    return SparkSession(sc).createDataFrame(rdd.map(lambda row: (row,)), "x long") if kind == "DataFrame" else rdd


CASES = [
    ("DataFrame", 2, [1]),
    ("RDD", 3, [0, 1, 999, 10_000]),
    ("DataFrame", 4, [1, 0]),
    ("RDD", 4, [3000]),
]
REST = [(kind, 2, [rows]) for kind in ("RDD", "DataFrame") for rows in (0, 999, 10_000)]
REST += [("RDD", 2, [1]), ("DataFrame", 3, [0, 1, 999, 10_000]), ("RDD", 4, [1, 0]), ("DataFrame", 4, [3000])]


@pytest.mark.parametrize("kind, workers, sizes", CASES + [pytest.param(*case, marks=pytest.mark.long) for case in REST])
def test_rows_for_programs_that_wait(sc, tmp_path, kind, workers, sizes):
    """All programs are hungry before the first row comes. If there are rows for all, all get some."""
    answers = Answers(tmp_path / "answers")
    os.mkdir(answers.folder)
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(sc, answers.program(take_epochs), {}, workers, 0, input_mode=mode)
    try:
        with taken_slots(sc, str(tmp_path), SLOTS - 1):
            wait_for(lambda: all(node.get("hungry") for node in cluster.feed_report()["nodes"]), 60)
            cluster.train(data_of(sc, kind, sizes), EPOCHS, feed_timeout=60)
    finally:
        cluster.shutdown(timeout=60)
    found = answers.read()
    rows = [index * 1_000_000 + row for index, size in enumerate(sizes) for row in range(size)]
    assert len(found) == workers
    for epochs in found:
        assert len(epochs) >= EPOCHS + 1 and not any(epochs[EPOCHS:]), "every program sees every end"
    for epoch in range(EPOCHS):
        assert Counter(sum((epochs[epoch] for epochs in found), [])) == Counter(rows)
    if len(rows) >= 999:
        assert all(epochs[0] for epochs in found), [len(epochs[0]) for epochs in found]


def test_rows_that_come_slowly_do_not_wait_for_a_batch(sc, tmp_path):
    """A task waits, in the midst of its rows, until a program has the first of them."""
    folder = str(tmp_path)

    def come(numbers):
        yield 0
        time.sleep(0.2)
        yield 1
        deadline = time.monotonic() + 60
        while not os.path.exists(os.path.join(folder, "seen")):
            assert time.monotonic() < deadline, "no program has seen the first row"
            time.sleep(0.02)
        yield 2

    def look(args, ctx):
        feed = ctx.get_data_feed()
        rows = feed.next_batch(1)
        open(os.path.join(folder, "seen"), "w").close()
        while not feed.should_stop():
            rows += feed.next_batch(1)
        return rows

    answers = Answers(tmp_path / "answers")
    os.mkdir(answers.folder)
    cluster = TFCluster.run(sc, answers.program(look), {}, 1, 0, input_mode=TFCluster.InputMode.SPARK)
    try:
        cluster.train(sc.parallelize([0], 1).mapPartitions(come), 1, feed_timeout=90)
    finally:
        cluster.shutdown(timeout=60)
    assert answers.read() == [[0, 1, 2]]
