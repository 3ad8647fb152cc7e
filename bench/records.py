"""Section "records": TFRecord files to columns and back, against TensorFlow.

Every figure comes from processes of their own: records_bench.c for the C library, records_ours.py for the Python
package, records_peer.py for TensorFlow. They take turns, round after round, so that a disturbance of the machine hits
all of them. A process makes several passes over data that are in the page cache; its best one counts.
"""

import dataclasses
import os

import table
from records_processes import File, Processes, compile_program, make_data

SHOWN_APART = 0.05  # C has a row of its own if it differs from Python by more than this part
MEMORY = ("peak_before_bytes", "peak_bytes", "memory_bytes")
FLAT = 1.1  # memory is flat if ten times the records take at most this many times the memory


@dataclasses.dataclass
class Scale:
    """How much is measured."""

    scalars: int
    scalars_small: int
    images: int
    peer_rows: int  # that the peer parses in a pass over file A
    peer_slow_rows: int  # that it writes, or parses record by record
    rounds: int
    passes: int
    copy_bytes: int


FULL = Scale(400_000, 40_000, 40_000, 100_000, 10_000, rounds=3, passes=3, copy_bytes=64 << 20)
QUICK = Scale(2_000, 200, 200, 1_000, 100, rounds=1, passes=1, copy_bytes=1 << 20)


@dataclasses.dataclass
class Asked:
    """What the row has to reach: so many times the peer, or so many bytes per second."""

    times: float = 0
    bytes: float = 0

    def __str__(self):
        return f"≥ {self.times:g} ×" if self.times else f"≥ {self.bytes / 1e9:g} GB/s"


@dataclasses.dataclass
class Work:
    """One thing to measure. `peers` maps the peer's ways of doing it to the rows that it does in a pass."""

    name: str
    ours: str
    file: File
    threads: int = 1
    peers: dict = dataclasses.field(default_factory=dict)
    out: str | None = None
    languages: tuple = ("c", "python")
    asked: Asked | None = None


@dataclasses.dataclass
class Figure:
    """Rows per second, of the best pass of each round."""

    rounds: list[float]
    row_bytes: float
    in_bytes: bool

    @property
    def best(self):
        return max(self.rounds)

    @property
    def best_bytes(self):
        return self.best * self.row_bytes

    def __str__(self):
        spread = 1 - min(self.rounds) / self.best
        bytes_too = f"{table.rate(self.best_bytes, 'B')}, " if self.in_bytes else ""
        return f"{bytes_too}{table.rate(self.best, ' rec')} (−{spread:.0%})"


# What a way of the peer is called behind the name of the work; the first way of a work has no such words.
WAYS = {"parse-single": "peer record by record", "write-extend": "peer by extend"}


def works_of(files, scale, folder):
    a, b, slow = files["A"], files["B"], scale.peer_slow_rows
    a_peer, a_gzip = files["A peer"], files["A gzip"]
    out = os.path.join(folder, "out.tfrecord")
    ten, writing = Asked(times=10), {"write": slow, "write-extend": slow}
    both = {"parse": scale.peer_rows, "parse-single": slow}
    return [
        Work("parse A, 1 thread", "parse", a, 1, both, asked=Asked(times=20)),
        Work("parse A, 2 threads", "parse", a, 2, {"parse": scale.peer_rows}),
        Work("parse A as TensorFlow writes it, 1 thread", "parse", a_peer, 1, {"parse": a_peer.rows}),
        Work("parse B, 1 thread", "parse", b, 1, {"parse": b.rows}, asked=Asked(bytes=1.5e9)),
        Work("parse B, 2 threads", "parse", b, 2, {"parse": b.rows}),
        Work("verify A, 1 thread", "verify", a, 1, {"scan": scale.peer_rows}, None, ("c",), Asked(bytes=5e9)),
        Work("verify B, 1 thread", "verify", b, 1, {"scan": b.rows}, None, ("c",), Asked(bytes=5e9)),
        Work("infer the schema of A, 1 thread", "infer", a),
        Work("infer the schema of B, 1 thread", "infer", b),
        Work("write A from Arrow", "write", a, 1, writing, out, asked=ten),
        Work("write A from NumPy", "write-numpy", a, 1, {}, out, ("python",)),
        Work("write B from Arrow", "write", b, 1, writing, out, asked=ten),
        Work("parse A from gzip, 1 thread", "parse", a_gzip, 1, {"parse": a_gzip.rows}),
        Work("write A to gzip", "write", files["A small"], 1, {"write": slow}, out + ".gz"),
    ]


# ---- measuring ----


def measure_work(processes, work, scale):
    """A Figure for "c", for "python" and for each way of the peer."""
    rounds = {}
    for _ in range(scale.rounds):
        for language in work.languages:
            if language in processes.languages:
                result = processes.ours(language, work.ours, work.file.path, work.threads, scale.passes, work.out)
                rounds.setdefault(language, []).append(work.file.rows / min(result["seconds"]))
        for way, rows in work.peers.items():
            result = processes.peer(way, work.file.path, work.threads, rows, scale.passes, work.out)
            rounds.setdefault(way, []).append(result["records"] / min(result["seconds"]))
    in_bytes = not work.ours.startswith("write")
    return {name: Figure(speeds, work.file.row_bytes, in_bytes) for name, speeds in rounds.items()}


def measure_limits(processes, files, scale):
    """What no reader can beat: rows of memcpy, and of read from the page cache."""
    for name, work, what in (
        ("limit: memcpy", "memcpy", str(scale.copy_bytes)),
        ("limit: pread of A", "pread", files["A"].path),
    ):
        results = [processes.ours("c", work, what, 1, 10) for _ in range(scale.rounds)]
        best = [result["bytes"] / min(result["seconds"]) for result in results]
        yield table.Row(name, "", f"{table.rate(max(best), 'B')} (−{1 - min(best) / max(best):.0%})")


def measure_memory(processes, files, scale, threads):
    """Two rows: the memory to parse the small file, and the ten times larger one.

    How many batches the threads hold at one time depends on chance, so the largest figure of all rounds counts.
    """
    language, first = processes.languages[-1], None
    for file in (files["A small"], files["A"]):
        rounds = [processes.ours(language, "parse", file.path, threads, scale.passes) for _ in range(scale.rounds)]
        ours = {key: max(result[key] for result in rounds) for key in MEMORY}
        peer = processes.peer("parse", file.path, threads, file.rows, 1)
        row = table.Row(f"peak memory to parse {file.rows} records of A, {threads_of(threads)}")
        row.peer = memory_cell(peer)
        row.ours = f"{memory_cell(ours)}, reader {table.megabytes(ours['memory_bytes'])}"
        if first is not None:
            growth = max(ours[key] / first[key] for key in ("peak_bytes", "memory_bytes"))
            row.ratio, row.asked, row.met = f"{table.times(growth)} the small", f"≤ {FLAT:g} ×", growth <= FLAT
        first = ours
        yield row


def memory_cell(result):
    before, after = result["peak_before_bytes"], result["peak_bytes"]
    return f"{table.megabytes(before)} + {table.megabytes(after - before)}"


def threads_of(threads):
    return "1 thread" if threads == 1 else f"{threads} threads"


# ---- rows ----


def rows_of_work(work, figures):
    """A row for each way of the peer; one more for C where it differs from Python."""
    ours = figures.get("python") or figures.get("c")
    if ours is None:
        return
    ways = list(work.peers) or [None]
    for way in ways:
        suffix = f", {WAYS[way]}" if way in WAYS else ""
        yield row_of(work.name + suffix, ours, figures.get(way), work.asked if way == ways[0] else None)
    if "python" in figures and "c" in figures and abs(figures["c"].best / ours.best - 1) > SHOWN_APART:
        yield row_of(f"{work.name}, C", figures["c"], figures.get(ways[0]), work.asked)


def row_of(name, ours, peer, asked):
    row = table.Row(name, str(peer or ""), str(ours))
    if peer is not None:
        row.ratio = table.times(ours.best / peer.best)
    if asked is not None:
        row.asked = str(asked)
        row.met = ours.best >= asked.times * peer.best if asked.times else ours.best_bytes >= asked.bytes
    return row


def compare_to_parsing(rows, figures, parsing):
    """The rows of an inference: the first is Python's if there is one, a second is C's."""
    for row, language in zip(rows, [name for name in ("python", "c") if name in figures]):
        ratio = figures[language].best / parsing[language].best
        row.ratio, row.asked, row.met = f"{table.times(ratio)} parsing", "≥ 1 × parsing", ratio >= 1


def notes_of(files, scale, languages):
    a, b = files["A"], files["B"]
    through = f"the Python package; a row for C follows where it differs by more than {SHOWN_APART:.0%}. Verify is C."
    if "python" not in languages:
        through = "C: the Python package is not installed."
    return [
        f"A: {a.rows} records of 40 features (13 float, 26 int64, 1 string), {table.megabytes(a.bytes)}. "
        f"B: {b.rows} records of 784 floats and a label, {table.megabytes(b.bytes)}.",
        f"Best of {scale.rounds} rounds, ours and the peer in turn, each in a fresh process of {scale.passes} passes, "
        "with a warm page cache. In brackets: how far the slowest round fell behind.",
        f"Ours through {through}",
        "The peer parses with tf.data: TFRecordDataset, batches of 1024, parse_example on each batch. Record by record "
        "means parse_single_example before the batching. With two threads it has AUTOTUNE and prefetch.",
        "For verify, the peer iterates over TFRecordDataset without parsing, which checks the same checksums.",
        "The peer writes with tf.io.TFRecordWriter and tf.train.Example, made by constructors as its guide shows, or "
        "by extend on the lists of an empty Example. Ours ends with an fsync, which the peer does not do.",
        "One thread is one core for both. Rates of gzip are of the bytes that are not compressed.",
        "Peak memory: of the process before the work, and what the work added.",
    ]


def measure(root, build, quick, say):
    scale = QUICK if quick else FULL
    folder = os.path.join(root, "build", "bench", "records")
    os.makedirs(folder, exist_ok=True)
    processes = Processes(compile_program(root, build, folder), quick)
    if "python" not in processes.languages:
        say("records: tensorflowonspark is not installed, so only C is measured; scripts/build-python installs it")
    try:
        files = make_data(processes, scale, folder, say)
        rows = measure_rows(processes, files, scale, folder, say)
    finally:
        processes.close()
    for row in rows if quick else ():
        row.met = None  # tiny data say nothing about speed
    title = "TFRecord files to columns and back, against TensorFlow"
    return table.Section("records", title, rows, notes_of(files, scale, processes.languages))


def measure_rows(processes, files, scale, folder, say):
    rows, parsing, works = [], {}, works_of(files, scale, folder)
    for work in works:
        say(f"records: {work.name}")
        figures = measure_work(processes, work, scale)
        found = list(rows_of_work(work, figures))
        if work.ours == "parse":
            parsing.setdefault(work.file.path, figures)
        elif work.ours == "infer":
            compare_to_parsing(found, figures, parsing[work.file.path])
        rows += found
    for threads in (1, 2):
        say(f"records: peak memory, {threads_of(threads)}")
        rows += measure_memory(processes, files, scale, threads)
    say("records: limits")
    rows += measure_limits(processes, files, scale)
    for path in {work.out for work in works if work.out}:
        os.remove(path)
    return rows
