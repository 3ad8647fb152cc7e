"""Every way in which a cluster can come to a bad end: the driver learns what happened, in time, and nothing is left.

The programs on the nodes have grandchildren, one of which has left their session: they must go too.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

import spark_tools
from spark_tools import marked_processes, node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster

HERE = os.path.dirname(os.path.abspath(__file__))
SLEEP = "987654"  # seconds: what the grandchildren are found by


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    conf = {"spark.tfos.cluster.lease_ms": "4000", "spark.tfos.cluster.beat_ms": "500"}
    with spark_context("local-cluster[2,1,1024]", folder, executors=2, conf=conf) as context:
        yield context


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    wait_for(lambda: not node_processes() and not marked_processes(f"sleep {SLEEP}"), 20)


def sleeper(folder):
    """A program that has grandchildren, leaves its number in a file and then waits to be ended."""

    def main(args, ctx):
        import os
        import subprocess
        import time

        subprocess.Popen(["sleep", args["sleep"]])
        subprocess.Popen(["setsid", "sleep", args["sleep"]])
        print("about to wait", flush=True)
        with open(os.path.join(args["folder"], f"{ctx.job_name}-{ctx.task_index}"), "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
        time.sleep(3600)

    return main, {"sleep": SLEEP, "folder": str(folder)}


@contextlib.contextmanager
def running(sc, folder, **options):
    """A cluster of two workers that have begun to wait; yields it and the processes of the programs."""
    main, args = sleeper(folder)
    cluster = TFCluster.run(sc, main, args, 2, 0, **options)
    files = [folder / f"worker-{task}" for task in range(2)]
    wait_for(lambda: all(file.exists() and file.read_text() for file in files), 60)
    wait_for(lambda: len(marked_processes(f"sleep {SLEEP}")) >= 4, 20)
    yield cluster, [int(file.read_text()) for file in files]


def parent_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def failure_of(cluster, limit_s):
    """What shutdown raises, which must be soon."""
    start = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError) as caught:
        cluster.shutdown(timeout=60)
    took = time.monotonic() - start
    assert took < limit_s, f"{took:.1f} s: {caught.value}"
    return str(caught.value)


def test_program_killed(sc, tmp_path):
    with running(sc, tmp_path) as (cluster, programs):
        os.kill(programs[1], signal.SIGKILL)
        text = failure_of(cluster, 15)
    assert "worker:1 on " in text and "killed by a signal" in text and "SIGKILL" in text
    assert "about to wait" in text  # the last lines of its log


def test_program_killed_by_a_fault_of_its_own(sc, tmp_path):
    with running(sc, tmp_path) as (cluster, programs):
        os.kill(programs[0], signal.SIGSEGV)
        text = failure_of(cluster, 15)
    assert "worker:0 on " in text and "SIGSEGV" in text


def test_node_killed(sc, tmp_path):
    with running(sc, tmp_path) as (cluster, _):
        os.kill(cluster.cluster_info[1]["pid"], signal.SIGKILL)
        text = failure_of(cluster, 15)
    assert "worker:1 on " in text and "disappeared" in text


def test_executor_killed(sc, tmp_path):
    with running(sc, tmp_path) as (cluster, _):
        os.kill(parent_of(cluster.cluster_info[0]["pid"]), signal.SIGKILL)
        text = failure_of(cluster, 15)
    assert "worker:0 on " in text and "lost its executor" in text


def test_node_frozen(sc, tmp_path):
    """Nobody can end what is stopped but its task, which kills it."""
    with running(sc, tmp_path) as (cluster, _):
        os.kill(cluster.cluster_info[1]["pid"], signal.SIGSTOP)
        text = failure_of(cluster, 30)
    assert "worker:1 on " in text and "stopped answering" in text and "cluster.lease_ms" in text


def test_coordinator_killed(sc, tmp_path):
    with running(sc, tmp_path) as (cluster, _):
        (coordinator,) = marked_processes("tfos coordinator")
        os.kill(coordinator, signal.SIGKILL)
        text = failure_of(cluster, 15)
    assert "the coordinator" in text and "killed by signal 9" in text


def test_cluster_works_after_all_that(sc, tmp_path):
    wait_for(lambda: spark_tools.executor_count(sc) >= 2, 60)
    folder = str(tmp_path)

    def main(args, ctx):
        import os

        open(os.path.join(folder, str(ctx.task_index)), "w").close()

    TFCluster.run(sc, main, None, 2, 0).shutdown()
    assert sorted(os.listdir(folder)) == ["0", "1"]


# ---- the driver itself: a process of its own ----

DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
import pathlib
from spark_tools import spark_context
from test_cluster_failures import running

folder = pathlib.Path(sys.argv[2])
with spark_context("local-cluster[1,2,1024]", folder / "spark", executors=1) as sc:
    with running(sc, folder) as (cluster, _):
        try:
            print("ready", flush=True)
            cluster.shutdown()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            raise
"""


@contextlib.contextmanager
def driver(folder):
    """A driver whose cluster runs; whatever is left of it afterwards is killed."""
    (folder / "spark").mkdir()
    environment = os.environ | spark_tools.environment(folder / "spark") | {"TFOS_TEST_MARK_GIVEN": spark_tools.MARK}
    command = [sys.executable, "-c", DRIVER, HERE, str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_driver_killed(tmp_path):
    with driver(tmp_path) as process:
        assert node_processes()
        process.kill()
        process.wait()
        wait_for(lambda: not node_processes() and not marked_processes(f"sleep {SLEEP}"), 15)


def test_driver_interrupted(tmp_path):
    with driver(tmp_path) as process:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=150)
        assert "interrupted" in output and process.returncode not in (0, None)
        assert not node_processes() and not marked_processes(f"sleep {SLEEP}")
