"""Spark contexts, masters and drivers for tests of clusters, and programs for nodes that tell what they saw."""

import contextlib
import glob
import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
import uuid

import pyspark
from processes import JAVA_OPTIONS, ROOT, java_home, wait_for

# PySpark leaves sockets to the garbage collector.
SPARK_WARNINGS = ["ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"]

# In the environment of every process that a test starts, by which those that outlive it are found.
MARK = os.environ.get("TFOS_TEST_MARK_GIVEN") or "TFOS_TEST_MARK=" + uuid.uuid4().hex


# Variables that a JVM reads once.
FOLDERS = ("SPARK_HOME", "SPARK_LOCAL_DIRS", "SPARK_WORKER_DIR")


def spark_home(folder, archives=False):
    """A SPARK_HOME of links to the real one: local-cluster works below it, whatever SPARK_WORKER_DIR says. It has no
    folder of settings, which would be first among the places of classes and not be that of the archive; nor, unless
    asked for, archives of Python files, which every process would compile for itself: an environment with PySpark has
    the same files."""
    real = os.path.dirname(pyspark.__file__)
    home = os.path.join(folder, "spark-home")
    os.makedirs(home, exist_ok=True)
    os.makedirs(os.path.join(home, "python"), exist_ok=True)
    for name in ("bin", "jars", "sbin", "python/pyspark", *(["python/lib"] if archives else [])):
        with contextlib.suppress(FileExistsError):
            os.symlink(os.path.join(real, name), os.path.join(home, name))
    return home


def environment(folder, archives=False):
    """What Spark's processes need; nothing is written outside the folder."""
    name, _, value = MARK.partition("=")
    return {
        "JAVA_HOME": java_home(),
        "SPARK_HOME": spark_home(folder, archives),
        "SPARK_LOCAL_DIRS": str(folder),
        "SPARK_WORKER_DIR": str(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SUBMIT_OPTS": f"{JAVA_OPTIONS} '-Dspark.executor.extraJavaOptions={JAVA_OPTIONS}'",
        "SPARK_LAUNCHER_OPTS": JAVA_OPTIONS,
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        "PYSPARK_PYTHON": sys.executable,
        name: value,
    }


def data_files(folder):
    """The files of a table, in whichever partition."""
    return sorted(glob.glob(f"{folder}/**/part-*", recursive=True))


@contextlib.contextmanager
def spark_context(master, folder, executors=None, conf=(), python=None):
    """A context of this process, with the Python of its executors; waits until `executors` are there. The first one's
    JVM and folders serve them all."""
    variables = environment(folder) | ({"PYSPARK_PYTHON": python} if python else {})
    if pyspark.SparkContext._gateway is not None:
        variables = {name: value for name, value in variables.items() if name not in FOLDERS}
    os.environ.update(variables)
    settings = pyspark.SparkConf().setMaster(master).setAppName("tests")
    settings.set("spark.ui.enabled", "false").set("spark.executor.memory", "512m")
    settings.set("spark.ui.showConsoleProgress", "false")
    settings.setAll(dict(conf).items())
    sc = pyspark.SparkContext(conf=settings)
    sc.setLogLevel("ERROR")
    try:
        wait_for(lambda: executors is None or executor_count(sc) >= executors, 60)
        yield sc
    finally:
        sc.stop()
        for key in dict(conf):  # what the first context was started with would be every later one's, too
            sc._jvm.java.lang.System.clearProperty(key)


@contextlib.contextmanager
def taken_slots(sc, folder, count):
    """So many slots have something to do meanwhile, and feed nobody."""

    def wait(numbers):
        (number,) = numbers
        open(os.path.join(folder, f"taken-{number}"), "w").close()
        deadline = time.monotonic() + 240
        while not os.path.exists(os.path.join(folder, "free")) and time.monotonic() < deadline:
            time.sleep(0.02)

    thread = threading.Thread(target=sc.parallelize(range(count), count).foreachPartition, args=(wait,))
    thread.start()
    try:
        wait_for(lambda: all(os.path.exists(os.path.join(folder, f"taken-{i}")) for i in range(count)), 60)
        yield
    finally:
        open(os.path.join(folder, "free"), "w").close()
        thread.join()


def executor_count(sc):
    return len(sc._jsc.sc().statusTracker().getExecutorInfos()) - 1


def read_bytes(sc, action):
    """The bytes that an action reads, as Spark's pages show them."""
    group = uuid.uuid4().hex
    sc.setLocalProperty("spark.jobGroup.id", group)
    try:
        action()
    finally:
        sc.setLocalProperty("spark.jobGroup.id", None)
    sc._jsc.sc().listenerBus().waitUntilEmpty()
    tracker, store = sc.statusTracker(), sc._jsc.sc().statusStore()
    stages = {stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds}
    return sum(store.lastStageAttempt(stage).inputBytes() for stage in stages)


def stages_of(spark):
    """What Spark tells of all stages so far."""
    context = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    nothing = context._gateway.new_array(context._jvm.double, 0)
    stages = context._jsc.sc().statusStore().stageList(None, False, False, nothing, context._jvm.java.util.ArrayList())
    return [stages.apply(i) for i in range(stages.size())]


def counted(spark):
    """How many rows were fed so far (from columns, from rows), as Spark shows it with its stages."""
    total = {"rows fed from columns": 0, "rows fed from rows": 0}
    for stage in stages_of(spark):
        updates = stage.accumulatorUpdates()
        for k in range(updates.size()):
            if updates.apply(k).name() in total:
                total[updates.apply(k).name()] += int(updates.apply(k).value())
    return tuple(total.values())


def executors_of(spark):
    """Where executors listen. One that takes the place of another listens elsewhere."""
    return set(spark._jsc.sc().getExecutorMemoryStatus().keySet().mkString(" ").split())


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


@contextlib.contextmanager
def standalone_cluster(folder, cores, hosts=("127.0.0.1",)):
    """A master and workers of Spark's own cluster manager, on addresses of this machine; gives the master's address.
    The Python of an executor there may have nothing of its own."""
    variables = {**os.environ, **environment(folder, archives=True)}
    launch = os.path.join(variables["SPARK_HOME"], "bin", "spark-class")
    common = {"env": variables, "stdout": subprocess.DEVNULL, "cwd": folder}
    package = "org.apache.spark.deploy"
    with contextlib.ExitStack() as stack:

        def start(name, *arguments):
            log = stack.enter_context(open(os.path.join(folder, f"{name}.log"), "wb"))
            process = subprocess.Popen([launch, *arguments], stderr=log, **common)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        def address():
            with open(os.path.join(folder, "master.log"), encoding="utf-8", errors="replace") as file:
                found = re.search(r"Starting Spark master at (spark://\S+)", file.read())
            return found and found[1]

        start("master", f"{package}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = wait_for(address, 60)
        for host in hosts:
            worker = ["--host", host, "--cores", str(cores), "--memory", "1200m", "--webui-port", "0", master]
            start(f"worker-{host}", f"{package}.worker.Worker", *worker)
        yield master


def start_program(folder, text, *arguments, launch=(sys.executable,), variables=()):
    """Starts a driver: Python, or what `launch` says, with a script. `variables` go to its environment."""
    path = os.path.join(folder, "program.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(textwrap.dedent(text))
    return subprocess.Popen(
        [*launch, path, *arguments],
        env={**os.environ, **environment(folder), **dict(variables)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_program(folder, text, *arguments, seconds=120, **options):
    """Runs a driver to its end. Returns its exit code, stdout and stderr."""
    process = start_program(folder, text, *arguments, **options)
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out, err


# The beginning of a driver; its arguments are settings of Spark.
CONTEXT = """
    import sys
    import time
    from pyspark import SparkConf, SparkContext
    from tensorflowonspark import TFCluster

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")
    conf.setAll([word.split("=", 1) for word in sys.argv[1:]])
"""


def listening_ports(pid):
    """TCP ports on which a process listens."""
    names = set()
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(OSError):
            names.add(os.readlink(path))
    ports = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            for words in map(str.split, file.readlines()[1:]):
                if words[3] == "0A" and f"socket:[{words[9]}]" in names:
                    ports.add(int(words[1].rpartition(":")[2], 16))
    return ports


@contextlib.contextmanager
def held_port():
    """A port on which nobody else can listen meanwhile."""
    with socket.socket() as held:
        held.bind(("", 0))
        held.listen()
        yield held.getsockname()[1]


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


def field_of(message, name):
    """A field of one of our messages, which are in protobuf wire format: its bytes, or its number."""
    with open(f"{ROOT}/docs/protocol.md", encoding="utf-8") as page:
        fields = page.read().partition("\n## Fields\n")[2]  # a message may be called like a field
    number = int(re.search(rf"^\| (\d+) \| {name} \|", fields, re.MULTILINE)[1])

    def varint(at):
        value = shift = 0
        while True:
            value |= (message[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if message[at - 1] < 0x80:
                return value, at

    at = 0
    while at < len(message):
        tag, at = varint(at)
        value, at = varint(at)
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        if tag >> 3 == number:
            return value
    raise ValueError(f"the message has no field {name}")


def open_feed(cluster, partitions):
    """The ticket for an epoch of data that a test feeds by itself."""
    options = {"queue": "input", "partitions": partitions, "inference": False, "determinate": True, "again": False}
    call = cluster._session.call(lambda driver: driver.open_feed(options | {"timeout_ms": 600_000}))
    return call["bytes"]
