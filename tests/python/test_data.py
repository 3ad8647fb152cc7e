"""data.records: TFRecord files as a tf.data.Dataset, compared with tf.io.parse_example of the real TensorFlow."""

import gc
import json
import os
import random
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

from tensorflowonspark import data, records  # noqa: E402

VECTORS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors")
DTYPES = (tf.int64, tf.float32, tf.string)


# ---- making records ----


def feature_of(dtype, values):
    if dtype == tf.int64:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    if dtype == tf.float32:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(**features):
    """An Example of features that are (dtype, values) or a Feature."""
    made = {k: feature_of(*v) if isinstance(v, tuple) else v for k, v in features.items()}
    return tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString()


def write(path, serialized, options=None):
    with tf.io.TFRecordWriter(os.fspath(path), options) as writer:
        for record in serialized:
            writer.write(record)
    return path


def numbered(path, first, count, options=None):
    return write(path, (example(x=(tf.int64, [i])) for i in range(first, first + count)), options)


X = {"x": tf.io.FixedLenFeature([], tf.int64)}


def numbers_of(dataset):
    return [int(number) for batch in dataset for number in batch["x"]]


# ---- comparing ----


def parsed_by_tensorflow(path, batch_size, features, drop_remainder=False, compression=""):
    dataset = tf.data.TFRecordDataset(os.fspath(path), compression).batch(batch_size, drop_remainder)
    return dataset.map(lambda batch: tf.io.parse_example(batch, features))


def parts_of(value):
    """What a tensor is made of, as comparable values."""
    if isinstance(value, tf.SparseTensor):
        return [value.indices.numpy(), value.values.numpy(), value.dense_shape.numpy()]
    if isinstance(value, tf.RaggedTensor):
        return [value.flat_values.numpy(), *(splits.numpy() for splits in value.nested_row_splits)]
    return [value.numpy()]


def expect_equal(found, expected):
    found, expected = list(found), list(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        assert set(one) == set(other)
        for name in other:
            assert type(one[name]) is type(other[name]), name
            for part, wanted in zip(parts_of(one[name]), parts_of(other[name]), strict=True):
                assert part.dtype == wanted.dtype, name
                np.testing.assert_array_equal(part, wanted, err_msg=name, strict=True)


def expect_as_tensorflow(path, batch_size, features, drop_remainder=False, **options):
    expected = parsed_by_tensorflow(path, batch_size, features, drop_remainder)
    found = data.records(path, batch_size, features, drop_remainder=drop_remainder, **options)
    expect_equal(found, expected)
    for name, spec in expected.element_spec.items():
        ours = found.element_spec[name]
        assert type(ours) is type(spec) and ours.dtype == spec.dtype
        if isinstance(spec, tf.SparseTensorSpec):
            assert ours.shape.rank == spec.shape.rank
        else:
            assert ours.is_compatible_with(spec) and ours.shape.as_list() == spec.shape.as_list()


# ---- equal to parse_example ----


def draw_values(draw, dtype, count):
    if dtype == tf.int64:
        return [draw.choice([0, 1, -1, 127, 128, 2**63 - 1, -(2**63), draw.getrandbits(40)]) for _ in range(count)]
    if dtype == tf.float32:
        return [draw.choice([0.0, -0.0, 1.5, float("inf"), draw.random()]) for _ in range(count)]
    return [draw.randbytes(draw.choice([0, 1, 5, 22, 23, 60])) for _ in range(count)]


def draw_feature(draw):
    """A feature, and a function that draws the values of a record; None: the record has none of it."""
    kind, dtype = draw.choice(["one", "fixed", "default", "var", "ragged", "padded"]), draw.choice(DTYPES)
    shape = [draw.randint(1, 3) for _ in range(draw.randint(1, 4))]
    size = int(np.prod(shape))
    if kind == "one":
        default = draw.choice([None, draw_values(draw, dtype, 1)[0]])
        rare = 0.3 if default is not None else 0
        return tf.io.FixedLenFeature([], dtype, default), lambda: draw_some(draw, dtype, 1, rare)
    if kind == "fixed":
        return tf.io.FixedLenFeature(shape, dtype), lambda: draw_some(draw, dtype, size, 0)
    if kind == "default":
        default = draw_values(draw, dtype, size)
        return tf.io.FixedLenFeature(shape, dtype, default), lambda: draw_some(draw, dtype, size, 0.4)
    if kind == "padded":
        default = draw.choice([None, draw_values(draw, dtype, 1)[0]])
        feature = tf.io.FixedLenSequenceFeature(shape, dtype, allow_missing=True, default_value=default)
        return feature, lambda: draw_some(draw, dtype, size * draw.randint(0, 3), 0.2)
    if kind == "var":
        return tf.io.VarLenFeature(dtype), lambda: draw_some(draw, dtype, draw.randint(0, 4), 0.3)
    splits = draw.choice([tf.int32, tf.int64])
    feature = tf.io.RaggedFeature(dtype, row_splits_dtype=splits)
    return feature, lambda: draw_some(draw, dtype, draw.randint(0, 4), 0.3)


def draw_some(draw, dtype, count, rare):
    if draw.random() < rare:
        return draw.choice([None, tf.train.Feature()])
    return feature_of(dtype, draw_values(draw, dtype, count))


@pytest.mark.parametrize("seed", range(8))
def test_random_features_are_parsed_as_tensorflow_does(tmp_path, seed):
    draw = random.Random(seed)
    drawn = {f"f{i}": draw_feature(draw) for i in range(draw.randint(1, 7))}
    drawn["always"] = (tf.io.VarLenFeature(tf.int64), lambda: None)
    rows = [{name: values() for name, (_, values) in drawn.items()} for _ in range(draw.randint(1, 40))]
    present = [{name: value for name, value in row.items() if value is not None} for row in rows]
    for row in present:  # names that nobody asked for, and any order
        row["other"] = feature_of(tf.float32, [1.0])
    path = write(tmp_path / "f", (example(**dict(draw.sample(list(row.items()), len(row)))) for row in present))
    features = {name: feature for name, (feature, _) in drawn.items()}
    options = {"threads": draw.choice([0, 1, 2]), "drop_remainder": draw.choice([False, True])}
    expect_as_tensorflow(path, draw.randint(1, 16), features, **options)


def test_partitions_of_ragged_features(tmp_path):
    ragged = tf.io.RaggedFeature

    def row(v, **borders):
        return example(v=(tf.float32, v), **{name: (tf.int64, numbers) for name, numbers in borders.items()})

    rows = [
        row([1, 2, 3, 4], splits=[0, 1, 4], lengths=[1, 3], outer=[2]),
        row([], splits=[0], lengths=[], outer=[]),
        row([5, 6], splits=[0, 0, 2], lengths=[0, 2], outer=[1, 1]),
    ]
    path = write(tmp_path / "f", rows)
    features = {
        "a": ragged(tf.float32, value_key="v", partitions=[ragged.RowSplits("splits")]),
        "b": ragged(tf.float32, value_key="v", partitions=[ragged.RowLengths("lengths")]),
        "c": ragged(tf.float32, value_key="v", partitions=[ragged.UniformRowLength(2)], validate=True),
        "d": ragged(tf.float32, "v", [ragged.RowLengths("outer"), ragged.RowLengths("lengths")]),
    }
    expect_as_tensorflow(path, 2, features)
    with pytest.raises(NotImplementedError, match="feature 'e': partitions by ValueRowIds"):
        data.records(path, 2, {"e": ragged(tf.float32, "v", [ragged.ValueRowIds("splits")])})


@pytest.mark.parametrize("name", ["scalars", "lists", "missing", "unicode"])
def test_golden_vectors(name):
    path = os.path.join(VECTORS, f"{name}.tfrecord")
    dtypes = {}
    for record in tf.data.TFRecordDataset(path):
        for key, feature in tf.train.Example.FromString(record.numpy()).features.feature.items():
            kind = feature.WhichOneof("kind")
            if kind:
                dtypes[key] = {"float_list": tf.float32, "int64_list": tf.int64, "bytes_list": tf.string}[kind]
    expect_as_tensorflow(path, 3, {key: tf.io.VarLenFeature(dtype) for key, dtype in dtypes.items()})
    expect_as_tensorflow(path, 3, {f"{key}!": tf.io.RaggedFeature(dtype, key) for key, dtype in dtypes.items()})


@pytest.mark.parametrize("name", ["repeated", "unpacked", "unknown_fields"])
def test_encodings_that_parse_example_gets_wrong_mean_what_protobuf_says(name):
    """TensorFlow's parser loses values of these, or refuses them."""
    with open(os.path.join(VECTORS, f"{name}.json"), encoding="utf-8") as file:
        golden = json.load(file)
    dtypes = {"int64": tf.int64, "float": tf.float32, "string": tf.string, "binary": tf.string}
    features = {field["name"]: tf.io.RaggedFeature(dtypes[field["type"]]) for field in golden["schema"]["fields"]}
    [batch] = data.records(os.path.join(VECTORS, f"{name}.tfrecord"), 100, features)
    for key, column in batch.items():
        expected = [row[key] if isinstance(row[key], list) else [row[key]] for row in golden["rows"]]
        expected = [[] if row in (None, [None]) else row for row in expected]
        found = [[v.decode() if isinstance(v, bytes) else v for v in row] for row in column.to_list()]
        assert found == expected


@pytest.mark.parametrize("name", ["scalars_gzip.tfrecord.gz", "scalars_zlib.tfrecord.zlib"])
def test_compressed_files(name):
    expected = data.records(os.path.join(VECTORS, "scalars.tfrecord"), 2)
    expect_equal(data.records(os.path.join(VECTORS, name), 2), expected)
    codec = name.partition("_")[2].partition(".")[0]
    expect_equal(data.records(os.path.join(VECTORS, name), 2, codec=codec), expected)


def test_what_is_there_is_found_out(tmp_path):
    rows = {"i": [1, 2, 3], "s": ["a", "", "c"], "pair": np.ones((3, 2), np.float32), "some": [[1], [], [2, 3]]}
    path = tmp_path / "f"
    records.write(path, rows)
    found = data.features(path)
    assert found["i"] == tf.io.FixedLenFeature((), tf.int64)
    assert found["pair"] == tf.io.FixedLenFeature((2,), tf.float32)
    assert isinstance(found["some"], tf.io.RaggedFeature)
    expect_equal(data.records(path, 2), parsed_by_tensorflow(path, 2, found))
    assert list(data.records(path, 2, ["s", "i"]).element_spec) == ["s", "i"]
    with pytest.raises(ValueError, match="there is no feature 'z'; the records have: i, pair, s, some"):
        data.records(path, 2, ["z"])
    records.write(tmp_path / "g", {"i": [1, None]})
    with pytest.raises(ValueError, match=r"'i' is missing from some records; .*FixedLenFeature\(\[\], tf.int64"):
        data.records(tmp_path / "g", 2)
    with pytest.raises(NotImplementedError, match="found sequence_example"):
        data.records(os.path.join(VECTORS, "sequence.tfrecord"), 2)


def test_files_folders_globs_and_tensors(tmp_path):
    for i in range(4):
        numbered(tmp_path / f"part-{i}.tfrecord", 10 * i, 10)
    names = [tmp_path / f"part-{i}.tfrecord" for i in range(4)]
    for files in (tmp_path, f"{tmp_path}/part-*", names, tf.constant([os.fspath(name) for name in names])):
        batches = list(data.records(files, 16, X))
        assert [len(batch["x"]) for batch in batches] == [16, 16, 8]
        assert numbers_of(batches) == list(range(40))
    assert [len(batch["x"]) for batch in data.records(tmp_path, 16, X, drop_remainder=True)] == [16, 16]


def test_labels(tmp_path):
    path = write(tmp_path / "f", [example(x=(tf.int64, [i]), y=(tf.int64, [-i]), z=(tf.int64, [7])) for i in range(4)])
    inputs, label = next(iter(data.records(path, 4, label="y")))
    assert list(inputs) == ["x", "z"] and label.numpy().tolist() == [0, -1, -2, -3]
    inputs, labels = next(iter(data.records(path, 4, label=["y", "z"])))
    assert list(inputs) == ["x"] and list(labels) == ["y", "z"]


# ---- shuffle, shards ----


def test_shuffled_rows_are_the_same_rows_in_another_order_each_time(tmp_path):
    numbered(tmp_path / "a", 0, 150)
    numbered(tmp_path / "b", 150, 150)
    dataset = data.records(tmp_path, 32, X, shuffle=True, seed=5)
    first, second = numbers_of(dataset), numbers_of(dataset)
    assert sorted(first) == sorted(second) == list(range(300))
    assert first != second and first != list(range(300))
    again = data.records(tmp_path, 32, X, shuffle=True, seed=5, threads=0)
    assert [numbers_of(again), numbers_of(again)] == [first, second]
    assert numbers_of(again.repeat(2)) not in (first + second, first + first)
    fixed = data.records(tmp_path, 32, X, shuffle=64, seed=5, reshuffle_each_iteration=False)
    assert numbers_of(fixed) == numbers_of(fixed)
    repeated = numbers_of(fixed.repeat(2))
    assert repeated[:300] == repeated[300:] and sorted(repeated[:300]) == list(range(300))


@pytest.mark.parametrize("codec", ["", "GZIP"])
@pytest.mark.parametrize("files", [1, 2, 5])
def test_every_row_is_in_one_shard(tmp_path, files, codec):
    for i in range(files):
        numbered(tmp_path / f"f{i}", 30 * i, 30, codec or None)
    for count in (1, 3, 4):
        shards = [numbers_of(data.records(tmp_path, 7, X, shard=(i, count), shuffle=i % 2)) for i in range(count)]
        assert sorted(number for shard in shards for number in shard) == list(range(30 * files))
        assert all(shards), "one file is enough for all of them"


# ---- in pipelines ----


def test_two_iterators_do_not_share(tmp_path):
    dataset = data.records(numbered(tmp_path / "f", 0, 100), 10, X)
    one, other = iter(dataset), iter(dataset)
    for i in range(10):
        assert int(next(one)["x"][0]) == 10 * i
        if i % 3 == 0:
            assert int(next(other)["x"][0]) == 10 * (i // 3)
    assert numbers_of(tf.data.Dataset.zip(dataset, dataset).map(lambda a, b: {"x": b["x"] - a["x"]})) == [0] * 100


def test_pipelines(tmp_path):
    names = [os.fspath(numbered(tmp_path / f"f{i}", 20 * i, 20)) for i in range(5)]
    paths = tf.data.Dataset.from_tensor_slices(names)
    for parallel in (None, 4):
        read = paths.interleave(lambda name: data.records(name, 8, X), 4, num_parallel_calls=parallel)
        assert sorted(numbers_of(read)) == list(range(100))
    dataset = data.records(names, 8, X).map(lambda batch: {"x": batch["x"] * 2}, tf.data.AUTOTUNE).prefetch(3)
    assert numbers_of(dataset.unbatch().batch(64)) == list(range(0, 200, 2))
    assert numbers_of(data.records(names, 8, X).repeat(3)) == [*range(100)] * 3
    assert numbers_of(data.records(names, 8, X).cache().repeat(2)) == [*range(100)] * 2

    @tf.function
    def total(dataset):
        found = tf.constant(0, tf.int64)
        for batch in dataset:
            found += tf.reduce_sum(batch["x"])
        return found

    assert int(total(data.records(names, 8, X))) == sum(range(100))


def test_keras_fit(tmp_path):
    keras = pytest.importorskip("keras")
    draw = np.random.default_rng(1)
    rows = {"image": draw.random((96, 4, 4), np.float32).reshape(96, 16), "label": np.arange(96) % 3}
    records.write(tmp_path / "f", rows)
    features = {"image": tf.io.FixedLenFeature([4, 4], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}
    dataset = data.records(tmp_path / "f", 32, features, label="label", shuffle=True)
    inputs = keras.Input((4, 4), name="image")
    outputs = keras.layers.Dense(3)(keras.layers.Flatten()(inputs))
    model = keras.Model({"image": inputs}, outputs)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(dataset, epochs=3, validation_data=dataset, verbose=0)
    assert len(history.history["loss"]) == 3 and np.isfinite(history.history["val_loss"]).all()


# ---- ends ----


def threads_and_files(path):
    gc.collect()
    links = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    names = [os.readlink(link) for link in links if os.path.islink(link)]
    return len(os.listdir("/proc/self/task")), names.count(os.fspath(path))


def test_nothing_is_left_of_an_iterator_that_is_dropped(tmp_path):
    path = numbered(tmp_path / "f", 0, 20_000)
    dataset = data.records(path, 8, X, threads=3, shuffle=500)
    numbers_of(dataset.take(2))  # TensorFlow has its threads now
    before = threads_and_files(path)
    held = [iter(dataset) for _ in range(4)]
    for iterator in held:
        next(iterator)
    during = threads_and_files(path)
    assert during[0] >= before[0] + 12 and during[1] == 4
    del iterator
    held.clear()
    for _ in range(3):
        numbers_of(dataset.take(1))
        numbers_of(dataset.prefetch(2).take(3))
    assert threads_and_files(path)[0] <= before[0] + 2 and threads_and_files(path)[1] == 0


def test_batches_outlive_their_iterator(tmp_path):
    path = numbered(tmp_path / "f", 0, 4_000)
    batches = list(data.records(path, 64, X, threads=2))
    gc.collect()
    assert numbers_of(batches) == list(range(4_000))
    doubled = data.records(path, 1000, X).map(lambda batch: (batch["x"], batch["x"] * 2))
    assert [(int(one[999]), int(two[999])) for one, two in doubled][3] == (3_999, 7_998)


def test_memory_is_bounded(tmp_path):
    """Eight epochs, which would be eight times the file if anything of them were kept."""
    path = tmp_path / "f"
    records.write(path, {"v": np.zeros((4_000, 2_500), np.float32)})
    program = """
        import resource, sys, tensorflow as tf
        from tensorflowonspark import data
        features = {"v": tf.io.FixedLenFeature([2500], tf.float32)}
        dataset = data.records(sys.argv[1], 100, features, shuffle=200, threads=2)
        rows = sum(len(batch["v"]) for batch in dataset.take(3))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        rows = sum(len(batch["v"]) for batch in dataset.repeat(8))
        print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), path], capture_output=True, text=True, timeout=120, check=True
    )
    rows, megabytes = map(int, run.stdout.split())
    assert rows == 32_000 and megabytes < 60, "a pass reads 40 MB, all of them 320"


# ---- what is wrong ----


def broken(path, record, byte):
    """Changes a byte of the payload of a record, and returns where the record begins."""
    content = bytearray(path.read_bytes())
    at = 0
    for _ in range(record):
        at += struct.unpack_from("<Q", content, at)[0] + 16
    content[at + 12 + byte] ^= 0x40
    path.write_bytes(content)
    return at


@pytest.mark.parametrize("shuffle", [0, 10])
def test_damage(tmp_path, shuffle):
    path = numbered(tmp_path / "f", 0, 50)
    offset = broken(path, 33, 5)
    dataset = data.records(path, 10, X, shuffle=shuffle)
    message = rf"f: offset {offset} \(record 33\): the checksum of the payload"
    with pytest.raises(tf.errors.DataLossError, match=message):
        numbers_of(dataset)
    skipping = data.records(path, 7, X, shuffle=shuffle, on_corrupt="skip", drop_remainder=True)
    batches = list(skipping)
    assert [len(batch["x"]) for batch in batches] == [7] * 7
    assert sorted(numbers_of(batches)) == [number for number in range(50) if number != 33]


def test_rows_that_do_not_go_with_the_features(tmp_path):
    path = write(tmp_path / "f", [example(a=(tf.int64, [1, 2, 3])), example(a=(tf.int64, [1, 2]))])

    def message_of(**features):
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            list(data.records(path, 2, features))
        return caught.value.message

    fixed, int64 = tf.io.FixedLenFeature, tf.int64
    missing = message_of(b=fixed([], int64))
    assert "f: offset 0 (record 0): column 'b': expected a value, the feature is missing" in missing
    assert "default_value" in missing
    assert "(record 0): column 'a': expected float values" in message_of(a=fixed([3], tf.float32))
    assert "(record 1): column 'a': " in message_of(a=fixed([3], int64))
    assert "(record 0): column 'a': expected one value, found 3" in message_of(a=fixed([], int64))
    steps = tf.io.FixedLenSequenceFeature([3], int64, allow_missing=True)
    assert "(record 1): column 'a': expected a multiple of 3 values, found 2" in message_of(a=steps)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="nothing"):
        list(data.records(tmp_path / "nothing", 2, X))
    with pytest.raises(FileNotFoundError):
        data.records(tmp_path / "nothing", 2)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"batch_size": 0}, "batch_size is a whole number from 1 on, found 0"),
        ({"shuffle": -1}, "shuffle is a whole number from 0 on"),
        ({"shard": (2, 2)}, r"shard is \(i, n\) with i below n"),
        ({"threads": -2}, "threads is a whole number from -1 on"),
        ({"codec": "zip"}, "codec is one of auto, none, gzip, zlib, found 'zip'"),
        ({"on_corrupt": "ignore"}, "on_corrupt is one of error, skip"),
        ({"label": "y"}, "the label 'y' is no feature; the features are: x"),
        ({"features": {}}, "features names no feature"),
        ({"features": {"x": tf.io.FixedLenFeature([None], tf.int64)}}, "without unknown dimensions"),
        ({"features": {"x": tf.io.FixedLenFeature([], tf.int32)}}, "expected float32, int64 or string, found int32"),
        ({"features": {"x": tf.io.FixedLenSequenceFeature([], tf.int64)}}, "needs allow_missing=True"),
        ({"files": tf.constant("f"), "features": None}, "files is a tensor"),
    ],
)
def test_arguments_that_make_no_sense(changed, message):
    with pytest.raises(ValueError, match=message):
        data.records(**{"files": "f", "batch_size": 2, "features": X, **changed})


def test_features_of_other_kinds():
    with pytest.raises(TypeError, match="feature 'x': expected a FixedLenFeature, .* found 7"):
        data.records("f", 2, {"x": 7})
    with pytest.raises(NotImplementedError, match="feature 'x': a SparseFeature is not supported"):
        data.records("f", 2, {"x": tf.io.SparseFeature("i", "v", tf.int64, 3)})


def test_the_parts_cannot_be_run_apart():
    from tensorflowonspark import _ops

    outputs = {"columns": [0], "forms": [0], "fillers": [-1], "ranks": [0], "dimensions": [], "T": [tf.int64]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="there is no reader 123456"):
        _ops.library().tfos_records_next(reader=123456, filler_values=[], batch_size=1, **outputs)
