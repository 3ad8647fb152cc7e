"""Feeds two nodes with rows, and prints a line of JSON for each measurement.

It is written to the interface that tensorflowonspark 2.2.5 and this project share, and runs with both:

    feed_program.py rdd FOLDER SHAPE ROWS [ROWS…]        an RDD of Python rows into next_batch
    feed_program.py inference FOLDER SHAPE ROWS          an RDD of Python rows, and a result for each
    feed_program.py frame FOLDER SHAPE ROWS [ROWS…]      a cached DataFrame into DataFeed.dataset (ours alone)

SHAPE is wide (784 numbers and a label) or scalars (40 numbers). The clock runs from the call of train to its return,
after a first call with few rows: programs, Python workers and lanes are there.
"""

import argparse
import json
import os
import sys
import time

from pyspark import SparkConf, SparkContext

from tensorflowonspark import TFCluster

BATCH = 1024
PARTITIONS = 8
WIDE, SCALARS = 784, 40


def put(result):
    print("\n" + json.dumps(result), flush=True)


def context(folder):
    conf = SparkConf().setMaster("local-cluster[2,1,2048]").setAppName("bench").set("spark.ui.enabled", "false")
    sc = SparkContext(conf=conf.set("spark.local.dir", folder))
    sc.setLogLevel("ERROR")
    sc.parallelize(range(4), 4).map(lambda _: time.sleep(0.2)).count()
    return sc


# What a command line says of a process; the first that fits.
KINDS = {
    "CoarseGrainedExecutorBackend": "executor",
    "org.apache.spark.deploy.SparkSubmit": "driver's JVM",
    "tfos\0node": "tfos node",
    "tfos\0coordinator": "tfos coordinator",
    "tensorflowonspark._child": "program",
    "pyspark.daemon": "Python worker",
}


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:  # it has ended
        return ""


def descendants(pid):
    found, parents = [], {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = read(f"/proc/{name}/stat").rpartition(")")[2].split()
            parents.setdefault(int(fields[1]) if fields else 0, []).append(int(name))
    todo = [pid]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def memories():
    """The most memory that each process of this application has had, in bytes, by kind."""
    found = {}
    for pid in descendants(os.getpid()):
        line = read(f"/proc/{pid}/cmdline")
        kind = next((kind for part, kind in KINDS.items() if part in line), "other")
        peaks = [field.split()[1] for field in read(f"/proc/{pid}/status").splitlines() if field.startswith("VmHWM")]
        if peaks:
            found.setdefault(kind, []).append(int(peaks[0]) * 1024)
    return found


def take_rows(args, ctx):
    from tensorflowonspark import TFNode

    feed = TFNode.DataFeed(ctx.mgr, True)
    while not feed.should_stop():
        feed.next_batch(BATCH)


def answer_rows(args, ctx):
    from tensorflowonspark import TFNode

    feed = TFNode.DataFeed(ctx.mgr, False)
    while not feed.should_stop():
        rows = feed.next_batch(BATCH)
        if len(rows) > 0:
            feed.batch_results([row[-1] for row in rows])


def take_tensors(args, ctx):
    import tensorflow as tf

    def count(rows, row):
        return rows + tf.shape(next(iter(row.values())), out_type=tf.int64)[0]

    # In a graph, as fit does it.
    ctx.get_data_feed().dataset(BATCH).prefetch(2).reduce(tf.constant(0, tf.int64), count)


def row_maker(shape):
    if shape == "wide":
        return lambda i: ([(i + k) % 256 for k in range(WIDE)], i % 10)
    return lambda i: tuple((i + k) % 1000 for k in range(SCALARS))


def rows_of(sc, shape, count):
    return sc.parallelize(range(count), PARTITIONS).map(row_maker(shape))


def frame_of(spark, shape, count):
    numbers = spark.range(0, count, 1, PARTITIONS)
    if shape == "wide":
        image = f"transform(sequence(0, {WIDE - 1}), k -> cast((id + k) % 256 as float)) as image"
        return numbers.selectExpr(image, "cast(id % 10 as int) as label")
    halves = [f"cast((id + {k}) % 1000 as {'float' if k < SCALARS // 2 else 'long'}) as c{k}" for k in range(SCALARS)]
    return numbers.selectExpr(*halves)


def start(sc, program):
    mode = TFCluster.InputMode.SPARK
    return TFCluster.run(sc, program, argparse.Namespace(), 2, 0, input_mode=mode)


def seconds(function):
    begin = time.time()
    function()
    return time.time() - begin


def drop(rows):
    for _ in rows:
        pass


def feed_rdd(sc, shape, counts):
    cluster = start(sc, take_rows)
    cluster.train(rows_of(sc, shape, 100), 1)
    for count in counts:
        data = rows_of(sc, shape, count).cache()
        data.count()
        fed, scanned = seconds(lambda: cluster.train(data, 1)), seconds(lambda: data.foreachPartition(drop))
        put({"rows": count, "feed_s": fed, "scan_s": scanned})
        data.unpersist()
    put({"memory": memories()})
    cluster.shutdown()


def infer_rdd(sc, shape, counts):
    cluster = start(sc, answer_rows)
    cluster.inference(rows_of(sc, shape, 100)).count()
    for count in counts:
        data = rows_of(sc, shape, count).cache()
        data.count()
        results = cluster.inference(data)
        put({"rows": count, "feed_s": seconds(lambda: results.count())})
    put({"memory": memories()})
    cluster.shutdown()


def feed_frame(sc, shape, counts):
    from pyspark.sql import SparkSession

    spark = SparkSession(sc)
    declared = {"image": {"shape": [WIDE]}} if shape == "wide" else {}
    cluster = start(sc, take_tensors)
    cluster.train(frame_of(spark, shape, 100), 1, columns=declared)
    for count in counts:
        frame = frame_of(spark, shape, count).cache()
        frame.count()

        def scan():
            frame.write.format("noop").mode("overwrite").save()

        def feed():
            cluster.train(frame, 1, columns=declared)

        scan()
        feed()
        times = [(seconds(scan), seconds(feed)) for _ in range(3)]
        put({"rows": count, "scan_s": min(t[0] for t in times), "feed_s": min(t[1] for t in times)})
        frame.unpersist()
    put({"memory": memories()})
    cluster.shutdown()


def main():
    what, folder, shape, *counts = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    sc = context(folder)
    work = {"rdd": feed_rdd, "inference": infer_rdd, "frame": feed_frame}[what]
    work(sc, shape, [int(count) for count in counts])
    sc.stop()


if __name__ == "__main__":
    main()
