"""Writes the golden vectors: small TFRecord files made by TensorFlow and protobuf, and what they hold as JSON.

    .venv/bin/python tests/vectors/make_vectors.py

The files are committed; run this only to add some. NAME.tfrecord (or .gz, .zlib) goes with NAME.json:

    {"file": "NAME.tfrecord", "codec": "none", "schema": {…the JSON form of a schema…},
     "rows": [{"column": value, …}, …]}

A value is a number, a string, a list, or null where the feature is missing; binary values are in base64. Numbers of
float columns are exact. What a file holds is not what we meant to write but what protobuf reads from it, so odd
encodings are settled by protobuf itself.
"""

import base64
import json
import os
import struct
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf  # noqa: E402

FOLDER = os.path.dirname(os.path.abspath(__file__))
LISTS = {"int64": "int64_list", "float": "float_list", "string": "bytes_list", "binary": "bytes_list"}
ENDINGS = {"none": "", "gzip": ".gz", "zlib": ".zlib"}


# ---- the wire format, for what protobuf's own writer never writes ----


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def entry(name, feature):
    return field(1, field(1, name.encode()) + field(2, feature))


def packed_ints(*values):
    return field(1, b"".join(map(varint, values)))


def unpacked_ints(*values):
    return b"".join(b"\x08" + varint(value) for value in values)


def packed_floats(*values):
    return field(1, struct.pack(f"<{len(values)}f", *values))


def unpacked_floats(*values):
    return b"".join(b"\x0d" + struct.pack("<f", value) for value in values)


def texts(*values):
    return b"".join(field(1, value) for value in values)


def ints_feature(payload):
    return field(3, payload)


def floats_feature(payload):
    return field(2, payload)


def bytes_feature(payload):
    return field(1, payload)


def example(*entries):
    return field(1, b"".join(entries))


# ---- messages ----


def feature_of(value):
    if value is None:
        return tf.train.Feature()
    values = value if isinstance(value, list) else [value]
    if values and isinstance(values[0], (bytes, str)):
        values = [v.encode() if isinstance(v, str) else v for v in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if values and isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example_of(**features):
    message = tf.train.Example(features=tf.train.Features(feature={k: feature_of(v) for k, v in features.items()}))
    return message.SerializeToString(deterministic=True)


def sequence_of(context, lists):
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature={k: feature_of(v) for k, v in context.items()}),
        feature_lists=tf.train.FeatureLists(
            feature_list={k: tf.train.FeatureList(feature=[feature_of(v) for v in vs]) for k, vs in lists.items()}
        ),
    )
    return message.SerializeToString(deterministic=True)


# ---- what protobuf reads ----


def plain(value, column):
    if column["type"] == "binary":
        return base64.b64encode(value).decode()
    return value.decode() if column["type"] == "string" else value


def value_of(feature, column):
    """The value of a feature by the schema; None if it is missing or has no kind."""
    kind = feature.WhichOneof("kind") if feature is not None else None
    if kind is None:
        return None
    if kind != LISTS[column["type"]]:
        raise AssertionError(f"{column}: the file holds {kind}")
    values = [plain(value, column) for value in getattr(feature, kind).value]
    if column.get("shape"):
        return values
    if len(values) != 1:
        raise AssertionError(f"{column}: the file holds {values}")
    return values[0]


def row_of(record, schema):
    if schema["record"] == "bytes":
        return {"record": base64.b64encode(record).decode()}
    if schema["record"] == "example":
        features = tf.train.Example.FromString(record).features.feature
        return {c["name"]: value_of(features.get(c["name"]), c) for c in schema["fields"]}
    message = tf.train.SequenceExample.FromString(record)
    row = {}
    for column in schema["fields"]:
        name = column["name"]
        if not column.get("feature_list"):
            row[name] = value_of(message.context.feature.get(name), column)
        elif name in message.feature_lists.feature_list:
            row[name] = [value_of(f, column) for f in message.feature_lists.feature_list[name].feature]
        else:
            row[name] = None
    return row


def write(name, schema, records, codec="none"):
    file = f"{name}.tfrecord{ENDINGS[codec]}"
    options = tf.io.TFRecordOptions(compression_type={"none": "", "gzip": "GZIP", "zlib": "ZLIB"}[codec])
    with tf.io.TFRecordWriter(os.path.join(FOLDER, file), options) as writer:
        for record in records:
            writer.write(record)
    rows = [row_of(record, schema) for record in records]
    with open(os.path.join(FOLDER, f"{name}.json"), "w", encoding="utf-8") as out:
        out.write('{"file": %s, "codec": %s,\n' % (json.dumps(file), json.dumps(codec)))
        out.write(' "schema": %s,\n "rows": [\n  ' % json.dumps(schema))
        out.write(",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows))
        out.write("]}\n")


def schema_of(record, **columns):
    return {"record": record, "fields": [{"name": name, **column} for name, column in sorted(columns.items())]}


def scalar(type, **more):
    return {"type": type, **more}


def fixed(type, length, **more):
    return {"type": type, "shape": [length], **more}


def ragged(type, **more):
    return {"type": type, "shape": [None], **more}


# ---- the vectors ----


def write_scalars():
    schema = schema_of(
        "example", flag=scalar("int64"), price=scalar("float"), name=scalar("string"), blob=scalar("binary")
    )
    records = [
        example_of(flag=0, price=0.0, name="", blob=b""),
        example_of(flag=1, price=-0.0, name="plain", blob=b"\x00\xff"),
        example_of(flag=-1, price=1.5, name="tab\tquote\"backslash\\", blob=bytes(range(256))),
        example_of(flag=2**63 - 1, price=3.4028234663852886e38, name="x" * 300, blob=b"\xc3\x28"),
        example_of(flag=-(2**63), price=1.401298464324817e-45, name="nul\0inside", blob=b"\xed\xa0\x80"),
    ]
    for codec in ENDINGS:
        write("scalars" if codec == "none" else f"scalars_{codec}", schema, records, codec)


def write_lists():
    schema = schema_of(
        "example", image=fixed("float", 4), ids=ragged("int64"), tags=ragged("string"), blobs=fixed("binary", 2)
    )
    records = [
        example_of(image=[0.0, 0.25, 0.5, 1.0], ids=[1, 2, 3], tags=["a", "b"], blobs=[b"\xff", b""]),
        example_of(image=[-1.0, 2.0, -3.0, 4.0], ids=[], tags=["", "", ""], blobs=[b"\x80", b"abc"]),
        example_of(image=[1e10, 1e-10, 7.0, 8.0], ids=[-(2**63), 2**63 - 1, 0, 300], tags=["c"], blobs=[b"x", b"y"]),
        example_of(image=[1.0] * 4, ids=list(range(-100, 100)), tags=["t" * n for n in range(20)], blobs=[b"", b""]),
    ]
    write("lists", schema, records)


def write_sequence():
    schema = schema_of(
        "sequence_example",
        id=scalar("int64"),
        title=scalar("string", nullable=True),
        label=scalar("int64", feature_list=True, nullable=True),
        frame=fixed("float", 2, feature_list=True),
        words=ragged("string", feature_list=True),
    )
    records = [
        sequence_of({"id": 1, "title": "one"}, {"label": [1, 2], "frame": [[1.0, 2.0]], "words": [["a", "b"], ["c"]]}),
        sequence_of({"id": 2}, {"label": [], "frame": [[3.0, 4.0], [5.0, 6.0]], "words": []}),
        sequence_of({"id": 3, "title": "three"}, {"frame": [], "words": [["d"], None, ["e", "f", "g"]]}),
    ]
    write("sequence", schema, records)


def write_unpacked():
    schema = schema_of("example", f=ragged("float"), i=ragged("int64"))
    records = [
        example(
            entry("i", ints_feature(unpacked_ints(1, -1, 2**40))),
            entry("f", floats_feature(unpacked_floats(1.5, -2.5))),
        ),
        example(
            entry("f", floats_feature(packed_floats(1.0) + unpacked_floats(2.0) + packed_floats(3.0, 4.0))),
            entry("i", ints_feature(packed_ints(5, 6) + unpacked_ints(7) + packed_ints() + packed_ints(8))),
        ),
        example(entry("i", ints_feature(packed_ints())), entry("f", floats_feature(b""))),
        # varints that are longer than they need to be
        example(
            entry("i", ints_feature(field(1, b"\x81\x80\x00\x82\x00"))),
            entry("f", floats_feature(packed_floats(9.0))),
        ),
    ]
    write("unpacked", schema, records)


def write_repeated():
    schema = schema_of("example", a=ragged("int64", nullable=True), b=ragged("string", nullable=True))
    last_wins = example(
        entry("a", ints_feature(packed_ints(1, 2))),
        entry("b", bytes_feature(texts(b"first"))),
        entry("a", ints_feature(packed_ints(3))),
    )
    nine, ten = ints_feature(packed_ints(9)), ints_feature(packed_ints(10))
    records = [
        last_wins,
        # Features occurs twice: the maps are joined
        example(entry("a", ints_feature(packed_ints(4)))) + example(entry("b", bytes_feature(texts(b"x", b"y")))),
        # the same kind twice in a Feature: the lists are joined
        example(entry("a", ints_feature(packed_ints(5)) + ints_feature(packed_ints(6, 7)))),
        # another kind first: the last kind counts
        example(entry("a", bytes_feature(texts(b"gone")) + ints_feature(packed_ints(8)))),
        # the value of a map entry twice: merged, and the value before the key
        example(field(1, field(2, nine) + field(2, ten) + field(1, b"a"))),
        # a kind, another, and the first again: what came before the switch is gone
        example(entry("a", ints_feature(packed_ints(1)) + bytes_feature(b"") + ints_feature(packed_ints(11)))),
        # an entry that says nothing of a replaces it with nothing
        example(entry("a", ints_feature(packed_ints(12))), entry("a", b"")),
    ]
    write("repeated", schema, records)


def write_unknown():
    schema = schema_of("example", a=scalar("int64"))
    noise = b"\x18\x07" + b"\x21" + b"12345678" + b"\x2d" + b"1234" + field(6, b"noise") + b"\x3b\x08\x01\x3c"
    feature = ints_feature(noise + packed_ints(5) + noise)
    # Not inside the map entry: there protobuf's Python drops the entry, and its C++ keeps it.
    record = noise + field(1, noise + field(1, field(1, b"a") + field(2, feature + noise)) + noise) + noise
    write("unknown_fields", schema, [record, example_of(a=6)])


def write_empty():
    schema = schema_of("example", a=scalar("int64", nullable=True))
    write("empty_records", schema, [b"", example_of(a=1), field(1, b""), example_of()])


def write_missing():
    schema = schema_of(
        "example",
        always=scalar("int64"),
        list=ragged("float", nullable=True),
        never=scalar("binary", nullable=True),
        sometimes=scalar("string", nullable=True),
    )
    records = [
        example_of(always=1, sometimes="yes", list=[1.0, 2.0]),
        example_of(always=2),
        example_of(always=3, sometimes=None, list=[3.0, 4.0], never=None),
        example_of(always=4, sometimes="", list=None),
    ]
    write("missing", schema, records)


def write_unicode():
    names = ["é", "日本語", "emoji 🎉", "quote\"'\\", "ascii"]
    schema = schema_of("example", **{name: scalar("string") for name in names})
    values = ["ß", "Ελληνικά", "🎉🎊", "عربى", "\u0000\u007f\u0080\u07ff\u0800\uffff\U00010000\U0010ffff"]
    records = [example_of(**{name: values[(row + i) % 5] for i, name in enumerate(names)}) for row in range(5)]
    write("unicode", schema, records)


def write_bytes():
    schema = {"record": "bytes", "fields": [{"name": "record", "type": "binary"}]}
    write("bytes", schema, [b"", b"\xff\xff\xff\xff", b"not an Example", bytes(range(256)) * 4])


def main():
    steps = [write_scalars, write_lists, write_sequence, write_unpacked, write_repeated, write_unknown, write_empty]
    for step in steps + [write_missing, write_unicode, write_bytes]:
        step()
    print(f"wrote {len([n for n in os.listdir(FOLDER) if n.endswith('.json')])} vectors to {FOLDER}", file=sys.stderr)


if __name__ == "__main__":
    main()
