"""TensorFlow itself on the nodes: servers, asynchronous training with native servers, exports, TensorBoard."""

import importlib.util
import json
import os
import subprocess
import sys
import time
import urllib.request

import pytest
import spark_tools
from pyspark.sql import SparkSession
from spark_tools import Answers, marked_processes, node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster, TFParallel
from tensorflowonspark.pipeline import TFModel

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    with spark_context("local[3]", tmp_path_factory.mktemp("spark")) as context:
        yield context
    wait_for(lambda: not node_processes(), 10)


@pytest.fixture
def answers(tmp_path):
    folder = tmp_path / "answers"
    folder.mkdir()
    return Answers(folder)


def test_server_of_each_node_takes_the_port_that_was_kept(sc, answers):
    def look(args, ctx):
        cluster_spec, server = ctx.start_cluster_server()
        assert cluster_spec.as_dict() == ctx.cluster_spec
        own = ctx.cluster_spec[ctx.job_name][ctx.task_index]
        return [server.target.rpartition(":")[2] == own.rpartition(":")[2], "tensorflow" in __import__("sys").modules]

    TFCluster.run(sc, answers.program(look, count=2), None, 2, 0, release_port=False).shutdown(timeout=120)
    assert answers.read() == [[True, True]] * 2


def test_asynchronous_training_where_only_the_chief_is_python(sc, answers, capfd):
    def look(args, ctx):
        import tensorflow as tf

        resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
        strategy = tf.distribute.ParameterServerStrategy(resolver)
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            weights = tf.Variable(tf.zeros([3, 1]))
        truth = tf.constant([[1.0], [-2.0], [3.0]])

        @tf.function
        def step():
            def replica_step():
                inputs = tf.random.normal([64, 3])
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((inputs @ weights - inputs @ truth) ** 2)
                weights.assign_sub(0.05 * tape.gradient(loss, weights))
                return loss

            return strategy.run(replica_step)

        for _ in range(100):
            coordinator.schedule(step)
        coordinator.join()
        return [ctx.job_name, weights.device, weights.numpy().ravel().tolist()]

    cluster = TFCluster.run(sc, answers.program(look), None, 3, 1, master_node="chief", native_ps=True)
    cluster.shutdown(timeout=120)
    [(role, device, weights)] = answers.read()
    assert role == "chief" and "/job:ps/" in device
    assert weights == pytest.approx([1, -2, 3], abs=0.1)


def test_exports_of_the_chief_alone(sc, tmp_path):
    folder = str(tmp_path / "model")

    def main(args, ctx):
        import tensorflow as tf

        from tensorflowonspark import compat

        model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
        compat.export_saved_model(model, args, ctx.job_name == "chief")
        if ctx.job_name == "chief":
            ctx.export_saved_model(model, args + "-again")
        options = tf.data.Options()
        compat.disable_auto_shard(options)
        assert options.experimental_distribute.auto_shard_policy == tf.data.experimental.AutoShardPolicy.OFF
        assert compat.is_gpu_available() == bool(tf.config.list_physical_devices("GPU"))

    TFCluster.run(sc, main, folder, 1, 0, master_node="chief").shutdown(timeout=120)
    for path in (folder, folder + "-again"):
        assert os.path.isfile(os.path.join(path, "saved_model.pb"))


def test_models_of_tf_keras_are_saved_as_programs_know_them(sc, answers, tmp_path):
    """The signature has the names of layers, by which programs ask for outputs, and the model can be loaded again; and
    rows can be put through it by these names."""
    pytest.importorskip("tf_keras")
    folder = str(tmp_path / "model")

    def look(args, ctx):
        import numpy as np
        import tensorflow as tf
        import tf_keras

        from tensorflowonspark import compat

        layers = tf_keras.layers
        first = layers.Conv2D(4, 3, activation="relu", input_shape=[28, 28, 1])
        model = tf_keras.Sequential([first, layers.Flatten(), layers.Dense(8), layers.Dense(10, activation="softmax")])
        model.compile("sgd", "sparse_categorical_crossentropy")
        images = np.random.default_rng(1).random([5, 28, 28, 1], dtype=np.float32)
        model.fit(images, np.arange(5), verbose=0)
        compat.export_saved_model(model, args, ctx.job_name == "chief")
        ctx.export_saved_model(model, args + "-again")
        expected = model.predict(images, verbose=0)
        found = []
        for path in (args, args + "-again"):
            serve = tf.saved_model.load(path).signatures["serving_default"]
            served = serve(conv2d_input=tf.constant(images))["dense_1"]
            again = tf_keras.models.load_model(path).predict(images, verbose=0)
            found += [np.allclose(served, expected, atol=1e-5), np.allclose(again, expected, atol=1e-5)]
        return [found, images.reshape(5, -1).tolist(), expected.tolist()]

    TFCluster.run(sc, answers.program(look), folder, 1, 0, master_node="chief").shutdown(timeout=120)
    [(found, images, expected)] = answers.read()
    assert found == [True] * 4
    rows = SparkSession(sc).createDataFrame(list(enumerate(images)), "id long, image array<float>")
    model = TFModel({}).setExportDir(folder).setInputMapping({"image": "conv2d_input"})
    predicted = model.setOutputMapping({"dense_1": "digit"}).setKeepCols(["id"]).transform(rows).collect()
    by_id = [row["digit"] for row in sorted(predicted, key=lambda row: row["id"])]
    assert by_id == [pytest.approx(digit, abs=1e-5) for digit in expected]


# A program that has used TensorFlow, and notes when its exit handlers were called.
USES_TENSORFLOW = """
import atexit
import sys
import time

@atexit.register
def note():
    with open(sys.argv[1], "w") as file:
        file.write(str(time.time()))

import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.zeros([64, 2]), np.zeros([64, 1]), verbose=0)
print("has used TensorFlow")
"""


def test_program_that_has_used_tensorflow_ends_at_once(sc, tmp_path, capfd):
    """The end of the interpreter takes TensorFlow apart; that of a node is over before that would be, with shutdown."""
    text = USES_TENSORFLOW

    def main(args, ctx):
        import builtins

        builtins.of_the_program = {}  # stays until the end, as the modules of a program do
        exec(text, builtins.of_the_program)

    alone, node = str(tmp_path / "alone"), str(tmp_path / "node")
    subprocess.run([sys.executable, "-c", text, alone], check=True, capture_output=True)
    ends = [time.time()]
    TFCluster.run(sc, main, ["program", node], 1, 0).shutdown(timeout=120)
    ends.append(time.time())
    assert "] has used TensorFlow\n" in capfd.readouterr().err
    interpreter, cluster = (end - float(open(path).read()) for end, path in zip(ends, (alone, node)))
    assert cluster < interpreter


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="TensorBoard is not installed here")
def test_tensorboard_beside_the_chief(sc, tmp_path):
    flag = tmp_path / "flag"
    logs = tmp_path / "logs"
    logs.mkdir()

    def main(args, ctx):
        import os
        import time

        while not os.path.exists(args):
            time.sleep(0.1)

    cluster = TFCluster.run(sc, main, str(flag), 2, 0, tensorboard=True, log_dir=str(logs), master_node="chief")
    url = cluster.tensorboard_url()
    with urllib.request.urlopen(url) as page:
        assert b"<title>TensorBoard</title>" in page.read()
    with urllib.request.urlopen(f"{url.rstrip('/')}/data/environment") as answer:
        assert json.load(answer)["data_location"] == str(logs)
    chief, worker = cluster.cluster_info
    assert chief["job_name"] == "chief" and f":{chief['tb_port']}" in url
    assert worker["tb_port"] == 0
    assert len(marked_processes("tensorboard.main")) == 1
    flag.write_text("")
    cluster.shutdown(timeout=60)
    assert not marked_processes("tensorboard.main")


def test_inference_in_parallel(sc, answers, tmp_path):
    """As release 2.2.5 does it without a cluster: each program loads the model and takes its share of what there is."""
    import tensorflow as tf

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def predict(x):
        return {"y": 2 * x}

    tf.saved_model.save(tf.Module(), str(tmp_path / "model"), signatures=predict)

    def main(args, ctx):
        import tensorflow as tf

        model = tf.saved_model.load(args).signatures["serving_default"]
        mine = tf.range(10.0)[ctx.executor_id :: ctx.num_workers]
        return model(x=mine)["y"].numpy().tolist()

    TFParallel.run(sc, answers.program(main), str(tmp_path / "model"), 2)
    assert sorted(sum(answers.read(), [])) == list(range(0, 20, 2))
