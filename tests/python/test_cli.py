"""The command `tfos records`: what it prints, what it writes, how it ends.

TensorFlow reads what it writes and writes what it reads.
"""

import base64
import csv
import gzip
import json
import math
import os
import pty
import re
import resource
import select
import signal
import subprocess
import threading
import time
import zlib

import pytest
from conftest import framed

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COMMANDS = ["head", "schema", "count", "verify", "stats", "index", "convert"]
SECONDS = 60


def find_command():
    candidates = [os.environ.get("TFOS_BIN"), f"{ROOT}/.venv/bin/tfos", f"{ROOT}/build/release/src/tfos"]
    for path in filter(None, candidates):
        if os.access(path, os.X_OK):
            return path
    raise FileNotFoundError(f"no command tfos in {candidates}; run `make`")


TFOS = find_command()


def run(*arguments, code=0, **keywords):
    """Runs `tfos records …` and checks how it ends. Returns what it printed."""
    command = [TFOS, "records", *map(str, arguments)]
    keywords = {"capture_output": True, "text": True, "timeout": SECONDS, "stdin": subprocess.DEVNULL, **keywords}
    result = subprocess.run(command, **keywords)
    assert result.returncode == code, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


def fails(code, *arguments, **keywords):
    """The one line that a failure prints."""
    result = run(*arguments, code=code, **keywords)
    assert result.stderr.startswith("tfos: ") and result.stderr.count("\n") == 1, result.stderr
    return result.stderr[len("tfos: ") : -1]


def write_examples(path, rows, compression=""):
    """Writes tf.train.Examples with TensorFlow. A value is an int, float, bytes or a list of them."""
    import tensorflow as tf

    def feature(value):
        values = value if isinstance(value, list) else [value]
        if values and isinstance(values[0], int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
        if not values or isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))

    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for row in rows:
            features = {name: feature(value) for name, value in row.items() if value is not None}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            writer.write(example.SerializeToString(deterministic=True))


def read_examples(paths, compression=""):
    """Reads tf.train.Examples with TensorFlow: a dict of lists for each."""
    import tensorflow as tf

    rows = []
    for record in tf.data.TFRecordDataset([str(path) for path in paths], compression).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        rows.append({name: list(getattr(f, f.WhichOneof("kind")).value) for name, f in sorted(features.items())})
    return rows


def read_records(path, compression=""):
    import tensorflow as tf

    return list(tf.data.TFRecordDataset(str(path), compression).as_numpy_iterator())


def lines_of(path):
    opened = gzip.open(path, "rt") if str(path).endswith(".gz") else open(path, encoding="utf-8")
    with opened as file:
        return [json.loads(line) for line in file]


ROWS = [
    {"id": i, "weight": i / 4, "name": f"näme {i}".encode(), "pixels": [i, i + 1, i + 2], "tags": [b"t"] * (i % 3)}
    for i in range(20)
]


@pytest.fixture(scope="module")
def rows_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.tfrecord"
    write_examples(path, ROWS)
    return path


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory):
    """A CSV of some 12 MB: compressing it takes seconds, in which a bar is drawn every 100 ms."""
    path = tmp_path_factory.mktemp("many") / "many.csv"
    with open(path, "w", encoding="ascii") as file:
        file.write("id," + ",".join(f"f{i}" for i in range(20)) + "\n")
        for i in range(60000):
            file.write(f"{i}," + ",".join(f"0.{(i * 7919 + j * 104729) % 1000003:07d}" for j in range(20)) + "\n")
    return path


def damaged(path, target):
    """A copy of `path` in which the payload of the second record has a flipped bit."""
    data = bytearray(path.read_bytes())
    second = 16 + int.from_bytes(data[:8], "little")
    data[second + 12 + 5] ^= 1
    target.write_bytes(data)
    return second


# ---- help and usage


def test_version():
    result = subprocess.run([TFOS, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"tfos \d+\.\d+\.\d+\n", result.stdout)


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["records", "--help"], ["records", "-h"]])
def test_help_of_the_whole(arguments):
    result = subprocess.run([TFOS, *arguments], capture_output=True, text=True, check=True)
    assert "Usage:" in result.stdout and "Exit codes:" in result.stdout and result.stderr == ""


FLAGS = {
    "head": "rows start columns schema json width full record codec on-corrupt threads help",
    "schema": "sample columns json record codec on-corrupt threads help",
    "count": "codec json quiet help",
    "verify": "parse json record codec threads quiet help",
    "stats": "columns schema json record codec on-corrupt threads quiet help",
    "index": "force json quiet help",
    "convert": "from to header no-header delimiter label fold schema columns shards codec level shuffle seed memory "
    "overwrite record input-codec on-corrupt threads json quiet help",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_help_lists_every_flag(command):
    text = run(command, "--help").stdout
    for part in (f"tfos records {command}", "Usage:", "Options:", "Examples:", "Exit codes:", " 130 "):
        assert part in text
    assert re.findall(r"^ +(?:-\w, )?--([\w-]+)", text, re.M) == FLAGS[command].split()
    assert max(map(len, text.splitlines())) <= 120


def test_every_flag_is_used_in_this_file():
    with open(__file__, encoding="utf-8") as file:
        text = file.read()
    for command, flags in FLAGS.items():
        for flag in flags.split():
            assert f'"--{flag}' in text, f"{command} --{flag}"


@pytest.mark.parametrize("command", COMMANDS)
def test_wrong_usage(command, tmp_path):
    assert "expected" in fails(2, command)
    assert "--threds" in fails(2, command, "--threds", "1", tmp_path)
    assert "takes no value" in fails(2, command, "--json=yes", tmp_path)
    assert "-z" in fails(2, command, "-z", tmp_path)


def test_usage_errors_name_the_flag_and_what_is_near(tmp_path):
    assert "did you mean --columns?" in fails(2, "head", "--colums", "a", tmp_path)
    assert "did you mean `tfos records verify`?" in fails(2, "verfy", tmp_path)
    assert "needs a value: --rows N" in fails(2, "head", tmp_path, "--rows")
    assert "--rows: expected a whole number from 0" in fails(2, "head", "-n", "-1", tmp_path)
    assert "--codec: expected auto, none, gzip or zlib, found 'zip'" in fails(2, "count", "--codec=zip", tmp_path)
    assert "did you mean skip?" in fails(2, "head", "--on-corrupt", "skp", tmp_path)
    assert "--memory: expected a whole number, with KiB, MiB or GiB" in fails(2, "convert", "--memory", "1QB", "a", "b")
    assert "--memory: expected 1.0 MiB to" in fails(2, "convert", "--memory", "5", "a", "b")
    assert "separated by commas" in fails(2, "head", "--columns", "a,,b", tmp_path)
    result = subprocess.run([TFOS, "recrods"], capture_output=True, text=True)
    assert result.returncode == 2 and "did you mean `tfos records`?" in result.stderr
    assert subprocess.run([TFOS], capture_output=True).returncode == 2
    assert subprocess.run([TFOS, "records"], capture_output=True).returncode == 2


def test_options_may_end(rows_file, tmp_path):
    odd = tmp_path / "-n"
    odd.write_bytes(rows_file.read_bytes())
    assert "20  -n" in run("count", "--", "-n", cwd=tmp_path).stdout


@pytest.mark.parametrize("command", ["head", "schema", "count", "verify", "stats", "index"])
def test_inputs_that_are_not_there(command, tmp_path):
    assert "No such file" in fails(3, command, tmp_path / "missing")
    assert "holds no data file" in fails(3, command, tmp_path)
    assert "no file or folder matches" in fails(3, command, f"{tmp_path}/*.tfrecord")
    assert "not supported" in fails(2, command, "hdfs://host/path")


# ---- head


def test_head_shows_rows(rows_file):
    text = run("head", rows_file).stdout
    assert re.findall(r"^row (\d+)$", text, re.M) == list("01234")
    assert re.search(r"^  name +string +\"näme 3\"$", text, re.M)
    assert re.search(r"^  pixels +int64\[3\] +\[3, 4, 5\]$", text, re.M)
    assert re.search(r"^  weight +float +0.75$", text, re.M)


@pytest.mark.parametrize("indexed", [False, True])
def test_head_starts_anywhere(rows_file, tmp_path, indexed):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(rows_file.read_bytes())
    if indexed:
        run("index", tmp_path)
    for start in (0, 5, 19, 20, 25, 58):
        rows = run("head", "--rows", 4, "--start", start, "--columns", "id", "--json", tmp_path).stdout.splitlines()
        assert [json.loads(row)["id"] for row in rows] == [(start + i) % 20 for i in range(min(4, 60 - start))]
    assert run("head", "--start=60", tmp_path).stdout == ""
    assert run("head", "-n0", tmp_path).stdout == ""
    assert "row 41\n" in run("head", "-n1", "--start=41", tmp_path).stdout


def test_head_as_json(rows_file):
    rows = [json.loads(line) for line in run("head", "-n", 100, "--json", rows_file).stdout.splitlines()]
    assert len(rows) == 20
    assert rows[7] == {"id": 7, "weight": 1.75, "name": "näme 7", "pixels": [7, 8, 9], "tags": ["t"]}


def test_head_cuts_long_values(tmp_path):
    path = tmp_path / "long.tfrecord"
    write_examples(path, [{"list": list(range(1000)), "text": ("é" * 500).encode(), "raw": bytes(range(256))}])
    text = run("head", path, "--width", 80).stdout
    assert max(map(len, text.splitlines())) <= 84
    assert "1000 values]" in text and "(1000 bytes)" in text and "(256 bytes)" in text
    full = run("head", "--full", path).stdout
    assert "998, 999]" in full and "é" * 500 in full and bytes(range(256)).hex() in full


def test_head_with_schema(rows_file, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text('{"fields": [{"name": "name", "type": "binary"}, {"name": "id", "type": "int32"}]}')
    row = json.loads(run("head", "-n1", "--json", "--schema", schema, "--threads", 2, rows_file).stdout)
    assert row == {"name": base64.b64encode("näme 0".encode()).decode(), "id": 0}
    schema.write_text('{"fields": [{"name": "name", "type": "int64"}]}')
    assert "name" in fails(1, "head", "--schema", schema, rows_file)
    schema.write_text('{"fields": 1}')
    assert str(schema) in fails(2, "head", "--schema", schema, rows_file)
    assert "No such file" in fails(3, "head", "--schema", tmp_path / "none", rows_file)
    assert "the columns are: id, name" in fails(2, "head", "--columns", "nmae", rows_file)


def test_head_of_raw_records(tmp_path):
    (tmp_path / "raw").write_bytes(framed(b"one") + framed(b""))
    rows = run("head", "--record", "bytes", "--json", tmp_path / "raw").stdout.splitlines()
    assert [json.loads(row) for row in rows] == [{"record": "b25l"}, {"record": ""}]


def test_head_skips_damage_when_told(rows_file, tmp_path):
    offset = damaged(rows_file, tmp_path / "bad")
    assert f"offset {offset}" in fails(1, "head", tmp_path / "bad")
    result = run("head", "-n", 3, "--json", "--columns", "id", "--on-corrupt", "skip", tmp_path / "bad")
    assert [json.loads(row)["id"] for row in result.stdout.splitlines()] == [0, 2, 3]
    assert "skipped at least 1 damaged record" in result.stderr


# ---- schema


def test_schema_as_table(rows_file):
    text = run("schema", rows_file).stdout
    assert re.search(r"^weight +float$", text, re.M)
    assert re.search(r"^tags +string\[\]", text, re.M)
    assert "record: example, 5 columns" in text


def test_schema_as_json_is_read_again(rows_file, tmp_path):
    text = run("schema", "--json", rows_file).stdout
    fields = {field["name"]: field for field in json.loads(text)["fields"]}
    assert fields["pixels"]["shape"] == [3] and not fields["pixels"]["nullable"]
    (tmp_path / "schema.json").write_text(text)
    assert run("head", "--json", "--schema", tmp_path / "schema.json", rows_file).stdout.count("\n") == 5


def test_schema_of_a_sample(rows_file):
    text = run("schema", "--sample", 4, "--columns", "tags,id", "--json", "--threads", 1, rows_file).stdout
    fields = json.loads(text)["fields"]
    assert [field["name"] for field in fields] == ["tags", "id"] and fields[1]["nullable"]


def test_schema_of_other_records(tmp_path):
    (tmp_path / "raw").write_bytes(framed(b"\xff\xff"))
    assert "bytes" in run("schema", "--record", "bytes", "--codec", "none", tmp_path / "raw").stdout
    fails(1, "schema", tmp_path / "raw")
    (tmp_path / "mixed").write_bytes(framed(b"\xff\xff") + framed(b""))
    run("schema", "--on-corrupt", "skip", tmp_path / "mixed")


# ---- count, index


def test_count(rows_file, tmp_path):
    assert run("count", rows_file).stdout.split() == ["20", str(rows_file)]
    write_examples(tmp_path / "a.tfrecord.gz", ROWS[:7], "GZIP")
    write_examples(tmp_path / "b.tfrecord", ROWS[:5])
    lines = run("count", tmp_path, rows_file).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["7", "5", "20", "32"] and lines[-1].endswith("total")
    counted = json.loads(run("count", "--json", "--quiet", f"{tmp_path}/*").stdout)
    assert counted["records"] == 12
    assert [os.path.basename(file["path"]) for file in counted["files"]] == ["a.tfrecord.gz", "b.tfrecord"]
    assert run("count", "--codec", "gzip", tmp_path / "a.tfrecord.gz").stdout.split()[0] == "7"
    fails(1, "count", "--codec", "zlib", tmp_path / "a.tfrecord.gz")


def test_index(rows_file, tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(rows_file.read_bytes())
    assert run("index", path).stdout.split()[:2] == ["built", "20"]
    assert (tmp_path / "x.tfrecord.tfindex").exists()
    assert run("index", path).stdout.split()[0] == "fresh"
    assert run("index", "--force", path).stdout.split()[0] == "built"
    path.write_bytes(path.read_bytes() * 2)
    built = json.loads(run("index", "--json", tmp_path).stdout)
    assert built == {"files": [{"path": str(path), "records": 40, "built": True}], "records": 40}
    assert run("index", "--quiet", path).stdout == ""
    write_examples(tmp_path / "y.tfrecord.gz", ROWS, "GZIP")
    assert "y.tfrecord.gz" in fails(2, "index", tmp_path / "y.tfrecord.gz")


# ---- verify


def test_verify_says_that_all_is_well(rows_file):
    assert re.fullmatch(r"1 file, 20 records, .*: no damage\n", run("verify", "--parse", rows_file).stdout)
    result = run("verify", "--quiet", "--threads", 2, rows_file)
    assert result.stdout == "" and result.stderr == ""


def test_verify_names_every_bad_record(rows_file, tmp_path):
    good = tmp_path / "a.tfrecord"
    good.write_bytes(rows_file.read_bytes())
    bad = tmp_path / "b.tfrecord"
    offset = damaged(rows_file, bad)
    cut = tmp_path / "c.tfrecord"
    cut.write_bytes(rows_file.read_bytes()[:-1])
    text = run("verify", tmp_path, code=1).stdout
    assert re.search(rf"^{bad}: offset {offset} \(record 1\): CORRUPT: .+$", text, re.M)
    assert re.search(rf"^{cut}: offset \d+ \(record 19\): TRUNCATED: .+$", text, re.M)
    assert f"\n{good}" not in text
    assert re.search(r"^3 files, 58 records, .*: 2 damaged places, .* cannot be read$", text, re.M)
    found = json.loads(run("verify", "--json", "--quiet", tmp_path, code=1).stdout)
    assert [(d["path"], d["record"], d["status"]) for d in found["damage"]] == [
        (str(bad), 1, "CORRUPT"),
        (str(cut), 19, "TRUNCATED"),
    ]
    assert found["damage"][0]["offset"] == offset
    assert (found["files"], found["records"], found["damaged_places"]) == (3, 58, 2)


def test_verify_parses_when_told(tmp_path):
    (tmp_path / "raw").write_bytes(framed(b"\xff\xff\xff"))
    run("verify", "--codec", "none", tmp_path / "raw")
    assert "(record 0): CORRUPT" in run("verify", "--parse", tmp_path / "raw", code=1).stdout
    assert "(record 0)" in run("verify", "--parse", "--record", "sequence_example", tmp_path / "raw", code=1).stdout


# ---- stats


def test_stats(rows_file):
    text = run("stats", rows_file).stdout
    assert re.search(r"^id +int64 +20 +0 +0 +19 +9.5$", text, re.M)
    assert re.search(r"^tags .*length 0 to 2, mean 0.95", text, re.M)
    assert re.search(r"^name .* 7 to 8 bytes, mean 7.5$", text, re.M)
    found = json.loads(run("stats", "--json", "--quiet", "--threads", 1, rows_file).stdout)
    columns = {column["name"]: column for column in found["columns"]}
    assert found["rows"] == 20
    assert columns["weight"]["mean"] == pytest.approx(2.375)
    assert (columns["pixels"]["min"], columns["pixels"]["max"], columns["pixels"]["values"]) == (0, 21, 60)
    assert columns["pixels"]["length"] == {"min": 3, "max": 3, "mean": 3.0}
    assert columns["name"]["bytes"] == {"min": 7, "max": 8, "mean": 7.5}


def test_stats_of_missing_and_special_values(tmp_path):
    path = tmp_path / "x.tfrecord"
    write_examples(path, [{"f": math.nan, "b": 1, "l": [7, 9]}, {"f": -math.inf, "b": 0}, {"b": 1, "i": -(2**63)}])
    schema = tmp_path / "schema.json"
    schema.write_text(
        '{"fields": [{"name": "f", "type": "float", "nullable": true}, {"name": "b", "type": "bool"},'
        '{"name": "l", "type": "int64", "shape": [2], "nullable": true},'
        '{"name": "i", "type": "int64", "nullable": true}]}'
    )
    found = json.loads(run("stats", "--json", "--schema", schema, path).stdout)["columns"]
    assert (found[0]["nulls"], found[0]["nans"], found[0]["min"]) == (1, 1, "-Infinity")
    assert found[1]["true"] == 2
    # The zeros that stand for a missing list are no values.
    assert (found[2]["min"], found[2]["nulls"], found[2]["values"]) == (7, 2, 2)
    assert found[3]["max"] == -(2**63)
    assert "1 NaN" in run("stats", "--schema", schema, "--columns", "f", path).stdout


def test_stats_of_damaged_and_raw_files(rows_file, tmp_path):
    damaged(rows_file, tmp_path / "bad")
    fails(1, "stats", tmp_path / "bad")
    result = run("stats", "--on-corrupt", "skip", "--json", tmp_path / "bad")
    assert json.loads(result.stdout)["rows"] == 19 and "skipped at least 1" in result.stderr
    found = json.loads(run("stats", "--record", "bytes", "--codec", "none", "--json", rows_file).stdout)
    assert found["columns"][0]["name"] == "record" and found["rows"] == 20


# ---- convert: formats


CSV = 'id,weight,name,flag\n1,0.5,"a, ""b""",x\n2,,"line\nbreak",\n-3,1e3,,z\n'


def test_csv_to_records_to_json_and_back(tmp_path):
    (tmp_path / "in.csv").write_text(CSV)
    run("convert", tmp_path / "in.csv", tmp_path / "a.tfrecord")
    expected = [
        {"flag": [b"x"], "id": [1], "name": [b'a, "b"'], "weight": [0.5]},
        {"id": [2], "name": [b"line\nbreak"]},
        {"flag": [b"z"], "id": [-3], "weight": [1000.0]},
    ]
    assert read_examples([tmp_path / "a.tfrecord"]) == expected
    run("convert", tmp_path / "a.tfrecord", tmp_path / "b.jsonl")
    assert lines_of(tmp_path / "b.jsonl")[1] == {"flag": None, "id": 2, "name": "line\nbreak", "weight": None}
    run("convert", tmp_path / "b.jsonl", tmp_path / "c.tfrecord")
    assert read_examples([tmp_path / "c.tfrecord"]) == expected
    run("convert", "--columns", "id,weight,name,flag", tmp_path / "c.tfrecord", tmp_path / "d.csv")
    with open(tmp_path / "d.csv", newline="", encoding="utf-8") as file:
        assert list(csv.reader(file))[1:] == [
            ["1", "0.5", 'a, "b"', "x"],
            ["2", "", "line\nbreak", ""],
            ["-3", "1000.0", "", "z"],
        ]


def test_digits_fold_and_label(tmp_path):
    rows = [[(i * j) % 256 for j in range(784)] + [i % 10] for i in range(50)]
    with gzip.open(tmp_path / "digits.csv.gz", "wt", newline="") as file:
        csv.writer(file).writerows(rows)
    digits = tmp_path / "digits.csv.gz"
    run("convert", "--no-header", "--fold", "image=0:784", "--label", "last", digits, tmp_path / "x.tfrecord")
    assert read_examples([tmp_path / "x.tfrecord"]) == [{"image": row[:784], "label": row[784:]} for row in rows]
    folds = ["--fold", "a=1:3", "--fold", "b=3:4", "--columns", "b,digit,a"]
    run("convert", *folds, "--label", "first=digit", "--no-header", digits, tmp_path / "y.jsonl")
    assert lines_of(tmp_path / "y.jsonl")[7] == {"b": [21], "digit": 0, "a": [7, 14]}


def test_fold_by_names_of_the_header(tmp_path):
    (tmp_path / "x.csv").write_text("id,pixel_0,pixel_1,pixel_2\n7,1,2,3\n8,4,5,6\n")
    run("convert", "--fold", "image=pixel_0:pixel_2", tmp_path / "x.csv", tmp_path / "x.tfrecord")
    expected = [{"id": [7], "image": [1, 2, 3]}, {"id": [8], "image": [4, 5, 6]}]
    assert read_examples([tmp_path / "x.tfrecord"]) == expected
    wrong = ["convert", "--fold", "image=pixel_0:pixel_9", tmp_path / "x.csv", tmp_path / "y.tfrecord"]
    assert "x.csv: the fold image=pixel_0:pixel_9: the header has no column 'pixel_9'" in fails(1, *wrong)
    assert "there is no header" in fails(2, *wrong, "--no-header")
    assert not (tmp_path / "y.tfrecord").exists()


def test_lists_survive_csv(rows_file, tmp_path):
    run("convert", "--columns", "id,pixels", rows_file, tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().splitlines()[:2] == ["id,pixels_0,pixels_1,pixels_2", "0,0,1,2"]
    schema = tmp_path / "schema.json"
    schema.write_text(run("schema", "--json", "--columns", "id,pixels", rows_file).stdout)
    run("convert", "--schema", schema, tmp_path / "x.csv", tmp_path / "x.tfrecord")
    assert read_examples([tmp_path / "x.tfrecord"]) == [{"id": [r["id"]], "pixels": r["pixels"]} for r in ROWS]
    message = fails(2, "convert", rows_file, tmp_path / "y.csv")
    assert "'tags'" in message and "jsonl" in message
    assert not (tmp_path / "y.csv").exists()


def test_delimiters_and_headers(tmp_path):
    (tmp_path / "a.tsv").write_text("x\ty\n1\t2,5\n")
    run("convert", tmp_path / "a.tsv", tmp_path / "a.jsonl")
    assert lines_of(tmp_path / "a.jsonl") == [{"x": 1, "y": "2,5"}]
    (tmp_path / "b.csv").write_text('x,y\n1,"2,5"\n')
    for source in ("a.tsv", "b.csv"):  # the delimiter of a file is that of its own name
        for name, lines in (("c.csv", ["x,y", '1,"2,5"']), ("c.tsv", ["x\ty", "1\t2,5"]), ("c.tsv.gz", None)):
            run("convert", "--overwrite", tmp_path / source, tmp_path / name)
            assert lines is None or (tmp_path / name).read_text().splitlines() == lines
        run("convert", "--overwrite", tmp_path / "c.tsv.gz", tmp_path / "a.jsonl")
        assert lines_of(tmp_path / "a.jsonl") == [{"x": 1, "y": "2,5"}]
    (tmp_path / "b.txt").write_text("1;2\n")
    formats = ["--from", "csv", "--to=csv", "--delimiter", "semicolon"]
    run("convert", *formats, "--no-header", tmp_path / "b.txt", tmp_path / "b.out")
    assert (tmp_path / "b.out").read_text() == "1;2\n"
    run("convert", "--from", "csv", "--delimiter", ";", "--header", tmp_path / "b.txt", tmp_path / "c.jsonl")
    assert lines_of(tmp_path / "c.jsonl") == []


def test_json_lists_and_sequences(tmp_path):
    import tensorflow as tf

    (tmp_path / "in.jsonl").write_text(
        '{"id": 1, "big": 9007199254740993, "f": "NaN", "l": [1.5, 2], "frames": [[1, 2], [3]]}\n'
        '{"id": 2, "big": -1, "f": 0.1, "l": [], "frames": []}\n'
    )
    run("convert", tmp_path / "in.jsonl", tmp_path / "x.tfrecord")
    first, second = map(tf.train.SequenceExample.FromString, read_records(tmp_path / "x.tfrecord"))
    assert list(first.context.feature["big"].int64_list.value) == [9007199254740993]
    assert [list(f.int64_list.value) for f in first.feature_lists.feature_list["frames"].feature] == [[1, 2], [3]]
    assert list(first.context.feature["l"].float_list.value) == [1.5, 2.0]
    assert math.isnan(first.context.feature["f"].float_list.value[0])
    assert len(second.feature_lists.feature_list["frames"].feature) == 0
    run("convert", tmp_path / "x.tfrecord", tmp_path / "out.jsonl")
    assert lines_of(tmp_path / "out.jsonl")[0]["frames"] == [[1, 2], [3]]
    assert lines_of(tmp_path / "out.jsonl")[0]["f"] == "NaN"
    assert lines_of(tmp_path / "out.jsonl")[1]["f"] == 0.1


def test_binary_is_base64(tmp_path):
    blobs = [bytes([i, 255, 0]) for i in range(3)]
    write_examples(tmp_path / "x.tfrecord", [{"b": blob} for blob in blobs])
    run("convert", tmp_path / "x.tfrecord", tmp_path / "x.jsonl")
    assert [base64.b64decode(row["b"]) for row in lines_of(tmp_path / "x.jsonl")] == blobs
    (tmp_path / "s.json").write_text('{"fields": [{"name": "b", "type": "binary"}]}')
    for name in ("x.jsonl", "x.csv"):
        run("convert", "--overwrite", tmp_path / "x.tfrecord", tmp_path / name)
        run("convert", "--overwrite", "--schema", tmp_path / "s.json", tmp_path / name, tmp_path / "y.tfrecord")
        assert read_examples([tmp_path / "y.tfrecord"]) == [{"b": [blob]} for blob in blobs]


def test_records_are_copied_as_they_are(tmp_path):
    payloads = [b"", b"\xff no example", b"x" * 100000]
    (tmp_path / "a").write_bytes(b"".join(map(framed, payloads)))
    run("convert", tmp_path / "a", tmp_path / "b.tfrecord")
    assert read_records(tmp_path / "b.tfrecord") == payloads
    assert (tmp_path / "b.tfrecord").read_bytes() == (tmp_path / "a").read_bytes()
    run("convert", "--record", "bytes", tmp_path / "a", tmp_path / "c.jsonl")
    assert lines_of(tmp_path / "c.jsonl")[0] == {"record": ""}


def test_input_of_one_format(tmp_path):
    (tmp_path / "a.csv").write_text("x\n1\n")
    (tmp_path / "b.jsonl").write_text('{"x": 1}\n')
    assert "different formats" in fails(2, "convert", tmp_path / "a.csv", tmp_path / "b.jsonl", tmp_path / "o")
    (tmp_path / "c.csv").write_text("x\n2\n3\n")
    run("convert", tmp_path / "a.csv", tmp_path / "c.csv", tmp_path / "o.jsonl")
    assert [row["x"] for row in lines_of(tmp_path / "o.jsonl")] == [1, 2, 3]


def test_options_without_effect_are_refused(rows_file, tmp_path):
    out = tmp_path / "out"
    assert "--fold" in fails(2, "convert", "--fold", "a=0:1", rows_file, out)
    assert "--delimiter" in fails(2, "convert", "--delimiter", "tab", rows_file, out)
    assert "--shuffle" in fails(2, "convert", "--seed", 3, rows_file, out)
    (tmp_path / "a.csv").write_text("x\n1\n")
    assert "--on-corrupt" in fails(2, "convert", "--on-corrupt", "skip", tmp_path / "a.csv", out)
    for bad in ("a", "a=1", "=1:2", "a=:x", "a=x:", "a=x:y:z", "a=3:3"):
        assert "fold" in fails(2, "convert", "--fold", bad, tmp_path / "a.csv", out)
    assert "--label: expected" in fails(2, "convert", "--label", "middle", tmp_path / "a.csv", out)
    assert "--delimiter: expected" in fails(2, "convert", "--delimiter", "ab", tmp_path / "a.csv", out)
    assert not out.exists()


@pytest.mark.parametrize(
    "text, message",
    [
        ("a,b\n1,2\n3\n", "x.csv: line 3: expected 2 columns, found 1"),
        ('a\n"1\n', "x.csv: line 2: a quoted field begins"),
        ("a\n\udcff\n", "x.csv: line 2, column 0 ('a'): invalid UTF-8"),
    ],
)
def test_bad_csv_is_named_by_line(tmp_path, text, message):
    (tmp_path / "x.csv").write_bytes(text.encode(errors="surrogateescape"))
    assert message in fails(1, "convert", tmp_path / "x.csv", tmp_path / "out.tfrecord")
    assert sorted(os.listdir(tmp_path)) == ["x.csv"]


def test_text_to_text_keeps_numbers(tmp_path):
    """Only a TFRecord has no more than 32 bits for a number with a fraction."""
    values = [16777217.0, 0.1, 1e300, -123456.789012345]
    (tmp_path / "x.csv").write_text("x,y\n" + "".join(f"{value!r},7\n" for value in values))
    run("convert", tmp_path / "x.csv", tmp_path / "x.jsonl")
    assert lines_of(tmp_path / "x.jsonl") == [{"x": value, "y": 7} for value in values]
    run("convert", tmp_path / "x.jsonl", tmp_path / "y.csv")
    run("convert", "--columns", "x", tmp_path / "y.csv", tmp_path / "y.jsonl")
    assert lines_of(tmp_path / "y.jsonl") == [{"x": value} for value in values]
    (tmp_path / "l.jsonl").write_text('{"l": [16777217, 0.5], "f": [[0.1], [0.2]], "n": null}\n')
    run("convert", tmp_path / "l.jsonl", tmp_path / "m.jsonl")
    assert lines_of(tmp_path / "m.jsonl") == [{"l": [16777217.0, 0.5], "f": [[0.1], [0.2]], "n": None}]
    assert "does not fit float" in fails(1, "convert", tmp_path / "x.csv", tmp_path / "x.tfrecord")
    assert "32 bits" in run("convert", "--help").stdout


def test_bad_json_is_named_by_line(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n\n{"a": "x"}\n')
    assert "x.jsonl: line 3, column 'a'" in fails(1, "convert", tmp_path / "x.jsonl", tmp_path / "o")
    (tmp_path / "x.jsonl").write_text('{"a": 1}\n{"a": \n')
    assert "x.jsonl: line 2" in fails(1, "convert", tmp_path / "x.jsonl", tmp_path / "o")


def test_text_that_is_cut_short_or_packed_otherwise(tmp_path):
    packed = gzip.compress(b"x\n" + b"1\n" * 10000)
    (tmp_path / "cut.csv.gz").write_bytes(packed[:-9])
    assert "cut.csv.gz" in fails(1, "convert", tmp_path / "cut.csv.gz", tmp_path / "o.tfrecord")
    (tmp_path / "plain.csv.gz").write_bytes(b"x\n1\n")
    run("convert", tmp_path / "plain.csv.gz", tmp_path / "plain.jsonl")
    assert lines_of(tmp_path / "plain.jsonl") == [{"x": 1}]
    fails(1, "convert", "--input-codec", "gzip", tmp_path / "plain.csv.gz", tmp_path / "o.tfrecord")
    assert not (tmp_path / "o.tfrecord").exists()


def test_output_may_replace_its_input(rows_file, tmp_path):
    run("convert", "--shards", 4, rows_file, tmp_path / "data")
    run("convert", "--shards", 2, "--overwrite", tmp_path / "data", tmp_path / "data")
    assert sorted(os.listdir(tmp_path / "data")) == shard_names(2)
    ids = [row["id"][0] for name in shard_names(2) for row in read_examples([tmp_path / "data" / name])]
    assert sorted(ids) == list(range(20))


@pytest.mark.parametrize("command", ["count", "verify", "index"])
def test_json_is_whole_or_not_there(rows_file, tmp_path, command):
    """A file that fails behind one that does not: no half of an object is left for a script to choke on."""
    (tmp_path / "a").write_bytes(rows_file.read_bytes())
    (tmp_path / "b").write_bytes(gzip.compress(rows_file.read_bytes()))
    if command == "verify":
        # Damage of a file is a finding and no failure; one that goes away is.
        (tmp_path / "a").write_bytes(rows_file.read_bytes()[:-1])
        (tmp_path / "b").unlink()
        (tmp_path / "b").symlink_to("/proc/self/mem")
    options = ["--codec", "none"] if command == "count" else []
    result = subprocess.run(
        [TFOS, "records", command, "--json", *options, tmp_path / "a", tmp_path / "b"], capture_output=True, text=True
    )
    assert result.returncode not in (0, 141) and result.stdout == "" and f"{tmp_path}/b" in result.stderr


def test_what_data_can_say_to_a_terminal(tmp_path):
    """Names and strings of the data cannot move the cursor, fake a row or end a line."""
    name = "näme\x1b[2J\nrow 99\x9b31m\\"
    write_examples(tmp_path / "x", [{name: "text\x1b[31m\n\x9b2J é".encode()}])
    shown = r"näme\x1b[2J\x0arow 99\xc2\x9b31m\x5c"
    for command in ("head", "schema", "stats"):
        text = run(command, tmp_path / "x").stdout
        assert shown in text and not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), command
    first, second = run("head", tmp_path / "x").stdout.splitlines()
    assert first == "row 0" and r'"text\u001b[31m\n\u009b2J é"' in second
    assert json.loads(run("head", "--json", tmp_path / "x").stdout) == {name: "text\x1b[31m\n\x9b2J é"}


# ---- convert: shards, order, compression


def shard_names(count, ending=".tfrecord"):
    return [f"part-{i:05d}-of-{count:05d}{ending}" for i in range(count)]


def test_shards_take_rows_in_turn(rows_file, tmp_path):
    out = tmp_path / "deep" / "out"
    result = run("convert", "--shards", 3, rows_file, out)
    assert "wrote 20 records" in result.stderr and result.stdout == ""
    assert sorted(os.listdir(out)) == shard_names(3)
    for i, name in enumerate(shard_names(3)):
        assert [row["id"][0] for row in read_examples([out / name])] == list(range(i, 20, 3))
    told = json.loads(run("convert", "--shards", 3, "--json", "--quiet", rows_file, f"{out}2/").stdout)
    assert told == {"records": 20, "files": [f"{out}2/{name}" for name in shard_names(3)]}
    assert "--shards" in fails(2, "convert", rows_file, out)


def test_shards_of_other_formats_and_codecs(rows_file, tmp_path):
    run("convert", "--shards", 2, "--to", "jsonl", "--codec", "gzip", "--level", 9, rows_file, tmp_path / "j")
    assert sorted(os.listdir(tmp_path / "j")) == shard_names(2, ".jsonl.gz")
    assert [row["id"] for row in lines_of(tmp_path / "j" / shard_names(2, ".jsonl.gz")[1])] == list(range(1, 20, 2))
    run("convert", "--shards", 2, "--to", "csv", "--columns", "id", rows_file, tmp_path / "c")
    assert (tmp_path / "c" / shard_names(2, ".csv")[1]).read_text().splitlines()[:2] == ["id", "1"]
    run("convert", "--codec", "zlib", rows_file, tmp_path / "z")
    assert zlib.decompress((tmp_path / "z").read_bytes()) == rows_file.read_bytes()
    run("convert", "--input-codec", "zlib", tmp_path / "z", tmp_path / "g.tfrecord.gz")
    assert read_examples([tmp_path / "g.tfrecord.gz"], "GZIP") == read_examples([rows_file])


def test_shuffle_is_a_permutation_that_the_seed_decides(tmp_path):
    (tmp_path / "x.csv").write_text("id,pad\n" + "".join(f"{i},{'p' * (i % 400)}\n" for i in range(20000)))

    def order(name, *options):
        run("convert", "--shuffle", *options, tmp_path / "x.csv", tmp_path / name)
        return [row["id"] for row in lines_of(tmp_path / name)]

    first = order("a.jsonl", "--seed", 5)
    assert first != sorted(first) and sorted(first) == list(range(20000))
    assert order("b.jsonl", "--seed", 5, "--memory", "1MiB", "--threads", 1) == first
    assert order("c.jsonl", "--seed", -6) != first
    assert order("d.jsonl") == order("e.jsonl", "--seed", 0)
    # A file of each kind and nothing else: what was spilled is gone.
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "b.jsonl", "c.jsonl", "d.jsonl", "e.jsonl", "x.csv"]


def test_output_is_not_clobbered(rows_file, tmp_path):
    out = tmp_path / "x.tfrecord"
    out.write_bytes(b"precious")
    assert "exists already" in fails(3, "convert", rows_file, out)
    assert out.read_bytes() == b"precious"
    run("convert", "--overwrite", rows_file, out)
    assert out.read_bytes() == rows_file.read_bytes()


def test_shards_of_another_conversion_do_not_mix(rows_file, tmp_path):
    out = tmp_path / "out"
    run("convert", "--shards", 4, rows_file, out)
    run("index", out)
    (out / "notes.txt").write_text("mine")
    assert "exists" in fails(3, "convert", "--shards", 4, rows_file, out)
    assert "another conversion" in fails(3, "convert", "--shards", 2, rows_file, out)
    assert len(os.listdir(out)) == 9
    for name in ("part-00001-of-00004.tfrecord.gz", "part-00001-of-00004.tfrecord.zlib.tfindex"):
        (out / name).write_text("of a conversion before")
    kept = ["notes.txt"]
    for name in ("00000-of-00002.tfrecord.my-backup", "00000-of-00002.tfrecords", "   +1-of-00002.tfrecord"):
        (out / f"part-{name}").write_text("mine")
        kept.append(f"part-{name}")
    run("convert", "--shards", 2, "--overwrite", rows_file, out)
    assert sorted(os.listdir(out)) == sorted([*kept, *shard_names(2)])


def test_damaged_records_are_skipped_when_told(rows_file, tmp_path):
    offset = damaged(rows_file, tmp_path / "bad")
    assert f"offset {offset}" in fails(1, "convert", tmp_path / "bad", tmp_path / "o.tfrecord")
    assert os.listdir(tmp_path) == ["bad"]
    result = run("convert", "--on-corrupt", "skip", "--threads", 2, tmp_path / "bad", tmp_path / "o.tfrecord")
    assert "skipped at least 1 damaged record" in result.stderr
    assert len(read_records(tmp_path / "o.tfrecord")) == 19


# ---- settings


def run_config(*arguments, code=0, **environment):
    env = {name: value for name, value in os.environ.items() if not name.startswith("TFOS_")}
    command = [TFOS, "config", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, env={**env, **environment})
    assert result.returncode == code, result.stderr
    return result


def test_config_shows_values_and_where_they_come_from():
    lines = run_config(TFOS_RECORDS_THREADS="3", TFOS_RECORDS_BATCH_BYTES="2MiB").stdout.splitlines()
    assert "records.batch_rows = 1024  (default; TFOS_RECORDS_BATCH_ROWS is not set)" in lines
    assert "records.batch_bytes = 2MiB  (from TFOS_RECORDS_BATCH_BYTES)" in lines
    assert "records.threads = 3  (from TFOS_RECORDS_THREADS)" in lines


def test_config_makes_the_page_of_settings():
    with open(f"{ROOT}/docs/config.md", encoding="utf-8") as page:
        assert run_config("--markdown").stdout == page.read()


def test_config_takes_no_arguments():
    assert "takes no arguments" in run_config("records", code=2).stderr
    assert "did you mean --markdown?" in run_config("--markdwn", code=2).stderr
    assert "Usage: tfos config" in run_config("--help").stdout


@pytest.mark.parametrize("value", ["many", "-2", "257", "1.5", "2KiBs"])
def test_a_bad_setting_is_named(rows_file, value):
    message = fails(2, "stats", rows_file, env={**os.environ, "TFOS_RECORDS_THREADS": value})
    assert "TFOS_RECORDS_THREADS" in message and value in message


# ---- the terminal, signals, full disks, closed pipes


def wait_for(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def run_on_terminal(*arguments, environment=None):
    """Runs with stderr on a terminal. Returns the exit code and what the terminal got."""
    controller, terminal = pty.openpty()
    command = [TFOS, "records", *map(str, arguments)]
    env = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", **(environment or {})}
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal, env=env)
    os.close(terminal)
    got = b""
    while True:
        try:
            readable, _, _ = select.select([controller], [], [], SECONDS)
            assert readable, "the command hangs"
            got += os.read(controller, 65536)
        except OSError:  # the other end is closed
            break
    os.close(controller)
    process.stdout.read()
    process.stdout.close()
    return process.wait(), got.decode()


def test_progress_bar_on_a_terminal(many_rows, tmp_path):
    code, text = run_on_terminal("convert", "--codec", "gzip", "--level", 9, many_rows, tmp_path / "x")
    assert code == 0
    bar = r"\rconverting  \x1b\[32m([█░]+)\x1b\[0m +(\d+)%  [\d.]+ [KMG]iB/s  [\d ]+ records  \d+:\d\d left"
    frames = re.findall(bar, text)
    assert len(frames) >= 3
    shares = [int(share) for _, share in frames]
    assert shares == sorted(shares) and 0 < shares[-1] <= 100
    # It is taken off before the summary, which stays.
    assert re.search(r"\r\x1b\[Ktfos: wrote 60 000 records to .*\r\n$", text)
    drawn = [re.sub(r"\x1b\[\d*[mK]", "", line) for line in text.split("\r") if "records  " in line]
    assert max(map(len, drawn)) < 80


def test_progress_bar_without_color(many_rows, tmp_path):
    environment = {"NO_COLOR": "1", "LC_ALL": "C"}
    options = ["--shuffle", "--codec", "gzip", "--level", 9]
    code, text = run_on_terminal("convert", *options, many_rows, tmp_path / "x", environment=environment)
    assert code == 0
    assert "\x1b[3" not in text and re.search(r"writing in random order  [\d ]+ records", text)
    assert not re.search("[█░]", text)


def test_no_progress_bar_when_quiet_or_elsewhere(many_rows, tmp_path):
    code, text = run_on_terminal("convert", "--quiet", many_rows, tmp_path / "x.tfrecord")
    assert (code, text) == (0, "")
    result = run("convert", many_rows, tmp_path / "y.tfrecord")
    assert result.stderr.startswith("tfos: wrote")


@pytest.fixture
def slow_conversion(tmp_path):
    """A conversion that waits for more rows, its hidden files open: the process, its folder, the end that feeds it."""
    fifo = tmp_path / "in.csv"
    os.mkfifo(fifo)
    schema = tmp_path / "schema.json"
    schema.write_text('{"fields": [{"name": "x", "type": "int64"}]}')
    out = tmp_path / "deep" / "out"
    command = [TFOS, "records", "convert", "--schema", schema, "--shards", "2", fifo, out]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    feed = open(fifo, "w", encoding="ascii")
    feed.write("x\n" + "1\n" * 10000)
    feed.flush()
    wait_for(lambda: out.exists() and len(os.listdir(out)) == 2)
    assert all(name.startswith(".") for name in os.listdir(out))
    yield process, out, feed
    process.kill()
    process.communicate()
    try:
        feed.close()
    except BrokenPipeError:
        pass


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupt_leaves_nothing(slow_conversion, number, code):
    process, out, _ = slow_conversion
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=SECONDS)
    assert process.returncode == code and stdout == b"" and stderr == b""
    assert not out.parent.exists()


@pytest.mark.parametrize("before", [0, 900])
def test_interrupt_while_files_take_their_names(tmp_path, before):
    """All of a set of shards, or none of it: never a part, never two sets."""
    (tmp_path / "x.csv").write_text("x\n" + "1\n" * 5000)
    out = tmp_path / "out"
    if before:
        run("convert", "--shards", before, tmp_path / "x.csv", out)
    first = out / shard_names(1500)[0]
    command = [TFOS, "records", "convert", "--quiet", "--overwrite", "--shards", "1500", tmp_path / "x.csv", out]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + SECONDS
    while not first.exists():
        assert time.monotonic() < deadline
    process.send_signal(signal.SIGINT)
    # The signal may come when all is done.
    assert process.wait(timeout=SECONDS) in (0, 130)
    assert sorted(os.listdir(out)) == shard_names(1500)


def test_files_appear_only_when_complete(slow_conversion):
    process, out, feed = slow_conversion
    feed.write("2\n")
    feed.close()
    process.communicate(timeout=SECONDS)
    assert process.returncode == 0
    assert sorted(os.listdir(out)) == shard_names(2)
    assert sum(len(read_records(out / name)) for name in shard_names(2)) == 10001


def test_a_pipe_needs_a_schema(tmp_path):
    os.mkfifo(tmp_path / "in.csv")
    assert "can be read only once" in fails(2, "convert", tmp_path / "in.csv", tmp_path / "out")


def run_on_pipe(path, data, *arguments, code=0):
    """Runs a command on a named pipe through which `data` comes, if the command opens it."""
    os.mkfifo(path)

    def fill():
        try:
            with open(path, "wb") as file:
                file.write(data)
        except BrokenPipeError:
            pass

    filler = threading.Thread(target=fill)
    filler.start()
    try:
        return run(*arguments, code=code)
    finally:
        # One that was never opened is opened here, so that the thread ends.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb"):
            filler.join(timeout=SECONDS)
        path.unlink()


@pytest.mark.parametrize("arguments", [["head"], ["stats"], ["convert", "--to", "jsonl"]])
def test_a_pipe_of_records_needs_a_schema(rows_file, tmp_path, arguments):
    """Looking for the types would use the pipe up: then there would be no records left, without a word."""
    pipe, out = tmp_path / "in", tmp_path / "out.jsonl"
    inputs = [pipe, out] if arguments[0] == "convert" else [pipe]
    data = rows_file.read_bytes()
    result = run_on_pipe(pipe, data, *arguments, *inputs, code=2)
    assert result.stdout == "" and f"{pipe}: can be read only once" in result.stderr and not out.exists()
    (tmp_path / "schema.json").write_text(run("schema", "--json", rows_file).stdout)
    result = run_on_pipe(pipe, data, *arguments, "--schema", tmp_path / "schema.json", *inputs)
    if arguments[0] == "convert":
        assert [row["id"] for row in lines_of(out)] == list(range(20))
    else:
        assert result.stdout == run(*arguments, rows_file).stdout


def test_a_pipe_of_records_is_copied_and_counted(rows_file, tmp_path):
    pipe, out = tmp_path / "in", tmp_path / "out.tfrecord"
    data = rows_file.read_bytes()
    assert "wrote 20 records" in run_on_pipe(pipe, data, "convert", pipe, out).stderr
    assert out.read_bytes() == data
    assert run_on_pipe(pipe, data, "count", pipe).stdout.split() == ["20", str(pipe)]


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


@pytest.mark.parametrize("options", [[], ["--codec", "gzip"], ["--shuffle", "--memory", "1MiB"], ["--to", "jsonl"]])
def test_full_disk(many_rows, tmp_path, options):
    arguments = ["--quiet", "--shards", 2, *options, many_rows, tmp_path / "out"]
    message = fails(3, "convert", *arguments, preexec_fn=limit_files)
    assert "File too large" in message
    assert os.listdir(tmp_path) == []


def test_full_disk_of_stdout(rows_file):
    with open("/dev/full", "w", encoding="ascii") as full:
        command = [TFOS, "records", "head", rows_file]
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 3 and "No space left" in result.stderr


def test_no_permission(rows_file):
    # Nobody, not even root, makes files there.
    message = fails(3, "convert", rows_file, "/sys/x.tfrecord")
    assert re.search("/sys/x.tfrecord: .*(Permission denied|Operation not permitted|Read-only)", message)


def test_closed_pipe_ends_quietly(many_rows, tmp_path):
    run("convert", "--quiet", many_rows, tmp_path / "x.tfrecord")
    command = [TFOS, "records", "head", "-n", "1000000", "--json", tmp_path / "x.tfrecord"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"{")
    process.stdout.close()
    timer = threading.Timer(SECONDS, process.kill)
    timer.start()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141
    timer.cancel()
