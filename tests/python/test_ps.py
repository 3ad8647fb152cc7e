"""The command `tfos ps`: TensorFlow servers without Python, with the real TensorFlow on both sides."""

import base64
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from conftest import VECTORS
from test_cli import find_command

import ops

TFOS = find_command()
SECONDS = 60
UP = re.compile(r"^tfos: serving (\w+):(\d+) on (\S+) \(TensorFlow (\d+\.\d+\.\d+\S*)\)$", re.MULTILINE)

# The chief: the one task that is Python. It trains a line until the loss has fallen, each step on a worker.
CHIEF = """
import json, sys
import tensorflow as tf

cluster = json.loads(sys.argv[1])
double = tf.load_op_library(sys.argv[2]).tfos_test_double
resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
    tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc")
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weights = tf.Variable(tf.zeros([3, 1]))
    steps = tf.Variable(0, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
truth = tf.constant([[1.0], [-2.0], [3.0]])

def replica_step():
    inputs = tf.random.normal([64, 3])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((inputs @ weights - inputs @ truth) ** 2)
    weights.assign_sub(0.05 * tape.gradient(loss, weights))
    tf.print("a step of", steps.assign_add(1), output_stream=sys.stderr)
    return loss

@tf.function
def step():
    return strategy.run(replica_step)

losses = [coordinator.schedule(step) for _ in range(100)]
coordinator.join()
found = {"losses": coordinator.fetch(losses), "device": weights.device, "steps": int(steps.numpy())}
found["weights"] = weights.numpy().ravel().tolist()
found["doubled"] = coordinator.schedule(tf.function(lambda: double(tf.constant(21)))).fetch()
print(json.dumps(found, default=float))
"""

def reserve_port():
    """A port that the system hands to nobody for a minute, and that a server may take at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()
    return port


def cluster_of(**counts):
    return {job: [f"localhost:{reserve_port()}" for _ in range(count)] for job, count in counts.items()}


def environment(**more):
    """Without what would tell `tfos ps` where it is."""
    return {name: text for name, text in os.environ.items() if name not in ("TF_CONFIG", "TFOS_TENSORFLOW_LIB")} | more


def options_of(cluster, job, task):
    return ["--cluster-spec", json.dumps(cluster), "--job", job, "--task", str(task), "--python", sys.executable]


class Server:
    """A process `tfos ps` whose stderr goes to a file."""

    def __init__(self, folder, *arguments, **variables):
        self.path = os.path.join(folder, f"stderr-{len(os.listdir(folder))}")
        with open(self.path, "wb") as stderr:
            self.process = subprocess.Popen(
                [TFOS, "ps", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment(**variables),
            )

    def text(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def wait_until_up(self):
        """What it says when it is up: job, task, address and version."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            found = UP.search(self.text())
            if found:
                return found.groups()
            time.sleep(0.01)
        raise AssertionError(f"no server: exit code {self.process.poll()}\n{self.text()}")

    def stop(self, number=signal.SIGTERM):
        """Ends it, and says with which code and in how many seconds."""
        before = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(SECONDS)
        return code, time.monotonic() - before

    def close(self):
        self.process.kill()
        self.process.communicate(timeout=SECONDS)


@pytest.fixture
def start(tmp_path):
    """Starts servers, and leaves none behind."""
    with contextlib.ExitStack() as stack:

        def start_one(*arguments, **variables):
            server = Server(tmp_path, *arguments, **variables)
            stack.callback(server.close)
            return server

        yield start_one


def fails(code, *arguments, **variables):
    """The last line that a failing `tfos ps` prints, and nothing on stdout."""
    done = subprocess.run(
        [TFOS, "ps", *arguments], capture_output=True, text=True, timeout=SECONDS, env=environment(**variables)
    )
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    return done.stderr.rstrip("\n").split("\n")[-1]


def run_chief(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", CHIEF, *arguments],
        capture_output=True,
        text=True,
        timeout=5 * SECONDS,
        env=environment(GRPC_FAIL_FAST="use_caller"),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().split("\n")[-1])


def check_training(found, workers):
    assert found["steps"] == 100
    assert "/job:ps/" in found["device"]
    first, last = sum(found["losses"][:5]) / 5, sum(found["losses"][-5:]) / 5
    assert last < first / 100, found["losses"]
    assert found["weights"] == pytest.approx([1, -2, 3], abs=0.1)
    # The steps ran in the workers, which have no Python.
    assert sum(worker.text().count("a step of") for worker in workers) == 100


@pytest.fixture(scope="module")
def op_library(tmp_path_factory):
    return ops.build(tmp_path_factory.mktemp("ops"))


def test_asynchronous_training(start, op_library):
    import tensorflow as tf

    cluster = cluster_of(ps=1, worker=1, chief=1)
    server = start(*options_of(cluster, "ps", 0))
    worker = start(*options_of(cluster, "worker", 0), "--op-library", op_library)
    assert server.wait_until_up() == ("ps", "0", cluster["ps"][0], tf.__version__)
    assert worker.wait_until_up() == ("worker", "0", cluster["worker"][0], tf.__version__)
    found = run_chief(json.dumps(cluster), op_library)
    check_training(found, [worker])
    assert found["doubled"] == 42
    for one in (server, worker):
        code, seconds = one.stop()
        assert code == 0 and seconds < 1
        assert one.process.stdout.read() == b""


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_signals(start, number, code):
    server = start(*options_of(cluster_of(ps=1), "ps", 0))
    server.wait_until_up()
    found, seconds = server.stop(number)
    assert found == code and seconds < 1


def test_starts_at_once(start):
    before = time.monotonic()
    start(*options_of(cluster_of(ps=1), "ps", 0)).wait_until_up()
    # A third of a second on a quiet machine; `import tensorflow` takes ten times that.
    assert time.monotonic() - before < 5


def test_tf_config(start, tmp_path):
    cluster = cluster_of(ps=2)
    config = {"cluster": cluster, "task": {"type": "ps", "index": 1}}
    server = start("--python", sys.executable, TF_CONFIG=json.dumps(config))
    assert server.wait_until_up()[:3] == ("ps", "1", cluster["ps"][1])
    # Options come first, and may be in a file.
    (tmp_path / "cluster.json").write_text(json.dumps(cluster))
    spec = f"@{tmp_path}/cluster.json"
    server = start("--cluster-spec", spec, "--task", "0", TF_CONFIG=json.dumps(config), PYSPARK_PYTHON=sys.executable)
    assert server.wait_until_up()[:3] == ("ps", "0", cluster["ps"][0])


def test_port_in_use():
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        message = fails(3, *options_of({"ps": [f"localhost:{port}"]}, "ps", 0))
    assert message.startswith(f"tfos: ps:0 cannot serve on localhost:{port}: another process has port {port}")
    assert message.endswith(": Address already in use")


@pytest.mark.parametrize(
    "spec, message",
    [
        ("nonsense", "tfos: --cluster-spec: expected a JSON object {…}, found 'nonsense'"),
        ("@/no/such/file", "tfos: /no/such/file: "),
        ('{"ps": ["localhost"]}', 'tfos: --cluster-spec: ps:0: expected an address "host:port"'),
        ('{"worker": ["localhost:1"]}', 'tfos: the cluster has no job "ps": expected one of worker'),
        ('{"ps": ["a:1", "a:1"]}', "tfos: --cluster-spec: expected an address of its own for each task"),
    ],
)
def test_bad_specs(spec, message):
    found = fails(3 if spec.startswith("@") else 2, "--cluster-spec", spec, "--job", "ps", "--task", "0")
    assert found.startswith(message)


def test_what_is_missing():
    spec = ["--cluster-spec", '{"ps": ["a:1"]}']
    assert "--cluster-spec is missing" in fails(2)
    assert "--job is missing" in fails(2, *spec)
    assert "--task is missing" in fails(2, *spec, "--job", "ps")
    assert "from 0 to 0 in this cluster, found 1" in fails(2, *spec, "--job", "ps", "--task", "1")
    assert "TF_CONFIG: expected a JSON object" in fails(2, TF_CONFIG="ps")
    assert "TF_CONFIG: cluster: ps: expected a list" in fails(2, TF_CONFIG='{"cluster": {"ps": 1}}')
    assert "takes options only, found 'now'" in fails(2, "now")


def test_no_tensorflow(tmp_path):
    task = ["--cluster-spec", '{"ps": ["a:1"]}', "--job", "ps", "--task", "0"]
    assert "found neither in the folder" in fails(3, *task, "--tensorflow", tmp_path)
    (tmp_path / "libtensorflow_cc.so.2").write_text("no library")
    assert "cannot be loaded from" in fails(3, *task, "--tensorflow", tmp_path)
    assert "found no program '/no/python'" in fails(3, *task, "--python", "/no/python")
    ops = fails(3, *options_of({"ps": ["a:1"]}, "ps", 0), "--op-library", "/no/ops.so")
    assert ops.startswith("tfos: /no/ops.so: TensorFlow ")


def test_interpreter_in_an_unusual_place(start, tmp_path):
    """A wrapper script, as pyenv makes them: its Python is asked where TensorFlow is."""
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o755)
    server = start(*options_of(cluster_of(ps=1), "ps", 0)[:-1], str(wrapper))
    server.wait_until_up()


def test_server_def_is_what_tensorflow_makes():
    """The vectors that the C encoder is held against, byte by byte, say what TensorFlow's own code says."""
    import tensorflow as tf
    from tensorflow.python.training import server_lib

    with open(os.path.join(VECTORS, "tensorflow", "server_def.json"), encoding="ascii") as file:
        vectors = json.load(file)
    assert len(vectors) >= 5
    for vector in vectors:
        threads = vector["inter_op_threads"]
        config = tf.compat.v1.ConfigProto(inter_op_parallelism_threads=threads) if threads else None
        expected = server_lib._make_server_def(vector["cluster"], vector["job"], vector["task"], "grpc", config)
        assert tf.train.ServerDef.FromString(base64.b64decode(vector["message"])) == expected


# ---- where TensorFlow is


def run_tensorflow(*arguments, code=0):
    command = [TFOS, "tensorflow", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env=environment())
    assert result.returncode == code, result.stderr
    return result


def test_tensorflow_is_found(tmp_path):
    path = run_tensorflow("--python", sys.executable).stdout
    assert path.endswith("/tensorflow/libtensorflow_cc.so.2\n") and os.path.isfile(path.strip())
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    result = run_tensorflow("--python", tmp_path / "bare" / "bin" / "python", code=3)
    assert "TensorFlow was not found" in result.stderr and str(tmp_path / "bare") in result.stderr
    assert result.stdout == ""
    assert "found no program '/no/python'" in run_tensorflow("--python", "/no/python", code=3).stderr
    assert "takes options only" in run_tensorflow("here", code=2).stderr
