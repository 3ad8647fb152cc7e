"""Section "collective": what it costs that workers compute together.

Workers are programs on nodes of a real cluster on this machine, without Spark. The peer is TensorFlow: its collective
ops, and MultiWorkerMirroredStrategy with tf_keras, since Keras 3 does not train under it. The limit is workers that
have nothing to do with each other, and a memcpy of the same bytes.
"""

import json
import os
import shutil
import subprocess
import sys
import threading

from table import Row, Section, times

from tensorflowonspark import _native

HERE = os.path.dirname(os.path.abspath(__file__))
ASKED_STEP_MS = 3  # above workers that are alone
ASKED_SMALL_US = 100  # a sum of 4 KiB
CROWDS = [1, 2, 4, 8, 16]
# What a node sets for its program where an executor has one core: two workers have two cores here.
THREADS = ["TF_NUM_INTRAOP_THREADS=1", "TF_NUM_INTEROP_THREADS=1", "OMP_NUM_THREADS=1"]


def run_workers(folder, what, steps, nodes=2):
    """What each worker has written down."""
    program = [sys.executable, os.path.join(HERE, "collective_program.py"), what, folder, str(steps)]
    environment = [f"PYTHONPATH={os.pathsep.join(filter(None, sys.path))}", *THREADS]
    cluster = _native.Cluster(nodes, program, b"", "{}", host="127.0.0.1", folder=folder, environment=environment)
    failure, output = [], []

    def listen():
        while True:
            event = cluster.next(-1)
            if event is None:
                break
            kind, text = event[0], event[9]
            if kind == "log":
                output.append(text)
            elif kind == "failed":
                failure.append(text)
            elif kind == "ready":
                cluster.finish(0)
            elif kind == "over":
                break

    thread = threading.Thread(target=listen)
    thread.start()
    for index in range(nodes):
        cluster.spawn(index)
    thread.join(600)
    cluster.close()
    if failure or thread.is_alive():
        raise RuntimeError(f"{what}: {failure or 'not done after 600 s'}\n{''.join(output)[-3000:]}")
    found = []
    for index in range(nodes):
        with open(os.path.join(folder, f"{what}.{index}.json"), encoding="utf-8") as file:
            found.append(json.load(file))
    return found


def run_calls(build, folder, workers, shared, most):
    """[{bytes, call_us, copy_us}]: calls from C, without TensorFlow."""
    environment = os.environ | {"TFOS_COMMAND": os.path.join(build, "src", "tfos")}
    command = [os.path.join(build, "bench", "collective_calls"), *map(str, (workers, shared, most))]
    return json.loads(subprocess.check_output(command, env=environment, cwd=folder, text=True))


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def show_us(us):
    return f"{us:.1f} µs" if us < 10 else f"{us:.0f} µs" if us < 10_000 else f"{us / 1000:.1f} ms"


def step_rows(folder, quick, say):
    steps = 10 if quick else 150
    found = {}
    for what in ("cnn-alone", "cnn-ours", "cnn-theirs"):
        say(f"collective: {what}")
        found[what] = 1000 * max(run_workers(folder, what, steps))
    alone, ours, theirs = found["cnn-alone"], found["cnn-ours"], found["cnn-theirs"]
    return [
        Row("a step of the CNN, 2 workers", f"{theirs:.1f} ms", f"{ours:.1f} ms", times(theirs / ours)),
        Row(
            "… above workers that are alone",
            f"{alone:.1f} ms",
            f"{ours - alone:+.1f} ms",
            times(ours / alone),
            f"≤ {ASKED_STEP_MS} ms",
            ours - alone <= ASKED_STEP_MS,
        ),
    ]


def sum_rows(folder, quick, say):
    steps = 5 if quick else 500
    say("collective: sums in TensorFlow")
    ours, theirs = (run_workers(folder, what, steps)[0] for what in ("sums-ours", "sums-theirs"))
    return [
        Row(
            f"sum of {size_name(int(size))} as an op of TensorFlow, 2 workers",
            show_us(1e6 * theirs[size]),
            show_us(1e6 * ours[size]),
            times(theirs[size] / ours[size]),
        )
        for size in ours
    ]


def call_rows(build, folder, quick, say):
    most = 1 << 20 if quick else 64 << 20
    say("collective: sums from C, in shared memory and over TLS")
    rows = []
    near, far = run_calls(build, folder, 2, 1, most), run_calls(build, folder, 2, 0, most)
    for one, other in zip(near, far):
        size = size_name(one["bytes"])
        small = one["bytes"] == 4096
        rows.append(
            Row(
                f"sum of {size} from C, 2 workers, against a memcpy",
                show_us(one["copy_us"]),
                show_us(one["call_us"]),
                times(one["copy_us"] / one["call_us"]),
                f"< {ASKED_SMALL_US} µs" if small else "",
                one["call_us"] < ASKED_SMALL_US if small else None,
            )
        )
        times_us = one["call_us"], other["call_us"]
        share = times(times_us[0] / times_us[1])
        rows.append(Row("… over TLS instead of shared memory", *map(show_us, times_us), share))
    return rows


def crowd_rows(build, folder, quick, say):
    most = 32 << 10 if quick else 16 << 20
    say("collective: more workers")
    found = [run_calls(build, folder, workers, 1, most) for workers in CROWDS]
    crowds = " · ".join(map(str, CROWDS))
    rows = []
    for at in (0, len(found[0]) - 1):
        values = [calls[at]["call_us"] for calls in found]
        growth = values[-1] / values[1]
        size = size_name(found[0][at]["bytes"])
        rows.append(Row(f"sum of {size}, {crowds} workers", "", " · ".join(map(show_us, values)), times(growth)))
    return rows


def measure(root, build, quick, say):
    folder = os.path.join(root, "build", "bench", "collective")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    rows = step_rows(folder, quick, say)
    rows += sum_rows(folder, quick, say)
    rows += call_rows(build, folder, quick, say)
    rows += crowd_rows(build, folder, quick, say)
    notes = [
        "Workers are processes on nodes of this machine. The peer is TensorFlow: its collective ops over gRPC, and "
        "MultiWorkerMirroredStrategy with tf_keras.",
        "The CNN: two convolutions (32 and 64 of 3 × 3), each with pooling, a dense layer of 128, 10 classes; Adam; "
        "batches of 64 for each worker; the mean over an epoch of 150 steps, the best of three, of the slower worker.",
        "Each worker has one thread for ops, as on an executor with one core. With two threads each, on two cores, a "
        "step took 18.3 ms together and 12.5 ms alone: threads of the one that waits get in the way of the other's.",
        "Workers that are alone train the same model on the same batches at the same time, and exchange nothing.",
        "Sums are of float32; calls from C are timed one by one, their median; inside a function of TensorFlow several "
        "in a row.",
        "More workers than cores share these: the last ratio is that of the most workers to two.",
    ]
    return Section("collective", "what it costs that workers compute together", rows, notes)
