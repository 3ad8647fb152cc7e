"""Rows of the section "tensorflow": steps of training, in C and in Keras."""

import json
import os
import shutil
import subprocess
import sys

import table
from record_dataset import make_files

BATCH = 64
NOTES = [
    "Training: an MLP 784-64-10, Adam, accuracy, batches of 64, on one worker with two cores. Ours is `tfos train` on "
    "the TFRecord file B of 784 floats, shuffled: reading, parsing and metrics are in it. Keras is `fit` of Keras 3 on "
    "rows in memory; the bare loop is TF_SessionRun in C on batches in memory, with nothing around it but what a step "
    "gives, loss and metrics, as in training. The first steps, which compile, are left out of all three; of ours by "
    "taking a run of one epoch from one of 13. Best of three rounds, in turn.",
]


def run(*words):
    result = subprocess.run(
        [str(each) for each in words],
        capture_output=True,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    if result.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with status {result.returncode}:\n{result.stderr[-2000:]}")
    return json.loads(result.stdout)


def train(build, model, data, epochs):
    words = [os.path.join(build, "src", "tfos"), "train", "--model", model, "--data", data, "--epochs", epochs]
    words += ["--columns", "image=image,label=label", "--batch-size", BATCH, "--python", sys.executable]
    return run(*words, "--json", "--quiet")


def rows(root, build, quick, say):
    folder = os.path.join(root, "build", "bench", "train")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    model, data = os.path.join(folder, "model"), make_files(root, build, quick, say)["B"].path
    rounds, count, epochs = (1, 200, 1) if quick else (3, 40_000, 3)
    steps = 100 if quick else 5_000
    found = {"keras": [], "bare": [], "ours": []}
    for _ in range(rounds):
        say("tensorflow: training, in Keras and in C")
        found["keras"] += run(
            sys.executable, os.path.join(root, "bench", "train_program.py"), model, count, BATCH, epochs
        )
        bare = run(os.path.join(build, "bench", "session_loop"), model, "train", "*", steps, BATCH, 2)
        found["bare"].append(steps / bare["seconds"])
        # What a quick run trains is over sooner than the first steps, which would be taken from it.
        first = {"steps": 0, "seconds": 0} if quick else train(build, model, data, 1)
        all_of = train(build, model, data, 13)
        found["ours"].append((all_of["steps"] - first["steps"]) / (all_of["seconds"] - first["seconds"]))
    best = {who: max(each) for who, each in found.items()}
    yield compare("training steps, against Keras fit", best["keras"], best["ours"], 1.8)
    yield compare("training steps, against a bare TF_SessionRun loop", best["bare"], best["ours"], 0.9)


def compare(work, theirs, ours, asked):
    row = table.Row(work, table.rate(theirs, " steps"), table.rate(ours, " steps"), table.times(ours / theirs))
    row.asked, row.met = f"≥ {asked:g} ×", ours / theirs >= asked
    return row
