"""feed.dataset: rows through real lanes into tf.data, with the real TensorFlow, by an op in C."""

import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

pytest.importorskip("tensorflow")

from feed_tools import SANITIZED, SECONDS, FedCluster, batches_of  # noqa: E402
from processes import wait_for  # noqa: E402
from tensorflowonspark import records  # noqa: E402

# What programs here begin with.
TENSORFLOW = """
import keras
import tensorflow as tf

def plain(value):
    if isinstance(value, tf.RaggedTensor):
        value = value.to_list()
    elif hasattr(value, "numpy"):
        value = value.numpy().tolist()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else (
        value.decode() if isinstance(value, bytes) else value)

def spec(dataset):
    return {key: [list(item.shape), item.dtype.name, type(item).__name__] for key, item in dataset.element_spec.items()}

def made(queue, *arguments, epochs="split", **options):
    dataset = _dataset.make_dataset(queue, *arguments, epochs=epochs, **options)
    return {"spec": spec(dataset), "batches": [plain(batch) for batch in dataset]}
"""


def batches_from(folder, columns, schema, **options):
    """Batches of these columns, of exactly this schema."""
    path = folder / "rows.tfrecord"
    records.write(path, columns, schema=schema, overwrite=True)
    return list(records.read(path, schema=schema, **options))


FLAT = {
    "record": "example",
    "fields": [
        {"name": "i", "type": "int32"},
        {"name": "l", "type": "int64"},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "b", "type": "bool"},
        {"name": "s", "type": "string"},
        {"name": "z", "type": "binary"},
        {"name": "pair", "type": "float", "shape": [2]},
        {"name": "flags", "type": "bool", "shape": [3]},
        {"name": "words", "type": "string", "shape": [None]},
        {"name": "numbers", "type": "int64", "shape": [None]},
    ],
}
FLAT_ROWS = {
    "i": [1, -2, 3],
    "l": [2**40, -(2**40), 0],
    "f": [0.5, 1.5, -2.5],
    "d": [0.25, 1e10, -1.0],
    "b": [True, False, True],
    "s": ["a", "", "a text that is longer than what fits in place"],
    "z": [b"x", b"yy", b""],
    "pair": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
    "flags": [[True, False, True], [False, False, False], [True, True, True]],
    "words": [["p", "q"], [], ["r"]],
    "numbers": [[], [1, 2, 3], [4]],
}
NESTED = {
    "record": "sequence_example",
    "fields": [
        {"name": "steps", "type": "int64", "feature_list": True},
        {"name": "points", "type": "float", "shape": [2], "feature_list": True},
        {"name": "texts", "type": "string", "shape": [None], "feature_list": True},
    ],
}
NESTED_ROWS = {
    "steps": [[1, 2], [], [3]],
    "points": [[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]], []],
    "texts": [[["a"], []], [["b", "c"]], []],
}


def test_the_ops_log_as_the_library_does():
    code = """
        import logging
        logging.basicConfig(level=logging.INFO)
        from tensorflowonspark import _native, _ops
        _ops.library()
        _native.log_stop()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^INFO:tensorflowonspark:TensorFlow 2\.\d+\.\S+ from /", done.stderr, re.M), done.stderr


def test_every_type_and_shape(tmp_path):
    program = """
    report({
        "flat": made("flat", 2),
        "nested": made("nested", 2),
        "some": made("some", 3, columns=["s", "l"]),
    })
    """
    flat = batches_from(tmp_path, FLAT_ROWS, FLAT)
    with FedCluster(tmp_path, TENSORFLOW, program) as cluster:
        cluster.feed_all({"flat": [flat], "nested": [batches_from(tmp_path, NESTED_ROWS, NESTED)], "some": [flat]})
        found = cluster.result()

    def rows_of(name):
        batches = found[name]["batches"]
        return {key: sum((batch[key] for batch in batches), []) for key in found[name]["spec"]}

    texts = FLAT_ROWS | {"z": ["x", "yy", ""]}
    assert rows_of("flat") == texts and [len(batch["i"]) for batch in found["flat"]["batches"]] == [2, 1]
    assert found["flat"]["spec"] == {
        "i": [[None], "int32", "TensorSpec"],
        "l": [[None], "int64", "TensorSpec"],
        "f": [[None], "float32", "TensorSpec"],
        "d": [[None], "float64", "TensorSpec"],
        "b": [[None], "bool", "TensorSpec"],
        "s": [[None], "string", "TensorSpec"],
        "z": [[None], "string", "TensorSpec"],
        "pair": [[None, 2], "float32", "TensorSpec"],
        "flags": [[None, 3], "bool", "TensorSpec"],
        "words": [[None, None], "string", "RaggedTensorSpec"],
        "numbers": [[None, None], "int64", "RaggedTensorSpec"],
    }
    assert rows_of("nested") == NESTED_ROWS
    assert found["nested"]["spec"] == {
        "steps": [[None, None], "int64", "RaggedTensorSpec"],
        "points": [[None, None, 2], "float32", "RaggedTensorSpec"],
        "texts": [[None, None, None], "string", "RaggedTensorSpec"],
    }
    assert rows_of("some") == {"s": FLAT_ROWS["s"], "l": FLAT_ROWS["l"]} and list(found["some"]["spec"]) == ["s", "l"]


def test_declared_columns_epochs_and_remainders(tmp_path):
    program = """
    def epochs(queue, count, **options):
        dataset = _dataset.make_dataset(queue, 4, epochs="split", **options)
        return [[plain(batch)["x"] for batch in dataset] for _ in range(count)]

    @tf.function
    def total(dataset):
        return dataset.reduce(tf.constant(0, tf.int64), lambda sum, batch: sum + tf.reduce_sum(batch["x"]))

    declared = {"x": tf.TensorSpec([], tf.float32), "l": tf.TensorSpec([None], tf.float64)}
    arrays = _native.Feed("arrays")
    report({
        "image": made("image", 2, {"p": tf.TensorSpec([2, 2], tf.float32), "n": tf.int32, "u": [2, 1]}),
        "declared": made("declared", 3, declared, drop_remainder=True),
        "split": epochs("split", 3),
        "split full": epochs("split full", 2, drop_remainder=True),
        "total": int(total(_dataset.make_dataset("total", 7, epochs="split"))),
        "arrays": [
            {key: value.tolist() for key, value in _dataset.next_arrays(arrays, 2, split_epochs=True).items()}
            for _ in range(3)
        ],
        "all": made("all", 4, drop_remainder=True, epochs="all")["batches"],
        "after the end": epochs("split", 2),
        "none": made("none", 3),
        "none named": made("none", 3, ["x"]),
        "none declared": made("none", 3, {"x": tf.TensorSpec([2], tf.int64)}),
    })
    """
    numbers = [{"x": i} for i in range(10)]
    images = [{"p": [1.0, 2.0, 3.0, float(i)], "n": i, "u": np.array([[i], [255]], np.uint8)} for i in range(3)]
    lists = [{"x": i, "l": list(range(i))} for i in range(4)]
    with FedCluster(tmp_path, TENSORFLOW, program) as cluster:
        cluster.feed_all(
            {
                "image": [images],
                "declared": [lists],
                "split": [numbers[:5], [], numbers[5:]],
                "split full": [numbers[:9], numbers[:3]],
                "all": [numbers[:5], numbers[5:]],
                "total": [numbers],
                "arrays": [numbers[:3]],
            }
        )
        found = cluster.result()
    assert found["image"] == {
        "spec": {
            "p": [[None, 2, 2], "float32", "TensorSpec"],
            "n": [[None], "int32", "TensorSpec"],
            "u": [[None, 2, 1], "uint8", "TensorSpec"],
        },
        "batches": [
            {"p": [[[1, 2], [3, 0]], [[1, 2], [3, 1]]], "n": [0, 1], "u": [[[0], [255]], [[1], [255]]]},
            {"p": [[[1, 2], [3, 2]]], "n": [2], "u": [[[2], [255]]]},
        ],
    }
    assert found["declared"] == {
        "spec": {"x": [[3], "float32", "TensorSpec"], "l": [[3, None], "float64", "RaggedTensorSpec"]},
        "batches": [{"x": [0, 1, 2], "l": [[], [0], [0, 1]]}],
    }
    assert found["split"] == [[[0, 1, 2, 3], [4]], [], [[5, 6, 7, 8], [9]]]
    assert found["split full"] == [[[0, 1, 2, 3], [4, 5, 6, 7]], []] and found["after the end"] == [[], []]
    assert found["all"] == [{"x": [0, 1, 2, 3]}, {"x": [4, 5, 6, 7]}]
    assert found["total"] == 45
    assert found["arrays"] == [{"x": [0, 1]}, {"x": [2]}, {}]
    assert found["none"]["batches"] == found["none named"]["batches"] == found["none declared"]["batches"] == []
    assert list(found["none named"]["spec"]) == ["x"]
    assert found["none declared"]["spec"] == {"x": [[None, 2], "int64", "TensorSpec"]}


def test_bad_input_is_named(tmp_path):
    program = """
    def failure(queue, *arguments, **options):
        try:
            return made(queue, *arguments, **options)
        except (tf.errors.OpError, ValueError, TypeError) as error:
            return type(error).__name__ + ": " + str(error)

    report({
        "null": failure("null", 2),
        "missing": failure("x", 4, ["y"]),
        "missing declared": failure("x", 4, {"y": tf.TensorSpec([], tf.int64)}),
        "text": failure("x", 4, {"x": tf.string}),
        "lossy": failure("real", 4, {"x": tf.int64}),
        "range": failure("large", 1, {"x": tf.int32}),
        "inexact": failure("odd", 1, {"x": tf.float32}),
        "inexact double": failure("odd double", 1, {"x": tf.float64}),
        "infinite": failure("huge", 1, {"x": tf.float32}),
        "byte": failure("byte", 1, {"x": tf.uint8}),
        "unsigned": failure("negative", 1, {"x": tf.uint64}),
        "half": failure("half", 1, {"x": tf.float16}),
        "raw": failure("raw", 1, {"x": tf.int8}),
        "raw real": failure("raw real", 1, {"x": tf.int32}),
        "converted": {
            "double": failure("ninth", 1, {"x": tf.float32}),
            "whole": failure("whole", 1, {"x": tf.float32}),
            "infinity": failure("infinity", 1, {"x": tf.float32}),
            "byte": failure("fits", 1, {"x": tf.uint8}),
            "half": failure("rounds", 1, {"x": tf.float16}),
            "raw": failure("raw fits", 1, {"x": tf.float32}),
        },
        "length": failure("lists", 4, {"x": [2]}),
        "scalar": failure("lists", 4, {"x": []}),
        "pickle": failure("objects", 4),
        "batch_size": failure("x", 0),
        "epochs": failure("x", 4, epochs="some"),
        "name": failure("x", 4, "x"),
        "nothing": failure("x", 4, []),
        "dtype": failure("x", 4, {"x": "float99"}),
        "complex": failure("x", 4, {"x": tf.complex64}),
        "shape": failure("x", 4, {"x": [3, None]}),
        "ragged": failure("x", 4, {"x": tf.RaggedTensorSpec([None, None], tf.int64)}),
    })
    """
    with FedCluster(tmp_path, TENSORFLOW, program) as cluster:
        queues = {
            "null": [[{"x": 1}, {"x": None}]],
            "x": [[{"x": 1}]],
            "real": [[{"x": 1.5}]],
            "large": [[{"x": 2**31}]],
            "odd": [[{"x": 2**24 + 1}]],
            "odd double": [[{"x": 2**53 + 1}]],
            "huge": [[{"x": 1e39}]],
            "byte": [[{"x": 300}]],
            "negative": [[{"x": -1}]],
            "half": [[{"x": 1e5}]],
            "raw": [[{"x": np.uint8(200)}]],
            "raw real": [[{"x": np.float16(1.5)}]],
            "ninth": [[{"x": 0.1}]],
            "whole": [[{"x": 2**24}]],
            "infinity": [[{"x": float("inf")}]],
            "fits": [[{"x": 255}]],
            "rounds": [[{"x": 0.1}]],
            "raw fits": [[{"x": np.uint8(200)}]],
            "lists": [[{"x": [1, 2]}, {"x": [1, 2, 3]}]],
            "objects": [[{"x": 1 + 2j}]],
        }
        cluster.begin_all(queues)  # rows that cannot be given stay where they are: nobody waits for them
        found = cluster.result()
    expected = {
        "null": "InvalidArgumentError.*feed 'null': column 'x': row 1 of the batch has no value.*fillna",
        "missing": "ValueError: column 'y' is not fed; the columns that are: x",
        "missing declared": "InvalidArgumentError.*column 'y': the rows have no such column; they have: x",
        "text": "InvalidArgumentError.*column 'x': expected string, found int64",
        "lossy": "InvalidArgumentError.*column 'x': expected int64, found double, which is not converted without loss",
        "range": "InvalidArgumentError.*column 'x': the value 2147483648 does not fit int32; ask for int64",
        "inexact": "InvalidArgumentError.*column 'x': the value 16777217 is no float, which would make it 16777216; "
        "ask for int64 or double",
        "inexact double": "InvalidArgumentError.*column 'x': the value 9007199254740993 is no double.*ask for int64,",
        "infinite": r"InvalidArgumentError.*column 'x': the value 1e\+39 is too large for float; ask for double",
        "byte": "InvalidArgumentError.*column x: a value does not fit uint8; ask for int32",
        "unsigned": "InvalidArgumentError.*column x: a value does not fit uint64; ask for int64",
        "half": "InvalidArgumentError.*column x: a value does not fit (float16|half); ask for float",
        "raw": "InvalidArgumentError.*column x: a value does not fit int8; ask for uint8",
        "raw real": "ValueError: column 'x': expected int32, found float16, which is not converted without loss",
        "length": "InvalidArgumentError.*column 'x', partition 0.*list of 3 values, expected 2",
        "scalar": "InvalidArgumentError.*column 'x', partition 0.*expected int64, found int64",
        "pickle": "ValueError: column 'x' holds pickled Python objects",
        "batch_size": "ValueError: batch_size is a whole number from 1 on, found 0",
        "epochs": "ValueError: epochs is 'all', 'split' or the number of an epoch, from 0 on, found 'some'",
        "name": "TypeError: columns is a list of names or a dict",
        "nothing": "ValueError: columns names no column",
        "dtype": "TypeError: column 'x': expected a tf.TensorSpec, a dtype or a shape, found 'float99'",
        "complex": "ValueError: column 'x': expected one of bfloat16, .*, found complex64",
        "shape": r"ValueError: column 'x': expected the shape of a row such as .*, found \[3, None\]",
        "ragged": "TypeError: column 'x': describe one row by tf.TensorSpec",
    }
    for name, pattern in expected.items():
        assert re.search(pattern, str(found[name]), re.DOTALL), f"{name}: {found[name]}"
    converted = {"double": 0.10000000149011612, "whole": 16777216, "infinity": float("inf"), "byte": 255}
    converted |= {"half": 0.0999755859375, "raw": 200}
    assert {name: item["batches"] for name, item in found["converted"].items()} == {
        name: [{"x": [value]}] for name, value in converted.items()
    }


@pytest.mark.skipif(bool(SANITIZED), reason="everything takes longer with sanitizers")
def test_a_dataset_that_waits_can_be_left_at_once(tmp_path):
    program = """
    import gc, signal, threading

    found = {}

    def dataset():
        return _dataset.make_dataset("input", 4, {"x": tf.TensorSpec([1], tf.float32)})

    def seconds(function):
        start = time.monotonic()
        function()
        return time.monotonic() - start

    def interrupted(function):
        # TensorFlow makes a RuntimeError that names it of a KeyboardInterrupt that comes while it fails.
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            function()
        except BaseException as error:
            return [time.monotonic() - start - 1, "KeyboardInterrupt" in repr(error)]

    for name, made in {"plain": dataset(), "prefetched": dataset().map(lambda row: row, 2).prefetch(3)}.items():
        iterator = iter(made)
        time.sleep(0.5)  # threads of its own ask for rows by now

        def leave():
            global iterator
            del iterator
        found["left " + name] = seconds(leave)
        start = time.monotonic()
        found["interrupted " + name] = interrupted(lambda: next(iter(made)))

    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    pairs = dataset().map(lambda row: (row["x"], row["x"])).prefetch(2)
    # What it makes of its step takes a second; an interrupt that comes meanwhile is not yet one of a wait.
    none = tf.data.Dataset.from_generator(lambda: iter([([[0.0]],) * 2]), output_signature=pairs.element_spec)
    model.fit(none, verbose=0)
    start = time.monotonic()
    found["interrupted fit"] = interrupted(lambda: model.fit(pairs, verbose=0))
    start = time.monotonic()
    found["interrupted while waiting for the schema"] = interrupted(lambda: _dataset.make_dataset("other", 4))

    # Rows come to whoever reads now: what was left does not take them, once Python has collected it.
    gc.collect()
    print("rows, please", flush=True)
    found["rows"] = plain(next(iter(dataset())))["x"]

    class Raise(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise ArithmeticError(str(time.monotonic()))
    try:
        model.fit(pairs, verbose=0, callbacks=[Raise()])
    except ArithmeticError as error:
        raised = float(str(error))
    del pairs
    found["raised"] = time.monotonic() - raised
    report(found)
    """
    with FedCluster(tmp_path, TENSORFLOW, program) as cluster:
        cluster.wait(lambda: "rows, please" in cluster.output)
        results = []

        def batches():  # there might always be more
            for i in (0, 4):
                yield from batches_of([{"x": [float(i + j)]} for j in range(4)])
            results.append(cluster.result())
            raise InterruptedError

        with pytest.raises(InterruptedError):
            cluster.begin()(batches(), batches=True)
    (found,) = results
    assert found.pop("rows") == [[0], [1], [2], [3]]
    assert found.pop("left plain") < 1 and found.pop("left prefetched") < 1 and found.pop("raised") < 1
    for name, (seconds, is_named) in found.items():
        assert is_named and seconds < 1, name
    assert len(found) == 4


def test_the_wait_for_the_first_rows_is_explained(tmp_path):
    program = """
    _dataset._REMIND_MS = 1000
    report(made("input", 4)["batches"])
    """
    with FedCluster(tmp_path, TENSORFLOW, program) as cluster:
        wait_for(lambda: "waiting for the first rows of the queue 'input'" in cluster.output, SECONDS)
        cluster.feed_all({"input": [[{"x": 1}]]})
        assert cluster.result() == [{"x": [1]}]


def test_fit_takes_an_epoch_at_a_time(tmp_path):
    program = """
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    pair = lambda row: (row["x"], row["y"])
    train = _dataset.make_dataset("input", 16, {"x": [3], "y": None}, epochs="split").map(pair)
    validation = _dataset.make_dataset("input", 16, {"x": [3], "y": None}, epochs="split", validation=True).map(pair)
    steps = []

    class Count(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            steps.append(0)
        def on_train_batch_end(self, batch, logs=None):
            steps[-1] += 1

    history = model.fit(train, epochs=3, validation_data=validation, callbacks=[Count()], verbose=0).history
    report({"steps": steps, "loss": history["loss"], "val_loss": history["val_loss"]})
    """
    random = np.random.default_rng(1)
    inputs = random.normal(size=(100, 3))
    rows = [{"x": x.tolist(), "y": float(x @ [1.0, -2.0, 0.5])} for x in inputs]
    with FedCluster(tmp_path, TENSORFLOW, program) as cluster:
        cluster.feed_all({"input": [rows, rows, rows[:40]], "input.validation": [rows[:20]] * 3})
        found = cluster.result()
    assert found["steps"] == [7, 7, 3]
    assert found["loss"][0] > found["loss"][1] > found["loss"][2]
    assert len(found["val_loss"]) == 3 and found["val_loss"][2] < found["val_loss"][0]


def test_native_workers_read_their_own_feed(tmp_path):
    program = """
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        sum = tf.Variable(0, dtype=tf.int64)
        rows = tf.Variable(0, dtype=tf.int64)

    @tf.function
    def step(iterator):
        for batch in iterator:
            sum.assign_add(tf.reduce_sum(batch["x"]))
            rows.assign_add(tf.shape(batch["x"], tf.int64)[0])

    def dataset():
        return _dataset.make_dataset("input", 8)

    iterator = iter(coordinator.create_per_worker_dataset(dataset))
    coordinator.schedule(step, args=(iterator,))
    coordinator.join()
    report([int(sum.numpy()), int(rows.numpy())])
    """
    options = {"ps": 1, "master": "chief", "native_ps": True, "native_workers": True}
    with FedCluster(tmp_path, TENSORFLOW, program, nodes=3, **options) as cluster:
        cluster.feed_all({"input": [[{"x": i} for i in range(1000)]]})
        assert cluster.result() == [499500, 1000]


@pytest.mark.parametrize("first", ["tensorflow", pytest.param("tensorflowonspark", marks=pytest.mark.long)])
def test_tls_beside_tensorflow(tmp_path, first):
    """TensorFlow brings a library for TLS of its own: ours works whichever was loaded first, and so does theirs."""
    script = f"""
    import {first}
    import pathlib, ssl, sys
    import tensorflow as tf
    from feed_tools import FedCluster

    program = "found = _native.Feed('input')\\nreport(len(_native.decode_rows(found.next(3, False, -1))))\\n"
    with FedCluster(pathlib.Path({str(tmp_path)!r}), program) as cluster:
        cluster.begin_all({{"input": [[1, 2, 3]]}})
        assert cluster.result() == 3
    server = tf.distribute.Server.create_local_server()  # gRPC, with the other library
    assert server.target.startswith("grpc://")
    assert tf.reduce_sum(tf.constant([1, 2])).numpy() == 3
    ssl.create_default_context()
    print("both work")
    """
    environment = dict(os.environ, PYTHONPATH=os.path.dirname(os.path.abspath(__file__)), TF_CPP_MIN_LOG_LEVEL="3")
    command = [sys.executable, "-c", textwrap.dedent(script)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert found.returncode == 0 and "both work" in found.stdout, found.stdout + found.stderr
