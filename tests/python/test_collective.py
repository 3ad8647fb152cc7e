"""What workers compute together, from Python: NumPy arrays, tensors, functions, gradients, and what they are told when
they do not agree. Each worker is a process on a node of a real cluster."""

import json
from importlib.util import find_spec

import pytest
from feed_tools import FedCluster

from tensorflowonspark import collective

WORKERS = 3

PROGRAM = """
import numpy as np
from tensorflowonspark import collective
rank, size = collective.rank(), collective.size()

def tell(value):
    with open({path!r} + f".{{rank}}", "w") as file:
        json.dump(value, file)
"""


# Workers share memory, or use the network as if each were on a host of its own.
PLACES = [pytest.param([], id="near"), pytest.param(["collective.shared=0"], id="far")]


def run(folder, *programs, settings=()):
    """What each worker tells."""
    path = str(folder / "told")
    with FedCluster(folder, PROGRAM.format(path=path), *programs, nodes=WORKERS, settings=list(settings)) as cluster:
        cluster.wait(lambda: False, 200)
        assert cluster.failure is None, cluster.failure
    told = []
    for rank in range(WORKERS):
        with open(f"{path}.{rank}") as file:
            told.append(json.load(file))
    return told


@pytest.mark.parametrize("settings", PLACES)
def test_arrays(tmp_path, settings):
    told = run(
        tmp_path,
        """
        found = {}
        found["who"] = [rank, size, collective.local_rank(), collective.local_size()]
        numbers = [collective.allreduce(rank), collective.allreduce(rank, "sum"), collective.allreduce(True, "max")]
        found["numbers"] = numbers
        arrays = {"b": np.arange(3, dtype=np.float32) * rank, "a": [np.int64(rank), (1.5,)]}
        merged = collective.allreduce(arrays, "sum")
        found["form"] = [list(merged), merged["b"].tolist(), merged["b"].dtype.name]
        found["form"] += [int(merged["a"][0]), merged["a"][1][0]]
        found["untouched"] = arrays["b"].tolist()
        found["weighted"] = collective.allreduce(np.array([rank, np.nan if rank == 1 else 1.0]), "weighted_mean",
                                                 [1, 0, 3][rank]).tolist()
        found["extremes"] = [collective.allreduce(np.float64(rank), op).item() for op in ("min", "max")]
        found["root"] = collective.broadcast(np.full((2, 2), rank), root=2).tolist()
        found["rows"] = collective.allgather(np.full((rank, 2), rank, np.float16)).tolist()
        collective.barrier()
        for _ in range(rank):
            collective.allreduce(1.0)
        found["last"] = collective.join()
        ones = np.full(100_000, 1 + 2**-9, np.float32)
        found["wire"] = collective.allreduce(ones, "sum", wire="bfloat16")[:1].tolist()
        errors = []
        for wrong in (lambda: collective.allreduce(np.array(["x"])), lambda: collective.allreduce(1, "median"),
                      lambda: collective.broadcast(1, root=7), lambda: collective.allgather(3),
                      lambda: collective.allreduce(1.0, wire="int8")):
            try:
                wrong()
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}")
        found["errors"] = errors
        found["still"] = collective.allreduce(1, "sum")
        tell(found)
        """,
        settings=settings,
    )
    for rank, each in enumerate(told):
        assert each["who"] == [rank, 3, *([0, 1] if settings else [rank, 3])]
        assert each["numbers"] == [1.0, 3, True]
        assert each["form"] == [["b", "a"], [0.0, 3.0, 6.0], "float32", 3, 4.5]
        assert each["untouched"] == [0.0, rank, 2.0 * rank]
        assert each["weighted"] == [1.5, 1.0]  # the NaN has weight 0
        assert each["extremes"] == [0.0, 2.0]
        assert each["root"] == [[2, 2], [2, 2]]
        assert each["rows"] == [[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]]
        assert each["last"] == 2
        assert each["still"] == 3
        assert each["wire"] == [3.0 if settings else 3 + 3 * 2**-9]  # bfloat16 has 8 bits
        kinds = [error.partition(":")[0] for error in each["errors"]]
        assert kinds == ["TypeError", "ValueError", "InvalidError", "InvalidError", "ValueError"]


def test_a_worker_that_does_something_else(tmp_path):
    told = run(
        tmp_path,
        """
        try:
            collective.allreduce(np.zeros(3 if rank < 2 else 4))
        except Exception as error:
            tell([type(error).__name__, str(error)])
        """,
    )
    for kind, text in told:
        assert kind == "MismatchError"
        assert "worker:0 on 127.0.0.1 wants the mean of float64[3], and worker:2 on 127.0.0.1 the mean of" in text


@pytest.mark.skipif(find_spec("tensorflow") is None, reason="needs TensorFlow")
@pytest.mark.parametrize("settings", PLACES)
def test_tensors(tmp_path, settings):
    """Two functions inside one, in the order of the program on every worker; shapes, slices, halves, gradients."""
    told = run(
        tmp_path,
        """
        import tensorflow as tf
        tf.config.threading.set_inter_op_parallelism_threads(1)
        found = {}

        @tf.function
        def first(x):
            return collective.allreduce(x, "sum")

        @tf.function
        def second(x):
            return collective.allgather(x)

        @tf.function(input_signature=[tf.TensorSpec([None, 2])])
        def both(x):
            a, b = first(x), second(x)
            found["shapes"] = [a.shape.as_list(), b.shape.as_list()]
            c = tf.zeros([])
            for _ in tf.range(5):
                c += collective.allreduce(tf.constant(1.0), "sum")
            return a, b, c

        for _ in range(20):
            a, b, c = both(tf.fill([2, 2], float(rank)))
        found["both"] = [a.numpy().tolist(), b.shape.as_list(), float(c)]
        slices = tf.IndexedSlices(tf.fill([rank, 2], 1.0), tf.range(rank), tf.constant([5, 2]))
        merged = collective.allreduce(slices, "weighted_mean", weight=float(rank))
        found["slices"] = [merged.indices.numpy().tolist(), merged.values.numpy().tolist()]
        found["half"] = collective.allreduce(tf.constant([1, 2], tf.bfloat16), "sum").numpy().astype(float).tolist()
        x = tf.Variable([1.0 + rank, 2.0])
        with tf.GradientTape() as tape:
            mean = collective.allreduce(x, "mean")
            rows = collective.allgather(tf.reshape(x, [1, 2]))
            y = (rank + 1.0) * tf.reduce_sum(mean**2) + tf.reduce_sum(rows[1])
        found["gradient"] = tape.gradient(y, x).numpy().tolist()

        class Trainable(tf.Module):
            def __init__(self):
                self.weight = tf.Variable(2.0)
                self.token = collective.token()

            @tf.function(input_signature=[tf.TensorSpec([None])])
            def train(self, x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(x * self.weight)
                gradient = tape.gradient(loss, self.weight)
                rows = tf.cast(tf.shape(x)[0], tf.float64)
                self.weight.assign_sub(collective.allreduce(gradient, "weighted_mean", rows))
                return {"weight": self.weight}

        folder = sys.argv[0] + f".{rank}"
        module = Trainable()
        tf.saved_model.save(module, folder, signatures={"train": module.train})
        loaded = tf.saved_model.load(folder).signatures["train"]
        for _ in range(2):
            found["exported"] = float(loaded(tf.fill([rank + 1], float(rank)))["weight"])
        tell(found)
        """,
        settings=settings,
    )
    for rank, each in enumerate(told):
        assert each["shapes"] == [[None, 2], [None, 2]]
        assert each["both"] == [[[3.0, 3.0], [3.0, 3.0]], [6, 2], 15.0]
        assert each["slices"] == [[0, 0, 1], [[pytest.approx(w)] * 2 for w in (1 / 3, 2 / 3, 2 / 3)]]
        assert each["half"] == [3.0, 6.0]
        assert each["exported"] == pytest.approx(2 - 2 * (0 * 1 + 1 * 2 + 2 * 3) / 6)
        # d/dx of Σ over workers of (r + 1) · mean² is 6 · 2 · mean / 3; of the row of worker 1, 3 for that one.
        own = 3.0 if rank == 1 else 0.0
        assert each["gradient"] == pytest.approx([6 * 2 * 2.0 / 3 + own, 6 * 2 * 2.0 / 3 + own])


def test_alone():
    """A process that is on no node."""
    assert (collective.rank(), collective.size()) == (0, 1)
    assert collective.allreduce({"x": 2.5}) == {"x": 2.5}
    assert collective.join() == 0
    collective.shutdown()
