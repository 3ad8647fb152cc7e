"""Storms: processes of a feed are killed at random points, and every row still comes once per epoch.

A run feeds an RDD and then a DataFrame, some epochs each, while a thread sends SIGKILL to one process after the other.
What may be killed without harm (feeding tasks, executors without a node) leaves the cluster alone; what takes a node
with it makes the cluster start again, which feeds again what was not consumed. Programs write what they have taken to a
file before they ask for more, so what is looked at in the end are rows that were really consumed. In others processes
are stopped (SIGSTOP) for a while, shorter and longer than the lease, the whole driver among them.

TFOS_STORMS says how many runs there are of each kind, TFOS_STORM_SEED with which seed they begin.
"""

import contextlib
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import spark_tools
from processes import parent_of
from spark_tools import marked_processes, node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster, _feeding, _session

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

RUNS = int(os.environ.get("TFOS_STORMS", "1"))
SEED = int(os.environ.get("TFOS_STORM_SEED", time.time_ns() // 1_000_000 % 1_000_000))
ROWS, PARTITIONS, EPOCHS, BATCH = 12_000, 6, 3, 50
LIMIT_S = 240  # for a run, on a machine that has other things to do

CONF = {
    "spark.task.maxFailures": "100",
    "spark.deploy.maxExecutorRetries": "-1",
    "spark.python.worker.reuse": "true",
    "spark.tfos.cluster.lease_ms": "10000",
    "spark.tfos.cluster.beat_ms": "500",
}


@pytest.fixture(scope="module")
def context(tmp_path_factory):
    """Three executors for two nodes."""
    with spark_context("local-cluster[3,1,1024]", tmp_path_factory.mktemp("spark"), executors=3, conf=CONF) as context:
        yield context
    wait_for(lambda: not node_processes(), 20)


@pytest.fixture
def sc(context):
    """With all executors: the test before may have killed some."""
    wait_for(lambda: spark_tools.executor_count(context) >= 3, 120)
    return context


# ---- programs ----


def record(args, ctx):
    """Writes every batch that it takes, and each end of an epoch, as a line of a file."""
    from tensorflowonspark import _native

    path = os.path.join(args["folder"], f"{ctx.attempt}-{ctx.task_index}")
    queue = _native.Feed("input")
    with open(path, "wb", buffering=0) as file:
        while not queue.ended():
            batch = queue.next(BATCH, True)  # None: the end of an epoch, or of all
            rows = None if batch is None else _native.decode_rows(batch)
            numbers = rows and [row if isinstance(row, int) else row[0] for row in rows]
            file.write(json.dumps(numbers).encode() + b"\n")
            time.sleep(0.01)  # the feed lasts long enough for some deaths


class Records:
    """What the programs have written: epochs = {(attempt, task): [rows of an epoch, …]}."""

    def __init__(self, folder):
        self.epochs = {}
        for name in os.listdir(folder):
            key = tuple(map(int, name.split("-")))
            epochs = [[]]
            with open(os.path.join(folder, name), "rb") as file:
                for line in file.read().split(b"\n")[:-1]:  # what is behind the last line was not written to its end
                    rows = json.loads(line)
                    if rows is None:
                        epochs.append([])
                    else:
                        epochs[-1].extend(rows)
            self.epochs[key] = epochs

    def attempts(self):
        return sorted({attempt for attempt, _ in self.epochs})

    def rows(self, attempt, epoch):
        """Of all programs, in an epoch of the attempt."""
        found = Counter()
        for key, epochs in self.epochs.items():
            if key[0] == attempt and epoch < len(epochs):
                found.update(epochs[epoch])
        return found

    def count_before(self, attempt, epoch):
        """How many programs of the attempt have not seen the end of an epoch."""
        return 2 - sum(key[0] == attempt and len(epochs) > epoch + 1 for key, epochs in self.epochs.items())


# ---- the killer ----


def executors():
    return set(marked_processes("CoarseGrainedExecutorBackend"))


def executors_with_nodes():
    return {parent_of(pid) for pid in marked_processes("tfos node")} & executors()


def workers_of_python():
    """Those that serve tasks, and the daemons that fork them."""
    daemons = set(marked_processes("pyspark.daemon"))
    workers = {pid for pid in daemons if parent_of(pid) in daemons}
    return workers, daemons - workers


def victims(kind):
    """Processes that a kind of death may take now."""
    if kind == "worker of Python":
        return workers_of_python()[0]
    if kind == "daemon of Python":
        return workers_of_python()[1]
    if kind == "executor without a node":
        with_nodes = executors_with_nodes()
        return executors() - with_nodes if len(with_nodes) == 2 else set()
    if kind == "executor":
        return executors_with_nodes()
    if kind == "node":
        return {pid for pid in marked_processes("tfos node") if parent_of(pid) in executors()}
    return set(marked_processes("tensorflowonspark._child"))


def kill_task(sc, chance):
    """Has Spark kill a running task, as it does with the slower one of two attempts. True if there was one."""
    running = []
    for stage in sc.statusTracker().getActiveStageIds():
        tasks = sc._jsc.sc().statusStore().taskList(stage, 0, 1000)
        running += [task for task in map(tasks.apply, range(tasks.size())) if task.status() == "RUNNING"]
    return bool(running) and sc._jsc.sc().killTaskAttempt(chance.choice(running).taskId(), True, "a storm")


class Killer:
    """Kills something of the given kinds now and then, from the first row on. {kind: weight}"""

    def __init__(self, sc, seed, kinds, most, pause_s=0.3):
        self.deaths = []  # (seconds, kind)
        self.has_rows = lambda: True
        self._sc, self._kinds, self._most, self._pause_s = sc, kinds, most, pause_s
        self._chance = random.Random(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._begin = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *unused):
        self._over.set()
        self._thread.join()

    def _run(self):
        while not self.has_rows() and not self._over.wait(0.02):
            pass
        while len(self.deaths) < self._most and not self._over.wait(self._chance.uniform(0, 2 * self._pause_s)):
            (kind,) = self._chance.choices(list(self._kinds), self._kinds.values())
            if self._kill(kind):
                self.deaths.append((round(time.monotonic() - self._begin, 2), kind))

    def _kill(self, kind):
        if kind == "task":
            return kill_task(self._sc, self._chance)
        found = sorted(victims(kind))
        with contextlib.suppress(ProcessLookupError):
            if found:
                os.kill(self._chance.choice(found), signal.SIGKILL)
                return True
        return False


# ---- runs ----


def data_of(sc, kind):
    if kind == "DataFrame":
        return SparkSession(sc).range(0, ROWS, 1, PARTITIONS)
    return sc.parallelize(range(ROWS), PARTITIONS).map(lambda row: row)


def start(sc, folder, **options):
    folder.mkdir()
    mode = TFCluster.InputMode.SPARK
    return TFCluster.run(sc, record, {"folder": str(folder)}, 2, 0, input_mode=mode, **options)


def run(sc, folder, kind, killer, **options):
    """Feeds the data while the killer is at work. Returns what was recorded."""
    cluster = start(sc, folder, **options)
    killer.has_rows = lambda: any(os.path.getsize(folder / name) for name in os.listdir(folder))
    begin = time.monotonic()
    try:
        with killer:
            cluster.train(data_of(sc, kind), EPOCHS, feed_timeout=LIMIT_S)
        cluster.shutdown(timeout=LIMIT_S)
        assert time.monotonic() - begin < LIMIT_S
    finally:
        cluster._session.stop("the test is over")
        cluster._session.join(30)
    return Records(folder)


@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("kind", ["RDD", "DataFrame"])
def test_nobody_notices_that_feeding_tasks_die(sc, tmp_path, kind, number):
    """Nothing shows that tasks, workers of Python and executors without a node were killed."""
    seed = SEED + number
    kinds = {"executor without a node": 1, "task": 3}
    if kind == "RDD":
        kinds |= {"worker of Python": 5, "daemon of Python": 1}
    killer = Killer(sc, seed, kinds, most=8)
    records = run(sc, tmp_path / "records", kind, killer)
    told = f"TFOS_STORM_SEED={seed}: {killer.deaths}"
    print(told)
    assert records.attempts() == [0], told
    for epoch in range(EPOCHS):
        assert records.rows(0, epoch) == Counter(range(ROWS)), f"epoch {epoch}; {told}"


class Fed:
    """What the driver has fed, by the orders that its shell was given: [(epoch, attempt of the cluster), …]."""

    def __init__(self, log=()):
        self.log = [tuple(each) for each in log]

    def wrap(self, take):
        def logged(session, order):
            if order["kind"] == "feed":
                self.log.append((spark_tools.field_of(order["bytes"], "EPOCH"), session.attempt))
            take(session, order)

        return logged

    def check(self, records, epochs, rows, batch, told):
        """Each epoch was consumed in the last attempt of the cluster that it was fed to, and no row came twice there.

        A program that dies may have taken a batch that it has not written yet: then that one is missing, if the epoch
        had been consumed by then. A program that has seen the end of the epoch has written all of it."""
        first, counts = {}, {}  # attempt of the cluster: the epoch that it began with; epoch: the attempt that counts
        for epoch, attempt in self.log:
            first.setdefault(attempt, epoch)
            found = records.rows(attempt, epoch - first[attempt])
            assert set(found) <= set(range(rows)) and max(found.values(), default=0) <= 1, f"epoch {epoch}; {told}"
            counts[epoch] = attempt
        assert sorted(counts) == list(range(epochs)), told
        for epoch, attempt in counts.items():
            there = epoch - first[attempt]
            unwritten = batch * records.count_before(attempt, there) if attempt < self.log[-1][1] else 0
            count = len(records.rows(attempt, there))
            assert rows - unwritten <= count <= rows, f"epoch {epoch}: {count} rows in attempt {attempt}; {told}"


@pytest.fixture
def fed(monkeypatch):
    fed = Fed()
    monkeypatch.setattr(_session.Session, "_take", fed.wrap(_session.Session._take))
    return fed


@pytest.mark.long
@pytest.mark.parametrize("number", range(RUNS))
@pytest.mark.parametrize("kind", ["RDD", "DataFrame"])
def test_epochs_are_fed_again_when_nodes_die(sc, tmp_path, kind, number, fed):
    """The cluster starts again, and its programs get the first epoch that was not consumed from its first row."""
    seed = SEED + number
    kinds = {"program": 2, "node": 2, "executor": 1, "executor without a node": 1, "task": 2}
    if kind == "RDD":
        kinds |= {"worker of Python": 4}
    killer = Killer(sc, seed, kinds, most=5, pause_s=0.8)
    records = run(sc, tmp_path / "records", kind, killer, restarts=20)
    told = f"TFOS_STORM_SEED={seed}: {killer.deaths} {fed.log}"
    print(told)
    fed.check(records, EPOCHS, ROWS, BATCH, told)


# ---- processes that are stopped ----

STOPPED_ROWS, STOPPED_PARTITIONS, STOPPED_BATCH = 120_000, 8, 500
STOPPED_CONF = {"spark.tfos.cluster.lease_ms": "5000", "spark.tfos.cluster.beat_ms": "500"}


def take_arrays(args, ctx):
    """Writes what it takes, like `record`, in larger batches."""
    from tensorflowonspark import _native

    queue = _native.Feed("input")
    with open(os.path.join(args["folder"], f"{ctx.attempt}-{ctx.task_index}"), "wb", buffering=0) as file:
        while not queue.ended():
            batch = queue.next(STOPPED_BATCH, True)
            rows = None if batch is None else [row[0] for row in _native.decode_rows(batch)]
            file.write(json.dumps(rows).encode() + b"\n")
            time.sleep(0.05)


def drive(folder, epochs):
    """A driver, in a process of its own, that can be stopped."""
    fed = Fed()
    _session.Session._take = fed.wrap(_session.Session._take)
    records = os.path.join(folder, "records")
    with spark_context("local[6]", folder, conf=STOPPED_CONF) as sc:
        frame = SparkSession(sc).range(0, STOPPED_ROWS, 1, STOPPED_PARTITIONS)
        mode = TFCluster.InputMode.SPARK
        cluster = TFCluster.run(sc, take_arrays, {"folder": records}, 2, 0, input_mode=mode, restarts=50)
        cluster.train(frame, epochs, feed_timeout=LIMIT_S)
        cluster.shutdown(timeout=LIMIT_S)
    with open(os.path.join(folder, "fed.json"), "w", encoding="utf-8") as file:
        json.dump(fed.log, file)


class Stopper:
    """Stops a process of the driver's now and then for a while."""

    def __init__(self, driver, seed, most):
        self.stops = []  # (kind, seconds)
        self._driver, self._most, self._chance = driver, most, random.Random(seed)

    def _victims(self, kind):
        if kind == "driver":
            return [self._driver.pid, *marked_processes("org.apache.spark.deploy.SparkSubmit")]
        name = {"program": "tensorflowonspark._child", "node": "tfos node", "coordinator": "tfos coordinator"}[kind]
        found = sorted(marked_processes(name))
        return [self._chance.choice(found)] if found else []

    def run(self):
        while self._driver.poll() is None:
            time.sleep(self._chance.uniform(0.5, 2))
            kind = self._chance.choice(["program", "node", "node", "coordinator", "coordinator", "driver"])
            victims, seconds = self._victims(kind), round(self._chance.uniform(1, 9), 1)
            if victims and len(self.stops) < self._most:
                self.stops.append((kind, seconds))
                self._stop(victims, seconds)

    def _stop(self, victims, seconds):
        signals = [(pid, number) for number in (signal.SIGSTOP, signal.SIGCONT) for pid in victims]
        for at, (pid, number) in enumerate(signals):
            if at == len(victims):
                time.sleep(seconds)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def run_stopped(folder, seed, epochs, most):
    """A storm of stops. Returns what the driver has fed, what was recorded, and the story."""
    (folder / "records").mkdir()
    here = os.path.dirname(os.path.abspath(__file__))
    text = f"import sys; sys.path.insert(0, {here!r}); import test_feed_storm as s; s.drive({str(folder)!r}, {epochs})"
    mark = {"TFOS_TEST_MARK_GIVEN": spark_tools.MARK}
    driver = spark_tools.start_program(folder, text, variables=mark)
    output = []
    reader = threading.Thread(target=lambda: output.extend(driver.communicate()))
    reader.start()
    stopper = Stopper(driver, seed, most)
    try:
        wait_for(lambda: len(os.listdir(folder / "records")) == 2 or driver.poll() is not None, 60)
        stopper.run()
    finally:
        driver.kill()
        reader.join()
    assert driver.returncode == 0, f"TFOS_STORM_SEED={seed}: {stopper.stops}\n{output[1][-5000:]}"
    with open(folder / "fed.json", encoding="utf-8") as file:
        fed = Fed(json.load(file))
    return fed, Records(folder / "records"), f"TFOS_STORM_SEED={seed}: {stopper.stops} {fed.log}"


@pytest.mark.long
@pytest.mark.parametrize("number", range(RUNS))
def test_no_epoch_is_lost_when_processes_are_stopped(tmp_path, number):
    """Programs, nodes, the coordinator and the whole driver stand still, for less and for more than the lease."""
    fed, records, told = run_stopped(tmp_path, SEED + number, epochs=6, most=12)
    print(told)
    fed.check(records, 6, STOPPED_ROWS, STOPPED_BATCH, told)


def linger(rows):
    """Takes its time, once for a partition, but not longer than its executor lives."""
    parent, end = os.getppid(), time.monotonic() + 100
    while time.monotonic() < end:
        if os.getppid() != parent or parent == 1:
            os._exit(1)
        time.sleep(0.1)


def test_job_that_is_submitted_too_late_is_cancelled(sc, tmp_path, monkeypatch):
    """The cluster starts again after the driver has got its ticket, and before it has submitted its job."""
    cluster = start(sc, tmp_path / "records", restarts=1)
    session = cluster._session
    rdd_job = _feeding._rdd_job

    def late_job(rdd):
        def job(ticket):
            if session.attempt == 0:
                os.kill(min(victims("program")), signal.SIGKILL)
                wait_for(lambda: session.attempt == 1, 60)
                time.sleep(1)  # the first attempt to cancel it is over
                rdd.foreachPartition(linger)
            rdd_job(rdd)(ticket)

        return job

    monkeypatch.setattr(_feeding, "_rdd_job", late_job)
    begin = time.monotonic()
    try:
        cluster.train(data_of(sc, "RDD"), 1, feed_timeout=LIMIT_S)
        assert time.monotonic() - begin < 90
        cluster.shutdown(timeout=60)
    finally:
        session.stop("the test is over")
    assert Records(tmp_path / "records").rows(1, 0) == Counter(range(ROWS))


def test_job_that_has_ended_well_is_no_proof(sc, tmp_path, monkeypatch):
    """Tasks may be sent home with a good word by a coordinator that the driver does not hear any more."""
    jobs = []
    rdd_job = _feeding._rdd_job

    def send_home(rdd):
        def job(ticket):
            jobs.append(ticket)
            if len(jobs) == 1:
                os.kill(min(marked_processes("tfos coordinator")), signal.SIGKILL)
            elif len(jobs) == 2:
                rdd_job(rdd)(ticket)

        return job

    monkeypatch.setattr(_feeding, "_rdd_job", send_home)
    cluster = start(sc, tmp_path / "records", restarts=1)
    try:
        cluster.train(data_of(sc, "RDD"), 1, feed_timeout=LIMIT_S)
        with pytest.raises(TFCluster.TFClusterError, match="6 of 6 partitions, the first of them 0, have not come"):
            cluster.train(data_of(sc, "RDD"), 1, feed_timeout=LIMIT_S)
        with pytest.raises(TFCluster.TFClusterError, match="have not come"):
            cluster.shutdown(timeout=60)
    finally:
        cluster._session.stop("the test is over")
    assert len(jobs) == 3
    assert Records(tmp_path / "records").rows(1, 0) == Counter(range(ROWS))


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("program", "worker:[01] on .* was killed by a signal"),
        ("node", "worker:[01] on .* disappeared"),
        ("executor", "worker:[01] on .* (lost its executor|disappeared)"),
    ],
)
def test_consumer_that_dies_fails_the_feed(sc, tmp_path, kind, words):
    """Without restarts: the driver is told who died, and how, and nobody waits for anything."""
    folder = tmp_path / "records"
    cluster = start(sc, folder)
    killed = []

    def kill_when_it_has_rows():
        try:
            wait_for(lambda: len(os.listdir(folder)) == 2 and os.path.getsize(folder / "0-0") > 0, 60)
            victim = wait_for(lambda: min(victims(kind), default=0), 20)
            killed.append(time.monotonic())
            os.kill(victim, signal.SIGKILL)
        except BaseException:
            cluster._session.stop("nothing was killed")  # it would be fed for ever
            raise

    thread = threading.Thread(target=kill_when_it_has_rows)
    thread.start()
    try:
        with pytest.raises(TFCluster.TFClusterError, match=words):
            cluster.train(data_of(sc, "RDD"), None, feed_timeout=LIMIT_S)
        took = time.monotonic() - killed[0]
        assert took < 20, f"{took:.1f} s"
        with pytest.raises(TFCluster.TFClusterError, match=words):
            cluster.shutdown(timeout=20)
    finally:
        thread.join()
        cluster._session.stop("the test is over")
