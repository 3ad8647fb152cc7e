"""The command `tfos node` under a real driver and a real coordinator, without Spark: the driver starts nodes itself."""

import contextlib
import glob
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from tensorflowonspark import _native
from test_cli import find_command

TFOS = find_command()
SECONDS = 180
MARK = "TFOS_TEST_NODE_MARK"

# A child that ignores SIGTERM, with a child, one in a session of its own, and one whose parent is gone.
FAMILY = [
    "sh",
    "-c",
    "trap '' TERM; sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000; true' &) ; echo ready; sleep 1000; true",
]


def marked(mark):
    """The processes that have `mark` in their environment, without this one."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            if f"{MARK}={mark}".encode() in file.read().split(b"\0"):
                found.append(int(path.split("/")[2]))
    return found


def wait_until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.02)


@pytest.fixture
def mark(request, monkeypatch, tmp_path):
    """A mark in the environment of all that a test starts; none of it may be left."""
    text = f"{request.node.name}-{os.getpid()}"
    monkeypatch.setenv(MARK, text)
    monkeypatch.chdir(tmp_path)
    yield text
    monkeypatch.delenv(MARK)
    wait_until(lambda: not set(marked(text)) - {os.getpid()}, 10, "the end of every process")


@contextlib.contextmanager
def cluster_of(nodes, program, **options):
    cluster = _native.Cluster(nodes, program, b"", "{}", host="127.0.0.1", command=TFOS, **options)
    try:
        for index in range(nodes):
            cluster.spawn(index)
        yield cluster
    finally:
        cluster.close()


def events_of(cluster, until):
    """Events as (kind, node, text), up to and with the first of the kind `until`."""
    deadline = time.monotonic() + SECONDS
    seen = []
    while time.monotonic() < deadline:
        event = cluster.next(200)
        if event is not None and event[0] != "none":
            seen.append((event[0], event[5], event[9]))
            if event[0] == until:
                return seen
    raise AssertionError(f"no event '{until}' within {SECONDS} s, but {seen}")


def logs_of(events):
    logs = {}
    for kind, node, text in events:
        if kind == "log":
            logs[node] = logs.get(node, "") + text
    return logs


def test_two_nodes(mark):
    program = [sys.executable, "-c", "import os; print(os.environ['TF_CONFIG']); print(os.environ['TFOS_CONTEXT'])"]
    with cluster_of(2, program) as cluster:
        cluster.finish(0)
        logs = logs_of(events_of(cluster, "over"))
    specs = set()
    for task in range(2):
        config, context = map(json.loads, logs[f"worker:{task}"].splitlines())
        assert config["task"] == {"type": "worker", "index": task}
        assert context["node"]["spec"] == config["cluster"]
        assert context["node"]["role"] == "worker" and context["node"]["task"] == task
        specs.add(json.dumps(config["cluster"]))
        host, port = config["cluster"]["worker"][task].rsplit(":", 1)
        assert context["node"]["port"] == int(port)
        with open(context["node"]["log"]) as file:
            assert file.read() == logs[f"worker:{task}"]
    assert len(specs) == 1


def test_tensorflow_gets_the_ports_that_were_kept(mark):
    program = [
        sys.executable,
        "-c",
        textwrap.dedent("""
            import json, os
            import tensorflow as tf
            config = json.loads(os.environ["TF_CONFIG"])
            task = config["task"]
            server = tf.distribute.Server(config["cluster"], job_name=task["type"], task_index=task["index"])
            print("listens at", server.target, flush=True)
        """),
    ]
    with cluster_of(2, program, environment=["TF_CPP_MIN_LOG_LEVEL=3"]) as cluster:
        cluster.finish(0)
        logs = logs_of(events_of(cluster, "over"))
    assert all("listens at grpc://" in logs[f"worker:{task}"] for task in range(2)), logs


def test_a_native_ps(mark):
    program = [sys.executable, "-c", "import time; time.sleep(1); print('worked')"]
    with cluster_of(2, program, ps=1, native_ps=True, environment=["TF_CPP_MIN_LOG_LEVEL=3"]) as cluster:
        seen = []
        while "serving ps:0" not in logs_of(seen).get("ps:0", ""):
            seen += events_of(cluster, "log")
        cluster.finish(0)
        seen += events_of(cluster, "over")
    assert "worked" in logs_of(seen)["worker:0"]
    assert not [event for event in seen if event[0] == "failed"]


def test_a_failure_stops_the_others(mark):
    script = """
        if echo "$TF_CONFIG" | grep -q '"index":1'; then
            sleep 0.5
            printf '{"event": "raised", "text": "Traceback\\\\nValueError: no such column"}\\n' >&4
            exit 1
        fi
        sleep 1000"""
    with cluster_of(3, ["sh", "-c", script]) as cluster:
        begun = time.monotonic()
        failed = events_of(cluster, "failed")[-1]
        events_of(cluster, "over")
        assert time.monotonic() - begun < 10
    assert failed[1] == "worker:1"
    assert "ValueError: no such column" in failed[2]


def test_the_coordinator_is_killed(mark):
    with cluster_of(2, FAMILY) as cluster:
        events_of(cluster, "ready")
        wait_until(lambda: len(marked(mark)) >= 13, 20, "the start of all processes")
        (coordinator,) = [pid for pid in marked(mark) if b"coordinator" in arguments_of(pid)]
        os.kill(coordinator, signal.SIGKILL)
        wait_until(lambda: not set(marked(mark)) - {os.getpid()}, 5, "the end of every process")
        with pytest.raises(_native.Error):
            events_of(cluster, "over")


def arguments_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


def test_the_driver_is_killed(mark):
    script = f"""
        import sys
        from tensorflowonspark import _native
        cluster = _native.Cluster(2, {FAMILY!r}, b"", "{{}}", host="127.0.0.1", command={TFOS!r})
        cluster.spawn(0)
        cluster.spawn(1)
        while True:
            cluster.next(1000)
    """
    driver = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)])
    try:
        wait_until(lambda: len(marked(mark)) >= 14, 30, "the start of all processes")
    finally:
        driver.kill()
        driver.wait()
    wait_until(lambda: not set(marked(mark)) - {os.getpid()}, 5, "the end of every process")


def test_help():
    text = subprocess.run([TFOS, "node", "--help"], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    assert "Started by a Spark task" in text
    assert "reads its orders from stdin" in text
    assert "4  the coordinator does not want this node" in text
    listed = subprocess.run([TFOS, "--help"], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    assert "node" in listed.split("Started by the others:")[1].split("Options:")[0]


@pytest.mark.parametrize(
    "orders, text",
    [
        (b"", "stdin ended after 0 of 4 bytes of the orders: the Spark task is gone"),
        (b"\x05\0\0\0ab", "stdin ended after 2 of 5 bytes"),
        (b"\0\0\0\0", "a message does not begin with its type"),
        (b"\xff\xff\xff\xff", "announced a message of 4294967295 bytes"),
        (b"\x03\0\0\0abc", "the orders on stdin are not understood"),
        (b"\x02\0\0\0\x08\x05", "expected the message TICKET, found ALIVE"),
        (b"\x02\0\0\0\x08\x19", "a message TICKET lacks its field KEY"),
    ],
)
def test_orders_that_are_nonsense(orders, text):
    result = subprocess.run([TFOS, "node"], input=orders, capture_output=True, timeout=SECONDS)
    assert result.returncode == 2
    assert text in result.stderr.decode()
    assert result.stderr.count(b"\n") == 1
    assert result.stdout == b""


def test_stdin_that_is_no_pipe():
    with open(__file__) as file:
        for stdin in (subprocess.DEVNULL, file):
            result = subprocess.run([TFOS, "node"], stdin=stdin, capture_output=True, timeout=SECONDS)
            assert result.returncode == 2
            assert b"is started by Spark tasks and reads its orders from a pipe on stdin" in result.stderr
    result = subprocess.run([TFOS, "node", "x"], capture_output=True, timeout=SECONDS, stdin=subprocess.PIPE)
    assert result.returncode == 2
    assert b"takes no arguments" in result.stderr
