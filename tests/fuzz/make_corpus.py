"""Makes the seeds of the fuzz targets of records: tests/fuzz/corpus/{framing,example,sequence,index,schema_json,
spark_rows,survey}.

Run it after a change to what an input means: python3 tests/fuzz/make_corpus.py. Seeds that a fuzzer found (their names
begin with "found_") are kept.
"""

import os
import struct

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)


def record(payload):
    length = struct.pack("<Q", len(payload))
    return length + masked(length) + payload + masked(payload)


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value


def ints(*values):
    return field(3, field(1, b"".join(map(varint, values))) if values else b"")


def floats(*values):
    return field(2, field(1, struct.pack(f"<{len(values)}f", *values)) if values else b"")


def texts(*values):
    return field(1, b"".join(field(1, value) for value in values))


def entry(name, value):
    return field(1, field(1, name) + field(2, value))


def features(number, **values):
    return field(number, b"".join(entry(name.encode(), value) for name, value in values.items()))


def list_of(*values):
    return b"".join(field(1, value) for value in values)


def two(first, second):
    """Two records behind the byte that says where the second begins."""
    both = first + second
    for cut in range(256):
        if len(both) * cut // 255 == len(first):
            return bytes([cut]) + both
    return bytes([255]) + first


# ---- framing: a script of steps, see fuzz_framing.c ----


def sound(payload):
    return bytes([len(payload) << 2]) + payload


def wrong(payload):
    return bytes([len(payload) << 2 | 1]) + payload


def lying(length):
    return bytes([8 << 2 | 2]) + struct.pack("<Q", length)


def raw(data):
    return b"".join(
        bytes([len(part) << 2 | 3]) + part for part in (data[i : i + 63] for i in range(0, len(data), 63))
    )


def framing():
    three = sound(b"one") + sound(b"") + sound(b"three records")
    inner = record(b"inside")
    yield "three", bytes([0, 0]) + three
    yield "empty", bytes([0, 0])
    yield "gzip", bytes([1, 0]) + three
    yield "zlib", bytes([2, 0]) + three
    yield "gzip_damaged", bytes([1, 77]) + three * 3
    yield "zlib_damaged", bytes([2, 5]) + three * 3
    yield "payload_wrong", bytes([0, 100]) + three + wrong(b"bad") + three
    yield "payload_wrong_at_border", bytes([0, 128]) + sound(b"12345678") + wrong(b"12345678")
    yield "garbage", bytes([0, 90]) + three + raw(b"garbage" * 20) + three
    yield "tail_cut", bytes([0, 200]) + three + raw(record(b"cut off")[:-1])
    yield "header_cut", bytes([0, 250]) + three + raw(record(b"cut off")[:11])
    yield "length_2_63", bytes([0, 60]) + three + lying(1 << 63) + three
    yield "length_all_ones", bytes([0, 60]) + three + lying((1 << 64) - 1) + three
    yield "length_beyond", bytes([0, 60]) + three + lying(500) + three
    yield "length_2_31", bytes([1, 0]) + three + lying((1 << 31) - 1) + three
    yield "bytes_lost", bytes([0, 30]) + three + raw(record(b"twenty bytes or more")[:20]) + three
    yield "nested", bytes([0, 40]) + sound(b"x" + inner + b"y") + three
    yield "nested_damaged", bytes([0, 40]) + wrong(b"x" + inner + b"y") + three
    yield "headers_only", bytes([0, 10]) + lying(12) * 10
    yield "looks_like_zlib", bytes([0, 10]) + raw(b"\x78\x9c" + bytes(40)) + three
    yield "looks_like_gzip", bytes([0, 10]) + raw(b"\x1f\x8b\x08" + bytes(40)) + three
    yield "text", bytes([0, 10]) + raw(b"a,b,c\n1,2,3\n")


# ---- messages ----


def unknown():
    return varint(15 << 3) + b"\x05" + field(15, b"abc") + b"\x7d1234" + b"\x7b\x08\x01\x7c"


def example():
    usual = features(1, i=ints(-5), f=floats(1.5), s=texts(b"text"), b=ints(1))
    lists = features(
        1,
        **{"is": ints(1, 300, -1)},
        fs=floats(1, 2),
        ss=texts(b"", b"\xff"),
        i2=ints(1, 2),
        f2=floats(3, 4),
        s2=texts(b"a", b"b"),
    )
    yield "usual", two(usual, lists)
    yield "missing", two(b"", features(1, i=b"", s=texts()))
    yield "repeated", two(usual + features(1, i=ints(7)), field(1, entry(b"i", floats(1)) + entry(b"i", ints(1))))
    yield "unpacked", two(features(1, i=field(3, b"\x08\x07"), f=field(2, b"\x0d1234")), usual)
    yield "mixed", two(features(1, **{"is": field(3, b"\x08\x07" + field(1, b"\x01\x02") + b"\x08\x09")}), lists)
    yield "merged", two(features(1, **{"is": ints(1) + ints(2)}), features(1, i=ints(1) + floats(2) + ints(3)))
    yield "value_first", two(field(1, field(1, field(2, ints(1)) + field(1, b"i"))), usual)
    yield "value_twice", two(field(1, field(1, field(1, b"is") + field(2, ints(1)) + field(2, ints(2)))), usual)
    yield "unknown", two(unknown() + field(1, unknown() + entry(b"i", unknown() + ints(5) + unknown())), usual)
    yield "kind_changes", two(features(1, x=ints(1)), features(1, x=floats(1)))
    yield "wrong_kind", two(features(1, i=floats(1)), features(1, f=texts(b"a")))
    yield "out_of_range", two(features(1, i2=ints(1 << 40, 1)), features(1, b=ints(2)))
    yield "not_utf8", two(features(1, s=texts(b"\xc3")), field(1, entry(b"\xff", ints(1))))
    yield "endless_number", two(features(1, **{"is": field(3, field(1, b"\x01" * 30 + b"\x80" * 10 + b"\x01"))}), usual)
    many = field(3, field(1, b"\x01" * 300) + b"\x0c")
    yield "list_in_scalar", two(features(1, i=many), usual)
    yield "cut", two(usual[:-1], lists[:-2])
    yield "groups", two(b"\x0b\x0c" + usual, b"\x0b" * 90 + b"\x0c" * 90)
    yield "long_name", two(field(1, entry(b"n" * 60, ints(1))), field(1, entry(b"n" * 60, ints(2))))
    yield "text", b"\x80this is no message at all"


def sequence():
    usual = features(1, c=ints(5), cs=texts(b"a", b"b")) + features(
        2, i=list_of(ints(1), ints(2)), f2=list_of(floats(1, 2)), ss=list_of(texts(b"a", b"\xff"), texts())
    )
    yield "usual", two(usual, features(2, **{"is": list_of(ints(1, 2), ints(), ints(3))}))
    yield "inner_missing", two(features(2, i=list_of(ints(1), b""), f2=list_of(b"", floats(1, 2))), usual)
    yield "empty_lists", two(features(2, i=b"", ss=b""), field(2, field(1, field(1, b"i"))))
    yield "name_in_both", two(features(1, i=ints(1)) + features(2, i=list_of(ints(1))), usual)
    yield "kinds_mixed", two(features(2, x=list_of(ints(1), floats(1))), usual)
    yield "kind_changes", two(features(2, x=list_of(ints(1))), features(2, x=list_of(texts(b"a"))))
    yield "repeated", two(features(2, i=list_of(ints(1))) + features(2, i=list_of(ints(2))), usual)
    yield "value_twice", two(field(2, field(1, field(2, list_of(ints(1))) * 2 + field(1, b"i"))), usual)
    yield "unknown", two(unknown() + field(2, unknown() + entry(b"i", unknown() + list_of(ints(1)))), usual)
    yield "wrong_length", two(features(2, f2=list_of(floats(1, 2), floats(1))), usual)
    yield "cut", two(usual[:-1], usual)
    yield "example", two(features(1, c=ints(1)), b"")


# ---- index: the file of fuzz_index.c ----


def index():
    starts = []
    data = b""
    for i in range(100):
        starts.append(len(data))
        data += record(bytes(i * 7 % 50))
    file_print = crc32c(data[-4096:], crc32c(data[:4096]))

    def made(size=len(data), records=100, stride=32, offsets=None):
        head = b"TFOSIDX1" + struct.pack("<QQII", size, records, stride, file_print)
        listed = starts[::stride] if offsets is None else offsets
        body = head + b"".join(struct.pack("<Q", offset) for offset in listed)
        return b"\0" + body + masked(body)

    yield "good", made()
    yield "every_record", made(stride=1)
    yield "large_stride", made(stride=1000)
    yield "more_records", made(records=128)
    yield "fewer_records", made(records=97)
    yield "wrong_offsets", made(offsets=[0, 33, starts[64], starts[96]])
    yield "late_offsets", made(offsets=[starts[1], starts[33], starts[65], starts[97]])
    yield "offsets_fall", made(offsets=[0, 100, 50, 200])
    yield "no_records", made(records=0, offsets=[])
    yield "huge_numbers", made(size=(1 << 64) - 1, records=1 << 63)
    yield "wrong_checksum", b"\x01" + made()[1:-1] + b"!"
    yield "cut", made()[:-9]
    yield "text", b"\0something else"


def schema_json():
    yield "full", (
        b'{"record": "sequence_example", "fields": [{"name": "image", "type": "float", "shape": [784]},'
        b' {"name": "tags/\\u00e9", "type": "string", "shape": [null], "nullable": true},'
        b' {"name": "list", "type": "bool", "shape": [], "feature_list": true}]}'
    )
    note = (
        b'{"rows": 1, "row": "dict", "fields": [{"name": "a", "is": "list", "of": "int"},'
        b' {"name": "b", "is": "array", "of": "numpy f", "shape": [28, 28]}]}'
    )
    yield "note", b'{"note": "' + note.replace(b'"', b'\\"') + b'", "fields": [{"name": "a", "type": "int64"}]}'
    yield "bytes", b'{"record": "bytes"}'
    yield "bytes_fields", b'{"record":"bytes","fields":[{"name":"record","type":"binary"}]}'
    yield "types", b'{"fields":[' + b",".join(
        b'{"name":"%s","type":"%s"}' % (name, name)
        for name in (b"int32", b"int64", b"float", b"double", b"bool", b"string", b"binary")
    ) + b"]}"
    yield "empty", b'{"fields": []}'
    yield "unknown_key", b'{"fields": [], "nullable": true}'
    yield "twice", b'{"fields":[{"name":"a","type":"int64"},{"name":"a","type":"int64"}]}'
    yield "numbers", b'{"fields":[{"name":"a","type":"int64","shape":[268435457]}]}'
    yield "nul", b'{"fields":[{"name":"a\\u0000","type":"int64"}]}'
    yield "surrogate", b'{"fields":[{"name":"\\ud800","type":"int64"}]}'
    yield "deep", b"[" * 40
    yield "cut", b'{"fields": [{"name": "a", "ty'
    yield "comment", b'{"fields": [] /* no */}'


def spark_rows():
    vectors = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors")
    with open(os.path.join(vectors, "spark_rows.columns.json"), "rb") as file:
        description = file.read()
    with open(os.path.join(vectors, "spark_rows.block"), "rb") as file:
        block = file.read()
    yield "every_type", description + b"\0" + block

    def columns(*fields, declared=b"{}"):
        fields = b",".join(b'{"name":"c%d","type":%s}' % field for field in enumerate(fields))
        return b'{"schema":{"type":"struct","fields":[%s]},"columns":%s}\0' % (fields, declared)

    def row(*words):
        return struct.pack("<Q%dQ" % len(words), len(words) * 8, *words)

    array = b'{"type":"array","elementType":%s}'
    yield "number", columns(b'"long"') + row(0, 7) * 3
    yield "null", columns(b'"integer"', declared=b'{"c0":{"default":5}}') + row(1, 0)
    yield "string", columns(b'"string"') + row(0, 16 << 32 | 3, 0x636261)
    yield "list", columns(array % b'"long"') + row(0, 16 << 32 | 32, 2, 0, 1, 2)
    yield "lists", columns(array % (array % b'"byte"')) + row(0, 16 << 32 | 48, 1, 0, 24 << 32 | 24, 2, 0, 0x0201)
    yield "no_columns", columns()
    yield "map", columns(b'{"type":"map"}')
    yield "no_block", b'{"schema":{}}'


def survey():
    def found(name, kind=3, least=1, most=1, present=2, lists=b"false", text=b"true", path=b"/data/a"):
        return (
            b'{"name":"%s","list":%s,"kind":%d,"least":%d,"most":%d,"text":%s,"inner_null":false,"present":%d,'
            b'"path":"%s","offset":0}' % (name, lists, kind, least, most, text, present, path)
        )

    def findings(*features, records=2, sequences=0):
        whole = b'{"features":[%s],"records":%d,"sequences":%d,"sampled":false}'
        return whole % (b",".join(features), records, sequences)

    one = findings(found(b"x"), found(b"y", kind=1, least=0, most=5, present=1))
    yield "one", one
    yield "two", one + b"\n" + findings(found(b"x"), found(b"z", kind=2, least=784, most=784))
    yield "kinds", one + b"\n" + findings(found(b"x", kind=2))
    yield "sides", one + b"\n" + findings(found(b"x", lists=b"true"), sequences=2)
    yield "lists", findings(found(b"l", lists=b"true"), sequences=2)
    yield "never", findings(found(b"n", kind=0, least=2**63 - 1, most=-1, present=0, path=b""))
    yield "nobody", findings(records=0)
    yield "many", b"\n".join([findings(found(b"x", present=2**48), records=2**48, sequences=2**63 - 1)] * 3)
    yield "negative", findings(found(b"x", least=-5, most=-9, present=-1), records=-1)
    yield "cut", one[:70]


def main():
    for make in (framing, example, sequence, index, schema_json, spark_rows, survey):
        folder = os.path.join(CORPUS, make.__name__)
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(folder):
            if not name.startswith("found_"):
                os.remove(os.path.join(folder, name))
        for name, data in make():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)


if __name__ == "__main__":
    main()
