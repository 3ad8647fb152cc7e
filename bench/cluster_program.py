"""Starts and stops clusters, and prints a line of JSON for each: how long what took.

It is written to the interface that tensorflowonspark 2.2.5 and this project share, and runs with both:

    cluster_program.py start FOLDER ROUNDS     two workers whose program writes down the time in its first line
    cluster_program.py native FOLDER ROUNDS    a chief and a native parameter server (ours alone)
    cluster_program.py failures FOLDER         one bad end after the other (ours alone)
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time

from pyspark import SparkConf, SparkContext

from tensorflowonspark import TFCluster

LIMIT_S = 120


def context(folder):
    conf = SparkConf().setMaster("local-cluster[2,1,1024]").setAppName("bench").set("spark.ui.enabled", "false")
    conf.set("spark.local.dir", folder)
    sc = SparkContext(conf=conf)
    sc.setLogLevel("ERROR")
    # Executors are there, and have run Python before: what is measured is the cluster, not Spark's start.
    wait_for(lambda: len(sc._jsc.sc().statusTracker().getExecutorInfos()) > 2)
    sc.parallelize(range(4), 4).map(lambda _: time.sleep(0.2)).count()
    return sc


def wait_for(predicate):
    deadline = time.monotonic() + LIMIT_S
    while not predicate():
        if time.monotonic() > deadline:
            sys.exit("cluster_program: it takes too long")
        time.sleep(0.005)


def note(folder, name, text):
    with open(os.path.join(folder, name + ".part"), "w") as file:
        file.write(text)
    os.rename(os.path.join(folder, name + ".part"), os.path.join(folder, name))


def numbers(folder, names):
    paths = [os.path.join(folder, name) for name in names]
    wait_for(lambda: all(map(os.path.exists, paths)))
    found = []
    for path in paths:
        with open(path) as file:
            found.append(float(file.read()))
        os.remove(path)
    return found


def put(result):
    print("\n" + json.dumps(result), flush=True)


def write_times(args, ctx):
    began = time.time()
    note(args.folder, f"began-{ctx.executor_id}", str(began))
    note(args.folder, f"ended-{ctx.executor_id}", str(time.time()))


def start(sc, folder, rounds):
    for _ in range(rounds):
        before = time.time()
        cluster = TFCluster.run(sc, write_times, argparse.Namespace(folder=folder), 2, 0)
        began = numbers(folder, ["began-0", "began-1"])
        numbers(folder, ["ended-0", "ended-1"])
        stopping = time.time()
        cluster.shutdown()
        put({"first_line_s": max(began) - before, "shutdown_s": time.time() - stopping})


class Listener:
    """Stands before stderr and notes when a line came that has a certain word."""

    def __init__(self, stream, word):
        self.stream, self.word, self.heard = stream, word, None

    def write(self, text):
        if self.word in text and self.heard is None:
            self.heard = time.time()
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()


def wait_for_go(args, ctx):
    while not os.path.exists(os.path.join(args.folder, "go")):
        time.sleep(0.01)


def native(sc, folder, rounds):
    for _ in range(rounds):
        listener = sys.stderr = Listener(sys.__stderr__, "serving ps:0")
        before = time.time()
        arguments = argparse.Namespace(folder=folder)
        cluster = TFCluster.run(sc, wait_for_go, arguments, 2, 1, master_node="chief", native_ps=True)
        wait_for(lambda: listener.heard)
        note(folder, "go", "")
        cluster.shutdown()
        os.remove(os.path.join(folder, "go"))
        put({"first_line_s": listener.heard - before})


# ---- bad ends ----


def wait_for_the_end(args, ctx):
    note(args.folder, f"pid-{ctx.executor_id}", str(os.getpid()))
    while not os.path.exists(os.path.join(args.folder, "raise")) or ctx.executor_id != 0:
        time.sleep(0.01)
    raise ValueError("the measurement wants it")


def parent_of(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def failures(sc, folder):
    ends = {
        "raised": lambda cluster, pids: note(folder, "raise", ""),
        "killed": lambda cluster, pids: os.kill(pids[0], signal.SIGKILL),
        "node_killed": lambda cluster, pids: os.kill(cluster.cluster_info[0]["pid"], signal.SIGKILL),
        "executor_killed": lambda cluster, pids: os.kill(parent_of(cluster.cluster_info[0]["pid"]), signal.SIGKILL),
        "frozen": lambda cluster, pids: os.kill(cluster.cluster_info[0]["pid"], signal.SIGSTOP),
    }
    for name, end in ends.items():
        wait_for(lambda: len(sc._jsc.sc().statusTracker().getExecutorInfos()) > 2)
        cluster = TFCluster.run(sc, wait_for_the_end, argparse.Namespace(folder=folder), 2, 0)
        pids = [int(pid) for pid in numbers(folder, ["pid-0", "pid-1"])]
        before = time.time()
        end(cluster, pids)
        try:
            cluster.shutdown()
            sys.exit(f"cluster_program: {name} did not fail")
        except TFCluster.TFClusterError:
            put({"end": name, "known_s": time.time() - before})
        if name == "frozen":
            os.kill(cluster.cluster_info[0]["pid"], signal.SIGKILL)  # it cannot end itself
        if os.path.exists(os.path.join(folder, "raise")):
            os.remove(os.path.join(folder, "raise"))


def drive(sc, folder):
    """A driver that is going to be killed."""
    cluster = TFCluster.run(sc, wait_for_the_end, argparse.Namespace(folder=folder), 2, 0)
    nodes = [node["pid"] for node in cluster.cluster_info]
    put({"pids": [*map(int, numbers(folder, ["pid-0", "pid-1"])), *nodes]})
    cluster.shutdown()


def kill_driver(folder):
    with subprocess.Popen([sys.executable, __file__, "drive", folder], stdout=subprocess.PIPE, text=True) as driver:
        pids = next(json.loads(line) for line in driver.stdout if line.startswith("{"))["pids"]
        before = time.time()
        driver.kill()
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids))
        put({"end": "driver_killed", "known_s": time.time() - before})


def main():
    what, folder = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    os.makedirs(folder, exist_ok=True)
    sc = context(folder)
    if what == "failures":
        failures(sc, folder)
    elif what == "drive":
        drive(sc, folder)
    else:
        {"start": start, "native": native}[what](sc, folder, rounds)
    sc.stop()
    if what == "failures":
        kill_driver(folder)


if __name__ == "__main__":
    main()
