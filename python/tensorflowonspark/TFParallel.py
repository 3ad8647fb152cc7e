"""Independent instances of a TensorFlow program on the executors of a Spark cluster, for inference or a search."""

import os
from collections.abc import Callable
from typing import Any

from . import _check, _returned, _spark
from .TFCluster import start


def run(
    sc: Any, map_fn: Callable[[Any, Any], Any], tf_args: Any, num_executors: int, use_barrier: bool = True
) -> list[_returned.NodeResult]:
    """Runs map_fn(tf_args, ctx) in num_executors processes at the same time, and waits for them.

    sc            a SparkContext, or a SparkSession
    use_barrier   True: none starts before all have a task slot, and too few slots are an error at once; False: each
                  starts when it gets a slot, so that there may be more instances than slots

    Returns what each instance has left behind, as TFCluster.results does. Raises TFClusterError if an instance fails;
    the others are stopped.
    """
    sc = _spark.context_of(sc)
    _check.function("map_fn", map_fn)
    num_executors = _check.count("num_executors", num_executors)
    meta = {
        "num_executors": num_executors,
        "default_fs": _spark.default_fs(sc),
        "working_dir": os.getcwd(),
        "parallel": True,
    }
    options = {"nodes": num_executors, "parallel": True, "no_barrier": not use_barrier, "spark_feeds": False}
    session = start(sc, map_fn, tf_args, meta, options)
    session.finish(0, -1)
    return _returned.collect(session)
