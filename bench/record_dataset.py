"""Rows of the section "tensorflow": TFRecord files to batches in a training step, against tf.data."""

import json
import os
import subprocess
import sys

import table
from records_processes import File, Processes, compile_program, is_fresh

HERE = os.path.dirname(os.path.abspath(__file__))
NOTES = [
    "Record dataset: A has 400000 records of 40 features (13 float, 26 int64, 1 string), B 40000 of 784 floats and a "
    "label; batches of 1024 go to a tf.function that takes all their tensors. The loop over the batches is in a "
    "tf.function, too, unless Python is named. Best of three rounds, ours and the peer in turn, each in a fresh "
    "process of two passes over some epochs. In brackets: processor time of the peer by ours.",
    "The peer is TFRecordDataset, batch, parse_example; with two threads it has AUTOTUNE and prefetch. One thread is "
    "one core for both.",
]

# name, work, file, threads, what is asked
WORKS = [
    ("record dataset A, 2 threads", "graph", "A", 2, 8.0),
    ("record dataset A, 1 thread", "graph", "A", 1, None),
    ("record dataset A, 2 threads, loop in Python", "python", "A", 2, None),
    ("record dataset A, 2 threads, shuffled", "shuffle", "A", 2, None),
    ("record dataset B, 2 threads", "graph", "B", 2, 2.5),
    ("record dataset B, 1 thread", "graph", "B", 1, None),
    ("record dataset B, 2 threads, shuffled", "shuffle", "B", 2, None),
]


def run(who, work, threads, file, epochs, passes):
    program = os.path.join(HERE, "record_dataset_program.py")
    command = [sys.executable, program, who, work, str(threads), file.path, str(epochs), str(passes)]
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(everywhere)} if threads == 1 else everywhere)
    try:
        result = subprocess.run(command, capture_output=True, text=True)
    finally:
        os.sched_setaffinity(0, everywhere)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with status {result.returncode}:\n{result.stderr[-2000:]}")
    answer = json.loads(result.stdout)
    return answer["records"] / min(answer["seconds"]), answer["records"] / min(answer["processor_seconds"])


def make_files(root, build, quick, say):
    """Those of the section "records", which makes them, too."""
    folder = os.path.join(root, "build", "bench", "records")
    os.makedirs(folder, exist_ok=True)
    processes = Processes(compile_program(root, build, folder), quick)
    counts = {"A": ("scalars", 2_000 if quick else 400_000), "B": ("image", 200 if quick else 40_000)}
    files = {}
    for name, (kind, rows) in counts.items():
        files[name] = File(os.path.join(folder, f"{kind}-{rows}.tfrecord"), rows)
        if not is_fresh(files[name].path):
            say(f"tensorflow: making {files[name].path}")
            processes.make(kind, files[name])
        files[name].bytes = os.path.getsize(files[name].path)
    return files


def rows(root, build, quick, say):
    files = make_files(root, build, quick, say)
    rounds, passes = (1, 1) if quick else (3, 2)
    for name, work, key, threads, asked in WORKS:
        say(f"tensorflow: {name}")
        epochs = 1 if quick else {"A": 3, "B": 12}[key]
        found = {"ours": [], "peer": []}
        for _ in range(rounds):
            for who in found:
                found[who].append(run(who, work, threads, files[key], epochs, passes))
        yield row_of(name, files[key], found, asked)


def row_of(name, file, found, asked):
    best = {who: [max(column) for column in zip(*figures)] for who, figures in found.items()}
    cells = {
        who: f"{table.rate(speed * file.row_bytes, 'B')}, {table.rate(speed, ' rec')}"
        for who, (speed, _) in best.items()
    }
    ratio, work_ratio = (ours / peer for ours, peer in zip(best["ours"], best["peer"]))
    row = table.Row(name, cells["peer"], cells["ours"], f"{table.times(ratio)} ({table.times(work_ratio)})")
    if asked is not None:
        row.asked, row.met = f"≥ {asked:g} ×", ratio >= asked
    return row
