"""Makes the seeds of the fuzz target of entries: tests/fuzz/corpus/entry.

Written from the drawing in src/feed/entry.c. Run it after a change to what an input means:
python3 tests/fuzz/make_entry_corpus.py. Seeds that a fuzzer found (their names begin with "found_") are kept.
"""

import os
import struct

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "entry")

SCHEMA, BATCH, PARTITION = 1, 2, 3
VALUES, BYTES, LIST, FIXED_LIST = range(4)
INT32, INT64, FLOAT, DOUBLE, BOOL, STRING, BINARY = range(7)


def fill(data):
    return data + bytes(-len(data) % 64)


def header(kind, size, first_row=0, rows=0, levels=0, text=0):
    return struct.pack("<4sIQQIIQ24x", b"fTe1", kind, size, first_row, rows, levels, text)


def schema(text):
    body = fill(text)
    return header(SCHEMA, 64 + len(body), text=len(text)) + body


def offsets(*values):
    return struct.pack(f"<{len(values)}i", *values)


def batch(rows, levels, first_row=0):
    """Levels are (layout, type, list_length, length, nulls, validity, offsets, data); None: there is no such buffer."""
    heads, buffers = b"", b""
    start = 64 + 64 * len(levels)
    for layout, kind, list_length, length, nulls, *three in levels:
        places = []
        for buffer in three:
            places.append(0 if buffer is None else start + len(buffers))
            buffers += fill(buffer or b"")
        heads += struct.pack("<IIIIQQ4Q", layout, kind, list_length, 0, length, nulls, *places, len(three[2] or b""))
    size = start + len(buffers)
    return header(BATCH, size, first_row, rows, len(levels)) + heads + buffers


def every_kind(nulls=1, last=4, floats=6):
    """Three rows of the schema in fuzz_entry.c."""
    return batch(3, [
        (VALUES, INT32, 0, 3, 0, None, None, struct.pack("<3i", 1, -2, 3)),
        (VALUES, BOOL, 0, 3, nulls, b"\x05", None, b"\x04"),
        (LIST, STRING, 0, 3, 0, None, offsets(0, 2, 2, 3), None),
        (BYTES, STRING, 0, 3, 0, None, offsets(0, 1, 1, last), b"abcd"),
        (FIXED_LIST, FLOAT, 2, 3, 0, None, None, None),
        (VALUES, FLOAT, 0, 6, 0, None, None, struct.pack(f"<{floats}f", *range(floats))),
        (LIST, INT64, 0, 3, 0, None, offsets(0, 1, 1, 2), None),
        (LIST, INT64, 0, 2, 0, None, offsets(0, 0, 1), None),
        (VALUES, INT64, 0, 1, 0, None, None, struct.pack("<q", 7)),
    ], first_row=40)


def seeds():
    one = b'{"fields": [{"name": "x", "type": "double", "nullable": true}]}'
    doubles = (VALUES, DOUBLE, 0, 2, 1, b"\x01", None, struct.pack("<2d", 0.5, 0))
    yield "every_kind", every_kind()
    yield "with_schema", schema(one) + batch(2, [doubles])
    yield "schema", schema(one)
    yield "no_columns", schema(b'{"fields": []}') + batch(5, [])
    yield "partition", header(PARTITION, 64, first_row=12)
    yield "no_rows", batch(0, [
        (VALUES, INT32, 0, 0, 0, None, None, b""),
        (VALUES, BOOL, 0, 0, 0, None, None, b""),
        (LIST, STRING, 0, 0, 0, None, offsets(0), None),
        (BYTES, STRING, 0, 0, 0, None, offsets(0), b""),
        (FIXED_LIST, FLOAT, 2, 0, 0, None, None, None),
        (VALUES, FLOAT, 0, 0, 0, None, None, b""),
        (LIST, INT64, 0, 0, 0, None, offsets(0), None),
        (LIST, INT64, 0, 0, 0, None, offsets(0), None),
        (VALUES, INT64, 0, 0, 0, None, None, b""),
    ])
    yield "wrong_nulls", every_kind(nulls=2)
    yield "long_offset", every_kind(last=5)
    yield "falling_offset", every_kind(last=-1)
    yield "few_floats", every_kind(floats=5)
    yield "cut", every_kind()[:-64]
    yield "other_schema", schema(one) + every_kind()
    yield "no_schema", schema(b'{"fields": [')


def main():
    os.makedirs(FOLDER, exist_ok=True)
    for name in os.listdir(FOLDER):
        if not name.startswith("found_"):
            os.remove(os.path.join(FOLDER, name))
    for name, data in seeds():
        with open(os.path.join(FOLDER, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
