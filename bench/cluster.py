"""Section "cluster": how fast clusters start and stop, how soon the driver knows of a bad end, how many nodes a
coordinator can have.

The same program (cluster_program.py) runs with this project and with tensorflowonspark 2.2.5, which has an environment
of its own (build/venv-peer, made from requirements-peer.txt the first time).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

from table import Row, Section, times

HERE = os.path.dirname(os.path.abspath(__file__))
GROWTH_MOST = 2  # of what an event costs, from the fewest tasks to the most: noise, and memory that is no longer near
ENDS = {
    "raised": ("a program raises", 5),
    "killed": ("a program is killed", 5),
    "node_killed": ("a node is killed", 5),
    "executor_killed": ("an executor is killed", 5),
    "frozen": ("a node is frozen (SIGSTOP)", 35),
    "driver_killed": ("the driver is killed, until every process is gone", 5),
}


def run_program(python, folder, *arguments, program="cluster_program.py"):
    """The lines of JSON that a program prints."""
    root = subprocess.check_output(
        [python, "-c", "import os, pyspark; print(os.path.dirname(pyspark.__file__))"], text=True
    ).strip()
    java = subprocess.check_output([os.path.join(HERE, "..", "scripts", "find-java")], text=True).strip()
    environment = os.environ | {
        "SPARK_HOME": root,
        "JAVA_HOME": java,
        "PYSPARK_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": folder,
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    with tempfile.TemporaryFile("w+") as errors:
        done = subprocess.run(
            [python, os.path.join(HERE, program), *arguments],
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            timeout=600,
        )
        if done.returncode != 0:
            errors.seek(0)
            raise RuntimeError(f"{program} {arguments[0]} failed with {python}:\n{errors.read()[-3000:]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def peer_python(root, say):
    """The peer's interpreter; its environment is made if need be."""
    environment = os.path.join(root, "build", "venv-peer")
    say("cluster: the peer's environment (the first time: about 500 MB to download)")
    command = [os.path.join(root, "scripts", "setup-python"), environment, "requirements-peer.txt", "11", "11"]
    subprocess.run(command, cwd=root, check=True, stdout=sys.stderr)
    return os.path.join(environment, "bin", "python")


def best(results, key):
    return min(result[key] for result in results)


def compare(work, theirs, ours, asked):
    return Row(
        work=work,
        peer=f"{theirs:.2f} s" if theirs is not None else "",
        ours=f"{ours:.2f} s",
        ratio=times(theirs / ours) if theirs is not None else "",
        asked=f"≤ {asked} s" if asked is not None else "",
        met=ours <= asked if asked is not None else None,
    )


def run_swarm(build, program, *arguments):
    environment = os.environ | {"TFOS_COMMAND": os.path.join(build, "src", "tfos")}
    command = [os.path.join(build, "bench", program), *map(str, arguments)]
    return json.loads(subprocess.check_output(command, env=environment, text=True))


def swarm_rows(build, quick):
    nodes = 100 if quick else 1000
    found = run_swarm(build, "cluster_swarm", nodes, 2 if quick else 10)
    return [
        Row(f"{nodes} simulated nodes: all have their roles", ours=f"{found['start_s']:.2f} s"),
        Row(f"{nodes} simulated nodes: all have stopped", ours=f"{found['stop_s']:.2f} s"),
        Row("… coordinator's processor time for a heartbeat", ours=f"{found['beat_cpu_us']:.0f} µs"),
        Row("… coordinator's memory for a node", ours=f"{found['node_bytes'] / 1000:.0f} kB"),
    ]


def feed_swarm_rows(build, quick):
    """What an event costs while few, some and many tasks feed: the same, if it does not grow with their number."""
    nodes, sizes = (20, [100, 200]) if quick else (1000, [1000, 4000, 16000])
    found = [run_swarm(build, "feed_swarm", nodes, size) for size in sizes]
    tasks = " · ".join(f"{size:,}".replace(",", " ") for size in sizes)

    def row(work, key, unit, scale=1.0, digits=0, most=GROWTH_MOST):
        values = [result[key] * scale for result in found]
        growth = values[-1] / values[0]
        return Row(
            work,
            ours=" · ".join(f"{value:.{digits}f}" for value in values) + f" {unit}",
            ratio=times(growth),
            asked=f"≤ {most} ×" if most is not None else "",
            met=growth <= most if most is not None else None,
        )

    return [
        row(f"{tasks} simulated tasks feed {nodes} nodes: time to let one in", "admission_us", "µs", most=None),
        row("… coordinator's processor time to let one in", "admission_cpu_us", "µs"),
        row("… for a task's word about how far it is", "progress_cpu_us", "µs", digits=1),
        row("… for the end of a partition", "exhausted_cpu_us", "µs", digits=1),
        row("… for a heartbeat of a node", "beat_cpu_us", "µs", digits=1),
        row("… for the news that a node starves, or no longer does", "hunger_cpu_us", "µs"),
        row("… coordinator's memory for a task", "producer_bytes", "kB", scale=1e-3, digits=1),
        row("… coordinator's memory in all", "rss_bytes", "MB", scale=1e-6, most=None),
    ]


def measure(root, build, quick, say):
    folder = os.path.join(root, "build", "bench", "cluster")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    ours, rounds = sys.executable, "1" if quick else "5"
    say("cluster: ours")
    start = run_program(ours, folder, "start", os.path.join(folder, "ours"), rounds)
    native = run_program(ours, folder, "native", os.path.join(folder, "native"), rounds)
    theirs = None
    if not quick:
        python = peer_python(root, say)
        say("cluster: the peer")
        theirs = run_program(python, folder, "start", os.path.join(folder, "peer"), "3")
    rows = [
        compare(
            "the first cluster of an application: start to the first line of map_fun",
            theirs and theirs[0]["first_line_s"],
            start[0]["first_line_s"],
            None,
        ),
        compare(
            "start to the first line of map_fun, 2 workers",
            theirs and best(theirs, "first_line_s"),
            best(start, "first_line_s"),
            1.5,
        ),
        compare("start to a native server that serves", None, best(native, "first_line_s"), 1.5),
        compare(
            "shutdown, programs ended", theirs and best(theirs, "shutdown_s"), best(start, "shutdown_s"), 0.5
        ),
    ]
    if not quick:
        say("cluster: bad ends")
        for result in run_program(ours, folder, "failures", os.path.join(folder, "failures")):
            text, asked = ENDS[result["end"]]
            rows.append(compare(f"the driver knows: {text}", None, result["known_s"], asked))
    say("cluster: a swarm of nodes")
    rows += swarm_rows(build, quick)
    say("cluster: a swarm of tasks that feed")
    rows += feed_swarm_rows(build, quick)
    shutil.rmtree(folder, ignore_errors=True)
    return Section("cluster", "starting and stopping clusters, against tensorflowonspark 2.2.5", rows, NOTES)


NOTES = [
    "Spark's local-cluster[2,1,1024]; the executors are registered and have run Python before the clock starts.",
    "Best of five clusters one after the other in one application (the peer: of three).",
    "The first line is that of map_fun, before it imports TensorFlow. The first native line is that of `tfos ps`, as "
    "it arrives on the driver.",
    "Shutdown is measured from the moment when both programs have ended.",
    "The peer runs with TensorFlow 2.15.1 and PySpark 3.5.8, the newest that it works with.",
    "A bad end is measured from the blow to the exception in the driver's shutdown(), all other nodes stopped; a "
    "frozen node is known by its lease, 30 s.",
    "Simulated nodes are real connections (TLS, registration, heartbeats) of one process; the coordinator is real.",
    "Simulated tasks are, too: all of them are there at the same time and say what tasks say in the life of a feed, "
    "but no row moves. The ratio is that of the last figure to the first: what an event costs must not grow with the "
    "number of tasks. Most of what it costs to let one in is its TLS handshake.",
]
