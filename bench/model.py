"""Rows of the section "tensorflow": the rows of a DataFrame to results of a model, against the peers."""

import json
import os
import shutil
import subprocess
import sys

import table
from cluster import peer_python, run_program

NOTES = [
    "Models: an MLP 784-64-10 on a cached DataFrame, local-cluster of two executors with a core each, batches of 1024, "
    "results written to nowhere. Rates are of the best warm pass, each way with as many rows as take it some seconds: "
    "ours 400000, predict_batch_udf 100000, TFModel of tensorflowonspark 2.2.5 (TensorFlow 2.15, Spark 3.5) 20000. "
    "Processor time is that of all processes of the application, with Spark's own pass over the rows; the bare loop is "
    "TF_SessionRun in C on batches in memory, in one thread.",
]

# who, rows, passes
WORKS = {"model": (400_000, 5), "udf": (100_000, 3), "scan": (400_000, 5), "theirs": (20_000, 2)}


class Runner:
    def __init__(self, root, quick, say):
        self.folder = os.path.join(root, "build", "bench", "model")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.quick, self.say = quick, say
        self.peer = None if quick else peer_python(root, say)

    def rate(self, what, python=sys.executable):
        rows, passes = (500, 1) if self.quick else WORKS["theirs" if python == self.peer else what]
        self.say(f"tensorflow: {what}, {'the peer' if python == self.peer else 'here'}")
        arguments = [what, self.folder, str(rows), str(passes)]
        found = run_program(python, self.folder, *arguments, program="model_program.py")
        if what == "model" and python != self.peer:
            self.worked = max(each["rows"] / each["processor_seconds"] for each in found)
        return max(each["rows"] / each["seconds"] for each in found)

    def bare(self, build):
        """Rows of a processor second of the model with nothing around it."""
        runs, rows = (20, 64) if self.quick else (2000, 1024)
        words = [os.path.join(build, "bench", "session_loop"), os.path.join(self.folder, "mlp"), "serving_default"]
        words += ["digit", str(runs), str(rows), "1"]
        environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
        found = json.loads(subprocess.check_output(words, env=environment, text=True))
        return runs * rows / found["processor_seconds"]


def rows(root, build, quick, say):
    runner = Runner(root, quick, say)
    ours, udf, scan = runner.rate("model"), runner.rate("udf"), runner.rate("scan")
    theirs = runner.rate("model", runner.peer) if runner.peer else None
    if theirs is not None:
        yield compare("TFModel, against tensorflowonspark's", theirs, ours, 20)
    yield compare("TFModel, against predict_batch_udf", udf, ours, 4)
    yield compare("TFModel, against Spark's pass over the rows", scan, ours, None)
    yield compare("… rows of a processor second, against a bare loop in C", runner.bare(build), runner.worked, None)


def compare(work, theirs, ours, asked):
    row = table.Row(work, table.rate(theirs, " rows"), table.rate(ours, " rows"), table.times(ours / theirs))
    if asked is not None:
        row.asked, row.met = f"≥ {asked:g} ×", ours / theirs >= asked
    return row
