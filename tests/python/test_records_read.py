"""Reading: arrays over the memory of a batch, Arrow, projection, options."""

import gc
import logging
import os
import pathlib

import conftest
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tensorflowonspark import records


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.tfrecord"
    rows = 10
    data = {
        "id": np.arange(rows),
        "score": np.arange(rows, dtype=np.float32) / 4,
        "image": np.arange(rows * 3, dtype=np.float32).reshape(rows, 3),
        "ids": [list(range(i)) for i in range(rows)],
        "name": [f"né{i}" for i in range(rows)],
        "blob": [bytes([255, i]) for i in range(rows)],
        "tags": [["t"] * (i % 3) for i in range(rows)],
        "maybe": [None if i % 4 == 0 else i for i in range(rows)],
        "maybe_ids": [None if i % 4 == 0 else [i, i] for i in range(rows)],
        "maybe_name": [None if i % 4 == 0 else str(i) for i in range(rows)],
    }
    records.write(path, data)
    return path


def only_batch(*arguments, **options):
    (batch,) = records.read(*arguments, **options)
    return batch


# ---- NumPy ----


def test_numbers_are_arrays(file):
    batch = only_batch(file)
    assert len(batch) == 10
    assert batch["id"].dtype == np.int64 and batch["id"].tolist() == list(range(10))
    assert batch["score"].dtype == np.float32 and batch["score"].tolist() == [i / 4 for i in range(10)]
    assert batch.to_numpy("image").shape == (10, 3)
    assert batch["image"].tolist() == np.arange(30.0).reshape(10, 3).tolist()


def test_lists_text_and_bytes_are_objects(file):
    batch = only_batch(file)
    assert [row.tolist() for row in batch["ids"]] == [list(range(i)) for i in range(10)]
    assert all(row.dtype == np.int64 for row in batch["ids"])
    assert batch["name"].dtype == object and batch["name"].tolist() == [f"né{i}" for i in range(10)]
    assert batch["blob"].tolist() == [bytes([255, i]) for i in range(10)]
    assert [row.tolist() for row in batch["tags"]] == [["t"] * (i % 3) for i in range(10)]


def test_missing_values_are_masked_and_never_zero(file):
    batch = only_batch(file)
    missing = [i % 4 == 0 for i in range(10)]
    maybe = batch["maybe"]
    assert isinstance(maybe, np.ma.MaskedArray)
    assert maybe.mask.tolist() == missing
    assert maybe.tolist() == [None if gone else i for i, gone in enumerate(missing)]
    assert batch.mask("maybe").tolist() == missing
    assert not batch.mask("id").any() and not isinstance(batch["id"], np.ma.MaskedArray)
    assert batch["maybe_name"].tolist() == [None if gone else str(i) for i, gone in enumerate(missing)]
    assert [None if row is None else row.tolist() for row in batch["maybe_ids"]] == [
        None if gone else [i, i] for i, gone in enumerate(missing)
    ]


def test_missing_fixed_lists_are_masked(tmp_path):
    path = tmp_path / "x.tfrecord"
    records.write(path, {"x": [[1.0, 2.0], None, [5.0, 6.0]], "s": [["a", "b"], None, ["c", "d"]]})
    fields = [{"name": n, "type": t, "shape": [2], "nullable": True} for n, t in [("x", "float"), ("s", "string")]]
    batch = only_batch(path, schema={"fields": fields})
    assert batch["x"].shape == (3, 2)
    assert batch["x"].tolist() == [[1.0, 2.0], [None, None], [5.0, 6.0]]
    assert batch["s"].tolist() == [["a", "b"], [None, None], ["c", "d"]]


def test_every_type_can_be_asked_for(tmp_path):
    path = tmp_path / "x.tfrecord"
    records.write(path, {"i": [0, 1], "f": [0.5, 1.5], "b": [b"x", b"y"]})

    def read(name, type):
        return only_batch(path, schema={"fields": [{"name": name, "type": type}]})[name]

    assert read("i", "int32").dtype == np.int32
    assert read("i", "bool").dtype == np.bool_ and read("i", "bool").tolist() == [False, True]
    assert read("f", "double").dtype == np.float64 and read("f", "double").tolist() == [0.5, 1.5]
    assert read("b", "binary").tolist() == [b"x", b"y"]
    assert read("b", "string").tolist() == ["x", "y"]


def test_feature_lists_nest(tmp_path):
    path = tmp_path / "x.tfrecord"
    data = {"frames": [[[1.0, 2.0], [3.0]], [], [[4.0]]], "id": [1, 2, 3]}
    records.write(path, data)
    batch = only_batch(path)
    assert batch.schema.record == "sequence_example"
    assert [[list(inner) for inner in row] for row in batch["frames"]] == data["frames"]
    assert batch.to_pydict() == data


def test_numbers_are_not_copied(file):
    """Arrays and the Arrow export show the same addresses."""
    batch = only_batch(file)
    exported = pa.record_batch(batch)
    assert batch["id"].ctypes.data == exported["id"].buffers()[1].address
    assert batch["score"].ctypes.data == exported["score"].buffers()[1].address
    assert batch["image"].ctypes.data == exported["image"].buffers()[2].address
    assert batch["maybe"].data.ctypes.data == exported["maybe"].buffers()[1].address
    assert batch.values("ids").ctypes.data == exported["ids"].buffers()[3].address
    assert batch.offsets("ids").ctypes.data == exported["ids"].buffers()[1].address
    assert batch.values("name").ctypes.data == exported["name"].buffers()[2].address
    assert np.shares_memory(batch["image"], batch["image"])
    assert np.shares_memory(batch["ids"][5], batch.values("ids"))


def test_offsets_and_values_make_the_rows(file):
    batch = only_batch(file)
    values, offsets = batch.values("ids"), batch.offsets("ids")
    assert offsets.tolist() == [i * (i - 1) // 2 for i in range(11)]
    assert [values[offsets[i] : offsets[i + 1]].tolist() for i in range(10)] == [list(range(i)) for i in range(10)]
    text = batch.values("name")
    assert text.dtype == np.uint8 and bytes(text[: batch.offsets("name")[1]]).decode() == "né0"
    assert batch.values("image").tolist() == list(range(30))
    with pytest.raises(ValueError, match="'image' has rows of equal length"):
        batch.offsets("image")


def test_arrays_cannot_be_written_to(file):
    batch = only_batch(file)
    for name in ["id", "score", "image"]:
        with pytest.raises(ValueError, match="read-only"):
            batch[name][0] = 1
    assert memoryview(batch._native.column("id").data).readonly


def test_arrays_outlive_batch_and_reader(file):
    reader = records.read(file, batch_rows=2)
    batch = next(reader)
    image, ids, exported = batch["image"], batch["ids"], pa.record_batch(batch)
    reader.close()
    del batch, reader
    gc.collect()
    for other in records.read(file, batch_rows=2):  # memory that was given up would be used again
        other["image"]
    assert image.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert [row.tolist() for row in ids] == [[], [0]]
    assert exported["name"].to_pylist() == ["né0", "né1"]


def test_unknown_column(file):
    batch = only_batch(file)
    with pytest.raises(KeyError, match="there is no column 'nope'; the columns are blob, id"):
        batch["nope"]


def test_batch_describes_itself(file):
    text = repr(only_batch(file, columns=["image", "ids", "maybe"]))
    assert text == "<Batch of 10 rows: image: float[3], ids: int64[], maybe: int64?>"


def test_to_pydict(file):
    batch = only_batch(file, columns=["id", "name", "blob", "maybe_ids", "image"])
    assert conftest.columns_to_rows(batch.to_pydict())[5] == {
        "id": 5,
        "name": "né5",
        "blob": b"\xff\x05",
        "maybe_ids": [5, 5],
        "image": [15.0, 16.0, 17.0],
    }


# ---- Arrow ----


def test_pyarrow_reads_batches_and_streams(file):
    batch = only_batch(file)
    table = pa.table(batch)
    assert table.num_rows == 10
    assert table["maybe"].to_pylist() == [None if i % 4 == 0 else i for i in range(10)]
    assert table.schema.field("image").type == pa.list_(pa.float32(), 3)
    table.validate(full=True)
    streamed = pa.RecordBatchReader.from_stream(records.read(file, batch_rows=3)).read_all()
    assert streamed.to_pydict() == table.to_pydict()
    assert [len(chunk) for chunk in streamed["id"].chunks] == [3, 3, 3, 1]


def test_polars_reads_streams(file):
    frame = pl.DataFrame(records.read(file, columns=["id", "name", "image", "ids"]))
    assert frame.shape == (10, 4)
    assert frame["name"].to_list() == [f"né{i}" for i in range(10)]
    assert frame["ids"].to_list() == [list(range(i)) for i in range(10)]
    assert pl.DataFrame(only_batch(file))["maybe"].null_count() == 3


def test_schema_speaks_arrow(file):
    reader = records.read(file)
    assert pa.schema(reader.schema).names == reader.schema.names
    assert pa.schema(reader).equals(pa.schema(next(reader)))
    assert pa.schema(reader.schema).field("maybe").nullable
    assert not pa.schema(reader.schema).field("id").nullable


def test_stream_reports_errors(file):
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    stream = pa.RecordBatchReader.from_stream(records.read(file, schema={"fields": [{"name": "id", "type": "int64"}]}))
    with pytest.raises(pa.ArrowInvalid, match="data.tfrecord: offset"):
        stream.read_all()


def test_stream_outlives_its_reader(file):
    stream = pa.RecordBatchReader.from_stream(records.read(file, batch_rows=4))
    gc.collect()
    assert stream.read_all().num_rows == 10


def test_stream_of_a_closed_reader_ends_with_an_error(file):
    reader = records.read(file, batch_rows=1)
    stream = pa.RecordBatchReader.from_stream(reader)
    reader.close()
    with pytest.raises((pa.ArrowCancelled, pa.ArrowInvalid, OSError)):
        stream.read_all()
    with pytest.raises(ValueError, match="the reader is closed"):
        reader.__arrow_c_stream__()


# ---- what is read ----


def test_columns_are_chosen_and_ordered(file):
    batch = only_batch(file, columns=["score", "id"])
    assert batch.names == ["score", "id"]
    with pytest.raises(records.InvalidError, match="there is no column 'nope'; the columns are: blob, id"):
        records.read(file, columns=["nope"])
    with pytest.raises(TypeError, match="columns is a sequence of str"):
        records.read(file, columns="id")


def test_paths_are_files_folders_and_globs(tmp_path):
    for i in range(3):
        records.write(tmp_path / f"part-{i}.tfrecord", {"x": [i, i]})
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden").write_bytes(b"no record")
    expected = [0, 0, 1, 1, 2, 2]

    def values(paths):
        return [value for batch in records.read(paths) for value in batch["x"].tolist()]

    assert values(tmp_path) == values(str(tmp_path)) == expected
    assert values(f"{tmp_path}/part-*.tfrecord") == expected
    assert values([tmp_path / "part-2.tfrecord", str(tmp_path / "part-0.tfrecord")]) == [2, 2, 0, 0]
    assert values((tmp_path / "part-1.tfrecord",)) == [1, 1]
    assert values(os.fsencode(tmp_path / "part-1.tfrecord")) == [1, 1]


def test_batch_rows_and_threads_do_not_change_the_rows(tmp_path):
    for part in range(5):
        records.write(tmp_path / f"{part}.tfrecord", {"x": np.arange(part * 1000, (part + 1) * 1000)})
    borders = None
    for threads in [0, 1, 2, 4]:
        batches = [batch["x"].tolist() for batch in records.read(tmp_path, batch_rows=300, threads=threads)]
        assert sum(batches, []) == list(range(5000))
        assert max(map(len, batches)) <= 300
        borders = borders or [len(batch) for batch in batches]
        assert [len(batch) for batch in batches] == borders
    unordered = [batch["x"].tolist() for batch in records.read(tmp_path, batch_rows=300, ordered=False)]
    assert sorted(sum(unordered, [])) == list(range(5000))


def test_batch_bytes_bounds_a_batch(tmp_path):
    path = tmp_path / "x.tfrecord"
    records.write(path, {"x": [b"x" * 1000] * 100})
    sizes = [len(batch) for batch in records.read(path, batch_bytes=10_000)]
    assert sum(sizes) == 100 and max(sizes) <= 10


def test_splits_read_every_record_once(tmp_path):
    path = tmp_path / "x.tfrecord"
    records.write(path, {"x": [list(range(i % 7)) + [i] for i in range(500)]})
    size = os.path.getsize(path)
    borders = [0, 1, 12, size // 3, size // 3 + 1, size // 2, size - 5, size]
    rows = []
    for start, end in zip(borders, borders[1:]):
        for batch in records.read(path, schema=records.schema(path), split=(start, end)):
            rows += [int(row[-1]) for row in batch["x"]]
    assert rows == list(range(500))


def test_reader_is_an_iterator_and_a_context(file):
    with records.read(file, batch_rows=4) as reader:
        assert iter(reader) is reader
        assert len(next(reader)) == 4
        assert repr(reader).startswith("<Reader of example records: blob, id")
    with pytest.raises(ValueError, match="the reader is closed"):
        next(reader)
    ended = records.read(file)
    assert len(list(ended)) == 1
    assert list(ended) == []
    ended.close()


def test_progress(file):
    reader = records.read(file)
    assert reader.progress.total_bytes == os.path.getsize(file)
    list(reader)
    progress = reader.progress
    assert progress.done_bytes == progress.total_bytes and progress.records == 10
    assert (progress.skipped_records, progress.skipped_bytes) == (0, 0) and progress.memory_bytes > 0


def test_skipped_records_are_counted_and_logged(small_file, caplog):
    path, offsets = small_file
    data = bytearray(path.read_bytes())
    data[offsets[1] + 14] ^= 1
    path.write_bytes(data)
    schema = records.Schema({"fields": [{"name": "x", "type": "int64"}]})
    with caplog.at_level(logging.WARNING, logger="tensorflowonspark"):
        reader = records.read(path, schema=schema, on_corrupt="skip")
        assert [batch["x"].tolist() for batch in reader] == [[1, 3]]
    assert reader.progress.skipped_records == 1 and reader.progress.skipped_bytes == offsets[2] - offsets[1]
    (line,) = caplog.records
    assert line.levelname == "WARNING" and f"{path}: offset {offsets[1]}: skipped" in line.getMessage()


# ---- schemas ----


def test_schema_forms(file, tmp_path):
    schema = records.schema(file)
    assert schema.names == sorted(schema.names) and len(schema) == 10
    assert schema.fields[schema.names.index("image")] == records.Field("image", "float", (3,), False, False)
    assert schema.fields[schema.names.index("ids")] == records.Field("ids", "int64", (None,), False, False)
    assert records.Schema.from_json(schema.to_json()) == schema == records.Schema(schema)
    assert schema != records.schema(file, sample=2) and schema != "schema"
    text = tmp_path / "schema.json"
    text.write_text(schema.to_json())
    assert records.Schema(text) == schema
    assert len(only_batch(file, schema=text)) == len(only_batch(file, schema=schema.to_json())) == 10
    assert repr(schema).startswith('Schema({"record": "example"')
    assert len({schema, records.Schema(text), records.schema(file, sample=2)}) == 2


def test_schema_from_arrow(file):
    given = pa.schema([("image", pa.list_(pa.float32(), 3)), pa.field("id", pa.int32(), nullable=False)])
    schema = records.Schema(given)
    assert schema.fields == [records.Field("image", "float", (3,), True), records.Field("id", "int32")]
    batch = only_batch(file, schema=given)
    assert batch.names == ["image", "id"] and batch["id"].dtype == np.int32
    whole = records.schema(file)
    assert records.Schema(pa.schema(whole)) == whole
    with pytest.raises(records.UnsupportedError, match="column 'when': the Arrow type timestamp"):
        records.Schema(pa.schema([("when", pa.timestamp("s"))]))


def test_sample_makes_every_feature_nullable(file):
    assert all(field.nullable for field in records.schema(file, sample=3).fields)
    assert not all(field.nullable for field in records.schema(file).fields)


def test_bad_schemas(file):
    for bad, message in [
        ("{", "ends before its closing bracket"),
        ({"fields": [{"name": "x", "type": "int65"}]}, "unknown type 'int65'"),
        ({"fields": [{"name": "x", "type": "int64", "nulable": True}]}, "nulable"),
    ]:
        with pytest.raises(records.InvalidError, match=message):
            records.read(file, schema=bad)
    with pytest.raises(TypeError, match="expected a Schema, JSON text, a dict or a path, found int"):
        records.read(file, schema=7)
    with pytest.raises(FileNotFoundError):
        records.read(file, schema=pathlib.Path("no-such-schema.json"))
