"""What programs leave behind reaches the driver: what map_fun returned, and what was reported on the way."""

import json
import math
import re
import threading
import urllib.request

import pytest
from spark_tools import SPARK_WARNINGS, node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster, TFParallel

pytestmark = [pytest.mark.filterwarnings(each) for each in SPARK_WARNINGS]

LIMIT = 300_000


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    conf = {"spark.tfos.node.report_ms": "10", "spark.tfos.node.result_bytes": str(LIMIT)}
    with spark_context("local-cluster[3,1,1024]", tmp_path_factory.mktemp("spark"), 3, conf) as context:
        yield context


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    wait_for(lambda: not node_processes(), 20)


def test_values_and_histories(sc, capfd):
    class Found:
        """Of this file, which the driver can import and the nodes cannot."""

        def __init__(self, names):
            self.names = names

    def main(args, ctx):
        if ctx.job_name == "worker":
            for step in range(1, 4):
                ctx.report(step=step, loss=1 / step, worst=math.nan if step == 2 else -math.inf, rows=step * 10)
            return {"index": ctx.task_index, "found": Found([args] * 2), "text": "x" * 200_000}
        if ctx.job_name == "chief":
            ctx.report(epoch=1, accuracy=0.5)
            return math.nan
        return None

    cluster = TFCluster.run(sc, main, "a", 3, 0, master_node="chief", eval_node=True)
    cluster.shutdown(timeout=60)
    results = cluster.results()
    host = results[0].host
    assert host in ("127.0.0.1", "localhost")  # as Spark calls this machine
    assert [(each.node, each.role, each.index, each.host) for each in results] == [
        ("chief:0", "chief", 0, host),
        ("evaluator:0", "evaluator", 0, host),
        ("worker:0", "worker", 0, host),
    ]
    chief, evaluator, worker = results
    assert math.isnan(chief.value)
    assert chief.history == {"epoch": [1.0], "accuracy": [0.5]}
    assert evaluator.value is None and evaluator.history == {}
    assert worker.value["index"] == 0 and worker.value["found"].names == ["a", "a"]
    assert len(worker.value["text"]) == 200_000
    assert worker.history["step"] == [1.0, 2.0, 3.0]
    assert worker.history["loss"] == [1.0, 0.5, 1 / 3]
    assert worker.history["worst"][::2] == [-math.inf] * 2 and math.isnan(worker.history["worst"][1])
    assert all(each.failure is None and each.problem is None for each in (chief, worker))
    lines = capfd.readouterr().err
    assert f"[chief:0 {host}] epoch 1 · accuracy 0.5\n" in lines
    assert f"[worker:0 {host}] step" not in lines  # the chief speaks for all


def test_what_cannot_travel(sc, capfd):
    """A value that is too large, or cannot be pickled, costs nothing but itself, and the message says what to do."""

    def main(args, ctx):
        ctx.report(loss=0.25)
        return [b"x" * args, threading.Lock(), 7][ctx.task_index]

    cluster = TFCluster.run(sc, main, LIMIT, 3, 0)
    cluster.shutdown(timeout=60)
    large, locked, good = cluster.results()
    assert good.value == 7 and good.problem is None
    assert large.value is None and locked.value is None
    assert re.match(rf"it has \d+ bytes, and node.result_bytes allows {LIMIT}. Write it to a file", large.problem)
    assert locked.problem.startswith("a _thread.lock cannot be pickled: ") and "return its path" in locked.problem
    assert [each.history for each in (large, locked, good)] == [{"loss": [0.25]}] * 3
    assert all(each.state == "finished" and each.failure is None for each in (large, locked, good))
    lines = capfd.readouterr().err
    said = "tfos: what the program returned does not reach the driver"
    assert f"[worker:0 {good.host}] {said}: it has " in lines
    assert f"[worker:1 {good.host}] {said}: a _thread.lock" in lines


def test_nodes_that_end_at_different_times(sc, tmp_path):
    """Results of those that have ended are there while the others run; of one that fails there is the failure."""
    go = tmp_path / "go"

    def main(args, ctx):
        import os
        import time

        while ctx.task_index > 0 and not os.path.exists(args):
            time.sleep(0.02)
        if ctx.task_index == 1:
            raise ValueError("no more of this")
        if ctx.task_index == 2:
            time.sleep(600)
        return "done"

    cluster = TFCluster.run(sc, main, str(go), 3, 0)
    results = wait_for(lambda: (found := cluster.results())[0].state == "finished" and found, 30)
    assert [(each.value, each.failure) for each in results] == [("done", None), (None, None), (None, None)]
    assert [each.state for each in results[1:]] == ["running", "running"]
    go.touch()
    with pytest.raises(TFCluster.TFClusterError, match="no more of this"):
        cluster.shutdown(timeout=60)
    first, failed, stopped = cluster.results()
    assert first.value == "done"
    assert (failed.value, failed.state) == (None, "failed")
    assert "ValueError: no more of this" in failed.failure and "Traceback" in failed.failure
    assert (stopped.value, stopped.state) == (None, "stopped") and "was stopped" in stopped.failure


def test_a_restart_discards_what_was_returned(sc, tmp_path):
    def main(args, ctx):
        import os
        import time

        if ctx.attempt == 0 and ctx.task_index == 1:
            while not os.path.exists(args):
                time.sleep(0.02)
            os._exit(3)
        if ctx.task_index == 0 and ctx.attempt == 1:
            return None  # nothing, where there was something
        ctx.report(loss=ctx.attempt)
        return ctx.attempt

    cluster = TFCluster.run(sc, main, str(tmp_path / "go"), 2, 0, restarts=1)
    wait_for(lambda: cluster.results()[0].value == 0, 30)
    (tmp_path / "go").touch()
    cluster.shutdown(timeout=60)
    assert [(each.value, each.history) for each in cluster.results()] == [(None, {}), (1, {"loss": [1.0]})]


def test_instances(sc):
    def main(args, ctx):
        return ctx.executor_id * args

    results = TFParallel.run(sc, main, 10, 3)
    assert [(each.node, each.value) for each in results] == [("worker:0", 0), ("worker:1", 10), ("worker:2", 20)]


def test_a_history_of_keras_is_returned_without_its_model(sc):
    """`return model.fit(…)` is what people write."""

    def main(args, ctx):
        class History:
            def __init__(self):
                self.model = threading.Lock()
                self.history = {"loss": [2.0, 1.0]}

        return History()

    cluster = TFCluster.run(sc, main, None, 1, 0)
    cluster.shutdown(timeout=60)
    assert cluster.results()[0].value == {"loss": [2.0, 1.0]}


def test_status_and_metrics(sc, tmp_path):
    """Reports of every node are on the status page, while the program runs."""

    def main(args, ctx):
        import os
        import time

        ctx.report(step=5, epoch=2, loss=math.inf, rows=7)
        while not os.path.exists(args):
            time.sleep(0.02)

    cluster = TFCluster.run(sc, main, str(tmp_path / "go"), 2, 0)

    def ask(name):
        with urllib.request.urlopen(cluster.status_url + name, timeout=30) as answer:
            return answer.read().decode()

    def reported():
        nodes = json.loads(ask("status.json"))["nodes"]
        return all("progress" in node for node in nodes) and nodes

    first, second = wait_for(reported, 30)
    metrics = ask("metrics")
    (tmp_path / "go").touch()
    cluster.shutdown(timeout=60)
    assert second["progress"]["values"] == {"loss": "Infinity"} and second["progress"]["epoch"] == 2
    assert first["progress"]["curves"] == {"epoch": [2], "step": [5], "loss": ["Infinity"]}
    assert "curves" not in second["progress"]  # they are asked for
    host = first["host"]
    assert f'tfos_progress_value{{node="worker:1",host="{host}",metric="loss"}} +Inf\n' in metrics
    assert f'tfos_progress_step{{node="worker:0",host="{host}"}} 5\n' in metrics


def test_a_report_has_numbers():
    """Also where nobody listens; but then it is not looked at."""
    from tensorflowonspark import TFSparkNode, _progress

    ctx = TFSparkNode.TFNodeContext()
    ctx.report(step=1, loss="high")
    told = []
    _progress.connect(lambda **event: told.append(event))
    try:
        with pytest.raises(TypeError, match="a report has numbers; loss is 'high'"):
            ctx.report(step=1, loss="high")
        ctx.report(step=1, loss=math.nan, every_node=True)
    finally:
        _progress.connect(None)
    assert told == [{"event": "progress", "values": {"loss": "nan"}, "step": 1.0, "aloud": True}]
