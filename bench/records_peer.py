"""The peer of the records section: TensorFlow's own ways to read and write TFRecord files.

    records_peer.py THREADS

Reads jobs from stdin, one JSON object a line: work, path, rows, passes, out. Answers each with a line of JSON: the
seconds of each pass and the records of a pass. Works:

    scan         TFRecordDataset, batched, nothing parsed: reads and checks checksums
    parse        TFRecordDataset, batched, then tf.io.parse_example on each batch
    parse-single TFRecordDataset, tf.io.parse_single_example on each record, then batched
    write        a tf.train.Example of each row, made by nested constructors, to a tf.io.TFRecordWriter
    write-extend the same, made by extending the lists of an empty Example
"""

import functools
import json
import os
import re
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf  # noqa: E402  TensorFlow reads the environment when it is imported

BATCH_ROWS = 1024
WARM_UP_BATCHES = 4


def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        return int(re.search(r"VmHWM:\s*(\d+) kB", file.read())[1]) * 1024


def compression_of(path):
    return "GZIP" if path.endswith(".gz") else ""


@functools.cache
def features_of(path):
    """The features of the first record as parse_example wants them. Every record has all of them."""
    first = next(iter(tf.data.TFRecordDataset(path, compression_of(path)))).numpy()
    features = {}
    for name, feature in tf.train.Example.FromString(first).features.feature.items():
        kind = feature.WhichOneof("kind")
        length = len(getattr(feature, kind).value)
        dtype = {"float_list": tf.float32, "int64_list": tf.int64, "bytes_list": tf.string}[kind]
        features[name] = tf.io.FixedLenFeature([] if length == 1 else [length], dtype)
    return features


def dataset_of(work, path, rows, threads):
    """In parallel if there are threads for it, as the guide of tf.data says: AUTOTUNE, and prefetch at the end."""
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    parallel = tf.data.AUTOTUNE if threads > 1 else None
    dataset = tf.data.TFRecordDataset(path, compression_of(path)).take(rows)
    if work == "parse":
        features = features_of(path)
        dataset = dataset.batch(BATCH_ROWS).map(lambda batch: tf.io.parse_example(batch, features), parallel)
    elif work == "parse-single":
        features = features_of(path)
        dataset = dataset.map(lambda one: tf.io.parse_single_example(one, features), parallel).batch(BATCH_ROWS)
    else:
        dataset = dataset.batch(BATCH_ROWS)
    if threads > 1:
        dataset = dataset.prefetch(tf.data.AUTOTUNE)
    return dataset.with_options(options)


def read(job, threads):
    dataset = dataset_of(job["work"], job["path"], job["rows"], threads)
    for _ in dataset.take(WARM_UP_BATCHES):
        pass

    def once():
        for _ in dataset:
            pass
        return job["rows"]

    return once


def float_feature(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def int64_feature(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def bytes_feature(values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


MAKERS = {"float_list": float_feature, "int64_list": int64_feature, "bytes_list": bytes_feature}


def construct(columns, row):
    feature = {name: MAKERS[kind](values) for (name, kind), values in zip(columns, row)}
    return tf.train.Example(features=tf.train.Features(feature=feature))


def extend(columns, row):
    example = tf.train.Example()
    feature = example.features.feature
    for (name, kind), values in zip(columns, row):
        getattr(feature[name], kind).value.extend(values)
    return example


def rows_of(path, count):
    """The names and kinds of the features, and the rows as lists of lists of Python values."""
    columns, rows = [], []
    for record in tf.data.TFRecordDataset(path, compression_of(path)).take(count):
        feature = tf.train.Example.FromString(record.numpy()).features.feature
        columns = columns or [(name, feature[name].WhichOneof("kind")) for name in sorted(feature)]
        rows.append([list(getattr(feature[name], kind).value) for name, kind in columns])
    return columns, rows


def write(job, threads):
    columns, rows = rows_of(job["path"], job["rows"])
    make = extend if job["work"] == "write-extend" else construct

    def once():
        with tf.io.TFRecordWriter(job["out"], compression_of(job["out"])) as writer:
            for row in rows:
                writer.write(make(columns, row).SerializeToString())
        return len(rows)

    return once


def main():
    threads = int(sys.argv[1])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    for line in sys.stdin:
        job, seconds = json.loads(line), []
        peak_before = peak_bytes()
        once = (write if job["work"].startswith("write") else read)(job, threads)
        for _ in range(job["passes"]):
            start = time.perf_counter()
            count = once()
            seconds.append(time.perf_counter() - start)
        result = {"records": count, "seconds": seconds, "peak_before_bytes": peak_before, "peak_bytes": peak_bytes()}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
