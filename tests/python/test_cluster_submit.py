"""Commands on Spark: `tfos infer --master` and `tfos train --master`, by the real spark-submit, and what becomes of
failures and of Ctrl-C."""

import contextlib
import glob
import importlib.util
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from conftest import VECTORS
from processes import wait_for

import spark_tools
from tensorflowonspark import native, records
from test_cli import TFOS
from test_train import assert_equal, loss, make_model, newest_step, weights_in

PLAIN = f"{VECTORS}/tensorflow/saved_model/plain"
ROWS, SECONDS = 300, 150
QUIET = ["--conf", "spark.ui.enabled=false"]  # no page, which takes a port


@pytest.fixture(scope="module")
def variables(tmp_path_factory):
    return os.environ | spark_tools.environment(tmp_path_factory.mktemp("spark"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Rows for two signatures of a model, in two files, and one that has no text."""
    folder = tmp_path_factory.mktemp("data")
    values = np.arange(ROWS * 6, dtype=np.float32).reshape(ROWS, 6)
    os.makedirs(folder / "good")
    for part in (0, 1):
        rows = slice(part * ROWS // 2, (part + 1) * ROWS // 2)
        columns = {"values": values[rows], "id": np.arange(ROWS)[rows]}
        records.write(folder / "good" / f"part-{part}.tfrecord", columns)
    records.write(folder / "bytes.tfrecord", {"a": [0, 1], "b": [b"text", b"\xff"], "c": [["x", "y"]] * 2})
    fields = [("a", "bool", []), ("b", "binary", []), ("c", "string", [2])]
    columns = [{"name": name, "type": kind, "shape": shape} for name, kind, shape in fields]
    (folder / "bytes.json").write_text(json.dumps({"fields": columns}))
    return folder


SHAPES = ["--signature", "shapes", "--inputs", "values=a"]


def command(master, *options):
    return [str(word) for word in (TFOS, "infer", "--master", master, "--model", PLAIN, *options)]


def infer(variables, folder, master, *options, code=0):
    done = subprocess.run(
        command(master, *options), env=variables, cwd=folder, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == code, done.stderr
    return done


def test_results_on_a_cluster(variables, data, tmp_path):
    options = [*SHAPES, "--data", data / "good", "--output", "out", "--to", "jsonl", "--keep", "id", *QUIET, "--json"]
    options += ["--outputs", "sum=total,rows=rows", "--conf", "spark.tfos.model.idle_ms=500", "--batch-size", 7]
    # A Python without TensorFlow, and nobody who brings it: it is used where it was said to be.
    library = importlib.util.find_spec("tensorflow").submodule_search_locations[0]
    options += ["--tensorflow", library, "--python", os.path.realpath(sys.executable), "--shards", 3]
    options += ["--conf", "spark.tfos.tensorflow.ship=never"]
    done = infer(variables, tmp_path, "local-cluster[1,2,1024]", *options, "--", "--name", "mine")
    told = json.loads(done.stdout)
    assert told["rows"] == ROWS and told["seconds"] > 0 and done.stderr.startswith("tfos: wrote 300 rows to out")
    assert done.stderr.count("\n") == 1  # what Spark says is left out
    assert told["files"] == sorted(glob.glob(f"{tmp_path}/out/part-*.json")) and len(told["files"]) == 3
    rows = []
    for path in told["files"]:
        with open(path, encoding="utf-8") as file:
            rows += [json.loads(line) for line in file]
    assert list(rows[0]) == ["id", "rows", "total"]
    expected = np.arange(ROWS * 6).reshape(ROWS, 2, 3)
    for at, row in enumerate(sorted(rows, key=lambda row: row["id"])):
        assert row == {"id": at, "rows": expected[at].sum(1).tolist(), "total": expected[at].sum()}
    assert os.listdir(tmp_path) == ["out"]
    wait_for(lambda: not spark_tools.marked_processes("tfos model"), 20)


def written(folder):
    """The lines of all files of an output."""
    lines = []
    for path in sorted(glob.glob(f"{folder}/part-*")):
        with open(path, encoding="utf-8") as file:
            lines += file.read().splitlines()
    return lines


def test_tables_of_other_formats(variables, tmp_path):
    values = np.arange(60, dtype=np.float32).reshape(10, 6)
    columns = {"id": np.arange(10), "values": pyarrow.array(values.tolist(), pyarrow.list_(pyarrow.float32()))}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "rows.parquet")
    options = [*SHAPES, "--data", "rows.parquet", "--keep", "id", "--outputs", "sum=total,same=same", *QUIET]
    infer(variables, tmp_path, "local[2]", *options, "--output", "out.parquet")
    rows = pyarrow.parquet.read_table(tmp_path / "out.parquet").sort_by("id").to_pydict()
    assert list(rows) == ["id", "same", "total"] and rows["id"] == list(range(10))
    assert rows["same"] == values.reshape(10, 2, 3).tolist() and rows["total"] == values.sum(1).tolist()


def test_csv_without_names(variables, tmp_path):
    numbers = [[row, 0, 0, 0, row - 5, row, 0, 0, 0.5, 0.25, row / 2] for row in range(10)]
    (tmp_path / "rows.csv").write_text("".join(";".join(map(str, row)) + "\n" for row in numbers))
    inputs = ",".join(f"c{at}={name}" for at, name in enumerate("abcdefghijk"))
    options = ["--signature", "numbers", "--data", "rows.csv", "--no-header", "--delimiter", "semicolon"]
    options += ["--keep", "c4", "--inputs", inputs, "--outputs", "uint8=a,float32=b", *QUIET, "--output", "out.csv"]
    infer(variables, tmp_path, "local[2]", *options)
    assert sorted(written(tmp_path / "out.csv")) == sorted(f"{row - 5};{row / 2 + 1};{row + 1}" for row in range(10))


def test_csv_has_no_lists(variables, data, tmp_path):
    options = [*SHAPES, "--data", data / "good", "--output", "out", "--to", "csv", *QUIET]
    said = infer(variables, tmp_path, "local[2]", *options, code=2).stderr
    assert "the column 'rows' is array<float>, and Spark's CSV has no lists: use --to jsonl" in said
    assert os.listdir(tmp_path) == []


def test_a_task_that_fails(variables, data, tmp_path):
    os.makedirs(tmp_path / "out" / "before")
    options = ["--signature", "texts", "--data", data / "bytes.tfrecord", "--schema", data / "bytes.json", *QUIET]
    done = infer(variables, tmp_path, "local[1]", *options, "--output", "out", "--to", "jsonl", "--overwrite", code=1)
    assert done.stderr.count("\n") == 1, done.stderr
    assert "column 'both': expected text in UTF-8, as files of text have it, found other bytes" in done.stderr
    assert os.listdir(tmp_path) == ["out"] and os.listdir(tmp_path / "out") == ["before"]  # and what was there stays


def read_until(screen, word):
    """What stands on a terminal, up to this word, or until nobody writes any more."""
    text = b""
    with contextlib.suppress(OSError):  # the other end was closed
        while word is None or word.encode() not in text:
            assert select.select([screen], [], [], SECONDS)[0], text
            text += os.read(screen, 4096)
    return text.decode(errors="replace")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_an_application_that_is_ended(variables, data, tmp_path, number):
    # Amid its work, which the files under the hidden name show.
    before = spark_tools.marked_processes().keys()
    options = [*SHAPES, *["--data", data / "good"] * 200, "--output", "new", "--batch-size", 1, *QUIET]
    words = command("local[1]", *options)
    screen, terminal = pty.openpty()
    process = subprocess.Popen(words, env=variables | {"TERM": "xterm"}, cwd=tmp_path, stderr=terminal)
    os.close(terminal)
    try:
        wait_for(lambda: glob.glob(f"{tmp_path}/.new.*/**/part-*", recursive=True), 90)
        said = read_until(screen, "tasks")
        assert "on Spark" in said and re.search(r"\d+ of \d+ tasks", said)
        process.send_signal(number)
        said = read_until(screen, None)
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(screen)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert said.endswith("tfos: interrupted; the application on Spark was ended\r\n")
    wait_for(lambda: spark_tools.marked_processes().keys() <= before, 30)
    assert os.listdir(tmp_path) == []


def refused(variables, folder, *options, code, **changed):
    done = subprocess.run(
        command("local[1]", "--data", "x", "--output", "y", *options),
        env={**variables, **changed},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == code and os.listdir(folder) == [], done.stderr
    return done.stderr


@pytest.mark.parametrize(
    "options, said",
    [
        ("--threads 2", "--threads is for this machine, and not for --master: tasks have spark.task.cpus"),
        ("--fold a=0:2", "--fold is for this machine"),
        ("--label first", "--label is for this machine"),
        ("--level 9", "--level is for this machine"),
        ("--input-codec gzip", "--input-codec is for this machine"),
        ("--conf nonsense", "--conf: expected KEY=VALUE, found 'nonsense'"),
        ("--no-header", "are for CSV"),
        ("-- --deploy-mode cluster", "the driver of a command runs here"),
        ("--conf spark.submit.deployMode=cluster", "the driver of a command runs here"),
        ("-- --conf spark.submit.deployMode=cluster", "the driver of a command runs here"),
        ("-- --conf=spark.submit.deployMode=cluster", "the driver of a command runs here"),
        ("-- -c spark.submit.deployMode=cluster", "the driver of a command runs here"),
        ("-- --class org.example.Main", "the class is ours"),
    ],
)
def test_what_makes_no_sense_is_refused(variables, tmp_path, options, said):
    assert said in refused(variables, tmp_path, *options.split(), code=2)


def test_what_is_missing_is_named(variables, tmp_path):
    assert "(SPARK_HOME is set to /nowhere)" in refused(variables, tmp_path, code=3, SPARK_HOME="/nowhere")
    assert "/no.jar: cannot be read (TFOS_JAR)" in refused(variables, tmp_path, code=3, TFOS_JAR="/no.jar")
    said = refused(variables, tmp_path, code=3, JAVA_HOME="/nowhere")
    assert "gave no answer" in said and "It said last:" in said and "/nowhere" in said


# ---- a spark-submit of our own ----


def stand_in(variables, folder, text):
    """A home of Spark whose spark-submit is this Python."""
    os.makedirs(folder / "home" / "bin")
    path = folder / "home" / "bin" / "spark-submit"
    path.write_text(f"#!{sys.executable}\nimport json, os, sys\n{text}")
    path.chmod(0o755)
    return variables | {"SPARK_HOME": str(folder / "home")}


def test_all_that_spark_has_said_is_heard(variables, tmp_path):
    """Also if it has ended before the command comes to read: that is stopped meanwhile."""
    text = """
import signal
command, (ended, lives) = os.getppid(), os.pipe()
if os.fork() == 0:
    os.setsid()
    for file in (1, 2, lives):
        os.close(file)
    os.read(ended, 1)
    os.kill(command, signal.SIGCONT)
    os._exit(0)
os.kill(command, signal.SIGSTOP)
while open(f"/proc/{command}/stat").read().split()[2] != "T":
    pass
os.write(2, b"much\\n" * 12000 + b"and the reason\\n")
os._exit(1)
"""
    words = command("local[1]", "--data", "x", "--output", "y", *SHAPES)
    variables = stand_in(variables, tmp_path, text)
    done = subprocess.run(words, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 3 and "gave no answer" in done.stderr and done.stderr.endswith("\nand the reason\n")


def test_what_a_spark_submit_leaves_behind_is_not_waited_for(variables, tmp_path):
    """It says something all the time, in the group of the one that has ended."""
    text = """
import time
if os.fork() == 0:
    while os.write(2, b"noise\\n"):
        time.sleep(0.01)
print("tfos: " + json.dumps({"answer": {"rows": 1, "seconds": 1, "files": ["y"]}}))
"""
    words = command("local[1]", "--data", "x", "--output", "y", *SHAPES)
    variables = stand_in(variables, tmp_path, text)
    done = subprocess.run(words, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr


def test_a_signal_at_any_moment_is_passed_on(variables, tmp_path):
    """Also while spark-submit is started: it would be waited for, and killed."""
    text = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
time.sleep(600)
"""
    words = command("local[1]", "--data", "x", "--output", "y", *SHAPES)
    variables = stand_in(variables, tmp_path, text)
    for delay_ms in range(16):
        process = subprocess.Popen(words, env=variables, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        time.sleep(delay_ms / 1000)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=10)  # less than what is given to an application that does not end
        assert process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM), said


# ---- training ----

LEARNED = 120
BATCH = ["--batch-size", 16, "--threads", 1]
BOTH = ["--nodes", 2, *BATCH]


@pytest.fixture(scope="module")
def trainable(tmp_path_factory):
    """A model, rows for it in two files, the first of these with a damaged record, and some that do not fit."""
    folder = tmp_path_factory.mktemp("trainable")
    random = np.random.default_rng(1)
    x = random.normal(size=[LEARNED, 8]).astype(np.float32)
    label = np.argmax(x[:, :3], axis=1).astype(np.int64)
    os.makedirs(folder / "rows")
    for part in (slice(0, 50), slice(50, LEARNED)):
        records.write(folder / "rows" / f"{part.start}.tfrecord", {"x": x[part], "label": label[part]})
    damaged = bytearray((folder / "rows" / "0.tfrecord").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / "damaged.tfrecord").write_bytes(damaged)
    records.write(folder / "other.tfrecord", {"x": x[:, :5], "label": label})
    native.export(make_model(), "adam", loss(), ["accuracy"], folder / "model")
    return folder


def training(*options):
    return [str(word) for word in (TFOS, "train", *options)]


def train(variables, folder, *options, code=0):
    """The outcome, and what was said."""
    words = training(*options)
    done = subprocess.run(words, env=variables, cwd=folder, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == code, done.stderr
    return (json.loads(done.stdout) if done.stdout else {}), done.stderr


@pytest.mark.parametrize("count", [3, 20_000])
def test_paths_may_be_more_than_a_word_has_room_for(variables, trainable, tmp_path, count):
    """Behind the jar stands what the class is told, or "-" if that comes by stdin."""
    text = """
words = sys.argv[sys.argv.index(os.environ["TFOS_JAR"]) + 1:]
told = sys.stdin.read().split("\\0")[:-1] if words == ["-"] else words
json.dump({"front": sys.argv[1:9], "words": words, "told": told}, open("told.json", "w"))
print("tfos: " + json.dumps({"answer": {}}))
"""
    (tmp_path / "tfos.jar").touch()
    variables = stand_in(variables, tmp_path, text) | {"TFOS_JAR": str(tmp_path / "tfos.jar")}
    paths = [f"{tmp_path}/ä{i}" for i in range(count)]
    train(variables, tmp_path, "--model", trainable / "model", "--data", *paths, "--master", "local[1]")
    seen = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    told = dict(zip(seen["told"][::2], seen["told"][1::2]))
    assert json.loads(told["trainer"])["data"] == paths and told["nodes"] == "1"
    assert seen["front"][4:] == ["--master", "local[1]", "--deploy-mode", "client"]
    assert (seen["words"] == ["-"]) == (count > 3)


def test_training_on_a_cluster_is_that_of_one_machine(variables, trainable, tmp_path):
    """Ctrl-C has it write a checkpoint, which is to the bit the one of so many steps without Spark."""
    before = spark_tools.marked_processes().keys()
    options = ["--model", "model", "--data", "rows", *BOTH, "--seed", 9, "--epochs", 100_000]
    words = training(*options, "--master", "local-cluster[2,1,1024]", *QUIET, "--model-dir", tmp_path / "spark")
    process = subprocess.Popen(words, env=variables, cwd=trainable, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: any(os.path.getsize(each) > 5000 for each in glob.glob(f"{tmp_path}/spark/train/*")), 90)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
        process.wait(SECONDS)
    assert process.returncode == 130, said
    assert re.search(r"\[worker:0 127.0.0.1\] epoch \d+/100000", said)  # the newest, a few times a second
    assert said.endswith("tfos: stopped; started again, training goes on from the newest checkpoint\n")
    wait_for(lambda: spark_tools.marked_processes().keys() <= before, 30)
    step = newest_step(tmp_path / "spark")
    assert step > 0
    out, _ = train(variables, trainable, *options, "--steps", step, "--model-dir", tmp_path / "here", "--json")
    assert out["steps"] == step
    assert_equal(*(weights_in(trainable, "model", tmp_path / name / f"ckpt-{step}") for name in ("spark", "here")))


def test_what_only_spark_can_read_is_fed(variables, trainable):
    """Every row that can be read counts once, in each epoch and for each of its values, whatever the file system."""
    link = f"spark.hadoop.fs.viewfs.mounttable.c.link./t=file://{trainable}"
    options = [*BOTH, "--epochs", 2, "--learning-rate", 0, "--on-corrupt", "skip", "--json"]
    options += ["--validation", "rows/50.tfrecord"]
    spark = ["--master", "local[2]", *QUIET, "--conf", link, "--model", "viewfs://c/t/model", "--quiet"]
    files = ["--data", "viewfs://c/t/rows", "viewfs://c/t/damaged.tfrecord"]
    fed, said = train(variables, trainable, *options, *spark, *files)
    assert said == ""
    read, _ = train(variables, trainable, *options, "--model", "model", "--data", "rows", "damaged.tfrecord")
    assert fed["rows"] == read["rows"] == 2 * (LEARNED + 49) and fed["epochs"] == 2 and fed.keys() == read.keys()
    assert fed["damaged_records"] is None and read["damaged_records"] > 0
    for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
        np.testing.assert_allclose(fed["history"][name], read["history"][name], rtol=1e-5)


def test_a_trainer_that_fails_on_spark(variables, trainable):
    # The paths are more than one word of a command line may have.
    options = ["--model", "model", "--data", *["./" * 250 + "other.tfrecord"] * 300, *BATCH, "--quiet"]
    _, said = train(variables, trainable, *options, "--master", "local[1]", *QUIET, code=3)
    assert said.count("\n") == 1 and "it wants 8 values a row, and the column has 5" in said


@pytest.mark.parametrize(
    "options, code, said",
    [
        (["--master", "local", "--seed", 1], 2, "--seed is for files that trainers read themselves, and 'hdfs:"),
        (["--master", "local", "--epochs", 0], 2, "epochs: expected a whole number from 1"),
        (["--master", "local", "--batch-size", 0], 2, "batch_size: expected a whole number from 1"),
        (["--master", "local", "--model", "rows"], 3, "it is no model that can be trained"),
        (["--master", "local", "--", "--deploy-mode", "cluster"], 2, "the driver of a command runs here"),
        (["--conf", "a=b"], 2, "--conf is for Spark, and there is no --master"),
        (["--nodes", 65], 2, "--nodes: expected at most 64 on one machine"),
    ],
)
def test_training_that_makes_no_sense_is_refused(variables, trainable, options, code, said):
    _, text = train(variables, trainable, "--model", "model", "--data", "hdfs://h/rows", *options, code=code)
    assert said in text and text.count("\n") == 1
