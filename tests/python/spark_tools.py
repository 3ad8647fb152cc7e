"""Spark contexts for tests of clusters, and programs for nodes that tell the test what they saw."""

import contextlib
import glob
import json
import os
import shutil
import subprocess
import sys
import time
import uuid

import pyspark

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# PySpark leaves sockets to the garbage collector.
SPARK_WARNINGS = ["ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"]

# In the environment of every process that a test starts, by which those that outlive it are found.
MARK = os.environ.get("TFOS_TEST_MARK_GIVEN") or "TFOS_TEST_MARK=" + uuid.uuid4().hex


def environment(folder):
    """What Spark's processes need; nothing is written outside the folder."""
    java = os.environ.get("JAVA_HOME") or subprocess.check_output([f"{ROOT}/scripts/find-java"], text=True).strip()
    name, _, value = MARK.partition("=")
    return {
        "JAVA_HOME": java,
        "SPARK_HOME": os.path.dirname(pyspark.__file__),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        name: value,
    }


@contextlib.contextmanager
def spark_context(master, folder, executors=None, conf=()):
    """A context of this process; waits until `executors` are there."""
    os.environ.update(environment(folder))
    settings = pyspark.SparkConf().setMaster(master).setAppName("tests")
    settings.set("spark.ui.enabled", "false").set("spark.executor.memory", "512m")
    settings.setAll(dict(conf).items())
    sc = pyspark.SparkContext(conf=settings)
    sc.setLogLevel("ERROR")
    try:
        wait_for(lambda: executors is None or executor_count(sc) >= executors, 60)
        yield sc
    finally:
        work = os.path.join(os.environ["SPARK_HOME"], "work", sc.applicationId)
        sc.stop()
        shutil.rmtree(work, ignore_errors=True)  # local-cluster works there, whatever SPARK_WORKER_DIR says


def executor_count(sc):
    return len(sc._jsc.sc().statusTracker().getExecutorInfos()) - 1


def wait_for(predicate, seconds):
    """Waits until the predicate gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        found = predicate()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)


def marked_processes(name=""):
    """{pid: command line} of living processes that tests of this run have started."""
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            with open(f"{path}/environ", "rb") as file:
                marked = MARK.encode() in file.read().split(b"\0")
            with open(f"{path}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace").strip()
            if marked and command and name in command and int(path[6:]) != os.getpid():
                found[int(path[6:])] = command
    return found


def node_processes():
    """Processes of clusters: coordinators, nodes and their programs."""
    return {
        pid: command
        for pid, command in marked_processes().items()
        if any(word in command for word in ("tfos coordinator", "tfos node", "tensorflowonspark._child"))
    }


class Answers:
    """A folder in which nodes leave what they saw, each in a file of its own."""

    def __init__(self, folder):
        self.folder = str(folder)

    def program(self, look, count=0):
        """A program for nodes: calls look(args, ctx), keeps the answer, and waits until there are `count` of them."""
        folder = self.folder

        def main(args, ctx):
            import json
            import os
            import time

            answer = look(args, ctx)
            path = os.path.join(folder, f"{ctx.executor_id}-{ctx.attempt}")
            with open(path + ".part", "w", encoding="utf-8") as file:
                json.dump(answer, file)
            os.rename(path + ".part", path + ".json")
            while sum(name.endswith(f"-{ctx.attempt}.json") for name in os.listdir(folder)) < count:
                time.sleep(0.02)

        return main

    def read(self, attempt=0):
        """The answers in the order of the nodes."""
        paths = glob.glob(os.path.join(self.folder, f"*-{attempt}.json"))
        answers = []
        for path in sorted(paths, key=lambda path: int(os.path.basename(path).split("-")[0])):
            with open(path, encoding="utf-8") as file:
                answers.append(json.load(file))
        return answers
