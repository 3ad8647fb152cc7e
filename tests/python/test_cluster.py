"""TFCluster and TFParallel on two executors of one core: what programs on the nodes find, and how they end."""

import argparse
import base64
import getpass
import os
import shutil
import sys
import threading
import time
import urllib.request
import zipfile

import numpy as np
import pytest
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import (
    Answers,
    held_port,
    listening_ports,
    marked_processes,
    node_processes,
    spark_context,
    taken_slots,
    wait_for,
)
from tensorflowonspark import TFCluster, TFNode, TFParallel, TFSparkNode, _spark, util

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """Files that travel with the application: a module, a zip of modules, an archive, a text."""
    folder = tmp_path_factory.mktemp("shipped")
    (folder / "single_module.py").write_text("NAME = 'single'\n")
    with zipfile.ZipFile(folder / "modules.zip", "w") as archive:
        program = "def main(args, ctx):\n    assert ctx.job_name == 'worker'\n"
        archive.writestr("zipped_module.py", "NAME = 'zipped'\n" + program)
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("inside.txt", "archived")
    (folder / "text.txt").write_text("a file of Spark")
    return folder


@pytest.fixture(scope="module")
def sc(tmp_path_factory, shipped):
    folder = tmp_path_factory.mktemp("spark")
    conf = {"spark.executorEnv.GREETING": "hello from the settings", "spark.tfos.cluster.lease_ms": "20000"}
    with spark_context("local-cluster[2,1,1024]", folder, executors=2, conf=conf) as context:
        for name in ("single_module.py", "modules.zip"):
            context.addPyFile(str(shipped / name))
        context.addArchive(f"{shipped}/archive.zip#unpacked")
        context.addFile(str(shipped / "text.txt"))
        yield context
    wait_for(lambda: not node_processes(), 10)


@pytest.fixture
def answers(tmp_path):
    return Answers(tmp_path)


def run_to_end(sc, answers, look, nodes=2, num_ps=0, args=None, **options):
    cluster = TFCluster.run(sc, answers.program(look), args, nodes, num_ps, **options)
    cluster.shutdown()
    return answers.read()


def test_context_says_where_the_node_is(sc, answers):
    def look(args, ctx):
        import json
        import os

        names = "executor_id worker_num job_name task_index cluster_spec num_workers defaultFS working_dir attempt"
        seen = {name: getattr(ctx, name) for name in names.split()}
        return seen | {"tf_config": json.loads(os.environ["TF_CONFIG"]), "path": ctx.absolute_path("x"), "args": args}

    first, second = run_to_end(sc, answers, look, args={"epochs": 3})
    assert [first["executor_id"], second["executor_id"]] == [0, 1] == [first["worker_num"], second["worker_num"]]
    assert [first["job_name"], second["job_name"]] == ["worker", "worker"]
    assert [first["task_index"], second["task_index"]] == [0, 1]
    assert list(first["cluster_spec"]) == ["worker"] and len(set(first["cluster_spec"]["worker"])) == 2
    assert first["num_workers"] == 2 and first["attempt"] == 0
    assert first["defaultFS"] == "file://" and first["working_dir"] == os.getcwd()
    assert first["path"] == f"file://{os.getcwd()}/x"
    assert first["args"] == {"epochs": 3}
    for answer, index in ((first, 0), (second, 1)):
        assert answer["tf_config"]["cluster"] == first["cluster_spec"] == answer["cluster_spec"]
        assert answer["tf_config"]["task"] == {"type": "worker", "index": index}


def test_nodes_have_what_a_spark_task_has(sc, answers):
    broadcast = sc.broadcast({"rows": list(range(1000))})
    outside = "from the closure"

    def look(args, ctx):
        import os
        import sys

        import single_module
        import zipped_module
        from pyspark import SparkFiles

        with open(SparkFiles.get("text.txt"), encoding="utf-8") as file:
            text = file.read()
        with open("unpacked/inside.txt", encoding="utf-8") as file:
            archived = file.read()
        import pyspark.cloudpickle

        assert callable(pyspark.cloudpickle.dumps)
        return {
            "modules": [single_module.NAME, zipped_module.NAME],
            "text": text,
            "archived": archived,
            "broadcast": sum(broadcast.value["rows"]),
            "closure": outside,
            "greeting": os.environ["GREETING"],
            "cwd": os.getcwd(),
            "python": sys.executable,
            "prefix": sys.prefix,
        }

    def task(_):
        import sys

        return [(os.getcwd(), sys.executable)]

    tasks = dict(sc.parallelize(range(2), 2).mapPartitions(task).collect())
    for answer in run_to_end(sc, answers, look):
        assert answer["modules"] == ["single", "zipped"]
        assert answer["text"] == "a file of Spark" and answer["archived"] == "archived"
        assert answer["broadcast"] == 499500
        assert answer["closure"] == "from the closure"
        assert answer["greeting"] == "hello from the settings"
        assert tasks[answer["cwd"]] == answer["python"]


def test_arguments_that_are_a_list_become_argv(sc, answers):
    def look(args, ctx):
        import argparse
        import sys

        parser = argparse.ArgumentParser()
        parser.add_argument("--steps", type=int)
        return [args, sys.argv, parser.parse_args().steps]

    argv = ["train.py", "--steps", "7"]
    assert run_to_end(sc, answers, look, args=argv) == [[argv, argv, 7]] * 2


def test_namespace_lambda_and_module_function(sc, tmp_path):
    folder = str(tmp_path)
    arguments = argparse.Namespace(name="marker")
    cluster = TFCluster.run(
        sc, lambda args, ctx: open(f"{folder}/{args.name}-{ctx.task_index}", "w").close(), arguments, 2, 0
    )
    cluster.shutdown()
    assert sorted(os.listdir(folder)) == ["marker-0", "marker-1"]
    import importlib

    assert any("modules.zip" in path for path in sys.path)
    TFCluster.run(sc, importlib.import_module("zipped_module").main, None, 2, 0).shutdown()


def test_output_reaches_the_driver_as_it_comes(sc, capfd):
    def main(args, ctx):
        import sys

        print("to stdout,", "no flush")
        print("to stderr: \u00e9", file=sys.stderr)

    cluster = TFCluster.run(sc, main, None, 2, 0)
    cluster.shutdown()
    text = capfd.readouterr().err
    host = cluster.cluster_info[0]["host"]
    for index in range(2):
        assert f"[worker:{index} {host}] to stdout, no flush\n" in text
        assert f"[worker:{index} {host}] to stderr: \u00e9\n" in text
    assert "[tfos] 2 of 2 nodes registered" in text


def test_exception_reaches_the_driver(sc, capfd):
    def main(args, ctx):
        import time

        def deeply_nested():
            raise ValueError("the data are wrong")

        if ctx.task_index == 1:
            deeply_nested()
        time.sleep(600)

    start = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError) as caught:
        TFCluster.run(sc, main, None, 2, 0).shutdown()
    message = str(caught.value)
    assert message.startswith("worker:1 on ") and "raised an exception" in message
    assert "ValueError: the data are wrong" in message and "in deeply_nested" in message
    assert "_child.py" not in message
    assert isinstance(caught.value, RuntimeError)
    assert time.monotonic() - start < 15
    wait_for(lambda: not node_processes(), 5)


def test_too_few_slots_are_an_error_at_once(sc):
    start = time.monotonic()
    reason = r"needs 3 .* at most 2 \(spark.master is local-cluster\[2,1,1024\]\)"
    with pytest.raises(TFCluster.TFClusterError, match=reason):
        TFCluster.run(sc, print, None, 3, 0)
    with pytest.raises(TFCluster.TFClusterError, match=r"needs 3 .* at most 2"):
        TFParallel.run(sc, print, None, 3)
    assert time.monotonic() - start < 5


def test_busy_slots_are_waited_for(sc, answers, capfd):
    """A job of somebody else has both slots."""
    jobs = []
    blocker = threading.Thread(target=lambda: jobs.append(sc.parallelize(range(2), 2).foreach(lambda _: time.sleep(3))))
    blocker.start()
    wait_for(lambda: sc.statusTracker().getActiveJobsIds(), 10)
    assert run_to_end(sc, answers, lambda args, ctx: ctx.task_index) == [0, 1]
    blocker.join()
    assert "waiting for executor slots" in capfd.readouterr().err


def test_nodes_that_do_not_come_in_time(sc, tmp_path):
    with taken_slots(sc, tmp_path, 1):
        with pytest.raises(TFCluster.TFClusterError, match=r"1 of 2"):
            TFCluster.run(sc, print, None, 2, 0, reservation_timeout=5)
    wait_for(lambda: not sc.statusTracker().getActiveJobsIds(), 10)


def test_parallel_instances(sc, answers):
    def look(args, ctx):
        import os

        return [ctx.executor_id, ctx.num_workers, ctx.cluster_spec, args, "TF_CONFIG" in os.environ]

    TFParallel.run(sc, answers.program(look), "x", 2)
    assert answers.read() == [[0, 2, {}, "x", False], [1, 2, {}, "x", False]]


def test_more_parallel_instances_than_slots_without_barrier(sc, answers):
    TFParallel.run(sc, answers.program(lambda args, ctx: ctx.num_workers), None, 5, use_barrier=False)
    assert answers.read() == [5] * 5


def test_failed_instance_stops_the_others(sc):
    def main(args, ctx):
        import time

        if ctx.executor_id == 0:
            raise KeyError("lost")
        time.sleep(600)

    with pytest.raises(TFCluster.TFClusterError, match="KeyError: 'lost'"):
        TFParallel.run(sc, main, None, 2)
    wait_for(lambda: not node_processes(), 5)


def test_ps_nodes_on_the_driver(sc, answers):
    """Two slots, three nodes: the ps is a process beside the driver."""
    secret = sc.broadcast("broadcast")

    def look(args, ctx):
        import os

        return [ctx.job_name, ctx.task_index, os.getcwd(), secret.value]

    cluster = TFCluster.run(sc, answers.program(look, count=3), None, 3, 1, driver_ps_nodes=True)
    cluster.shutdown(timeout=60)
    first, *workers = answers.read()
    assert first == ["ps", 0, os.getcwd(), "broadcast"]
    assert [worker[:2] for worker in workers] == [["worker", 0], ["worker", 1]]
    assert all(worker[2] != os.getcwd() and worker[3] == "broadcast" for worker in workers)


def test_ps_ends_when_the_workers_have(sc, tmp_path):
    def main(args, ctx):
        import time

        if ctx.job_name == "ps":
            time.sleep(600)

    start = time.monotonic()
    TFCluster.run(sc, main, None, 2, 1).shutdown()
    assert time.monotonic() - start < 15
    wait_for(lambda: not node_processes(), 5)


def test_spark_mode_gives_the_slots_back(sc, tmp_path):
    """The nodes go on while other jobs use the slots; shutdown ends them."""

    def main(args, ctx):
        import os
        import time

        while not os.path.exists(args):
            time.sleep(0.05)

    flag = str(tmp_path / "flag")
    cluster = TFCluster.run(sc, main, flag, 2, 0, input_mode=TFCluster.InputMode.SPARK)
    assert sc.parallelize(range(10), 2).sum() == 45
    assert len(marked_processes("tensorflowonspark._child")) == 2
    open(flag, "w").close()
    cluster.shutdown()
    wait_for(lambda: not node_processes(), 5)


def test_port_is_kept_until_the_program_lets_go(sc, answers):
    def look(args, ctx):
        import socket

        port = int(ctx.cluster_spec["worker"][ctx.task_index].rpartition(":")[2])
        with socket.socket() as held:
            try:
                held.bind(("", port))
                before = True
            except OSError:
                before = False
        held, where = ctx.tmp_socket, ctx.tmp_socket.getsockname()
        ctx.release_port()
        for reuse in (0, 1):  # a server with SO_REUSEADDR, and one without
            with socket.socket() as free:
                free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
                free.bind(("", port))
                free.listen()
        held.close()  # a second time: nothing
        return [before, where == ("0.0.0.0", port), ctx.tmp_socket]

    assert run_to_end(sc, answers, look, release_port=False) == [[False, True, None]] * 2


def test_restarts_after_a_failure(sc, answers, capfd):
    def look(args, ctx):
        import time

        if ctx.attempt < 2 and ctx.task_index == 0:
            raise RuntimeError(f"attempt {ctx.attempt} fails")
        time.sleep(0.2)
        return ctx.attempt

    cluster = TFCluster.run(sc, answers.program(look), None, 2, 0, restarts=2)
    cluster.shutdown()
    assert answers.read(attempt=2) == [2, 2]
    assert "1 of 2 restarts" in capfd.readouterr().err


def test_restarts_end(sc):
    def main(args, ctx):
        raise RuntimeError(f"attempt {ctx.attempt}")

    with pytest.raises(TFCluster.TFClusterError, match="RuntimeError: attempt 1"):
        TFCluster.run(sc, main, None, 2, 0, restarts=1).shutdown()


def test_shutdown_has_a_timeout(sc):
    def main(args, ctx):
        import time

        time.sleep(600)

    cluster = TFCluster.run(sc, main, None, 2, 0)
    start = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError, match="timeout of shutdown"):
        cluster.shutdown(timeout=1)
    assert time.monotonic() - start < 20
    wait_for(lambda: not node_processes(), 5)


def test_cancelled_job_stops_the_nodes(sc):
    def main(args, ctx):
        import time

        time.sleep(600)

    cluster = TFCluster.run(sc, main, None, 2, 0)
    sc.cancelAllJobs()
    with pytest.raises(TFCluster.TFClusterError, match="Spark task cancelled"):
        cluster.shutdown()
    wait_for(lambda: not node_processes(), 10)


def test_port_of_the_coordinator(sc, monkeypatch):
    """The first of the range that is free; a range without one is an error."""
    with held_port() as port:
        monkeypatch.setenv("TFOS_SERVER_PORT", f"{port}-{port + 20}")
        cluster = TFCluster.run(sc, lambda args, ctx: None, None, 2, 0)
        (coordinator,) = marked_processes("tfos coordinator")
        assert listening_ports(coordinator) & set(range(port + 1, port + 21))
        cluster.shutdown(timeout=60)
        monkeypatch.setenv("TFOS_SERVER_PORT", str(port))
        with pytest.raises(TFCluster.TFClusterError, match=rf"{port}"):
            TFCluster.run(sc, print, None, 2, 0)
    monkeypatch.setenv("TFOS_SERVER_PORT", "9-nonsense")
    with pytest.raises(ValueError, match="TFOS_SERVER_PORT"):
        TFCluster.run(sc, print, None, 2, 0)


def forms_of(key):
    """How the key might be written: as it is, in hexadecimal, and in base64 on its own and inside of something."""
    inside = [base64.b64encode(bytes(n) + key)[4 * (n > 0) : -4] for n in range(3)]
    return [key, key.hex().encode(), key.hex().upper().encode(), *inside]


def what_others_may_read(sc):
    """{place: content}: settings and jobs of Spark, processes, and logs, of which there are those of two nodes."""
    listed = sc._jsc.sc().statusStore().jobsList(None)
    jobs = [(listed.apply(i).name(), str(listed.apply(i).description())) for i in range(listed.size())]
    logs = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(os.path.join(os.environ["SPARK_HOME"], "work", sc.applicationId))
        for name in names
        if name in ("stdout", "stderr") or name.endswith(".log")
    ]
    assert len([path for path in logs if path.endswith(".log")]) >= 2, logs
    places = {"settings": repr(sc.getConf().getAll()).encode(), "jobs": repr(jobs).encode()}
    for path in [f"/proc/{pid}/{name}" for pid in marked_processes() for name in ("cmdline", "environ")] + logs:
        with open(path, "rb") as file:
            places[path] = file.read()
    return places


def test_key_of_the_cluster_is_nowhere_to_be_read(sc, tmp_path, capfd, monkeypatch):
    """It travels in Spark's task data alone; who may look at processes, settings, logs and the status page lacks it."""

    def main(args, ctx):
        import os
        import time

        print("started", flush=True)
        while not os.path.exists(args):
            time.sleep(0.05)

    tickets = []
    submit = _spark.submit
    monkeypatch.setattr(_spark, "submit", lambda *given, **named: tickets.append(given[3]) or submit(*given, **named))
    cluster = TFCluster.run(sc, main, str(tmp_path / "flag"), 2, 0)
    key = spark_tools.field_of(tickets.pop(), "KEY")
    assert len(key) == 32
    lines = []
    wait_for(lambda: lines.append(capfd.readouterr().err) or "".join(lines).count("] started") == 2, 60)
    places = {"stderr of the driver": "".join(lines).encode()}
    for path in ("/", "/status.json", "/metrics"):
        with urllib.request.urlopen(cluster.status_url.rstrip("/") + path) as answer:
            places[path] = answer.read()
    assert len(node_processes()) >= 5, "a coordinator, two nodes, two programs"
    for place, content in (places | what_others_may_read(sc)).items():
        assert not any(form in content for form in forms_of(key)), place
    (tmp_path / "flag").write_text("")
    cluster.shutdown(timeout=60)


def test_address_of_the_status_page_is_told_to_nobody_else(sc, tmp_path, answers):
    """Who has it can read the logs: it is in what the driver prints, and in status_url."""

    def look(args, ctx):
        import os

        return repr([vars(ctx), vars(ctx.mgr), dict(os.environ)])

    cluster = TFCluster.run(sc, answers.program(look, count=3), None, 2, 0)  # it waits for a third answer
    wait_for(lambda: len(answers.read()) == 2, 60)
    token = cluster.status_url.rstrip("/").rpartition("/")[2].encode()
    assert len(token) >= 32
    described = vars(cluster) | {"_session": None, "cluster_info": cluster.cluster_info}
    places = {"the cluster": repr(described).encode(), "programs": repr(answers.read()).encode()}
    for place, content in (places | what_others_may_read(sc)).items():
        assert token not in content, place
    (tmp_path / "2-0.json").write_text("0")
    cluster.shutdown(timeout=60)
    assert isinstance(cluster.cluster_id, int) and cluster.cluster_id == cluster.cluster_meta["id"]


def test_forms_of_a_key_are_found():
    key = bytes(range(100, 132))
    for n in range(3):
        inside = b"x" * n + key + b"y"
        assert sum(form in base64.b64encode(inside) for form in forms_of(key)) == 1
    assert sum(form in repr(key.hex()).encode() for form in forms_of(key)) == 1


def test_cluster_says_what_it_is(sc):
    cluster = TFCluster.run(sc, lambda args, ctx: None, None, 2, 1)
    info = cluster.cluster_info
    roles = [(node["job_name"], node["task_index"], node["executor_id"]) for node in info]
    assert roles == [("ps", 0, 0), ("worker", 0, 1)]
    assert {"host", "port", "tb_pid", "tb_port", "addr", "authkey"} <= set(info[0])
    assert cluster.cluster_meta["cluster_template"] == {"ps": [0], "worker": [1]}
    assert cluster.input_mode == TFCluster.InputMode.TENSORFLOW
    assert cluster.status_url.startswith("http://") and cluster.tensorboard_url() is None
    cluster.shutdown()


def test_clusters_that_make_no_sense(sc):
    spark_mode = TFCluster.InputMode.SPARK
    for arguments, options, message in [
        ((2, 2), {}, "at least one worker"),
        ((1, 2), {}, "2 ps"),
        ((2, -1), {}, "negative"),
        ((0, 0), {}, "from 1 to"),
        ((2, 0), {"master_node": "boss"}, "'chief' or 'master'"),
        ((2, 0), {"input_mode": spark_mode, "eval_node": True}, "eval_node"),
        ((2, 1), {"input_mode": spark_mode, "driver_ps_nodes": True}, "driver_ps_nodes"),
        ((2, 0), {"input_mode": 7}, "InputMode"),
        ((2, 0), {"restarts": -1}, "restarts"),
    ]:
        with pytest.raises(ValueError, match=message):
            TFCluster.run(sc, print, None, *arguments, **options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"map_fun": "main"}, r"map_fun is a function .*; found 'main' \(str\)"),
        ({"map_fun": None}, "map_fun is a function"),
        ({"num_executors": "2"}, r"num_executors is a whole number; found '2' \(str\)"),
        ({"num_executors": 2.0}, r"num_executors is a whole number; found 2.0 \(float\)"),
        ({"num_executors": True}, r"num_executors is a whole number; found True \(bool\)"),
        ({"num_ps": "0"}, "num_ps is a whole number"),
        ({"num_ps": None}, "num_ps is a whole number"),
        ({"restarts": "1"}, "restarts is a whole number"),
        ({"reservation_timeout": "600"}, r"reservation_timeout is a number of seconds; found '600' \(str\)"),
        ({"queues": "input"}, "queues is a list of names"),
        ({"queues": [1]}, "queues is a list of names"),
        ({"master_node": True}, "master_node is a text"),
        ({"tensorboard": True, "log_dir": 7}, "log_dir is a text"),
        ({"tf_args": {"num_gpus": "1"}}, "num_gpus of the arguments is a whole number"),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(sc, options, message):
    """Before anything is started."""
    arguments = {"map_fun": print, "tf_args": None, "num_executors": 2, "num_ps": 0} | options
    with pytest.raises(TypeError, match=message):
        TFCluster.run(sc, **arguments)
    assert not node_processes()


def test_arguments_of_parallel_instances_of_another_kind(sc):
    for arguments, message in [
        (("main", None, 2), "map_fn is a function"),
        ((print, None, "2"), "num_executors is a whole number"),
        ((print, None, True), "num_executors is a whole number"),
    ]:
        with pytest.raises(TypeError, match=message):
            TFParallel.run(sc, *arguments)
    assert not node_processes()


def test_session_is_as_good_as_its_context(sc, answers):
    session = SparkSession(sc)
    program = answers.program(lambda args, ctx: ctx.num_workers)
    TFCluster.run(session, program, argparse.Namespace(num_gpus=None), np.int64(2), np.int32(0)).shutdown()
    assert answers.read() == [2, 2]
    TFParallel.run(session, answers.program(lambda args, ctx: "parallel"), None, 2)
    assert answers.read() == ["parallel"] * 2
    assert util.num_executors(session) == 2 and util.num_param_servers(session) == 0


def test_what_is_no_context(sc):
    with pytest.raises(TypeError, match="SparkContext"):
        TFCluster.run("local[2]", print, None, 1, 0)
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    for found in (None, session):
        with pytest.raises(RuntimeError, match="Spark Connect"):
            TFCluster.run(found, print, None, 1, 0)


def test_helpers(sc, tmp_path, monkeypatch):
    assert util.num_executors(sc) == 2
    assert util.num_param_servers(sc) == 0
    assert util.get_ip_address().count(".") == 3
    (tmp_path / "program").write_text("")
    assert util.find_in_path(f"/nowhere:{tmp_path}", "program") == str(tmp_path / "program")
    assert util.find_in_path("/nowhere", "program") is False
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="executor_id"):
        util.read_executor_id()
    util.write_executor_id(5)
    assert util.read_executor_id() == 5


def test_paths_on_each_file_system():
    hdfs = TFSparkNode.TFNodeContext(defaultFS="hdfs://name:8020", working_dir="/home/me")
    assert TFNode.hdfs_path(hdfs, "model") == f"hdfs://name:8020/user/{getpass.getuser()}/model"
    assert TFNode.hdfs_path(hdfs, "/model") == "hdfs://name:8020/model"
    assert TFNode.hdfs_path(hdfs, "s3a://bucket/model") == "s3a://bucket/model"
    local = TFSparkNode.TFNodeContext(working_dir="/home/me")
    assert local.absolute_path("model") == "file:///home/me/model"
    assert TFSparkNode.TFNodeContext(defaultFS="gs://bucket").absolute_path("model") == "gs://bucket/model"


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine may have GPUs")
def test_gpus_by_a_program_that_stands_in_for_the_driver(tmp_path, monkeypatch):
    from tensorflowonspark import gpu_info

    assert gpu_info.is_gpu_available() is False
    script = tmp_path / "nvidia-smi"
    script.write_text(
        "#!/bin/sh\n"
        "case $1 in\n"
        "--list-gpus) for i in 0 1 2; do echo \"GPU $i: Test (UUID: GPU-$i)\"; done ;;\n"
        "*) echo GPU-1 ;;\n"
        "esac\n"
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert gpu_info.is_gpu_available() is True
    assert gpu_info.get_gpus(2, 0) == "0,2"
    assert gpu_info.get_gpus(1, 1, gpu_info.AS_LIST) == ["2"]
    with pytest.raises(RuntimeError, match="3 free GPUs.*of 3 GPUs, 2 are free"):
        gpu_info.get_gpus(3)
    util.single_node_env(1, 1, ["a:1", "a:2"])
    assert os.environ.pop("CUDA_VISIBLE_DEVICES") == "2"
