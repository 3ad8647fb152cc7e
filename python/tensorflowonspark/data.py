"""TFRecord files as a tf.data.Dataset, read and parsed in C.

    dataset = data.records("train/*.tfrecord", 256, {
        "image": tf.io.FixedLenFeature([28, 28], tf.float32),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }, label="label", shuffle=10_000, shard=(worker, worker_count))
    model.fit(dataset, epochs=3)

Batches are equal to those of tf.io.parse_example on the same records.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from . import _features, _ops
from . import records as _records

__all__ = ["features", "records"]

Path = str | os.PathLike[str]

_SHUFFLE_ROWS = 16_384


def records(
    files: Any,
    batch_size: int,
    features: "Mapping[str, Any] | Sequence[str] | None" = None,
    *,
    label: str | Sequence[str] | None = None,
    shuffle: bool | int = False,
    seed: int | None = None,
    reshuffle_each_iteration: bool = True,
    shard: tuple[int, int] | None = None,
    drop_remainder: bool = False,
    threads: int = -1,
    on_corrupt: str = "error",
    codec: str = "auto",
) -> Any:
    """A tf.data.Dataset of batches {name: tensor}.

    files          files, folders and globs, or a tensor of them; looked for whenever an iteration begins
    features       {name: feature}, as tf.io.parse_example takes them; names: these, as they are found to be; None: all
                   that are found, as `features` of this module shows them
    label          the batches are pairs (features, label); with several names, the second is a dict, too
    shuffle        rows come in random order, each drawn from so many that are held in memory (True: 16 384); files are
                   read in random order, too
    seed           of the order; tf.random.set_seed counts, too, as it does for Dataset.shuffle
    reshuffle_each_iteration   False: every iteration has the same order
    shard          (i, n): only the rows of shard i of n. Every row is in exactly one
    drop_remainder a last batch that is not full is left out
    threads        that read and parse; 0: the thread that asks for a batch; -1: the setting records.threads
    on_corrupt     "error", or "skip": go on at the next record that is whole
    codec          "auto", "none", "gzip" or "zlib"
    """
    import tensorflow as tf

    _check_number("batch_size", batch_size, 1)
    _check_number("threads", threads, -1)
    held = _SHUFFLE_ROWS if shuffle is True else _check_number("shuffle", int(shuffle or 0), 0)
    index, count = _check_shard(shard)
    if not isinstance(features, Mapping):
        features = _infer(tf, files, features, codec, on_corrupt)
    labels = _check_labels(label, features)
    plan = _features.Plan(tf, features)
    ops = _ops.library()
    reading = {
        "schema": plan.schema(),
        "multiples": plan.multiples(),
        "batch_size": batch_size,
        "codec": _check_choice("codec", codec, ("auto", "none", "gzip", "zlib")),
        "on_corrupt": _check_choice("on_corrupt", on_corrupt, ("error", "skip")),
        "threads": threads,
        "shuffle": held,
        "shard": index,
        "shards": count,
    }
    names = files if tf.is_tensor(files) else [os.fspath(name) for name in _records._paths(files)]

    # A reader of its own for every iteration, which ends with it (src/tensorflow/ops_records.c).
    def begin(number):
        return ops.tfos_records_open(files=names, seed=number, **reading)

    def go_on(reader):
        return tf.data.Dataset.from_tensors(reader).repeat()

    def take(reader):
        tensors = ops.tfos_records_next(
            reader=reader,
            filler_values=plan.fillers(),
            batch_size=batch_size,
            drop_remainder=drop_remainder,
            **plan.outputs(),
        )
        plan.set_shapes(tensors, batch_size if drop_remainder else None)
        return _with_labels(plan.make(tensors), label, labels)

    numbers = tf.data.Dataset.range(1)
    if held > 0:
        numbers = tf.data.Dataset.random(seed, rerandomize_each_iteration=reshuffle_each_iteration).take(1)
    plain = tf.autograph.experimental.do_not_convert
    dataset = numbers.map(plain(begin)).flat_map(plain(go_on))
    # The op says OUT_OF_RANGE when there are no more. This is the one map for which that is the end of the data.
    dataset = tf.compat.v1.data.Dataset.map(dataset, plain(take))
    options = tf.data.Options()
    if count > 0:  # else TensorFlow may divide the batches among its workers
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.with_options(dataset, options)


def features(files: Any, names: Sequence[str] | None = None, *, codec: str = "auto", on_corrupt: str = "error") -> Any:
    """The features that the records have, or those of them that are named, as tf.io.parse_example takes them.

    Every record is looked at. One value in each is FixedLenFeature([], …), n values in each FixedLenFeature([n], …),
    anything else a RaggedFeature.
    """
    import tensorflow as tf

    return _infer(tf, files, names, codec, on_corrupt)


# ---- arguments ----


def _infer(tf: Any, files: Any, names: Sequence[str] | None, codec: str, on_corrupt: str) -> dict[str, Any]:
    if tf.is_tensor(files):
        raise ValueError("files is a tensor, so nobody knows what is in them; say it: features={name: tf.io.…}")
    if names is not None:
        names = _records._strings(names, "features")
    return _features.inferred(tf, _records.schema(files, codec=codec, on_corrupt=on_corrupt), names)


def _check_number(name: str, value: Any, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is a whole number from {least} on, found {value!r}")
    return value


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} is one of {', '.join(choices)}, found {value!r}")
    return value


def _check_shard(shard: Any) -> tuple[int, int]:
    """(0, 0) where there are no shards."""
    if shard is None:
        return 0, 0
    index, count = shard
    _check_number("the number of shards", count, 1)
    if _check_number("the shard", index, 0) >= count:
        raise ValueError(f"shard is (i, n) with i below n, found {shard!r}")
    return index, count


def _check_labels(label: Any, features: Mapping[str, Any]) -> list[str]:
    labels = [] if label is None else [label] if isinstance(label, str) else _records._strings(label, "label")
    missing = [name for name in labels if name not in features]
    if missing:
        raise ValueError(f"the label {missing[0]!r} is no feature; the features are: {', '.join(features)}")
    return labels


def _with_labels(made: dict[str, Any], label: Any, labels: list[str]) -> Any:
    if not labels:
        return made
    inputs = {name: tensor for name, tensor in made.items() if name not in labels}
    return inputs, made[label] if isinstance(label, str) else {name: made[name] for name in labels}
