"""The benchmark works from end to end. How fast anything is, is not tested."""

import os
import re
import subprocess
import sys

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench"))

import table  # noqa: E402  found by the line above

WORKS = [
    "parse A, 1 thread",
    "parse A, 1 thread, peer record by record",
    "parse A, 2 threads",
    "parse A as TensorFlow writes it, 1 thread",
    "parse B, 1 thread",
    "parse B, 2 threads",
    "verify A, 1 thread",
    "verify B, 1 thread",
    "infer the schema of A, 1 thread",
    "infer the schema of B, 1 thread",
    "write A from Arrow",
    "write A from Arrow, peer by extend",
    "write A from NumPy",
    "write B from Arrow",
    "write B from Arrow, peer by extend",
    "parse A from gzip, 1 thread",
    "write A to gzip",
    "peak memory to parse 200 records of A, 1 thread",
    "peak memory to parse 2000 records of A, 1 thread",
    "peak memory to parse 200 records of A, 2 threads",
    "peak memory to parse 2000 records of A, 2 threads",
    "limit: memcpy",
    "limit: pread of A",
]


def run_bench(*arguments):
    command = [sys.executable, os.path.join(ROOT, "bench", "run.py"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)


def test_quick_run_fills_every_row():
    result = run_bench("records", "--quick")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.split("\n")
    ours = next(line for line in lines if line.startswith("work ")).index("ours")
    cells = {line[: line.find("  ")]: line[ours:].strip() for line in lines if "  " in line}
    for work in WORKS:
        assert cells.get(work, "")[:1].isdigit(), f"no figure of ours for {work!r} in\n{result.stdout}"
    assert "TensorFlow 2." in lines[-2]


@pytest.mark.long
def test_quick_run_of_tables():
    result = run_bench("spark-records", "--quick")
    assert result.returncode == 0, result.stderr
    for work in ("scan to noop, 40 scalars", "write, 784 floats", "inference of the schema, 40 scalars", "count()"):
        (line, *_) = [line for line in result.stdout.split("\n") if line.startswith(work)]
        assert re.search(r"rows/s .*rows/s .*×", line), line


@pytest.mark.long
def test_quick_run_of_clusters():
    result = run_bench("cluster", "--quick")
    assert result.returncode == 0, result.stderr
    works = ("start to the first line of map_fun, 2 workers", "start to a native server", "shutdown", "100 simulated")
    for work in works:
        (line, *_) = [line for line in result.stdout.split("\n") if line.startswith(work)]
        assert " s" in line[50:], line


@pytest.mark.long
def test_quick_run_of_the_feed():
    result = run_bench("feed", "--quick")
    assert result.returncode == 0, result.stderr
    for work in ("DataFrame into dataset", "Python RDD into next_batch", "inference, a result for each row", "latency"):
        assert work in result.stdout
    for kind in ("tfos node", "tfos coordinator", "program", "executor"):
        assert re.search(rf"memory: DataFrame into dataset, {kind} .*\d MB", result.stdout), result.stdout


@pytest.mark.long
def test_quick_run_of_collectives():
    result = run_bench("collective", "--quick")
    assert result.returncode == 0, result.stderr
    for work in ("a step of the CNN, 2 workers", "sum of 4 KiB as an op", "sum of 4 KiB from C", "sum of 32 KiB, 1 ·"):
        (line, *_) = [line for line in result.stdout.split("\n") if line.startswith(work)]
        assert re.search(r"\d (µs|ms)", line[50:]), line


@pytest.mark.long
def test_quick_run_of_tensorflow():
    result = run_bench("tensorflow", "--quick")
    assert result.returncode == 0, result.stderr
    for work in ("record dataset A, 2 threads", "record dataset B, 1 thread"):
        (line, *_) = [line for line in result.stdout.split("\n") if line.startswith(work)]
        assert line.count("rec/s") == 2 and " × (" in line, line
    compared = {
        "TFModel, against predict_batch_udf": "rows/s",
        "TFModel, against Spark's pass over the rows": "rows/s",
        "… rows of a processor second, against a bare loop in C": "rows/s",
        "training steps, against Keras fit": "steps/s",
        "training steps, against a bare TF_SessionRun loop": "steps/s",
    }
    for work, unit in compared.items():
        (line, *_) = [line for line in result.stdout.split("\n") if line.startswith(work)]
        assert re.search(rf"  [\d.]+ [kM]? ?{unit}  +[\d.]+ [kM]? ?{unit}  +[\d.]+ ×", line), line
    for work in ("MNIST job, two nodes, without", "MNIST job, two nodes, a Keras", "… Spark alone", "… the export"):
        (line, *_) = [line for line in result.stdout.split("\n") if line.startswith(work)]
        assert re.search(r"  \d+\.\d s", line), line


def test_unknown_section_and_saving_a_quick_run_are_refused():
    unknown, quick = run_bench("recods"), run_bench("--quick", "--save")
    sections = "there are records, spark-records, cluster, feed, collective, tensorflow"
    assert unknown.returncode == 2 and sections in unknown.stderr
    assert quick.returncode == 2 and "leave out --quick" in quick.stderr


def test_missing_library_says_how_to_build_it():
    result = run_bench("records", "--quick", "--build", "build/nowhere")
    assert result.returncode == 1 and "scripts/build release" in result.stderr


def test_save_replaces_its_own_section_only(tmp_path):
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n\n<!-- feed: begin -->\nkept\n<!-- feed: end -->\n")
    for ours in ("1 GB/s", "2 GB/s"):
        row = table.Row("parse", "", ours, met=True)
        table.save(page, table.Section("records", "title", [row], ["a note"]), "a machine")
    text = page.read_text()
    assert "kept" in text and "| parse |  | 2 GB/s |  |  | yes |" in text and "1 GB/s" not in text
    assert text.count("<!-- records: begin -->") == 1 and "Measured on: a machine." in text
