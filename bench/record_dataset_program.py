"""Batches of TFRecord files to a training step: the program that measures.

    record_dataset_program.py WHO WORK THREADS PATH EPOCHS PASSES

WHO is ours (tensorflowonspark.data) or peer (TFRecordDataset, batch, parse_example). Prints a line of JSON: the records
of a pass, and its seconds and those of processors. The step is a tf.function that takes every tensor of a batch. A pass
is several epochs: to begin an iteration costs both of them as much as reading some ten thousand records. Works:

    graph    the loop over the batches is in a tf.function, too
    python   the loop is in Python
    shuffle  as graph, rows shuffled through a buffer of 10 000
"""

import json
import os
import sys
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import tensorflow as tf  # noqa: E402  TensorFlow reads the environment when it is imported

BATCH_ROWS = 1024
SHUFFLE_ROWS = 10_000
WARM_UP_BATCHES = 4


def features_of(path):
    """The features of the first record as parse_example wants them. Every record has all of them."""
    first = next(iter(tf.data.TFRecordDataset(path))).numpy()
    features = {}
    for name, feature in tf.train.Example.FromString(first).features.feature.items():
        kind = feature.WhichOneof("kind")
        length = len(getattr(feature, kind).value)
        dtype = {"float_list": tf.float32, "int64_list": tf.int64, "bytes_list": tf.string}[kind]
        features[name] = tf.io.FixedLenFeature([] if length == 1 else [length], dtype)
    return features


def ours(path, work, threads):
    from tensorflowonspark import data

    shuffle = SHUFFLE_ROWS if work == "shuffle" else 0
    pool = 0 if threads == 1 else threads
    return data.records(path, BATCH_ROWS, features_of(path), shuffle=shuffle, threads=pool)


def peer(path, work, threads):
    """In parallel if there are threads for it, as the guide of tf.data says: AUTOTUNE, and prefetch at the end."""
    features = features_of(path)
    dataset = tf.data.TFRecordDataset(path)
    if work == "shuffle":
        dataset = dataset.shuffle(SHUFFLE_ROWS)
    parallel = tf.data.AUTOTUNE if threads > 1 else None
    dataset = dataset.batch(BATCH_ROWS).map(lambda batch: tf.io.parse_example(batch, features), parallel)
    return dataset.prefetch(tf.data.AUTOTUNE) if threads > 1 else dataset


def make_step(dataset):
    @tf.function(input_signature=[dataset.element_spec])
    def step(batch):
        sizes = [tf.size(tensor) for tensor in batch.values()]
        return sizes[0] // (sizes[0] // tf.shape(next(iter(batch.values())))[0])

    return step


def make_pass(dataset, work):
    step = make_step(dataset)

    @tf.function
    def in_graph(dataset):
        rows = 0
        for batch in dataset:
            rows += step(batch)
        return rows

    def in_python(dataset):
        return sum(int(step(batch)) for batch in dataset)

    return in_python if work == "python" else in_graph


def main():
    who, work, path = sys.argv[1], sys.argv[2], sys.argv[4]
    threads, epochs, passes = int(sys.argv[3]), int(sys.argv[5]), int(sys.argv[6])
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    dataset = (ours if who == "ours" else peer)(path, work, threads).repeat(epochs).with_options(options)
    once, seconds, work_seconds = make_pass(dataset, work), [], []
    once(dataset.take(WARM_UP_BATCHES))
    for _ in range(passes):
        start, work_start = time.perf_counter(), time.process_time()
        count = int(once(dataset))
        seconds.append(time.perf_counter() - start)
        work_seconds.append(time.process_time() - work_start)
    print(json.dumps({"records": count, "seconds": seconds, "processor_seconds": work_seconds}), flush=True)


if __name__ == "__main__":
    main()
