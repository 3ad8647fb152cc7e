"""Section "feed": rows from Spark into the programs of two nodes, against tensorflowonspark 2.2.5, and against Spark's
own scan of the same rows.

feed_program.py runs with both; the peer has an environment of its own, as in the section "cluster".
"""

import json
import os
import shutil
import subprocess
import sys

from cluster import peer_python, run_program
from table import Row, Section, times

SHAPES = {"wide": "784 numbers + label", "scalars": "40 scalars"}
OURS = {"wide": [10_000, 100_000], "scalars": [10_000, 100_000, 1_000_000]}
PEER_ROWS = {"wide": 10_000, "scalars": 20_000}


def rate(result):
    return result["rows"] / result["feed_s"]


def thousands(value):
    return f"{value / 1000:,.1f} k rows/s"


def compare(work, ours, theirs, asked):
    ratio = rate(ours) / rate(theirs) if theirs else None
    return Row(
        work=f"{work}, {ours['rows']:,} rows",
        peer=thousands(rate(theirs)) if theirs else "",
        ours=thousands(rate(ours)),
        ratio=times(ratio) if ratio else "",
        asked=f"≥ {asked} ×" if asked else "",
        met=ratio >= asked if ratio and asked else None,
    )


def memory_row(work, ours, theirs):
    def text(found):
        return ", ".join(f"{size / 1e6:.0f} MB" for size in found) if found else ""

    return Row(f"… memory of the two programs: {work}", peer=text(theirs), ours=text(ours))


class Runner:
    def __init__(self, root, quick, say):
        self.folder = os.path.join(root, "build", "bench", "feed")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.quick, self.say = quick, say
        self.peer = None if quick else peer_python(root, say)

    def run(self, python, what, shape, counts):
        """The measurements, and the memory of the programs."""
        if self.quick:
            counts = [1_000]
        self.say(f"feed: {what}, {SHAPES[shape]}, {'ours' if python == sys.executable else 'the peer'}")
        work = os.path.join(self.folder, f"{what}-{shape}")
        arguments = [what, work, shape, *map(str, counts)]
        found = run_program(python, self.folder, *arguments, program="feed_program.py")
        return [each for each in found if "rows" in each], next(each["memory"] for each in found if "memory" in each)

    def ours(self, what, shape, counts):
        return self.run(sys.executable, what, shape, counts)

    def theirs(self, what, shape):
        return self.run(self.peer, what, shape, [PEER_ROWS[shape]]) if self.peer else ([None], None)


def measure_shape(runner, shape):
    counts = OURS[shape]
    (their_rdd, *_), their_memory = runner.theirs("rdd", shape)
    frames, frame_memory = runner.ours("frame", shape, counts)
    rdds, rdd_memory = runner.ours("rdd", shape, counts[:2])
    name = SHAPES[shape]
    rows = []
    for frame in frames:
        rows.append(compare(f"DataFrame into dataset, {name}", frame, their_rdd, 60))
        share = frame["scan_s"] / frame["feed_s"]
        scan = f"scan {thousands(frame['rows'] / frame['scan_s'])}"
        rows.append(Row("… against Spark's noop scan of it", scan, "", times(share), "≥ 0.5 ×", share >= 0.5))
    rows += [compare(f"Python RDD into next_batch, {name}", each, their_rdd, 10) for each in rdds]
    rows.append(memory_row("DataFrame into dataset", frame_memory, None))
    rows.append(memory_row("Python RDD into next_batch", rdd_memory, their_memory))
    return rows


def measure_inference(runner):
    (theirs, *_), their_memory = runner.theirs("inference", "wide")
    (ours, *_), memory = runner.ours("inference", "wide", [40_000])
    rows = [compare("inference, a result for each row, 784 numbers + label", ours, theirs, 8)]
    return [*rows, memory_row("inference", memory, their_memory)]


def latency_row(build):
    program = os.path.join(build, "bench", "lane_latency")
    found = json.loads(subprocess.check_output([program], text=True))
    median = found["median_us"]
    ours = f"{median:.1f} µs (99 of 100: {found['p99_us']:.1f} µs)"
    return Row("latency of a row through an idle lane", ours=ours, asked="< 50 µs", met=median < 50)


def measure(root, build, quick, say):
    runner = Runner(root, quick, say)
    rows = measure_shape(runner, "wide")
    if not quick:
        rows += measure_shape(runner, "scalars")
    rows += measure_inference(runner)
    rows.append(latency_row(build))
    shutil.rmtree(runner.folder, ignore_errors=True)
    return Section("feed", "rows from Spark into two nodes, against tensorflowonspark 2.2.5", rows, NOTES)


NOTES = [
    "Spark's local-cluster[2,1,2048], two nodes, 8 partitions. From the call of train to its return, after a first.",
    "The data is cached before. Ours for DataFrames: best of three; RDDs and the peer: one run.",
    "The peer feeds an RDD of Python rows into next_batch: it has no feed of DataFrames.",
    "Spark's noop scan reads the same cached DataFrame and throws its rows away: at 1 × feeding would cost nothing.",
    "Memory is the most that the program of each node had; for DataFrames TensorFlow is in it.",
]
