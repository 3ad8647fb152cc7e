"""Inference without Python and without Spark: `tfos infer` on SavedModels and files, against Keras, and what becomes of
rows that do not fit, of output that is there, and of Ctrl-C."""

import csv
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from conftest import VECTORS
from processes import wait_for

if find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow", allow_module_level=True)

from tensorflowonspark import records
from test_cli import TFOS

ROWS, FILES, SECONDS = 1000, 4, 120
PLAIN = f"{VECTORS}/tensorflow/saved_model/plain"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A Keras model, image [16] → 5 numbers; rows for it in several files; and what Keras says of them."""
    import keras

    folder = tmp_path_factory.mktemp("infer")
    keras.utils.set_random_seed(7)
    image = keras.Input([16], name="image")
    model = keras.Model(image, keras.layers.Dense(5, "softmax", name="digit")(keras.layers.Dense(8, "relu")(image)))
    model.export(folder / "digits")
    x = np.random.default_rng(3).random((ROWS, 16), dtype=np.float32)
    np.save(folder / "expected.npy", model.predict(x, verbose=0))
    os.makedirs(folder / "data")
    for at, part in enumerate(np.array_split(np.arange(ROWS), FILES)):
        names = [f"row {number}" for number in part]
        records.write(folder / "data" / f"part-{at}.tfrecord", {"pixels": x[part], "id": part, "name": names})
    return folder


@pytest.fixture(scope="module")
def expected(place):
    return np.load(place / "expected.npy")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model that takes a while for each row, one that is given whole records, and one of small numbers in lists."""
    import tensorflow as tf

    folder = str(tmp_path_factory.mktemp("models") / "made")
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None, 16], tf.float32, "pixels")])
    def slow(pixels):
        x = tf.while_loop(lambda i, x: i < 20000, lambda i, x: (i + 1, tf.sin(x)), (0, pixels), parallel_iterations=1)
        return {"y": x[1]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "examples")])
    def parse(examples):
        return tf.io.parse_example(examples, {"id": tf.io.FixedLenFeature([], tf.int64)})

    lists = [tf.TensorSpec([None, None], tf.uint8, "pixels"), tf.TensorSpec([None, 2, 2], tf.float16, "weights")]

    @tf.function(input_signature=lists)
    def small(pixels, weights):
        return {"pixels": 255 - pixels, "weights": weights * 2, "halves": tf.cast(pixels, tf.float16) / 2}

    tf.saved_model.save(module, folder, signatures={"slow": slow, "parse": parse, "small": small})
    return folder


def command(*options, model="digits"):
    words = [TFOS, "infer", "--model", model, "--python", sys.executable, *options]
    return [str(each) for each in words]


def infer(folder, *options, code=0, model="digits", **keywords):
    """What was written, as JSON, and what was said."""
    done = subprocess.run(
        command("--json", *options, model=model),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=folder,
        **keywords,
    )
    assert done.returncode == code, done.stderr
    return (json.loads(done.stdout) if done.stdout else None), done.stderr


def refused(folder, *options, code, model="digits"):
    """The one line that is said, and that nothing was made."""
    before = sorted(os.listdir(folder))
    _, said = infer(folder, *options, code=code, model=model)
    assert said.startswith("tfos: ") and said.count("\n") == 1, said
    assert sorted(os.listdir(folder)) == before
    return said


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def plain(tmp_path, signature, rows, *options):
    """Rows through a signature of the model that has one for everything, as JSON lines."""
    write_lines(tmp_path / "rows.jsonl", rows)
    options = ["--data", "rows.jsonl", "--output", "out.jsonl", "--signature", signature, "--quiet", *options]
    infer(tmp_path, *options, model=PLAIN)
    return lines_of(tmp_path / "out.jsonl")


# ---- results ----


@pytest.mark.parametrize("threads, batch", [(1, 1000), (4, 7)])
def test_results_are_those_of_keras_in_the_order_of_the_rows(place, expected, tmp_path, threads, batch):
    out = tmp_path / "out.jsonl"
    options = ["--inputs", "pixels=image", "--outputs", "digit=digit", "--keep", "name,id"]
    told, said = infer(place, "--data", "data", "--output", out, *options, "--threads", threads, "--batch-size", batch)
    rows = lines_of(out)
    assert list(rows[0]) == ["name", "id", "digit"]
    assert [row["id"] for row in rows] == list(range(ROWS)) and rows[77]["name"] == "row 77"
    np.testing.assert_allclose([row["digit"] for row in rows], expected, atol=1e-5)
    assert told["rows"] == ROWS and told["files"] == [str(out)] and told["seconds"] > 0
    assert f"wrote 1 000 rows to {out}" in said and said.count("\n") == 1  # TensorFlow says nothing


def test_tfrecords_in_shards(place, expected, tmp_path):
    options = ["--inputs", "pixels=0", "--outputs", "0=digit", "--keep", "id", "--shards", 3, "--codec", "gzip"]
    told, _ = infer(place, "--data", "data/part-*", "--output", tmp_path / "out", *options)
    assert sorted(told["files"]) == sorted(map(str, (tmp_path / "out").iterdir())) and len(told["files"]) == 3
    for shard, path in enumerate(told["files"]):
        rows = [batch.to_pydict() for batch in records.read(path)]
        ids = [number for batch in rows for number in batch["id"]]
        assert ids == list(range(shard, ROWS, 3))  # row i is in part i mod N
        found = [digit for batch in rows for digit in batch["digit"]]
        np.testing.assert_allclose(found, expected[ids], atol=1e-5)


def test_text_in_and_out(place, expected, tmp_path):
    text = tmp_path / "pixels.csv"
    subprocess.run([TFOS, "records", "convert", place / "data", text], check=True, capture_output=True)
    fold = ["--fold", "image=pixels_0:pixels_15"]  # the column has the name of the input
    options = ["--data", text, *fold, "--keep", "id", "--output", tmp_path / "out.csv"]
    infer(place, *options, "--delimiter", "semicolon", code=1)
    infer(place, *options)
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["id", *(f"output_0_{i}" for i in range(5))] and len(rows) == ROWS + 1
    found = np.array(rows[1:], np.float64)
    assert found[:, 0].tolist() == list(range(ROWS))
    np.testing.assert_allclose(found[:, 1:], expected, atol=1e-5)


def test_strings_booleans_and_lists(tmp_path):
    rows = [{"a": i % 2 == 0, "b": f"grün {i}", "c": ["x", str(i)]} for i in range(5)]
    found = plain(tmp_path, "texts", rows, "--batch-size", 2)
    assert found[3] == {"both": ["grün 3"] * 2, "joined": "x3", "not_a": True, "upper": "GRüN 3"}
    # In TFRecords strings are bytes, and booleans come as 0 and 1.
    records.write(tmp_path / "rows.tfrecord", {key: [row[key] for row in rows] for key in "abc"})
    infer(tmp_path, "--data", "rows.tfrecord", "--output", "out.tfrecord", "--signature", "texts", model=PLAIN)
    [batch] = records.read(tmp_path / "out.tfrecord")
    assert batch.to_pydict()["joined"] == [f"x{i}" for i in range(5)]
    assert batch.to_pydict()["not_a"] == [0, 1, 0, 1, 0]


def test_bytes_that_are_no_text(tmp_path):
    records.write(tmp_path / "rows.tfrecord", {"a": [0, 1], "b": [b"ok", b"\xff\xfe"], "c": [["x", "y"]] * 2})
    options = ["--data", "rows.tfrecord", "--signature", "texts", "--output"]
    said = infer(tmp_path, *options, "out.csv", code=1, model=PLAIN)[1]
    assert "rows 0 to 1" in said and "--to tfrecord" in said and "column 'both': invalid UTF-8" in said
    infer(tmp_path, *options, "out.tfrecord", model=PLAIN)
    [batch] = records.read(tmp_path / "out.tfrecord")
    assert batch.to_pydict()["upper"] == [b"OK", b"\xff\xfe"]


def test_tensors_of_several_dimensions(tmp_path):
    rows = [{"a": [float(i + k) for k in range(6)], "id": i} for i in range(4)]
    found = plain(tmp_path, "shapes", rows, "--keep", "id", "--outputs", "same=same,sum=total,wide=wide")
    assert list(found[2]) == ["id", "same", "total", "wide"]
    assert found[2]["same"] == [[2, 3, 4], [5, 6, 7]] and found[2]["total"] == 27 and len(found[2]["wide"]) == 12
    options = ["--data", "rows.jsonl", "--output", "out.tfrecord", "--signature", "shapes", "--keep", "id"]
    infer(tmp_path, *options, model=PLAIN)
    [batch] = records.read(tmp_path / "out.tfrecord")
    assert batch.to_pydict()["same"][3] == [[3, 4, 5], [6, 7, 8]] and batch.to_pydict()["id"] == [0, 1, 2, 3]


def test_numbers_of_every_width(tmp_path):
    values = dict(zip("abcdefghijk", [1, 2, 3, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5]))
    records.write(tmp_path / "rows.tfrecord", {key: [value, value] for key, value in values.items()})
    infer(tmp_path, "--data", "rows.tfrecord", "--output", "out.jsonl", "--signature", "numbers", model=PLAIN)
    found = lines_of(tmp_path / "out.jsonl")[1]
    order = ["uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "float16", "bfloat16", "float32"]
    assert [found[name] for name in order] == [2, 3, 4, 5, 6, 7, 8, 9, 1.5, 2.5, 3.5]


def test_lists_of_numbers_that_columns_do_not_have(made, tmp_path):
    """Bytes and halves: of rows that are filled up, and of several dimensions."""
    rows = [
        {"pixels": [0, 127, 255], "weights": [0.1, -2.5, 2049, 1e-7]},
        {"pixels": [9], "weights": [30000, 0.333, 0, 1]},
    ]
    write_lines(tmp_path / "rows.jsonl", rows)
    options = ["--data", "rows.jsonl", "--output", "out.jsonl", "--signature", "small", "--quiet"]
    infer(tmp_path, *options, model=made)
    found = lines_of(tmp_path / "out.jsonl")
    assert [row["pixels"] for row in found] == [[255, 128, 0], [246, 255, 255]]
    assert [row["halves"] for row in found] == [[0, 63.5, 127.5], [4.5, 0, 0]]
    doubled = np.float16([row["weights"] for row in rows]) * np.float16(2)  # of which each is a float, too
    assert np.float32([row["weights"] for row in found]).tolist() == doubled.reshape(2, 2, 2).tolist()
    write_lines(tmp_path / "rows.jsonl", [rows[0], rows[1] | {"pixels": [1, 256]}])
    said = infer(tmp_path, *options, "--overwrite", code=1, model=made)[1]
    assert "column 'pixels'" in said and "the value 256 does not fit uint8, which has 0 to 255" in said


def test_a_model_with_an_op_of_its_own(doubling, tmp_path):
    folder, library = doubling
    write_lines(tmp_path / "rows.jsonl", [{"x": i} for i in range(5)])
    options = ["--data", "rows.jsonl", "--output", "out.jsonl", "--quiet"]
    assert "TfosTestDouble" in refused(tmp_path, *options, code=2, model=folder)
    infer(tmp_path, *options, "--op-library", library, model=folder)
    assert lines_of(tmp_path / "out.jsonl") == [{"y": 2 * i} for i in range(5)]


def test_batches_of_the_one_size_that_the_model_takes(tmp_path):
    rows = [{"a": [float(i), 1.0]} for i in range(10)]
    assert [row["sum"] for row in plain(tmp_path, "three", rows)] == [i + 1.0 for i in range(10)]
    options = ["--data", "rows.jsonl", "--output", "more", "--signature", "three", "--batch-size", 4]
    assert "the signature takes 3 rows at a time" in refused(tmp_path, *options, code=2, model=PLAIN)


def test_files_with_a_schema_are_read_once(place, expected, tmp_path):
    fields = [{"name": "pixels", "type": "float", "shape": [16]}, {"name": "id", "type": "int64"}]
    (tmp_path / "schema.json").write_text(json.dumps({"fields": fields}))
    os.mkfifo(tmp_path / "pipe")
    options = ["--schema", tmp_path / "schema.json", "--inputs", "pixels=image", "--output", tmp_path / "out.jsonl"]
    process = subprocess.Popen(command("--data", tmp_path / "pipe", *options), cwd=place, stderr=subprocess.PIPE)
    with open(tmp_path / "pipe", "wb") as pipe:
        pipe.write((place / "data" / "part-1.tfrecord").read_bytes())
    assert process.communicate(timeout=SECONDS) and process.returncode == 0
    found = [row["output_0"] for row in lines_of(tmp_path / "out.jsonl")]
    np.testing.assert_allclose(found, expected[ROWS // FILES : ROWS // FILES * 2], atol=1e-5)


def test_a_model_that_is_given_whole_records(place, made, tmp_path):
    options = ["--record", "bytes", "--signature", "parse", "--output", tmp_path / "out.csv", "--batch-size", 64]
    infer(place, "--data", "data", *options, model=made)
    assert (tmp_path / "out.csv").read_text().split() == ["id", *map(str, range(ROWS))]


FLAGS = """model data output inputs outputs keep signature tags batch-size threads from to header no-header delimiter
    label fold schema shards codec level overwrite record input-codec on-corrupt op-library tensorflow python master
    conf verbose json quiet help"""


def test_help_lists_every_flag():
    text = subprocess.run([TFOS, "infer", "--help"], capture_output=True, text=True, check=True).stdout
    assert re.findall(r"^ +(?:-\w, )?--([\w-]+)", text, re.M) == FLAGS.split()
    assert "Examples:" in text and "Exit codes:" in text and max(map(len, text.splitlines())) <= 120


def test_what_a_model_takes_and_gives(place):
    told, said = infer(place)
    [image] = told["signatures"]["serving_default"]["inputs"]
    assert image == {"name": "image", "dtype": "float32", "shape": [None, 16], "form": "dense"} and said == ""
    done = subprocess.run(command("--signature", "shapes", model=PLAIN), capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[:2] == [["shapes"], ["takes", "a", "float32", "[?,", "2,", "3]"]] and len(lines) == 6
    assert "found no saved_model.pb" in refused(place, code=3, model="data")
    assert "expected a signature 'x'" in refused(place, "--signature", "x", code=3)


# ---- output ----


def test_output_that_is_there_is_replaced_when_it_is_asked_for(place, tmp_path):
    for shards in ([], ["--shards", 2]):
        out = tmp_path / ("out" if shards else "out.jsonl")
        options = ["--data", "data/part-0.tfrecord", "--output", out, "--inputs", "pixels=image", *shards]
        infer(place, *options)
        _, said = infer(place, *options, code=3)
        assert "--overwrite" in said or "overwrite it" in said
        infer(place, *options, "--overwrite")
    assert sorted(os.listdir(tmp_path)) == ["out", "out.jsonl"]


def maps_tensorflow(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return "libtensorflow" in file.read()


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGABRT, -6)])
def test_nothing_is_left_when_it_is_ended(place, made, tmp_path, number, code):
    options = ["--data", place / "data", "--signature", "slow", "--batch-size", 1, "--output", "new/out"]
    words = command(*options, "--shards", 2, model=made)
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    wait_for(lambda: len(glob.glob(f"{tmp_path}/new/out/.*")) == 2, 60)  # files without their names
    wait_for(lambda: maps_tensorflow(process.pid), 60)
    process.send_signal(number)
    process.communicate(timeout=SECONDS)
    assert process.returncode == code
    assert os.listdir(tmp_path) == []


# ---- rows that do not fit ----


def test_the_first_row_that_cannot_be_computed_is_named(tmp_path):
    rows = [{"a": [1.0, 1.0 if i not in (57, 83) else 200.0]} for i in range(100)]
    write_lines(tmp_path / "rows.jsonl", rows)
    options = ["--data", "rows.jsonl", "--output", "out.jsonl", "--signature", "checked", "--batch-size", 5]
    for threads in (1, 4):
        said = infer(tmp_path, *options, "--threads", threads, "--quiet", code=2, model=PLAIN)[1]
        assert "rows 55 to 59: " in said and "too large for me" in said
    assert os.listdir(tmp_path) == ["rows.jsonl"]


def test_a_model_with_fewer_results_than_rows(tmp_path):
    write_lines(tmp_path / "rows.jsonl", [{"a": [1.0, 2.0]}] * 3)
    options = ["--data", "rows.jsonl", "--output", "out.jsonl", "--signature", "wrong"]
    assert "the model gave 2 results for 3 rows" in infer(tmp_path, *options, code=1, model=PLAIN)[1]
    assert os.listdir(tmp_path) == ["rows.jsonl"]


def test_a_missing_value_is_named_with_its_file(place, tmp_path):
    shutil.copy(place / "data" / "part-0.tfrecord", tmp_path / "a.tfrecord")
    records.write(tmp_path / "b.tfrecord", {"id": [7]})
    offset = os.path.getsize(tmp_path / "b.tfrecord")
    with open(tmp_path / "c.tfrecord", "wb") as file:
        file.write((tmp_path / "b.tfrecord").read_bytes() + (tmp_path / "a.tfrecord").read_bytes()[:100])
    options = ["--inputs", "pixels=image", "--output", tmp_path / "out.jsonl"]
    said = infer(place, "--data", tmp_path / "[ab].tfrecord", *options, code=1)[1]
    assert "b.tfrecord" in said and "offset 0" in said and "column 'pixels': expected a value" in said
    said = infer(place, "--data", tmp_path / "c.tfrecord", *options, code=1)[1]
    assert "c.tfrecord" in said and f"offset {offset}" in said
    assert "out.jsonl" not in os.listdir(tmp_path)


def test_damage_is_skipped_when_told(place, tmp_path):
    data = bytearray((place / "data" / "part-0.tfrecord").read_bytes())
    size = len(data) // (ROWS // FILES)
    data[5 * size + 40] ^= 1
    (tmp_path / "bad.tfrecord").write_bytes(data)
    options = ["--data", tmp_path / "bad.tfrecord", "--inputs", "pixels=image", "--keep", "id"]
    options += ["--output", tmp_path / "out.jsonl"]
    assert "bad.tfrecord" in infer(place, *options, code=1)[1]
    told, said = infer(place, *options, "--on-corrupt", "skip")
    rows = lines_of(tmp_path / "out.jsonl")
    assert told["rows"] == len(rows) == ROWS // FILES - 1 and "skipped at least 1 damaged record" in said
    assert len({row["id"] for row in rows}) == len(rows)


def test_lists_of_another_length_are_named_with_their_file(tmp_path):
    records.write(tmp_path / "rows.tfrecord", {"a": [[1.0, 2.0], [3.0]]})
    options = ["--data", "rows.tfrecord", "--output", "out", "--signature", "checked"]
    said = infer(tmp_path, *options, code=1, model=PLAIN)[1]
    assert "rows.tfrecord" in said and "offset" in said and "column 'a'" in said


FILES_TO_OUT = "--data data --output x "
MAPPED = FILES_TO_OUT + "--inputs pixels=image "


@pytest.mark.parametrize(
    "options, code, said",
    [
        ("--output x", 2, "--data is missing"),
        ("--data data", 2, "--output is missing"),
        (FILES_TO_OUT + "--inputs pixels", 2, "--inputs: expected COLUMN=TENSOR, found 'pixels'"),
        (FILES_TO_OUT + "--inputs pixels=image,pixels=x", 2, "'pixels' is mapped twice"),
        (FILES_TO_OUT + "--inputs pixels=x", 1, "has the inputs image float32 [?, 16]"),
        (FILES_TO_OUT + "--inputs picture=image", 1, "names a column 'picture': the rows have"),
        (FILES_TO_OUT + "--inputs id=image", 1, "it wants 16 values a row, and the column has 1"),
        (FILES_TO_OUT + "--inputs name=image", 1, "values of string do not become float32"),
        (FILES_TO_OUT, 1, "no column is mapped to the input 'image'"),
        (MAPPED + "--outputs y=z", 1, "has the outputs output_0"),
        (MAPPED + "--keep label", 1, "'label' is to be kept; the rows have"),
        (MAPPED + "--keep id --outputs 0=id", 1, "one of the results, too"),
        (MAPPED + "--signature train", 3, "expected a signature 'train', found 'serve', 'serving_default'"),
        (MAPPED + "--tags train", 3, "expected a graph with the tag set 'train', found 'serve'"),
        ("--data none --output x", 3, "none"),
        ("--data hdfs://host/data --output x", 2, "hdfs://host/data"),
        (MAPPED + "--to parquet", 2, "--to parquet: Spark reads and writes it; add --master"),
        (MAPPED + "--output x.parquet", 2, "--output x.parquet: Spark reads and writes it; add --master"),
        ("--data x.orc --output x", 2, "--data x.orc: Spark reads and writes it; add --master"),
        (MAPPED + "--output data/part-0.tfrecord --overwrite", 2, "is read, too: data/part-0.tfrecord"),
        (MAPPED + "--output file://{here}/data/part-0.tfrecord", 2, "is read, too: data/part-0.tfrecord"),
        (MAPPED + "--output data --shards 2", 2, "--output: data lies in a folder whose files are all data: data"),
        (MAPPED + "--output digits/x --shards 2", 2, "--output: digits/x lies in the model: digits"),
        (MAPPED + "--conf a=b", 2, "--conf is for Spark, and there is no --master"),
        (MAPPED + "--output .", 2, ".: is a folder: pass --shards N"),
        (MAPPED + "--output no/such/x", 3, "no/such"),
        (MAPPED + "--op-library /no/such.so", 3, "/no/such.so"),
        (MAPPED + "--tensorflow /no/such.so", 3, "--tensorflow"),
        (MAPPED + "--fold a=0:2", 2, "--fold and --label are for CSV input"),
    ],
)
def test_what_makes_no_sense_is_refused(place, options, code, said):
    assert said in refused(place, *options.format(here=place).split(), code=code)


def test_a_closed_stdout_is_no_place_for_anything_else(place, tmp_path):
    """What is opened first would have its number."""
    options = f"--data {place}/data --inputs pixels=image --output out.jsonl --json"
    words = " ".join(command(*options.split(), model=f"file://{place}/digits"))
    done = subprocess.run(f"exec {words} >&-", shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 3 and "the output cannot be written" in done.stderr
    assert [len(each["output_0"]) for each in lines_of(tmp_path / "out.jsonl")] == [5] * ROWS


def test_a_model_that_calls_python_is_refused(tmp_path):
    write_lines(tmp_path / "rows.jsonl", [{"x": 1.0}])
    options = ["--data", "rows.jsonl", "--output", "out.jsonl"]
    said = refused(tmp_path, *options, code=2, model=f"{VECTORS}/tensorflow/saved_model/py_func")
    assert "the model calls Python" in said
    assert "--model is missing" in subprocess.run([TFOS, "infer"], capture_output=True, text=True).stderr


def test_the_process_of_a_model_beside_an_executor_is_silent_unless_it_is_asked():
    """What TensorFlow says while it is loaded would be in the logs of all executors. It is asked by a variable, at
    which it looks once."""
    for level, says in (("0", True), (None, False)):
        variables = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": level}
        process = subprocess.Popen(
            [TFOS, "model"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in variables.items() if value is not None},
        )
        orders = {"folder": PLAIN, "tags": "serve", "token": "0" * 64, "python": sys.executable}
        process.stdin.write(json.dumps(orders) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        _, said = process.communicate(timeout=SECONDS)  # it ends when its stdin does
        assert answer.startswith("ready ") and process.returncode == 0, answer + said
        assert ("Reading SavedModel from" in said) == says, said
