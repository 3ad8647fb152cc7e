"""A cluster on this machine that is fed by this process: real coordinator, nodes and lanes, without Spark.

    with FedCluster(tmp_path, program) as cluster:
        cluster.feed([{"x": 1}, {"x": 2}])      # an epoch of one partition; returns when its rows were taken
        cluster.end()
        assert cluster.result() == …            # what the program has passed to `report`
"""

import json
import os
import subprocess
import sys
import textwrap
import threading

from tensorflowonspark import _native, records

# A folder with libtfos.so and libtfos_ops.so that were built with AddressSanitizer: programs run with those.
SANITIZED = os.environ.get("TFOS_TEST_SANITIZED")
SECONDS = 300 if SANITIZED else 60

_PRELUDE = """
import json, os, sys, time
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
from tensorflowonspark import _dataset, _native, _ops

def report(value):
    with open({path!r}, "w") as file:
        json.dump(value, file)
"""


def _sanitizing():
    """The environment of a program, and what it begins with, so that its libraries are those of SANITIZED."""
    folder = os.path.abspath(SANITIZED)

    def of_compiler(name):
        return subprocess.check_output(["gcc", f"-print-file-name={name}"], text=True).strip()

    # The sanitizer comes first, and finds what it replaces in the C++ library of TensorFlow. TensorFlow itself gives
    # back memory in ways of its own, and nothing at its end.
    libraries = [of_compiler("libasan.so"), of_compiler("libubsan.so"), of_compiler("libstdc++.so.6")]
    environment = [f"LD_PRELOAD={' '.join([*libraries, os.path.join(folder, 'libtfos.so')])}"]
    environment += ["ASAN_OPTIONS=detect_leaks=0:alloc_dealloc_mismatch=0", "UBSAN_OPTIONS=halt_on_error=1"]
    check = f"assert {os.path.join(folder, 'libtfos.so')!r} in open('/proc/self/maps').read()\n"
    return environment, check + f"_ops.LIBRARY = {os.path.join(folder, 'libtfos_ops.so')!r}\n"


class FedCluster:
    """Runs a Python program, given as pieces of text, on every node that is not native."""

    def __init__(self, folder, *programs, nodes=1, **options):
        self._path = str(folder / "result.json")
        script = folder / "program.py"
        environment, prelude = _sanitizing() if SANITIZED else ([], "")
        prelude = _PRELUDE.format(path=self._path) + prelude
        script.write_text(prelude + "".join(map(textwrap.dedent, programs)))
        self._environment = [f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", *environment]
        self._native = _native.Cluster(
            nodes,
            [sys.executable, str(script)],
            b"",
            "{}",
            host="127.0.0.1",
            spark_feeds=True,
            folder=str(folder),
            environment=self._environment,
            **options,
        )
        self._nodes = nodes
        self._changed = threading.Condition()
        self._attempts = iter(range(1, 1 << 30))
        self._feeds = {}  # queue: number
        self._epochs = {}  # queue: how many were begun
        self._begun = set()  # (feed, epoch)
        self.output = ""
        self.failure = None
        self.ready = False
        self.over = False

    def __enter__(self):
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        for index in range(self._nodes):
            self._native.spawn(index)
        self.wait(lambda: self.ready)
        return self

    def __exit__(self, *unused):
        if not self.over:
            self._native.stop("the test is over")
        self._thread.join(SECONDS)
        self._native.close()

    def _listen(self):
        while True:
            event = self._native.next(-1)
            if event is None:
                break
            kind, count, total, _, _, _, _, state, _, text, _ = event
            with self._changed:
                if kind == "log":
                    self.output += text
                elif kind == "failed":
                    self.failure = text
                elif kind == "feed" and state == "epoch":
                    self._begun.add((count, total))
                elif kind == "ready":
                    self.ready = True
                elif kind == "over":
                    self.over = True
                self._changed.notify_all()

    def wait(self, predicate, seconds=SECONDS):
        with self._changed:
            assert self._changed.wait_for(lambda: self.over or predicate(), seconds), self.output

    # ---- feeding ----

    def begin(self, queue="input", partitions=1):
        """Begins an epoch; returns a function that feeds one partition of it: an iterator of rows, or of batches."""
        if queue not in self._feeds:
            self._feeds[queue] = self._native.feed(queue, partitions, False, True, False, SECONDS * 1000)
            self._epochs[queue] = 0
        feed, epoch = self._feeds[queue], self._epochs[queue]
        self._epochs[queue] += 1
        self._native.epoch(feed, epoch)
        self.wait(lambda: (feed, epoch) in self._begun)
        ticket = self._native.feed_ticket(feed, epoch)

        def feed(rows, partition=0, batches=False):
            pump = _native.Pump(ticket, partition, next(self._attempts), "localhost", rows, None, batches)
            try:
                assert list(pump) == []
            finally:
                pump.close()

        return feed

    def feed(self, rows, queue="input"):
        """Feeds an epoch of one partition: rows of Python objects, or batches."""
        rows = list(rows)
        batches = bool(rows) and isinstance(rows[0], (_native.Batch, records.Batch))
        self.begin(queue)(batches_of(rows) if batches else iter(rows), batches=batches)

    def feed_all(self, epochs):
        """Feeds {queue: [rows of an epoch, …]}, then ends the feed."""
        for thread in self.begin_all(epochs):
            thread.join(SECONDS)
        self.end()

    def begin_all(self, epochs):
        """Feeds each queue in a thread of its own. Threads end when their rows were taken, or with the cluster."""
        threads = [threading.Thread(target=self._feed_queue, args=each, daemon=True) for each in epochs.items()]
        for thread in threads:
            thread.start()
        return threads

    def _feed_queue(self, queue, epochs):
        try:
            for rows in epochs:
                self.feed(rows, queue)
        except _native.Error as error:  # the program has failed; what it reports says more
            self.output += f"feeding {queue!r}: {error}\n"

    def end(self):
        self._native.end_of_feed()

    # ---- the program ----

    def join(self, seconds=SECONDS):
        """Waits for the end of every node."""
        self._native.finish(0)
        self.wait(lambda: False, seconds)

    def result(self):
        self.join()
        assert self.failure is None and os.path.exists(self._path), f"{self.failure}\n{self.output}"
        with open(self._path) as file:
            return json.load(file)


def batches_of(rows):
    """Rows of Python objects as batches; batches stay what they are."""
    rows = list(rows)
    if rows and isinstance(rows[0], (_native.Batch, records.Batch)):
        yield from (getattr(row, "_native", row) for row in rows)
        return
    encoder, rest, more = _native.RowEncoder(), iter(rows), True
    while more:
        more = encoder.add_many(rest)
        batch = encoder.take()
        if batch is not None:
            yield batch
