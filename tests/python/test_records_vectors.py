"""The golden vectors, which TensorFlow and protobuf wrote, and random messages, compared field by field both ways."""

import glob
import json
import os
import random
import string

import conftest
import make_vectors as wire
import pytest
import tensorflow as tf

from tensorflowonspark import records

SPARK_ROWS = os.path.join(conftest.VECTORS, "spark_rows.columns.json")
# Those of Spark's rows, spark_rows.*, are no records.
EXPECTED = sorted(set(glob.glob(os.path.join(conftest.VECTORS, "*.json"))) - {SPARK_ROWS})


def load(path):
    with open(path, encoding="utf-8") as file:
        vector = json.load(file)
    kind = vector["schema"]["record"]
    return vector, os.path.join(conftest.VECTORS, vector["file"]), "bytes" if kind == "bytes" else "auto"


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: os.path.basename(path)[:-5])
@pytest.mark.parametrize("threads", [0, -1])
def test_vector(path, threads):
    vector, file, record = load(path)
    assert records.schema(file, record=record, threads=threads) == records.Schema(vector["schema"])
    rows = conftest.rows_of(records.read(file, record=record, threads=threads))
    assert conftest.same(rows, vector["rows"])


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: os.path.basename(path)[:-5])
def test_vector_row_by_row(path):
    vector, file, _ = load(path)
    rows = conftest.rows_of(records.read(file, schema=vector["schema"], codec=vector["codec"], batch_rows=1))
    assert conftest.same(rows, vector["rows"])


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: os.path.basename(path)[:-5])
def test_vector_written_again(path, tmp_path):
    """What we write is read by protobuf as what it was."""
    vector, file, record = load(path)
    again = tmp_path / "again.tfrecord"
    count = records.write(again, records.read(file, record=record))
    assert count == len(vector["rows"])
    found = [wire.row_of(item.numpy(), vector["schema"]) for item in tf.data.TFRecordDataset(str(again))]
    assert conftest.same(found, vector["rows"])


# ---- at random ----

KINDS = ["int64", "float", "binary", "string"]
FLOATS = [0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan"), 1e-45, 3.4028234663852886e38]
INTS = [0, 1, -1, 127, 128, -(2**63), 2**63 - 1, 2**31, -(2**31) - 1]


def random_value(rng, kind):
    if kind == "int64":
        return rng.choice(INTS) if rng.random() < 0.3 else rng.randint(-(2**63), 2**63 - 1) >> rng.randrange(64)
    if kind == "float":
        return rng.choice(FLOATS) if rng.random() < 0.3 else rng.gauss(0, 1000)
    if kind == "binary":
        return rng.randbytes(rng.randrange(20)) + b"\xff"
    return "".join(rng.choices(string.printable + "éß日本🎉", k=rng.randrange(20))).encode()


def fill(feature, rng, kind, shape):
    count = {"scalar": 1, "fixed": 3, "ragged": rng.choice([0, 1, 2, 5, 40])}[shape]
    values = [random_value(rng, kind) for _ in range(count)]
    target = {"int64": feature.int64_list, "float": feature.float_list}.get(kind, feature.bytes_list)
    target.SetInParent()
    target.value.extend(values)


def random_columns(rng, count, sequence):
    """Names with a kind and a shape each: the kind of a feature does not change between records."""
    columns = {}
    for i in range(count):
        name = "".join(rng.choices("abcé_/ 🎉", k=rng.randrange(1, 9))) + str(i)
        columns[name] = (rng.choice(KINDS), rng.choice(["scalar", "fixed", "ragged"]), rng.random() < 0.3)
    return {name: (*column, sequence and rng.random() < 0.5) for name, column in columns.items()}


def random_message(rng, columns, sequence):
    message = tf.train.SequenceExample() if sequence else tf.train.Example()
    context = message.context if sequence else message.features
    names = list(columns)
    rng.shuffle(names)
    for name in names:
        kind, shape, sometimes, is_list = columns[name]
        if sometimes and rng.random() < 0.3:
            continue
        if not is_list:
            fill(context.feature[name], rng, kind, shape)
            if sometimes and rng.random() < 0.1:
                context.feature[name].Clear()
            continue
        features = message.feature_lists.feature_list[name]
        for _ in range(rng.choice([0, 1, 4])):
            fill(features.feature.add(), rng, kind, shape)
    return message


def write_with_tensorflow(path, messages):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for message in messages:
            writer.write(message)


def compare_with_protobuf(path, payloads, **options):
    schema = records.schema(path, **options)
    rows = conftest.rows_of(records.read(path, schema=schema, **options))
    expected = [wire.row_of(payload, json.loads(schema.to_json())) for payload in payloads]
    for number, (found, wanted) in enumerate(zip(rows, expected, strict=True)):
        assert conftest.same(found, wanted), f"record {number}: {found} is not {wanted}"


@pytest.mark.parametrize("sequence", [False, True], ids=["Example", "SequenceExample"])
def test_ten_thousand_at_random(tmp_path, sequence):
    rng = random.Random(20240 + sequence)
    for part in range(20):
        columns = random_columns(rng, rng.randrange(1, 12), sequence)
        payloads = [random_message(rng, columns, sequence).SerializeToString() for _ in range(500)]
        path = tmp_path / f"{part}.tfrecord"
        write_with_tensorflow(path, payloads)
        record = "sequence_example" if sequence else "example"
        compare_with_protobuf(path, payloads, record=record)

        again = tmp_path / f"{part}-again.tfrecord"
        assert records.write(again, records.read(path, record=record)) == 500
        schema = json.loads(records.schema(path, record=record).to_json())
        for number, (found, payload) in enumerate(zip(tf.data.TFRecordDataset(str(again)), payloads, strict=True)):
            wanted = wire.row_of(payload, schema)
            assert conftest.same(wire.row_of(found.numpy(), schema), wanted), f"record {number} of part {part}"


# ---- encodings that protobuf's own writer never makes ----


def odd_list(rng, kind, count):
    """A list message in pieces: packed, not packed, with unknown fields between."""
    out = b""
    for _ in range(count):
        piece = rng.randrange(4)
        if piece == 0:
            out += wire.field(9, rng.randbytes(3)) + wire.varint(8 << 3) + wire.varint(rng.randrange(2**40))
        elif kind == "int64":
            values = [random_value(rng, kind) for _ in range(rng.randrange(4))]
            out += (wire.packed_ints if piece == 1 else wire.unpacked_ints)(*values)
        elif kind == "float":
            values = [rng.gauss(0, 1) for _ in range(rng.randrange(4))]
            out += (wire.packed_floats if piece == 1 else wire.unpacked_floats)(*values)
        else:
            out += wire.texts(*(random_value(rng, kind) for _ in range(rng.randrange(3))))
    return out


def odd_feature(rng, kind):
    wrap = {"int64": wire.ints_feature, "float": wire.floats_feature}.get(kind, wire.bytes_feature)
    out = b""
    if rng.random() < 0.2:  # a kind that a later one replaces
        out += wire.ints_feature(wire.packed_ints(7)) if kind != "int64" else wire.bytes_feature(wire.texts(b"gone"))
    for _ in range(rng.randrange(1, 3)):
        out += wrap(odd_list(rng, kind, rng.randrange(4)))
    return out


def odd_entry(rng, name, kind):
    key, value = wire.field(1, name.encode()), wire.field(2, odd_feature(rng, kind))
    parts = [key, value]
    if rng.random() < 0.2:
        parts.append(wire.field(2, odd_feature(rng, kind)))
    if rng.random() < 0.3:
        rng.shuffle(parts)
    return wire.field(1, b"".join(parts))


def test_odd_encodings_at_random(tmp_path):
    rng = random.Random(7)
    columns = {"i": "int64", "f": "float", "b": "binary"}
    payloads = []
    for _ in range(3000):
        names = rng.choices(list(columns), k=rng.randrange(6))
        maps = [b"".join(odd_entry(rng, name, columns[name]) for name in names[half::2]) for half in range(2)]
        payloads.append(b"".join(wire.field(1, entries) for entries in maps if entries))
    path = tmp_path / "odd.tfrecord"
    write_with_tensorflow(path, payloads)
    compare_with_protobuf(path, payloads)
