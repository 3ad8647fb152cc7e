"""MirroredStrategyRunner: a training function in several Spark tasks, as spark-tensorflow-distributor runs it."""

import functools
import os
import time

import numpy as np
import pytest
from spark_tools import SPARK_WARNINGS, node_processes, spark_context, wait_for
from tensorflowonspark import MirroredStrategyRunner, TFCluster, _runner

pytestmark = [pytest.mark.filterwarnings(each) for each in SPARK_WARNINGS]


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    with spark_context("local-cluster[2,1,1024]", tmp_path_factory.mktemp("spark"), 2) as context:
        yield context


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    wait_for(lambda: not node_processes(), 20)


def test_runs_once_in_each_task_and_returns_what_the_first_returns(sc):
    def train(base, factor=1):
        import json
        import os

        import numpy as np
        from tensorflowonspark import collective

        config = json.loads(os.environ["TF_CONFIG"])
        index = config["task"]["index"]
        total = collective.allreduce(np.array([base + index * factor]), "sum")
        workers = len(config["cluster"]["worker"])
        return [index, collective.size(), total[0], workers, os.environ["CUDA_VISIBLE_DEVICES"]]

    runner = MirroredStrategyRunner(num_slots=2, use_gpu=False, use_custom_strategy=True)
    assert runner.get_num_tasks() == 2
    assert runner.run(train, base=10, factor=5) == [0, 2, 25, 2, ""]
    runner = MirroredStrategyRunner(num_slots=1, use_gpu=False, use_custom_strategy=True)
    assert runner.run(train, base=1)[1:3] == [1, 1]


def test_errors_reach_the_caller(sc):
    def train(text):
        from tensorflowonspark import collective

        if collective.rank() == 1:
            raise ValueError(text)
        collective.barrier()

    runner = MirroredStrategyRunner(num_slots=2, use_gpu=False, use_custom_strategy=True)
    with pytest.raises(TFCluster.TFClusterError, match="(?s)worker:1 on .*raise ValueError.*ValueError: no such luck"):
        runner.run(train, text="no such luck")
    begun = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError, match="(?s)3.*spark.master is local-cluster"):
        MirroredStrategyRunner(num_slots=3, use_gpu=False).run(train)
    assert time.monotonic() - begun < 15
    with pytest.raises(TFCluster.TFClusterError, match="what it returned is lost: a _thread.lock cannot be pickled"):
        runner.run(lambda: __import__("threading").Lock())


def test_arguments(sc):
    with pytest.raises(ValueError, match="num_slots cannot be less than 1, found 0"):
        MirroredStrategyRunner(num_slots=0)
    with pytest.raises(TypeError, match="num_slots is a whole number"):
        MirroredStrategyRunner(num_slots="2")
    with pytest.raises(ValueError, match=r"spark.task.resource.tpu.amount is not set.*use_gpu=False"):
        MirroredStrategyRunner(num_slots=2, gpu_resource_name="tpu")
    with pytest.raises(TypeError, match="train_fn is a function, found 7"):
        MirroredStrategyRunner(num_slots=1, use_gpu=False).run(7)
    with pytest.raises(TypeError):
        MirroredStrategyRunner(2)


def test_local_mode_needs_no_task(sc, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    seen = []

    def train(value):
        seen.append((os.getpid(), os.environ["CUDA_VISIBLE_DEVICES"]))
        return value

    value = object()
    runner = MirroredStrategyRunner(num_slots=1, local_mode=True, use_gpu=False, use_custom_strategy=True)
    assert runner.run(train, value=value) is value
    assert seen == [(os.getpid(), "")] and os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    with pytest.raises(ValueError, match="one process: num_slots is 1 then, found 2"):
        MirroredStrategyRunner(num_slots=2, local_mode=True, use_gpu=False).run(train, value=1)
    with pytest.raises(ValueError, match="1 GPUs, and Spark gave 0 to the driver. Set spark.driver.resource.gpu"):
        MirroredStrategyRunner(num_slots=1, local_mode=True).run(train, value=1)


def test_what_a_training_function_is_of():
    """What is seen of a function before it is run: whether it is one of tf_keras, or asks for its strategy."""

    def inner():
        def build():
            import tf_keras as keras

            return keras.Sequential()

        return build()

    def modern():
        import keras

        return keras.Sequential()

    assert "tf_keras" in _runner._names_of(functools.partial(inner, 1))
    assert "tf_keras" not in _runner._names_of(modern)
    by_alias = eval("lambda: Made()", {"Made": type("Made", (), {"__module__": "tf_keras.src.models"})})
    assert "tf_keras" in _runner._names_of(by_alias)
    program = {"kwargs": {}, "custom": False, "private": False}
    with pytest.raises(ValueError, match="set use_custom_strategy=True"):
        _runner._train(program | {"train_fn": lambda: modern.distribute.get_strategy()})
    with pytest.raises(RuntimeError, match="spark.ssl.enabled is true.*in the clear"):
        _runner._train(program | {"train_fn": inner, "private": True})
    with pytest.raises(RuntimeError, match="spark.ssl.enabled is true"):
        _runner._train(program | {"train_fn": modern, "custom": True, "private": True})


# ---- TensorFlow ----


def as_of_one_process(shares, epochs, rate):
    """Weights of a linear model after steps of all workers: the reference."""
    weights = np.zeros(2)
    for _ in range(epochs):
        for batches in zip(*shares):
            x, y = (np.concatenate(part) for part in zip(*batches))
            weights -= rate * 2 * x.T @ (x @ weights - y) / len(x)
    return weights


def rows_of(worker):
    """Four batches of different rows for each worker."""
    random = np.random.default_rng(worker)
    x = random.normal(size=(4, 8, 2))
    return [(each, each @ np.array([2.0, -3.0]) + 1) for each in x]


def test_keras_3_trains_together(sc):
    """The training function is one for a single machine, and the weights are those of all rows."""
    pytest.importorskip("keras")

    def train(shares, epochs):
        import keras
        import numpy as np
        import tensorflow as tf
        from tensorflowonspark import collective

        rows = shares[collective.rank()]
        data = tf.data.Dataset.from_generator(
            lambda: iter(rows), output_signature=(tf.TensorSpec([8, 2], tf.float64), tf.TensorSpec([8], tf.float64))
        )
        model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        history = model.fit(data, epochs=epochs, verbose=0).history
        weights = model.get_weights()[0].ravel()
        return weights.tolist(), collective.allgather(weights[np.newaxis]).tolist(), history["loss"]

    runner = MirroredStrategyRunner(num_slots=2, use_gpu=False)
    shares = [rows_of(0), rows_of(1)]
    weights, of_all, loss = runner.run(train, shares=shares, epochs=3)
    assert of_all[0] == of_all[1] == weights
    assert weights == pytest.approx(as_of_one_process(shares, 3, 0.1), rel=1e-4)
    assert loss == sorted(loss, reverse=True) and len(loss) == 3


@pytest.mark.long
def test_tf_keras_trains_under_the_strategy_of_tensorflow(sc):
    """As in spark-tensorflow-distributor: variables are mirrored over TF_CONFIG."""
    pytest.importorskip("tf_keras")

    def train():
        import json
        import os

        import numpy as np
        import tensorflow as tf
        import tf_keras as keras

        strategy = tf.distribute.get_strategy()
        model = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=[1])])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        target = 1.0 + json.loads(os.environ["TF_CONFIG"])["task"]["index"]  # 1 and 2: together 1.5
        data = tf.data.Dataset.from_tensors((np.ones([4, 1]), np.full([4, 1], target))).repeat(8)
        options = tf.data.Options()
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        model.fit(data.with_options(options), epochs=5, steps_per_epoch=8, verbose=0)
        return strategy.num_replicas_in_sync, float(model.get_weights()[0][0, 0])

    replicas, weight = MirroredStrategyRunner(num_slots=2, use_gpu=False).run(train)
    assert replicas == 2
    assert weight == pytest.approx(1.5, abs=0.01)
