"""Clusters on each kind of Spark master, with executors of any size, from programs as users start them."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import spark_tools
from spark_tools import (
    CONTEXT,
    Answers,
    executor_count,
    held_port,
    listening_ports,
    marked_processes,
    node_processes,
    run_program,
    spark_context,
    standalone_cluster,
    start_program,
    wait_for,
)
from tensorflowonspark import MirroredStrategyRunner, TFCluster

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)


@pytest.fixture
def answers(tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    return Answers(folder)


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    wait_for(lambda: not node_processes(), 10)


def test_local_master_and_two_clusters_at_once(tmp_path, answers):
    """Every role on one executor with four slots; then two clusters side by side."""
    with spark_context("local[4]", tmp_path) as sc:
        look = answers.program(lambda args, ctx: [ctx.job_name, ctx.task_index, sorted(ctx.cluster_spec)], count=4)
        TFCluster.run(sc, look, None, 4, 1, master_node="chief", eval_node=True).shutdown(timeout=60)
        roles = [answer[:2] for answer in answers.read()]
        assert roles == [["ps", 0], ["chief", 0], ["evaluator", 0], ["worker", 0]]
        assert {"ps", "chief", "worker"} <= set(answers.read()[3][2])

        def main(args, ctx):
            import os
            import time

            open(f"{args[0]}-{ctx.task_index}", "w").close()
            deadline = time.monotonic() + 30
            while not os.path.exists(f"{args[1]}-{ctx.task_index}"):
                assert time.monotonic() < deadline, "the other cluster is not there"
                time.sleep(0.02)

        names = [str(tmp_path / "one"), str(tmp_path / "two")]
        first = TFCluster.run(sc, main, tuple(names), 2, 0)
        second = TFCluster.run(sc, main, tuple(reversed(names)), 2, 0)
        assert first.status_url != second.status_url
        second.shutdown(timeout=60)
        first.shutdown(timeout=60)


def test_executors_of_several_cores(tmp_path, answers):
    """Two nodes share the one executor, and its cores."""
    with spark_context("local-cluster[1,2,1024]", tmp_path, executors=1) as sc:
        look = answers.program(lambda args, ctx: [ctx.task_index, __import__("os").environ["OMP_NUM_THREADS"]])
        TFCluster.run(sc, look, None, 2, 0).shutdown()
        assert answers.read() == [[0, "1"], [1, "1"]]
        TFCluster.run(sc, look, None, 1, 0).shutdown()
        assert answers.read()[0] == [0, "2"]


def test_gpus_that_spark_gives(tmp_path, answers):
    """Spark's resource discovery finds two GPUs on each worker, and each task gets one."""
    script = tmp_path / "find-gpus"
    script.write_text("""#!/bin/sh\necho '{"name": "gpu", "addresses": ["4", "7"]}'\n""")
    script.chmod(0o755)
    conf = {f"spark.{who}.resource.gpu.amount": amount for who, amount in (("worker", 2), ("executor", 2), ("task", 1))}
    conf = {key: str(value) for key, value in conf.items()}
    conf |= {f"spark.{who}.resource.gpu.discoveryScript": str(script) for who in ("worker", "executor")}
    with spark_context("local-cluster[1,2,1024]", tmp_path, executors=1, conf=conf) as sc:
        look = answers.program(lambda args, ctx: __import__("os").environ["CUDA_VISIBLE_DEVICES"])
        TFCluster.run(sc, look, None, 2, 0).shutdown(timeout=60)
        assert sorted(answers.read()) == ["4", "7"]
        with pytest.raises(TFCluster.TFClusterError, match="GPU"):
            TFCluster.run(sc, look, {"num_gpus": 2}, 2, 0).shutdown(timeout=60)


def test_gpus_of_a_runner(tmp_path):
    """Three GPUs, under a name of their own, on tasks that get two: the first task uses both of them, the other one."""
    script = tmp_path / "find"
    script.write_text("""#!/bin/sh\necho '{"name": "card", "addresses": ["0", "1", "2", "3"]}'\n""")
    script.chmod(0o755)
    amounts = {"worker": 4, "executor": 4, "task": 2, "driver": 4}
    conf = {f"spark.{who}.resource.card.amount": str(amount) for who, amount in amounts.items()}
    conf |= {f"spark.{who}.resource.card.discoveryScript": str(script) for who in ("worker", "executor", "driver")}

    def train():
        import os

        import numpy as np
        from tensorflowonspark import collective

        mine = [int(each) for each in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
        return collective.allgather(np.array([len(mine)])).tolist(), collective.allgather(np.array(mine)).tolist()

    with spark_context("local-cluster[1,3,1024]", tmp_path, 1, conf):
        options = {"gpu_resource_name": "card", "use_custom_strategy": True}
        runner = MirroredStrategyRunner(num_slots=3, **options)
        assert runner.get_num_tasks() == 2
        counts, all_of_them = runner.run(train)
        assert counts == [2, 1]
        assert len(set(all_of_them)) == 3 and set(all_of_them) <= {0, 1, 2, 3}
        begun = time.monotonic()
        with pytest.raises(TFCluster.TFClusterError, match="spark.executor.resource.card.amount is 4"):
            MirroredStrategyRunner(num_slots=6, **options).run(train)  # three tasks, and GPUs for two
        assert time.monotonic() - begun < 15
        local = MirroredStrategyRunner(num_slots=2, local_mode=True, **options)
        assert local.run(lambda: os.environ["CUDA_VISIBLE_DEVICES"]) == "0,1"
        with pytest.raises(ValueError, match="asks for 5 GPUs, and Spark gave 4"):
            MirroredStrategyRunner(num_slots=5, local_mode=True, **options).run(train)


@pytest.fixture(scope="module")
def standalone(tmp_path_factory):
    """A master of Spark's own with a worker of two cores: its address, and the folder in which everything is."""
    folder = tmp_path_factory.mktemp("standalone")
    with standalone_cluster(folder, cores=2) as master:
        yield master, folder


def test_standalone_master_and_executors_without_anything(standalone, tmp_path, answers, monkeypatch):
    """The Python of the executors has nothing installed: the package, its command and PySpark are brought to them."""
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
    master, folder = standalone
    with spark_context(master, folder, executors=1) as sc:

        def look(args, ctx):
            import importlib.util
            import sys

            import tensorflowonspark

            installed = importlib.util.find_spec("numpy") is not None
            return [ctx.task_index, sys.prefix, installed, os.path.dirname(tensorflowonspark.__file__)]

        TFCluster.run(sc, answers.program(look), None, 2, 0).shutdown()
    for index, answer in enumerate(answers.read()):
        assert answer[:3] == [index, str(bare), False]
        assert answer[3].startswith(str(folder))


def test_dynamic_allocation(standalone, answers, monkeypatch):
    """Executors come because nodes wait for them, and stay as long as the nodes do; feeding is refused.

    The coordinator has a port of the range that Spark's settings name, which comes before the environment.
    """
    master, folder = standalone
    with held_port() as first:
        ports = range(first + 1, first + 21)
    monkeypatch.setenv("TFOS_SERVER_PORT", str(first))
    dynamic = "spark.dynamicAllocation."
    conf = {dynamic + key: "true" for key in ("enabled", "shuffleTracking.enabled")}
    conf |= {dynamic + "minExecutors": "0", dynamic + "executorIdleTimeout": "1s", "spark.executor.cores": "1"}
    conf["spark.tfos.server.port"] = f"{ports[0]}-{ports[-1]}"
    with spark_context(master, folder, conf=conf) as sc:
        assert executor_count(sc) == 0
        with pytest.raises(ValueError, match="InputMode.SPARK does not work .* Set spark.dynamicAllocation.enabled to"):
            TFCluster.run(sc, print, None, 2, 0, input_mode=TFCluster.InputMode.SPARK)

        def look(args, ctx):
            import time

            time.sleep(3)  # longer than an executor may be idle
            return ctx.task_index

        cluster = TFCluster.run(sc, answers.program(look), None, 2, 0)
        (coordinator,) = marked_processes("tfos coordinator")
        assert listening_ports(coordinator) & set(ports)
        cluster.shutdown(timeout=60)
        assert answers.read() == [0, 1]
        wait_for(lambda: executor_count(sc) == 0, 30)


@pytest.fixture
def noexec(tmp_path):
    """A folder in which no program may be run."""
    folder = tmp_path / "noexec"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a folder cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_temporary_folder_without_programs(tmp_path, noexec):
    """Neither java.io.tmpdir nor the first of Spark's local folders lets programs run or libraries be loaded."""
    local = tmp_path / "local"
    local.mkdir()
    code, _, err = run_program(
        tmp_path,
        CONTEXT
        + """
    def main(args, ctx):
        import os
        import tempfile
        import tensorflowonspark
        from tensorflowonspark import records

        records.write(f"{args}/{ctx.task_index}.tfrecord", {"x": [ctx.task_index]})
        command = os.readlink(f"/proc/{os.getppid()}/exe")
        print("seen", tempfile.gettempdir(), command, tensorflowonspark.__file__)

    TFCluster.run(SparkContext(conf=conf), main, conf.get("spark.tests.folder"), 2, 0).shutdown()
    """,
        f"spark.tests.folder={tmp_path}",
        "spark.master=local-cluster[1,2,1024]",
        "spark.executor.memory=512m",
        f"spark.executor.extraJavaOptions=-Djava.io.tmpdir={noexec}",
        f"spark.executorEnv.TMPDIR={noexec}",
        variables={"SPARK_LOCAL_DIRS": f"{noexec},{local}", "TMPDIR": str(noexec)},
    )
    assert code == 0, err
    seen = re.findall(r"\] seen (\S+) (\S+) (\S+)\n", err)
    assert len(seen) == 2, err
    for temporary, command, package in seen:
        assert temporary == str(noexec)
        assert command.startswith(str(local)) and package.startswith(str(local))


def test_functions_and_classes_of_main(tmp_path):
    code, out, err = run_program(
        tmp_path,
        CONTEXT
        + """
    STEPS = 3

    class Model:
        def fit(self, steps):
            return steps * 2

    def helper(steps):
        return Model().fit(steps)

    def main(args, ctx):
        print("fitted", helper(STEPS), "on", ctx.task_index)

    if __name__ == "__main__":
        TFCluster.run(SparkContext(conf=conf), main, None, 2, 0).shutdown()
    """,
    )
    assert code == 0, err
    for index in range(2):
        assert re.search(rf"\[worker:{index} \S+\] fitted 6 on {index}\n", err)


def test_interrupt_stops_the_cluster(tmp_path):
    process = start_program(
        tmp_path,
        CONTEXT
        + """
    def main(args, ctx):
        print("started")
        time.sleep(600)

    cluster = TFCluster.run(SparkContext(conf=conf), main, None, 2, 0)
    print("waiting", flush=True)
    try:
        cluster.shutdown()
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    """,
    )
    with process:
        assert process.stdout.readline() == "waiting\n", process.communicate()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert out == "interrupted\n", err
    assert process.returncode == 0


def test_program_that_forgets_its_cluster(tmp_path):
    """The interpreter ends, and with it the nodes."""
    code, _, err = run_program(
        tmp_path,
        CONTEXT
        + """
    def main(args, ctx):
        time.sleep(600)

    TFCluster.run(SparkContext(conf=conf), main, None, 2, 0)
    """,
    )
    assert code == 0, err
    wait_for(lambda: not node_processes(), 10)


def test_stopping_the_context_ends_the_nodes(tmp_path):
    with spark_context("local-cluster[1,1,1024]", tmp_path, executors=1) as sc:

        def main(args, ctx):
            import time

            time.sleep(600)

        cluster = TFCluster.run(sc, main, None, 1, 0)
    with pytest.raises(TFCluster.TFClusterError):
        cluster.shutdown()


def test_clusters_from_other_threads(tmp_path, answers):
    """Threads of Python have threads of the JVM of their own."""
    with spark_context("local[2]", tmp_path) as sc:
        failures = []

        def work():
            try:
                TFCluster.run(sc, answers.program(lambda args, ctx: ctx.task_index), None, 2, 0).shutdown()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join(60)
        assert not failures and answers.read() == [0, 1]
        assert sc.parallelize(range(4), 2).sum() == 6


def test_setting_that_does_not_exist(tmp_path):
    code, _, err = run_program(
        tmp_path,
        CONTEXT
        + """
    from tensorflowonspark import TFParallel

    sc = SparkContext(conf=conf)
    for start in (lambda: TFCluster.run(sc, print, None, 1, 0), lambda: TFParallel.run(sc, print, None, 1)):
        try:
            start()
        except ValueError as error:
            print("refused:", error, file=sys.stderr)
    """,
        "spark.tfos.nonsense=1",
    )
    assert code == 0, err
    assert len(re.findall(r"refused: .*nonsense", err)) == 2
