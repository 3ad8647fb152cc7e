"""Rows of Python objects as columns and back: what comes out equals what went in, in type and value."""

import collections
import datetime
import decimal
import enum
import gc
import importlib.util
import json
import math
import os
import pickle
import random
import struct
import sys
import threading
import time

import numpy as np
import pytest

from tensorflowonspark import _native, _results, _rows

NUMPY_CODES = "?bBhHiIlLqQefdgFDG"


class MyInt(int):
    pass


class MyStr(str):
    pass


class MyList(list):
    pass


class MyDict(dict):
    pass


class MyArray(np.ndarray):
    pass


class Color(enum.IntEnum):
    RED = 1


Point = collections.namedtuple("Point", "x y")


def same(a, b):
    """Equality in type and value, all the way down; NaN equals NaN of the same bits, -0.0 is not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ma.MaskedArray):
        return same(a.data, b.data) and same(a.mask, b.mask)
    if isinstance(a, np.ndarray):
        if a.dtype == object:
            return a.shape == b.shape and all(map(same, a.ravel(), b.ravel()))
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, np.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        fields = getattr(a, "__fields__", None)
        return len(a) == len(b) and all(map(same, a, b)) and same(fields, getattr(b, "__fields__", None))
    return a == b


def encode(rows, **limits):
    encoder = _native.RowEncoder()
    iterator = iter(rows)
    batches = []
    more = True
    while more:
        more = encoder.add_many(iterator, **limits)
        batch = encoder.take()
        assert batch is not None or not more
        batches += [] if batch is None else [batch]
    assert encoder.take() is None
    return batches


def decode(batches):
    return [row for batch in batches for row in _native.decode_rows(batch)]


def note_in(batch):
    """The note of its schema, as it stands there."""
    return json.loads(json.loads(batch.schema().to_json())["note"])


def check(rows, most_batches=1, **limits):
    """Through the columns and back; returns what the first note says of the fields."""
    batches = encode(rows, **limits)
    found = decode(batches)
    assert len(found) == len(rows)
    for got, row in zip(found, rows):
        assert same(got, row), (got, row)
    assert len(batches) <= most_batches
    note, schema = note_in(batches[0]), batches[0].schema()
    names = [field["name"] for field in note["fields"]]
    assert names == [field[0] for field in schema.fields()] == list(_native.row_fields(schema))
    return note["row"], [f"{field['is']} {field['of']}" for field in note["fields"]]


# ---- kinds ----


@pytest.mark.parametrize(
    "values, kind",
    [
        ([0, -1, 2**63 - 1, -(2**63)], "int"),
        ([0.0, -0.0, 1e308, 5e-324, math.inf, -math.inf, math.nan], "float"),
        ([struct.unpack("d", struct.pack("Q", 0x7FF8DEADBEEF0001))[0]], "float"),
        ([True, False], "bool"),
        (["", "a", "ä", "日本", "\U0001f600", "nul\0nul"], "str"),
        ([b"", b"a", bytes(range(256))], "bytes"),
    ],
)
def test_scalars(values, kind):
    assert check(values) == ("value", [f"value {kind}"])
    assert check([None, *values, None]) == ("value", [f"value {kind}"])
    assert check([(value, 1) for value in values]) == ("tuple", [f"value {kind}", "value int"])
    assert check([(1.0, values, [], tuple(values))] * 3) == (
        "tuple",
        ["value float", f"list {kind}", "list none", f"tuple {kind}"],
    )
    assert check([{"a": value, "b": None} for value in values]) == ("dict", [f"value {kind}", "value none"])
    assert check([values, [], values]) == ("value", [f"list {kind}"])


@pytest.mark.parametrize(
    "value",
    [
        2**63,
        -(2**63) - 1,
        10**100,
        "\ud800",
        "a\udfffb",
        MyInt(3),
        MyStr("x"),
        MyList([1]),
        MyDict(a=1),
        Color.RED,
        Point(1, 2),
        collections.OrderedDict(a=1),
        1 + 2j,
        decimal.Decimal("1.10"),
        datetime.date(2020, 1, 2),
        datetime.datetime(2020, 1, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc),
        bytearray(b"x"),
        {1, 2},
        frozenset([1]),
        range(3),
        [1, 2.0],
        [1, True],
        [1, None],
        [None],
        [[1, 2], [3]],
        [(1,), [1]],
        [2**70, 1],
        ["a", "\ud800"],
        [MyInt(1)],
        [np.float32(1)],
        {},
        {1: 2},
        {"a": {"b": [1]}},
        ((1, 2), (3,)),
        np.array([1, "a", None], dtype=object),
        np.array(["2020-01-02", "NaT"], dtype="M8[D]"),
        np.array(["ab", "c"]),
        np.array([b"ab", b"c"]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([1, 2, 3], dtype=">i4"),
        np.arange(4).view(MyArray),
        np.ma.masked_array([1, 2], mask=[True, False]),
        np.str_("x"),
        np.bytes_(b"x"),
        np.datetime64("2020-01-02"),
        np.zeros((1,) * 9),
        Ellipsis,
        int,
    ],
    ids=lambda value: f"{type(value).__name__}-{value!r}"[:40].encode("ascii", "replace").decode(),
)
def test_what_fits_no_column_is_pickled(value):
    check([value])
    check([None, value, None], most_batches=3)
    check([[value, 1.5]])
    check([{"a": value, "b": [1, 2]}, {"a": None, "b": [3]}])
    assert check([(value, 7)] * 3) == ("tuple", ["value pickle", "value int"])


@pytest.mark.parametrize("code", NUMPY_CODES)
def test_numpy(code):
    dtype = np.dtype(code)
    random_bytes = np.random.default_rng(1).integers(0, 2, 96 * dtype.itemsize, dtype=np.uint8)
    values = np.arange(96).astype(dtype) if code in "?" else random_bytes.view(dtype)
    for shape in [(96,), (4, 24), (2, 3, 16), (96, 1)]:
        rows = [(values.reshape(shape), i) for i in range(5)]
        assert check(rows) == ("tuple", [f"array numpy {code}", "value int"])
    assert check([values[:length] for length in (5, 0, 7)]) == ("value", [f"array numpy {code}"])
    assert check([(values[0], 1), (values[1], 2), (None, 3), (values[2], 4)])[1][0] == f"value numpy {code}"
    assert check([values[3], values[4]]) == ("value", [f"value numpy {code}"])
    assert check([np.array(values[3]), np.array(values[4])]) == ("value", [f"array numpy {code}"])
    assert check([np.zeros((0, 3), dtype), np.zeros((0, 3), dtype)]) == ("value", [f"array numpy {code}"])
    assert check([(values.reshape(4, 24), 1), (None, 2), (values.reshape(4, 24), 1)])[1][0] == f"array numpy {code}"


def test_numpy_arrays_of_any_memory():
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    fortran = np.asfortranarray(base)
    readonly = base.copy()
    readonly.flags.writeable = False
    rows = [fortran, base.T.copy().T, np.broadcast_to(base[0], (4, 6)), base[::-1], base[:, ::-1], readonly]
    check(rows)
    for array in decode(encode(rows)):
        array[0, 0] = 7  # as after unpickling, it can be written to


def test_numpy_shapes_that_change():
    rows = [np.zeros((i % 3 + 1, 2), np.float64) for i in range(300)]
    check(rows, most_batches=10)
    assert check([np.zeros(i) for i in range(30)]) == ("value", ["array numpy d"])


def test_tuples_and_lists_stay_what_they_are():
    assert check([(1, [1, 2], (1, 2))])[1] == ["value int", "list int", "tuple int"]
    assert check([[1, [1, 2], (1, 2)]]) == ("list", ["value int", "list int", "tuple int"])
    assert check([(1, 2), (3, 4)]) == ("tuple", ["value int", "value int"])
    assert check([[1, 2], [3, 4, 5]]) == ("value", ["list int"])
    assert check([tuple(range(784))] * 3) == ("value", ["tuple int"])
    assert check([[0.5] * 784] * 3) == ("value", ["list float"])
    assert check([tuple("abc") + (1,) * 100] * 3)[0] == "tuple"
    assert check([[1, "a"] * 50] * 3) == ("value", ["value pickle"])
    assert check([((), []), ((1,), [])])[1] == ["tuple int", "list none"]
    assert check([(1,), (2,)]) == ("tuple", ["value int"])
    assert check([tuple([1, "a"] * 1000)]) == ("value", ["value pickle"])


def test_dicts():
    assert check([{"a": 1, "ä": "x", "c": [1.0]}] * 4) == ("dict", ["value int", "value str", "list float"])
    for odd in [{"": 1}, {"a\0b": 1}, {"\ud800": 1}, {"x" * 5000: 1}, {1: 2}, {"a": 1, 2: 3}, {MyStr("a"): 1}]:
        assert check([odd])[1] == ["value pickle"]
    check([{"a": 1, "b": 2}, {"b": 1, "a": 2}, {"a": 1, "b": 2}], most_batches=3)
    check([{f"k{i}": i for i in range(2000)}])


# ---- Spark ----

needs_spark = pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="needs pyspark")


@needs_spark
def test_rows_of_spark():
    from pyspark.sql import Row

    rows = [Row(id=i, name=str(i), vector=[float(i)] * 3) for i in range(10)]
    assert check(rows) == ("Row", ["value int", "value str", "list float"])
    assert decode(encode(rows))[3].name == "3"
    template = Row("id", "name")
    assert check([template(i, "x") for i in range(5)]) == ("Row of Row", ["value int", "value str"])
    assert check([pickle.loads(pickle.dumps(row)) for row in rows])[0] == "Row"
    twice = Row(a=1, b=2)
    twice.__fields__ = ["a", "a"]
    assert check([twice]) == ("value", ["value pickle"])
    check([Row(a=1), Row(b=1), Row(a=1, b=2)], most_batches=3)
    check([Row(a=Row(b=1))])
    check([Row(a=1), (1,), [1, 2.0], {"a": 1}] * 50, most_batches=12)
    mapping = [("id", "x"), ("name", "y")]
    assert _native.decode_columns(encode(rows)[0], mapping) == {
        "x": list(range(10)),
        "y": [str(i) for i in range(10)],
    }


@needs_spark
def test_who_looks_like_a_row_is_none():
    row = collections.namedtuple("Row", "a b")
    globals()["Row"] = row  # so that pickle finds it
    row.__module__ = __name__
    assert check([row(1, 2)]) == ("value", ["value pickle"])


# ---- forms that change ----


@pytest.mark.parametrize(
    "make",
    [
        lambda i: i if i % 2 else float(i),
        lambda i: (i if i % 2 else float(i), i),
        lambda i: (i, 1) if i % 2 else [i, 1.5],
        lambda i: (i,) * (i % 5 + 1),
        lambda i: [i, 2.0] if i % 3 else [i, 2],
        lambda i: {"a": i} if i % 2 else {"b": i},
        lambda i: {"a": i, "b": 1} if i % 2 else {"b": i, "a": 1},
        lambda i: [1] * (i % 9) if i % 2 else (1,) * (i % 9),
        lambda i: np.float32(i) if i % 2 else i,
        lambda i: (np.zeros(i % 4), np.zeros(3, "f" if i % 2 else "d")),
        lambda i: "x" if i % 2 else b"x",
        lambda i: True if i % 2 else 1,
        lambda i: [i, "x", None, 2.0, (1,), i][i % 6],
        lambda i: (2**70 if i % 2 else i, "a"),
        lambda i: () if i % 2 else (1, 2),
    ],
)
def test_alternating_forms_do_not_make_a_batch_of_each_row(make):
    check([make(i) for i in range(5000)], most_batches=16, limit_rows=1000)


def test_none_and_lengths_end_no_batch():
    rows = [(None if i % 7 == 3 else i, [1.0] * (i % 5), None if i < 50 else "x") for i in range(100)]
    assert check(rows) == ("tuple", ["value int", "list float", "value str"])


def test_a_phase_of_another_kind_is_typed_too():
    rows = [(i, 1) for i in range(3000)] + [(float(i), 1) for i in range(3000)]
    batches = encode(rows)
    assert all(same(a, b) for a, b in zip(decode(batches), rows))
    assert [note_in(batch)["fields"][0]["of"] for batch in batches] == ["int", "float"]


def test_an_exception_is_forgotten():
    rows = [2**70 if i == 1500 else i for i in range(100_000)]
    batches = encode(rows, limit_rows=1000)
    assert decode(batches) == rows
    kinds = [note_in(batch)["fields"][0]["of"] for batch in batches]
    assert kinds.count("pickle") == 1 and kinds[-1] == "int"


def test_many_fields_that_change_are_pickled_together():
    rng = random.Random(5)
    check([tuple(rng.choice([1, 1.5, "x"]) for _ in range(200)) for _ in range(1000)], most_batches=12)


def test_one_schema_for_batches_of_one_form():
    batches = encode([(i, [1.0, 2.0]) for i in range(100)], limit_rows=10)
    assert len(batches) == 10
    assert len({batch.schema() for batch in batches}) == 1
    field = batches[0].column("_2")
    assert (field.layout, field.list_length) == ("fixed_list", 2)
    nulls = encode([(i if i % 50 else None,) for i in range(100)], limit_rows=10)
    assert decode(nulls)[50] == (None,)


# ---- the encoder ----


def test_add_says_when_the_batch_must_be_taken():
    encoder = _native.RowEncoder()
    assert encoder.take() is None
    assert encoder.add((1, 2)) and encoder.add((3, 4))
    assert encoder.rows == 2 and encoder.nbytes > 0
    assert not encoder.add({"a": 1})
    assert encoder.rows == 2
    assert _native.decode_rows(encoder.take()) == [(1, 2), (3, 4)]
    assert encoder.rows == 0 and encoder.nbytes == 0
    assert encoder.add({"a": 1})
    assert _native.decode_rows(encoder.take()) == [{"a": 1}]


def test_a_row_that_fits_in_part_leaves_nothing():
    encoder = _native.RowEncoder()
    assert encoder.add((1, "a", [1], b"x", True, 1.5))
    assert not encoder.add((2, "b", [2], b"y", False, "odd"))
    assert not encoder.add((2, "b", [2, 2.5], b"", True, 1.0))
    assert not encoder.add((2, "\ud800", [], b"", True, 1.0))
    assert encoder.add((None, None, None, None, None, None))
    assert not encoder.add((None, None, None, None, None, "odd"))
    assert encoder.add((3, "c", [], b"z", False, 2.5))
    expected = [(1, "a", [1], b"x", True, 1.5), (None,) * 6, (3, "c", [], b"z", False, 2.5)]
    assert _native.decode_rows(encoder.take()) == expected


def test_limits():
    batches = encode([(i,) for i in range(10_000)])
    assert [len(batch) for batch in batches] == [4096, 4096, 1808]
    batches = encode([b"x" * 1000 for _ in range(3000)])
    assert [len(batch) for batch in batches] == [1048, 1048, 904]
    assert [len(batch) for batch in encode([bytes(2 << 20)] * 3)] == [1, 1, 1]


def test_rows_that_come_slowly_do_not_wait_for_others():
    def come():
        for number in range(3):
            time.sleep(0.02)
            yield (number,)

    assert [len(batch) for batch in encode(come())] == [3]
    assert [len(batch) for batch in encode(come(), limit_ms=0)] == [1, 1, 1]
    assert [len(batch) for batch in encode(come(), limit_ms=60_000)] == [3]


def test_bad_arguments():
    encoder = _native.RowEncoder()
    with pytest.raises(TypeError, match="iterator"):
        encoder.add_many([1, 2])
    with pytest.raises(ValueError, match="at least 1"):
        encoder.add_many(iter([]), limit_rows=0)
    with pytest.raises(TypeError, match="Batch"):
        _native.decode_rows("no batch")
    with pytest.raises(TypeError, match="Schema"):
        _native.row_fields("no schema")
    for fields, message in (
        ([("a", "e", ())], "no column has arrays of type 'e'"),
        ([("a", "x", ())], "no column has arrays of type 'x'"),
        ([("a", "f", (1,) * 9)], "9 dimensions"),
        ([("a", "f", (2**20, 2**20))], "no larger than a list"),
        ([("a", "f", (-1,))], "lengths from 0 on"),
        ([("a", "f", ()), ("a", "f", ())], "twice"),
    ):
        with pytest.raises(ValueError, match=message):
            _native.array_schema("dict", fields)
    with pytest.raises(ValueError, match="unknown shape of rows 'set'"):
        _native.array_schema("set", [("a", "f", ())])
    with pytest.raises(TypeError):
        _native.RowEncoder(1)


def test_errors_keep_the_rows_before():
    def broken():
        yield 1
        yield 2
        raise RuntimeError("the source broke")

    encoder = _native.RowEncoder()
    with pytest.raises(RuntimeError, match="the source broke"):
        encoder.add_many(broken())
    assert _native.decode_rows(encoder.take()) == [1, 2]
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        encoder.add((1, threading.Lock()))
    with pytest.raises((pickle.PicklingError, AttributeError, TypeError)):
        encoder.add((1, lambda: 1))
    assert encoder.rows == 0
    assert encoder.add((1, 2)) and _native.decode_rows(encoder.take()) == [(1, 2)]


class Meddler:
    """Code of others that runs while its row is added."""

    encoder = None
    row = None

    def __reduce__(self):
        try:
            Meddler.encoder.add(1)
            Meddler.refused = False
        except ValueError:
            Meddler.refused = True
        Meddler.row.clear()
        return int, (7,)


def test_a_row_cannot_use_the_encoder_that_it_enters():
    Meddler.encoder = _native.RowEncoder()
    Meddler.row = ["first", Meddler(), "last"]
    assert Meddler.encoder.add(Meddler.row)
    assert Meddler.refused
    assert _native.decode_rows(Meddler.encoder.take()) == [["first", 7, "last"]]


# ---- columns and arrays ----


def test_columns_by_position():
    mapping = [("image", "x"), ("label", "y")]
    expected = {"x": [[1, 2], [3, 4]], "y": [5, 6]}
    for rows in ([([1, 2], 5), ([3, 4], 6)], [[[1, 2], 5], [[3, 4], 6]]):
        assert _native.decode_columns(encode(rows)[0], mapping) == expected
    assert _native.decode_columns(encode([[1.0, 2.0], [3.0, 4.0]])[0], mapping) == {"x": [1.0, 3.0], "y": [2.0, 4.0]}
    assert _native.decode_columns(encode([Point(1, 2)])[0], mapping) == {"x": [1], "y": [2]}
    assert _native.decode_columns(encode([(1, 2, 3)])[0], mapping) == {"x": [1], "y": [2]}
    with pytest.raises(ValueError, match="'label', the 2. of 2; the rows have 1"):
        _native.decode_columns(encode([(1,)])[0], mapping)
    with pytest.raises(TypeError):
        _native.decode_columns(encode([1, 2])[0], mapping)
    with pytest.raises(TypeError):
        _native.decode_columns(encode([(1, 2)])[0], [("image",)])


def test_columns_by_name():
    mapping = [("image", "x"), ("label", "y")]
    rows = [{"label": 5, "other": None, "image": [1, 2]}]
    assert _native.decode_columns(encode(rows)[0], mapping) == {"x": [[1, 2]], "y": [5]}
    with pytest.raises(ValueError, match="'label'"):
        _native.decode_columns(encode([{"image": 1}])[0], mapping)
    with pytest.raises(KeyError):
        _native.decode_columns(encode([{"image": 1, 2: 3}])[0], mapping)


def test_batches_without_a_note_are_tuples(some_file):
    reader = _native.Reader([some_file], None, None, "auto", "auto", "error", 0, 0, 0, True, 0, 0, -1)
    batch = reader.next()
    assert _native.decode_rows(batch) == [(1, [1.0, 2.0], "x"), (2, [3.0, 4.0], "y")]
    assert _native.decode_columns(batch, [("c", "t"), ("a", "n")]) == {"t": ["x", "y"], "n": [1, 2]}
    assert _rows.arrays(batch, ["a"])["a"].tolist() == [1, 2]


def read_with_note(path, note):
    fields = [
        {"name": "a", "type": "int64"},
        {"name": "b", "type": "float", "shape": [2]},
        {"name": "c", "type": "string"},
    ]
    schema = _native.Schema(json.dumps({"record": "example", "note": note, "fields": fields}))
    return _native.Reader([path], schema, None, "auto", "auto", "error", 0, 0, 0, True, 0, 0, -1).next()


@pytest.fixture
def some_file(tmp_path):
    from tensorflowonspark import records

    records.write(tmp_path / "x", {"a": [1, 2], "b": [[1.0, 2.0], [3.0, 4.0]], "c": ["x", "y"]})
    return tmp_path / "x"


def note_of(*fields, row="tuple", version=1):
    names = ["name", "is", "of", "shape"]
    return json.dumps({"rows": version, "row": row, "fields": [dict(zip(names, field)) for field in fields]})


@pytest.mark.parametrize("note", ["no JSON", "[]", "{}", '{"of": "another shell"}', ""])
def test_notes_of_others_are_theirs(some_file, note):
    batch = read_with_note(some_file, note)
    assert _native.decode_rows(batch) == [(1, [1.0, 2.0], "x"), (2, [3.0, 4.0], "y")]
    assert _rows.arrays(batch)["a"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "note, message",
    [
        (note_of(("a", "value", "int"), version=2), "version"),
        (note_of(("a", "value", "int"), version="1"), "version"),
        (note_of(("a", "value", "int"), version=2**70), "version"),
        ('{"rows": 1}', "shape of its rows"),
        (note_of(("a", "value", "int"), row="none"), "shape of its rows"),
        (note_of(), "fields are missing"),
        (note_of(("a", "value", "int"), ("c", "value", "str"), row="value"), "fields are missing"),
        ('{"rows": 1, "row": "list", "fields": [1]}', "no name"),
        (note_of((5, "value", "int")), "no name"),
        (note_of(("a",)), "not known here"),
        (note_of(("a", "value", "colour")), "not known here"),
        (note_of(("a", "value", "numpy ll")), "not known here"),
        (note_of(("b", "array", "float")), "not known here"),
        (note_of(("b", "array", "numpy f", [-1])), "not known here"),
        (note_of(("b", "array", "numpy f", ["x"])), "not known here"),
        (note_of(("b", "array", "numpy f", [1] * 9)), "not known here"),
        (note_of(("a", "value", "float")), "another type"),
        (note_of(("a", "list", "int")), "another type"),
        (note_of(("b", "value", "numpy f")), "another type"),
        (note_of(("c", "value", "pickle")), "another type"),
        (note_of(("b", "array", "numpy f", [2, 2])), "buffer is too small"),
        (note_of(("gone", "value", "int")), "lacks the column 'gone'"),
    ],
)
def test_notes_that_lie_are_refused(some_file, note, message):
    with pytest.raises((ValueError, TypeError), match=message):
        _native.decode_rows(read_with_note(some_file, note))


def test_arrays():
    image = np.ones((2, 3), np.float32)
    rows = [(i, float(i), [i, i + 1], image * i, str(i), np.uint8(i), i % 2 == 0) for i in range(5)]
    found = _rows.arrays(encode(rows)[0])
    assert list(found) == [f"_{i}" for i in range(1, 8)]
    assert found["_1"].dtype == np.int64 and found["_1"].tolist() == [0, 1, 2, 3, 4]
    assert found["_2"].dtype == np.float64
    assert found["_3"].shape == (5, 2) and found["_3"].dtype == np.int64
    assert found["_4"].shape == (5, 2, 3) and found["_4"].dtype == np.float32 and (found["_4"][3] == 3).all()
    assert found["_5"].tolist() == ["0", "1", "2", "3", "4"]
    assert found["_6"].dtype == np.uint8 and found["_6"].tolist() == [0, 1, 2, 3, 4]
    assert found["_7"].dtype == np.bool_
    assert list(_rows.arrays(encode(rows)[0], ["_2"])) == ["_2"]


def test_arrays_are_views_of_the_batch():
    batch = encode([(list(range(784)), 1)] * 100)[0]
    array = _rows.arrays(batch)["_1"]
    assert array.shape == (100, 784) and not array.flags.owndata and not array.flags.writeable
    images = encode([(np.zeros((28, 28), np.uint8), 1)] * 100)[0]
    assert _rows.arrays(images)["_1"].shape == (100, 28, 28)
    del batch, images
    gc.collect()
    assert array[99, 783] == 783


def test_arrays_of_what_is_missing_or_ragged():
    found = _rows.arrays(encode([(1, [1], 2**70, np.int16(1), np.zeros((1, 2))), (None,) * 5])[0])
    assert found["_1"].tolist() == [1, None]
    assert found["_2"][0].tolist() == [1] and found["_2"][1] is None
    assert found["_3"].tolist() == [2**70, None]
    assert found["_4"].tolist() == [1, None]
    assert found["_5"][0].shape == (1, 2) and found["_5"][1] is None
    ragged = _rows.arrays(encode([np.zeros(i, np.uint8) for i in range(4)])[0])["value"]
    assert [len(row) for row in ragged] == [0, 1, 2, 3]
    empty = _rows.arrays(encode([np.zeros(0, np.uint8)] * 2)[0])["value"]
    assert empty.shape == (2, 0)


# ---- at random, and at length ----


def random_leaf(rng, kind):
    return {
        "int": lambda: rng.choice([0, 1, -1, rng.getrandbits(63), -(2**63), 2**63 - 1]),
        "float": lambda: rng.choice([0.0, -0.0, math.nan, math.inf, rng.random(), rng.gauss(0, 1e100)]),
        "bool": lambda: rng.random() < 0.5,
        "str": lambda: "".join(rng.choice("aä日\U0001f600\0") for _ in range(rng.randrange(8))),
        "bytes": lambda: rng.randbytes(rng.randrange(8)),
        "odd": lambda: rng.choice([2**80, "\ud800", MyInt(2), decimal.Decimal(1), {1: 2}, [[1]], [1, 2.0], 1j, ()]),
    }[kind]()


def random_field(rng, kind):
    form, leaf = kind
    if form in ("list", "tuple"):
        values = [random_leaf(rng, leaf) for _ in range(rng.randrange(5))]
        return values if form == "list" else tuple(values)
    if form == "array":
        shape = rng.choice([(3,), (2,), (0,), (2, 2), ()])
        return np.frombuffer(rng.randbytes(256), np.dtype("d"))[: math.prod(shape)].reshape(shape).astype(leaf)
    if form == "scalar":
        return np.dtype(leaf).type(rng.randrange(2))
    return random_leaf(rng, leaf)


def random_kind(rng):
    form = rng.choice(["value"] * 4 + ["list", "tuple", "array", "scalar"])
    # NumPy's own pickle makes int64 of longlong (q), which is what a field becomes when its kind changes often.
    codes = NUMPY_CODES.replace("q", "").replace("Q", "")
    leaf = rng.choice(codes if form in ("array", "scalar") else ["int", "float", "bool", "str", "bytes", "odd"])
    return form, leaf


def random_row(rng, shape, kinds):
    fields = [None if rng.random() < 0.1 else random_field(rng, kind) for kind in kinds]
    if shape == "value":
        return fields[0]
    if shape == "dict":
        return {f"name {i}": field for i, field in enumerate(fields)}
    return tuple(fields) if shape == "tuple" else fields


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore:.*encountered in cast:RuntimeWarning")
def test_random_rows(seed):
    rng = random.Random(seed)
    rows = []
    for _ in range(rng.randrange(1, 6)):
        shape = rng.choice(["value", "tuple", "list", "dict"])
        kinds = [random_kind(rng) for _ in range(rng.randrange(1, 7))]
        for _ in range(rng.randrange(1, 200)):
            if rng.random() < 0.02:
                kinds[rng.randrange(len(kinds))] = random_kind(rng)
            rows.append(random_row(rng, shape, kinds))
    found = decode(encode(rows, limit_rows=rng.choice([1, 7, 64, 4096])))
    assert len(found) == len(rows)
    for got, row in zip(found, rows):
        assert same(got, row), (got, row)


def test_a_hundred_thousand_rows():
    rows = [
        (i, i / 7, f"row {i}", [i, i + 1], None if i % 10 == 0 else b"x" * (i % 5), i % 2 == 0) for i in range(100_000)
    ]
    batches = encode(iter(rows))
    assert decode(batches) == rows
    assert sum(map(len, batches)) == 100_000
    assert len({batch.schema() for batch in batches}) <= 2


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_nothing_is_left_behind():
    """References are counted where they can be, memory is measured over many rounds."""
    marker = MyList()
    array = np.arange(100, dtype=np.uint8)
    text = "some text that is not interned ä" * 10
    big = 2**80
    rows = [(i, 1.5 + i, text, [i] * 50, array, np.float32(i), big, {"k": marker}, None) for i in range(200)]
    rows += [{"a": i, "b": text} for i in range(20)] + [i if i % 2 else float(i) for i in range(50)]
    before = None
    counted = [marker, array, text, big, rows[0], None]
    for turn in range(60):
        batches = encode(rows, limit_rows=64)
        assert len(decode(batches)) == len(rows)
        for batch in batches:
            _rows.arrays(batch)
        _native.decode_columns(batches[0], [("x", "a"), ("y", "b")])
        encoder = _native.RowEncoder()
        encoder.add_many(iter(rows))  # given up with rows in it, and one that waits
        del encoder, batches, batch
        if turn == 20:
            gc.collect()
            before = resident_bytes(), [sys.getrefcount(item) for item in counted]
    gc.collect()
    assert resident_bytes() - before[0] < 4 << 20
    after = [sys.getrefcount(item) for item in counted]
    assert after[:5] == before[1][:5] and abs(after[5] - before[1][5]) < 40


# ---- results ----


def given(results):
    """What an RDD of results has when a program gives them."""
    return [row for batch in _results.Encoder().batches(results) for row in _native.decode_rows(batch)]


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float32", "float64", "uint8", "float16"])
def test_arrays_of_results_are_what_their_rows_are(dtype):
    for array in [np.arange(12).astype(dtype), np.arange(12).reshape(4, 3).astype(dtype), np.ones((2, 3, 4), dtype)]:
        found = given(array)
        assert [type(row) for row in found] == [type(row) for row in array]
        assert all(np.array_equal(row, expected) and row.dtype == array.dtype for row, expected in zip(found, array))
    assert given(np.zeros((0, 3), dtype)) == []
    assert given(np.arange(12).astype(dtype)[::3]) == list(np.arange(12).astype(dtype)[::3])


def test_dicts_of_results_are_dicts():
    scores = np.arange(6, dtype="float32").reshape(3, 2)
    found = given({"best": np.array([1, 0, 1]), "scores": scores})
    assert [row["best"] for row in found] == [1, 0, 1]
    assert all(np.array_equal(row["scores"], expected) for row, expected in zip(found, scores))
    masked = np.ma.MaskedArray([1.5, 2.5], mask=[False, True])
    assert given({"text": ["a", "b"], "number": masked}) == [
        {"text": "a", "number": 1.5},
        {"text": "b", "number": None},
    ]
    with pytest.raises(ValueError, match="differ in length: a has 1, b has 2"):
        given({"a": [1], "b": [1, 2]})
    for wrong in ("text", 5, np.float32(1)):
        with pytest.raises(TypeError, match="column 'a' of the results"):
            given({"a": wrong})
