"""Section "feed": rows from Spark into the programs of two nodes, against tensorflowonspark 2.2.5, and against Spark's
own scan of the same rows.

feed_program.py runs with both; the peer has an environment of its own, as in the section "cluster".
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from cluster import peer_python, run_program
from table import Row, Section, times

SHAPES = {"wide": "784 numbers + label", "scalars": "40 scalars"}
OURS = {"wide": [10_000, 100_000, 300_000], "scalars": [10_000, 100_000, 1_000_000]}
MOST = 4  # processes of a kind that are shown
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


def scan_row(work, result):
    share = result["scan_s"] / result["feed_s"]
    return work, f"scan {thousands(result['rows'] / result['scan_s'])}", share


def flat_row(name, results):
    """Whether more rows go slower than few."""
    first, last = results[0], results[-1]
    ratio = rate(last) / rate(first)
    work = f"… rate with {last['rows']:,} rows against {first['rows']:,}, {name}"
    return Row(work, thousands(rate(first)), thousands(rate(last)), times(ratio), "flat", ratio >= 0.9)


def memory_rows(work, ours, theirs):
    """A row for each kind of process: what each of them had at most."""

    def text(found, kind):
        return ", ".join(f"{size / 1e6:.0f} MB" for size in sorted((found or {}).get(kind, []), reverse=True)[:MOST])

    kinds = sorted({*(ours or {}), *(theirs or {})})
    return [Row(f"… memory: {work}, {kind}", peer=text(theirs, kind), ours=text(ours, kind)) for kind in kinds]


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
        work, scan, share = scan_row("… against Spark's noop scan of it", frame)
        rows.append(Row(work, scan, "", times(share), "≥ 0.5 ×", share >= 0.5))
    rows.append(flat_row("DataFrame", frames))
    for each in rdds:
        rows.append(compare(f"Python RDD into next_batch, {name}", each, their_rdd, 10))
        work, scan, share = scan_row("… against Spark's own pass of it through Python", each)
        rows.append(Row(work, scan, "", times(share)))
    rows += memory_rows("DataFrame into dataset", frame_memory, None)
    rows += memory_rows("Python RDD into next_batch", rdd_memory, their_memory)
    return rows


def measure_inference(runner):
    (theirs, *_), their_memory = runner.theirs("inference", "wide")
    (ours, *_), memory = runner.ours("inference", "wide", [40_000])
    rows = [compare("inference, a result for each row, 784 numbers + label", ours, theirs, 8)]
    return rows + memory_rows("inference", memory, their_memory)


def latency_row(build):
    program = os.path.join(build, "bench", "lane_latency")
    found = json.loads(subprocess.check_output([program], text=True))
    median = found["median_us"]
    ours = f"{median:.1f} µs (99 of 100: {found['p99_us']:.1f} µs)"
    return Row("latency of a row through an idle lane", ours=ours, asked="< 50 µs", met=median < 50)


def far_rows(build, quick):
    """A node and those who feed it over the network, without Spark."""
    environment = os.environ | {"TFOS_COMMAND": os.path.join(build, "src", "tfos")}
    rows, crowd = (50_000, 100) if quick else (500_000, 1000)
    program = os.path.join(build, "bench", "far_feed")
    with tempfile.TemporaryDirectory() as folder:  # where the node writes the log of its program
        command = [program, str(rows), str(crowd)]
        found = json.loads(subprocess.check_output(command, env=environment, cwd=folder, text=True))
    near, far = found["near_rows_s"], found["far_rows_s"]
    return [
        Row("two tasks elsewhere feed a node over TLS, 784 numbers + label", ours=f"{far:,.0f} rows/s"),
        Row("… against the same tasks through shared memory", f"{near:,.0f} rows/s", "", times(far / near)),
        Row(
            f"{crowd} idle tasks elsewhere: threads of the node, and its processor time",
            ours=f"{found['threads']}, {found['idle_percent']:.1f} %",
            asked="≤ 8, ≤ 1 %",
            met=found["threads"] <= 8 and found["idle_percent"] <= 1,
        ),
        Row("… node's processor time for a connection", ours=f"{found['connect_cpu_us']:.0f} µs"),
    ]


def measure(root, build, quick, say):
    runner = Runner(root, quick, say)
    rows = measure_shape(runner, "wide")
    if not quick:
        rows += measure_shape(runner, "scalars")
    rows += measure_inference(runner)
    rows.append(latency_row(build))
    rows += far_rows(build, quick)
    shutil.rmtree(runner.folder, ignore_errors=True)
    return Section("feed", "rows from Spark into two nodes, against tensorflowonspark 2.2.5", rows, NOTES)


NOTES = [
    "Spark's local-cluster[2,1,2048], two nodes, 8 partitions. From the call of train to its return, after a first.",
    "The dataset is read inside a graph, as fit reads it: a Python loop makes an object for each tensor, one a column.",
    "The data is cached before. Ours for DataFrames: best of three; RDDs and the peer: one run.",
    "The peer feeds an RDD of Python rows into next_batch: it has no feed of DataFrames.",
    "Spark needs about as long for 10,000 cached rows as for none: its own job is what is measured there.",
    "Spark's own pass through Python unpickles the rows of the RDD in Python workers and drops them.",
    "Tasks elsewhere are processes of this machine that do not use its memory; no Spark runs there.",
    "Spark's noop scan reads the same cached DataFrame and throws its rows away: at 1 × feeding would cost nothing.",
    "Memory is the most that each process had; programs that are fed DataFrames have TensorFlow in them.",
    "What the peer's programs have is in its Python workers and other processes: it forks them.",
]
