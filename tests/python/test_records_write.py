"""Writing: dicts of columns, Arrow data of others, raw bytes; and that a failure leaves no file."""

import os
import resource
import subprocess
import sys
import textwrap

import conftest
import make_vectors as wire
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import tensorflow as tf

from tensorflowonspark import records


def payloads(path, compression=""):
    return [item.numpy() for item in tf.data.TFRecordDataset(str(path), compression_type=compression)]


def features(path):
    """What protobuf reads: a dict of kind and values for each record."""
    rows = []
    for payload in payloads(path):
        found = tf.train.Example.FromString(payload).features.feature
        kinds = {name: feature.WhichOneof("kind") for name, feature in found.items()}
        rows.append({name: (kind[:-5], list(getattr(found[name], kind).value)) for name, kind in kinds.items()})
    return rows


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.tfrecord"


def written(path, data, **options):
    records.write(path, data, overwrite=True, **options)
    return features(path)


def one_column(path, values, **options):
    """The kind and values that protobuf finds for each row; None where the feature is left out."""
    return [row.get("x") for row in written(path, {"x": values}, **options)]


# ---- dicts ----


def test_arrays_of_every_number(path):
    for dtype in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">i8", "<u2"]:
        info = np.iinfo(dtype)
        values = np.array([0, 1, max(info.min, -(2**63)), min(info.max, 2**63 - 1)], dtype=dtype)
        assert one_column(path, values) == [("int64", [int(value)]) for value in values]
    for dtype in ["f2", "f4", "f8", ">f4", ">f8"]:
        values = np.array([0.5, -1.25, 1024.0], dtype=dtype)
        assert one_column(path, values) == [("float", [float(value)]) for value in values]
    assert one_column(path, np.array([True, False])) == [("int64", [1]), ("int64", [0])]


def test_arrays_of_any_stride_and_dimension(path):
    base = np.arange(24, dtype=np.float32).reshape(6, 4)
    for array in [base, base[::2], base[:, ::2], base[::-1], np.asfortranarray(base), base.T, base[:, 1:2], base[0:0]]:
        assert one_column(path, array) == [("float", row.tolist()) for row in array]
    assert one_column(path, base[:, 1]) == [("float", [value]) for value in base[:, 1].tolist()]
    odd = np.frombuffer(b"\0" + base.tobytes(), dtype=np.uint8)[1:].view(np.float32)
    assert not odd.flags.aligned and one_column(path, odd) == [("float", [value]) for value in base.ravel().tolist()]


def test_contiguous_arrays_are_not_copied(path):
    from tensorflowonspark import _columns

    array = np.arange(12, dtype=np.int64).reshape(4, 3)
    rows, [level] = _columns.columns({"x": array})
    assert rows == 4 and np.shares_memory(level[6][5][1], array)


def test_masked_arrays(path):
    masked = np.ma.MaskedArray([1, 2, 3], mask=[False, True, False])
    assert one_column(path, masked) == [("int64", [1]), None, ("int64", [3])]
    rows = np.ma.MaskedArray(np.ones((2, 2), np.float32), mask=[[True, True], [False, False]])
    assert one_column(path, rows) == [None, ("float", [1.0, 1.0])]
    rows.mask[1, 0] = True
    with pytest.raises(ValueError, match="column 'x': row 1 is masked in part"):
        one_column(path, rows)


def test_lists(path):
    assert one_column(path, [1, None, np.int8(3)]) == [("int64", [1]), None, ("int64", [3])]
    assert one_column(path, [1, 2.5, None]) == [("float", [1.0]), ("float", [2.5]), None]
    assert one_column(path, (True, None, False)) == [("int64", [1]), None, ("int64", [0])]
    assert one_column(path, ["é", None, ""]) == [("bytes", ["é".encode()]), None, ("bytes", [b""])]
    several = [b"\xff", bytearray(b"x"), memoryview(b"y")]
    assert one_column(path, several) == [("bytes", [bytes(value)]) for value in several]
    assert one_column(path, [[1, 2], [], None, (3,)]) == [("int64", [1, 2]), ("int64", []), None, ("int64", [3])]
    assert one_column(path, [["a"], ["b", "c"]]) == [("bytes", [b"a"]), ("bytes", [b"b", b"c"])]
    assert one_column(path, [np.array([1.5]), np.array([2.5, 3.5])]) == [("float", [1.5]), ("float", [2.5, 3.5])]
    assert one_column(path, [np.array([1, 2]), [3]]) == [("int64", [1, 2]), ("int64", [3])]
    assert one_column(path, [None, None]) == [None, None]
    assert one_column(path, []) == []


def test_text_arrays(path):
    expected = [("bytes", [b"a"]), ("bytes", ["né".encode()])]
    assert one_column(path, np.array(["a", "né"])) == expected
    assert one_column(path, np.array(["a", "né"], dtype=object)) == expected
    assert one_column(path, np.array([b"a", b"bc"])) == [("bytes", [b"a"]), ("bytes", [b"bc"])]
    assert one_column(path, np.array([["a", "b"], ["c", "d"]])) == [("bytes", [b"a", b"b"]), ("bytes", [b"c", b"d"])]


def test_nothing_at_all(path):
    assert records.write(path, {}) == 0 and os.path.getsize(path) == 0


def test_tensors(path):
    assert one_column(path, tf.constant([[1.0, 2.0]])) == [("float", [1.0, 2.0])]


def test_feature_lists(path):
    nested = [[[1, 2], [3]], [], [[], None, [4]]]
    assert records.write(path, {"frames": nested, "id": [1, 2, 3]}) == 3
    messages = [tf.train.SequenceExample.FromString(payload) for payload in payloads(path)]
    lists = [message.feature_lists.feature_list["frames"].feature for message in messages]
    assert [[list(f.int64_list.value) for f in features] for features in lists] == [[[1, 2], [3]], [], [[], [], [4]]]
    assert lists[2][1].WhichOneof("kind") is None and lists[2][0].WhichOneof("kind") == "int64_list"
    assert [list(message.context.feature["id"].int64_list.value) for message in messages] == [[1], [2], [3]]

    frames = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    records.write(path, {"frames": frames}, overwrite=True)
    messages = [tf.train.SequenceExample.FromString(payload) for payload in payloads(path)]
    found = [[list(f.float_list.value) for f in m.feature_lists.feature_list["frames"].feature] for m in messages]
    assert found == frames.tolist()


def test_schema_guides_a_dict(path):
    schema = {"fields": [{"name": "x", "type": "float"}]}
    assert one_column(path, [1, 2], schema=schema) == [("float", [1.0]), ("float", [2.0])]
    assert one_column(path, np.array([1, 2]), schema=schema) == [("float", [1.0]), ("float", [2.0])]
    labels = {"record": "sequence_example", "fields": [{"name": "x", "type": "int64", "feature_list": True}]}
    records.write(path, {"x": [[1, 2], []]}, schema=labels, overwrite=True)
    message = tf.train.SequenceExample.FromString(payloads(path)[0])
    assert [list(f.int64_list.value) for f in message.feature_lists.feature_list["x"].feature] == [[1], [2]]
    fixed = {"fields": [{"name": "x", "type": "int64", "shape": [2]}]}
    for bad, given, message in [
        (schema, {"y": [1]}, "column 'y' is not in the schema; the columns of the schema are x"),
        (schema, {}, "column 'x' is missing"),
        (schema, {"x": ["a"]}, "column 'x': the schema says float, found values of kind bytes"),
        (schema, {"x": [[1.0]]}, "column 'x': the schema says a value for each row, found a list for each row"),
        (schema, {"x": [None]}, "column 'x': a value is missing"),
        (fixed, {"x": [[1, 2], [1]]}, "column 'x': row 1: expected a list of 2 values, found 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            records.write(path, given, schema=bad, overwrite=True)
    with pytest.raises(ValueError, match="cast Arrow data before writing"):
        records.write(path, pa.table({"x": [1]}), schema=schema, overwrite=True)


def test_bad_columns(path):
    for data, kind, message in [
        ({"x": [1, 2], "y": [1]}, ValueError, "columns differ in length: x has 2, y has 1"),
        ({"x": "text"}, TypeError, "column 'x': expected a list or an array with a value for each row, found str"),
        ({"x": 5}, TypeError, "column 'x': expected a list or an array"),
        ({"x": np.array(5)}, TypeError, "column 'x'"),
        ({1: [1]}, TypeError, "the name of a column is a str, found int"),
        ({"x": [1, "a"]}, TypeError, "column 'x': row 1 is of type str, earlier ones are int"),
        ({"x": [1, True]}, TypeError, "column 'x': row 1 is of type bool"),
        ({"x": [object()]}, TypeError, "column 'x': a value of type object has no place in a record"),
        ({"x": [2**63]}, ValueError, "column 'x': row 0: the value 9223372036854775808 does not fit int64"),
        ({"x": np.array([2**64 - 1], dtype="u8")}, records.RangeError, "column 'x': row 0: the value 184467"),
        ({"x": np.array(["2020"], dtype="M8[s]")}, TypeError, r"column 'x': the dtype datetime64.* .astype\('int64'\)"),
        ({"x": np.array([1j])}, TypeError, "column 'x': the dtype complex128"),
        ({"x": [[1, None]]}, records.MismatchError, "column 'x': row 0: a null inside a list"),
        ({"x": ["\ud800"]}, ValueError, "column 'x': .*surrogates"),
        ({"x": [[[[1]]]]}, records.UnsupportedError, "column 'x': lists are nested more than two deep"),
        ({"": [1]}, records.InvalidError, "a column name must have 1 to"),
        (17, TypeError, "expected a dict of columns or an Arrow table, found int"),
    ]:
        with pytest.raises(kind, match=message):
            records.write(path, data)
        assert os.listdir(path.parent) == []


# ---- Arrow ----


def test_pyarrow(path):
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.uint8()),
            "f": pa.array([np.float16(0.5), np.float16(1.5), None], pa.float16()),
            "s": pa.array(["a", "b", "a"]).dictionary_encode(),
            "v": pa.array(["short", "a string of more than twelve bytes", None], pa.string_view()),
            "l": pa.array([[1.0], [], None], pa.large_list(pa.float64())),
            "w": pa.array([[1, 2], [3, 4], None], pa.list_(pa.int16(), 2)),
            "z": pa.array([b"ab", b"cd", b"ef"], pa.binary(2)),
            "n": pa.nulls(3),
        }
    )
    expected = [
        {"i": ("int64", [1]), "f": ("float", [0.5]), "s": ("bytes", [b"a"]), "v": ("bytes", [b"short"])}
        | {"l": ("float", [1.0]), "w": ("int64", [1, 2]), "z": ("bytes", [b"ab"])},
        {"f": ("float", [1.5]), "s": ("bytes", [b"b"]), "v": ("bytes", [b"a string of more than twelve bytes"])}
        | {"l": ("float", []), "w": ("int64", [3, 4]), "z": ("bytes", [b"cd"])},
        {"i": ("int64", [3]), "s": ("bytes", [b"a"]), "z": ("bytes", [b"ef"])},
    ]
    assert written(path, table) == expected
    assert written(path, table.slice(1)) == expected[1:]
    assert written(path, pa.concat_tables([table.slice(2), table, table.slice(0, 0)])) == expected[2:] + expected
    assert written(path, table.to_batches()[0].slice(1, 1)) == expected[1:2]


def test_polars(path):
    data = {"i": [1, None], "s": ["a", "long enough to be out of line"], "l": [[1, 2], []], "b": [True, None]}
    frame = pl.DataFrame(data)
    assert written(path, frame) == [
        {"i": ("int64", [1]), "s": ("bytes", [b"a"]), "l": ("int64", [1, 2]), "b": ("int64", [1])},
        {"s": ("bytes", [b"long enough to be out of line"]), "l": ("int64", [])},
    ]
    arrays = pl.DataFrame({"x": [[1.0, 2.0]]}, schema={"x": pl.Array(pl.Float32, 2)})
    assert written(path, arrays) == [{"x": ("float", [1.0, 2.0])}]
    category = pl.DataFrame({"x": ["a", None, "a"]}, schema={"x": pl.Categorical})
    assert written(path, category) == [{"x": ("bytes", [b"a"])}, {}, {"x": ("bytes", [b"a"])}]


def test_arrow_types_that_have_no_place(path):
    import datetime

    for values, type, advice in [
        ([datetime.date(2020, 1, 1)], pa.date32(), "date.*cast it to int64"),
        ([1], pa.timestamp("us"), "timestamp.*cast it to int64 or to string"),
        ([1], pa.decimal128(10, 2), "decimal.*cast it to double"),
        ([{"a": 1}], pa.struct([("a", pa.int64())]), "struct.*make its fields columns"),
    ]:
        table = pa.table({"when": pa.array(values, type)})
        with pytest.raises(NotImplementedError, match=f"column 'when': the Arrow type {advice}"):
            records.write(path, table)
    with pytest.raises(records.InvalidError, match="expected an Arrow struct"):
        records.write(path, pa.chunked_array([[1, 2]]))
    assert os.listdir(path.parent) == []


def test_stream_that_fails(path):
    def batches():
        yield pa.record_batch({"x": [1]})
        raise ArithmeticError("the source broke")

    schema = pa.schema([("x", pa.int64())])
    with pytest.raises(Exception, match="the source broke"):
        records.write(path, pa.RecordBatchReader.from_batches(schema, batches()))
    assert os.listdir(path.parent) == []


def test_stream_that_reads_itself(path, tmp_path):
    """Its code runs inside of a call that waits, and waits itself."""
    other = tmp_path / "other.tfrecord"
    records.write(path, {"x": list(range(100))})

    def batches():
        for _ in range(3):
            yield from pa.RecordBatchReader.from_stream(records.read(path, batch_rows=30, threads=2))
            yield pa.record_batch({"x": [len(batch) for batch in records.read(path, batch_rows=30)]})

    schema = pa.schema([("x", pa.int64())])
    assert records.write(other, pa.RecordBatchReader.from_batches(schema, batches())) == 3 * 104
    assert len(next(records.read(other, batch_rows=1000))) == 312


def test_reader_and_batch_are_written(path, tmp_path):
    other = tmp_path / "other.tfrecord"
    records.write(path, {"x": list(range(100)), "frames": [[[i]] for i in range(100)]})
    assert records.write(other, records.read(path, batch_rows=7)) == 100
    assert records.schema(other) == records.schema(path)
    batch = next(records.read(path, batch_rows=10))
    assert records.write(other, batch, overwrite=True) == 10
    assert next(records.read(other)).to_pydict() == batch.to_pydict()
    assert records.write(other, pa.table(records.read(path)), overwrite=True) == 100
    assert records.schema(other).record == "sequence_example"


def test_tensorflow_parses_what_we_write(path):
    rng = np.random.default_rng(1)
    data = {"id": np.arange(100), "image": rng.random((100, 5), np.float32), "name": [f"n{i}" for i in range(100)]}
    records.write(path, data)
    spec = {
        "id": tf.io.FixedLenFeature([], tf.int64),
        "image": tf.io.FixedLenFeature([5], tf.float32),
        "name": tf.io.FixedLenFeature([], tf.string),
    }
    dataset = tf.data.TFRecordDataset(str(path)).batch(100).map(lambda item: tf.io.parse_example(item, spec))
    (parsed,) = dataset
    assert (parsed["id"].numpy() == data["id"]).all() and (parsed["image"].numpy() == data["image"]).all()
    assert parsed["name"].numpy().tolist() == [name.encode() for name in data["name"]]


# ---- raw bytes, codecs, files ----


def test_raw_bytes(path):
    items = [b"", b"\xff" * 10, b"text"]
    assert records.write(path, items, record="bytes") == 3
    assert payloads(path) == items
    assert records.write(path, (item for item in items), record="bytes", overwrite=True) == 3
    assert records.write(path, {"record": items}, record="bytes", overwrite=True) == 3
    assert records.write(path, pa.table({"any": items}), record="bytes", overwrite=True) == 3
    assert payloads(path) == items
    with pytest.raises(TypeError, match="bytes-like"):
        records.write(path, [b"x", "not bytes"], record="bytes", overwrite=True)
    assert payloads(path) == items  # what was there is still there
    with pytest.raises(records.MismatchError, match="one column of binaries, found 2"):
        records.write(path, {"a": items, "b": items}, record="bytes", overwrite=True)


def test_codecs(tmp_path):
    for name, codec, compression in [
        ("a.tfrecord", "auto", ""),
        ("a.tfrecord.gz", "auto", "GZIP"),
        ("a.tfrecord.zlib", "auto", "ZLIB"),
        ("a.zz", "auto", "ZLIB"),
        ("b.gz", "none", ""),
        ("b.tfrecord", "gzip", "GZIP"),
    ]:
        path = tmp_path / name
        records.write(path, {"x": list(range(1000))}, codec=codec)
        assert len(payloads(path, compression)) == 1000
        assert [value for batch in records.read(path) for value in batch["x"].tolist()] == list(range(1000))
    sizes = []
    for level in [1, 9]:
        records.write(tmp_path / f"{level}.gz", {"x": [str(i) for i in range(5000)]}, level=level)
        sizes.append(os.path.getsize(tmp_path / f"{level}.gz"))
    assert sizes[1] < sizes[0]
    for level in [0, 10, -2]:
        with pytest.raises(ValueError, match="from 1 to 9"):
            records.write(tmp_path / "c.gz", {"x": [1]}, level=level)


def test_existing_files_are_kept_unless_asked(path):
    records.write(path, {"x": [1]})
    with pytest.raises(FileExistsError, match=f"{path}: exists already") as caught:
        records.write(path, {"x": [2]})
    assert isinstance(caught.value, records.ExistsError)
    assert one_column(path, [3]) == [("int64", [3])]
    with pytest.raises(FileNotFoundError):
        records.write(path / "below" / "a-file", {"x": [1]})


def test_writer(path):
    with records.Writer(path) as writer:
        writer.write_batch({"x": [1, 2]})
        assert not path.exists() and writer.records == 2
        writer.write_batch(pa.table({"x": [3]}))
        writer.write_record(wire.example_of(x=4))
    assert writer.records == 4
    assert [row["x"] for row in features(path)] == [("int64", [value]) for value in [1, 2, 3, 4]]
    writer.close()
    writer.abort()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write_record(b"")
    with pytest.raises(records.MismatchError, match="expected rows for records of kind example"):
        with records.Writer(path, overwrite=True) as writer:
            writer.write_batch({"x": [1]})
            records.write(other := path.parent / "sequence.tfrecord", {"x": [[[1]]]})
            writer.write_batch(next(records.read(other)))


def test_failure_leaves_no_file(path):
    with pytest.raises(ZeroDivisionError):
        with records.Writer(path) as writer:
            writer.write_batch({"x": [1]})
            1 / 0
    assert os.listdir(path.parent) == []
    writer = records.Writer(path)
    writer.write_record(b"x")
    assert len(os.listdir(path.parent)) == 1 and not path.exists()
    del writer
    assert os.listdir(path.parent) == []


def test_disk_full(tmp_path):
    """A limit on the size of files stands for a full disk: the system calls fail in the same way."""
    code = f"""
        import os, resource
        import numpy as np
        from tensorflowonspark import records
        resource.setrlimit(resource.RLIMIT_FSIZE, ({2**20}, {2**20}))
        for name in ["plain.tfrecord", "packed.tfrecord.gz"]:
            try:
                records.write(f"{tmp_path}/{{name}}", {{"x": np.random.default_rng(0).integers(0, 2**62, 400_000)}})
            except records.NoSpaceError as error:
                assert isinstance(error, OSError) and name in str(error), error
            else:
                raise AssertionError("expected an error")
        assert os.listdir("{tmp_path}") == [], os.listdir("{tmp_path}")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


def test_many_writers_at_a_time_do_not_meet(tmp_path):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(20, soft // 4)
    writers = [records.Writer(tmp_path / f"{i}.tfrecord") for i in range(count)]
    for i, writer in enumerate(writers):
        writer.write_batch({"x": [i]})
    for writer in writers:
        writer.close()
    found = conftest.rows_of(records.read([tmp_path / f"{i}.tfrecord" for i in range(count)]))
    assert found == [{"x": i} for i in range(count)]
