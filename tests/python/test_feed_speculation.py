"""Real speculation: Spark runs a second attempt at a slow partition on another host while the first one feeds.

`local-cluster` never does that, for all of its executors are on one host; a standalone master with workers on two
addresses does.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections import Counter

import pytest
from pyspark import TaskContext, cloudpickle
from pyspark.sql import SparkSession, functions

import spark_tools
from spark_tools import Answers, node_processes, spark_context, standalone_cluster, wait_for
from tensorflowonspark import TFCluster

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)]

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

HOSTS = ("127.0.0.2", "127.0.0.3")
ROWS, PARTITIONS, EPOCHS = 24_000, 6, 2
SLOW = ROWS // PARTITIONS + 2000  # the row of partition 1 at which its first attempt waits
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "50ms",
}


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    with standalone_cluster(folder, cores=2, hosts=HOSTS) as master:
        with spark_context(master, folder, executors=2, conf=SPECULATION) as context:
            yield context
    wait_for(lambda: not node_processes(), 10)


def take_all(args, ctx):
    feed = ctx.get_data_feed()
    rows = []
    while not feed.should_stop():
        rows.extend(feed.next_batch(100))
    return [row if isinstance(row, int) else row[0] for row in rows]


def is_first(path):
    """Whether nobody was here before; the number of an attempt does not tell, it may have failed before its rows."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def hold(folder, end):
    """A function of rows that holds the first attempt at a partition until the test has seen the second one wait; then
    it goes on, fails or dies."""

    def pass_on(row):
        stage = TaskContext.get().stageId()
        if row == SLOW - 1000:
            time.sleep(0.2)  # rows before this one do not wait for those behind it: they are fed
        if row == SLOW and is_first(os.path.join(folder, f"held-{stage}")):
            deadline = time.monotonic() + 60
            while not os.path.exists(os.path.join(folder, f"go-{stage}")):
                assert time.monotonic() < deadline, "there is no second attempt"
                time.sleep(0.02)
            if end == "fails":
                raise ArithmeticError("the first attempt fails")
            if end == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
        return row

    return pass_on


class Watch:
    """Looks at Spark's tasks while a feed runs, and lets the slow attempt go when another one is parked."""

    def __init__(self, sc, cluster, folder):
        self.attempts = {}  # (stage, partition): {attempt: (host, speculative)}
        self._sc, self._cluster, self._folder = sc, cluster, folder
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *unused):
        self._over.set()
        self._thread.join()

    def _run(self):
        while not self._over.wait(0.05):
            stages = self._sc.statusTracker().getActiveStageIds()
            if stages and any(feed["waiting"] for feed in self._cluster.feed_report()["feeds"]):
                for stage in stages:
                    self._note(stage)
                    (self._folder / f"go-{stage}").touch()

    def _note(self, stage):
        tasks = self._sc._jsc.sc().statusStore().taskList(stage, 0, 1000)
        for task in map(tasks.apply, range(tasks.size())):
            seen = self.attempts.setdefault((stage, task.index()), {})
            seen[task.attempt()] = (task.host(), task.speculative())


def data_of(sc, kind, slow):
    frame = SparkSession(sc).range(0, ROWS, 1, PARTITIONS)
    if kind == "DataFrame":
        return frame.select(functions.udf(slow, "long", useArrow=False)("id").alias("id"))
    return sc.parallelize(range(ROWS), PARTITIONS).map(slow)


@pytest.mark.parametrize("end", ["goes on", "fails", "dies"])
@pytest.mark.parametrize("kind", ["RDD", "DataFrame"])
def test_rows_come_once_whatever_copies_spark_starts(sc, tmp_path, kind, end):
    """The copy waits while the first attempt feeds, and takes over if that one does not come to its end."""
    answers = Answers(tmp_path / "answers")
    os.mkdir(answers.folder)
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(sc, answers.program(take_all), {}, 2, 0, input_mode=mode)
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.shutdown, timeout=60)
        watch = stack.enter_context(Watch(sc, cluster, tmp_path))
        cluster.train(data_of(sc, kind, hold(str(tmp_path), end)), EPOCHS, feed_timeout=60)
        (feed,) = cluster.feed_report()["feeds"]
    assert Counter(sum(answers.read(), [])) == Counter(EPOCHS * list(range(ROWS)))
    copies = [attempts for attempts in watch.attempts.values() if any(copy for _, copy in attempts.values())]
    assert len(copies) >= EPOCHS, watch.attempts
    for attempts in copies:
        assert {host for host, _ in attempts.values()} == set(HOSTS), attempts
    took_over = {"goes on": [0], "fails": [EPOCHS], "dies": range(EPOCHS + 1)}  # unsent rows die, too
    assert feed["takeovers"] in took_over[end] and feed["duplicate_rows"] == 0
