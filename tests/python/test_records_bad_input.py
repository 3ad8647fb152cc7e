"""Bad input: each ends in the documented exception, with file and offset, or in a counted skip."""

import contextlib
import gzip
import os
import zlib

import conftest
import make_vectors as wire
import pytest
import tensorflow as tf

from tensorflowonspark import records

X = {"fields": [{"name": "x", "type": "int64"}]}


def read_x(path, **options):
    return [value for batch in records.read(path, schema=X, **options) for value in batch["x"].tolist()]


def fails_at(path, offset, kind=records.CorruptError, **options):
    with pytest.raises(kind) as caught:
        read_x(path, **options)
    assert f"{path}: offset {offset}" in str(caught.value)
    return caught.value


@contextlib.contextmanager
def without_privileges():
    """Root may read everything: be nobody for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_every_prefix(small_file):
    path, offsets = small_file
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        whole = [1, 2, 3][: sum(offset <= size for offset in offsets) - 1]
        if size in offsets:
            assert read_x(path) == whole
            continue
        error = fails_at(path, max(offset for offset in offsets if offset <= size), records.TruncatedError)
        assert error.status == "TRUNCATED" and error.fault == "final"
        reader = records.read(path, schema=X, on_corrupt="skip")
        assert [value for batch in reader for value in batch["x"].tolist()] == whole
        assert reader.progress.skipped_bytes == size - max(offset for offset in offsets if offset <= size)


def test_every_flipped_byte(small_file):
    path, offsets = small_file
    data = path.read_bytes()
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        record = max(i for i, offset in enumerate(offsets[:3]) if offset <= position)
        fails_at(path, offsets[record])
        reader = records.read(path, schema=X, on_corrupt="skip")
        assert [v for batch in reader for v in batch["x"].tolist()] == [v for v in [1, 2, 3] if v != record + 1]
        assert reader.progress.skipped_records == 1


@pytest.mark.parametrize("length", [2**63, -1, 2**64 - 16, 1000, 2**40])
def test_impossible_lengths(small_file, length):
    path, offsets = small_file
    data = path.read_bytes()
    path.write_bytes(data[: offsets[1]] + conftest.header(length) + data[offsets[1] :])
    error = fails_at(path, offsets[1])
    assert error.status in ("CORRUPT", "TRUNCATED")
    assert read_x(path, on_corrupt="skip") == [1, 2, 3]


def test_compressed_data_cut_short(tmp_path):
    path = tmp_path / "x.tfrecord.gz"
    records.write(path, {"x": list(range(1000))})
    whole = path.read_bytes()
    for size in [1, 5, 10, len(whole) // 2, len(whole) - 8, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(records.CorruptError, match=f"{path}") as caught:
            read_x(path, codec="gzip")
        assert "offset" in str(caught.value)
    path.write_bytes(whole[:100] + bytes([whole[100] ^ 0xFF]) + whole[101:])
    with pytest.raises(records.CorruptError, match="offset"):
        read_x(path)


def test_wrong_codec(small_file, tmp_path):
    path, _ = small_file
    with pytest.raises(records.CorruptError, match="expected gzip data"):
        read_x(path, codec="gzip")
    with pytest.raises(records.CorruptError, match="expected zlib data"):
        read_x(path, codec="zlib")
    packed = tmp_path / "packed.tfrecord"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_x(packed) == read_x(packed, codec="gzip") == [1, 2, 3]
    fails_at(packed, 0, codec="none")
    packed.write_bytes(zlib.compress(path.read_bytes()))
    assert read_x(packed) == read_x(packed, codec="zlib") == [1, 2, 3]
    with pytest.raises(records.InvalidError, match="unknown codec 'lz4': expected auto, none, gzip or zlib"):
        read_x(packed, codec="lz4")


def test_empty_file(tmp_path):
    path = tmp_path / "empty.tfrecord"
    path.touch()
    assert read_x(path) == []
    with pytest.raises(records.NotFoundError, match=f"{path}: no record to infer a schema from"):
        records.schema(path)


def test_nothing_to_read(tmp_path):
    for missing in [tmp_path / "missing.tfrecord", tmp_path, f"{tmp_path}/*.tfrecord"]:
        with pytest.raises(FileNotFoundError) as caught:
            records.read(missing)
        assert isinstance(caught.value, records.NotFoundError) and str(missing) in str(caught.value)
    with pytest.raises(ValueError, match="expected at least one file, folder or glob, found none"):
        records.read([])


def test_no_permission(small_file):
    path, _ = small_file
    path.chmod(0)
    with without_privileges(), pytest.raises(PermissionError) as caught:
        read_x(path)
    assert isinstance(caught.value, records.PermissionError) and str(path) in str(caught.value)


def test_schemes_that_are_not_local():
    with pytest.raises(NotImplementedError, match="s3a") as caught:
        records.read("s3a://bucket/data.tfrecord")
    assert isinstance(caught.value, records.UnsupportedError)


def test_not_a_record_file(tmp_path):
    path = tmp_path / "text.tfrecord"
    path.write_text("a,b,c\n" * 100)
    fails_at(path, 0)
    payload = b"these bytes are no Example"
    path.write_bytes(conftest.framed(payload))
    fails_at(path, 0)
    assert next(records.read(path, record="bytes"))["record"].tolist() == [payload]


def write_examples(path, *rows):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            writer.write(wire.example_of(**row))
    return path


def test_kind_that_changes(tmp_path):
    path = write_examples(tmp_path / "x.tfrecord", {"x": 1}, {"x": 2}, {"x": "three"})
    with pytest.raises(records.MismatchError, match="'x' changes its kind: int64 at offset 0 of .*bytes at offset"):
        records.schema(path)
    with pytest.raises(ValueError, match="column 'x': expected int64 values for type int64, found bytes") as caught:
        read_x(path)
    assert f"{path}: offset " in str(caught.value)


def test_list_that_is_longer_than_declared(tmp_path):
    path = write_examples(tmp_path / "x.tfrecord", {"x": [1, 2]}, {"x": [1, 2, 3]})
    with pytest.raises(records.MismatchError, match="expected a list of 2 values, found 3"):
        list(records.read(path, schema={"fields": [{"name": "x", "type": "int64", "shape": [2]}]}))
    with pytest.raises(records.MismatchError, match="column 'x': expected one value, found 2"):
        read_x(path)


def test_missing_value_of_a_column_that_is_not_nullable(tmp_path):
    path = write_examples(tmp_path / "x.tfrecord", {"x": 1}, {"y": 1})
    with pytest.raises(records.MismatchError, match="column 'x': expected a value, the feature is missing"):
        read_x(path)


def test_invalid_text(tmp_path):
    path = write_examples(tmp_path / "x.tfrecord", {"x": b"good"}, {"x": b"b\xffd"})
    with pytest.raises(records.EncodingError, match="column 'x': invalid UTF-8 at byte 1") as caught:
        list(records.read(path, schema={"fields": [{"name": "x", "type": "string"}]}))
    assert f"{path}: offset " in str(caught.value)


def test_integers_that_do_not_fit(tmp_path):
    path = write_examples(tmp_path / "x.tfrecord", {"x": 2**31 - 1}, {"x": 2**31})
    with pytest.raises(records.RangeError, match="2147483648 does not fit int32") as caught:
        list(records.read(path, schema={"fields": [{"name": "x", "type": "int32"}]}))
    assert "column 'x'" in str(caught.value) and f"{path}: offset " in str(caught.value)
    with pytest.raises(records.RangeError, match="does not fit bool"):
        list(records.read(path, schema={"fields": [{"name": "x", "type": "bool"}]}))


def test_bad_options(small_file):
    path, _ = small_file
    for options, kind, message in [
        ({"record": "examples"}, ValueError, "unknown kind of record 'examples': expected auto, example"),
        ({"on_corrupt": "ignore"}, ValueError, "unknown on_corrupt 'ignore': expected error or skip"),
        ({"batch_rows": -1}, ValueError, "batch_rows.* -1"),
        ({"batch_bytes": 2**40}, ValueError, "batch_bytes.* 1099511627776"),
        ({"threads": -2}, ValueError, "threads.* -2"),
        ({"infer_records": -1}, ValueError, "infer_records .*must be 0 or more"),
        ({"split": (-1, 5)}, ValueError, "range_start must be 0 or more"),
        ({"batch_rows": "many"}, TypeError, "an integer is required|cannot be interpreted as an integer"),
        ({"columns": [b"x"]}, TypeError, "columns is a sequence of str"),
        ({"columns": ["x\0y"]}, ValueError, "no NUL"),
        ({"no_such_option": 1}, TypeError, "no_such_option"),
    ]:
        with pytest.raises(kind, match=message):
            records.read(path, **options)
    with pytest.raises(TypeError):
        records.read(17)
    with pytest.raises(ValueError, match="null byte"):
        records.read("a\0b")


def test_compressed_file_is_in_the_split_of_its_first_byte(tmp_path):
    path = tmp_path / "x.tfrecord.gz"
    records.write(path, {"x": [1, 2, 3]})
    assert list(read_x(path, split=(0, 5))) == [1, 2, 3]
    assert list(read_x(path, split=(5, 50))) == []


def test_errors_repeat(small_file):
    path, offsets = small_file
    path.write_bytes(path.read_bytes()[:-1])
    reader = records.read(path, schema=X, batch_rows=1)
    assert len(list(zip(range(2), reader))) == 2
    for _ in range(3):
        with pytest.raises(records.TruncatedError, match=f"offset {offsets[2]}"):
            next(reader)


def test_every_error_is_an_error_and_can_be_pickled():
    import pickle

    names = [name for name in records.__all__ if name.endswith("Error") and name != "Error"]
    assert len(names) == 16
    for name in names:
        kind = getattr(records, name)
        assert issubclass(kind, records.Error) and kind.__module__ == "tensorflowonspark.records"
        assert kind.status == "".join("_" + c if c.isupper() else c.upper() for c in name[:-5])[1:]
        again = pickle.loads(pickle.dumps(kind("text")))
        assert type(again) is kind and str(again) == "text" and again.fault in ("again", "final")
