"""TensorFlow on Spark, with a native core.

TFCluster    starts a TensorFlow cluster on the executors of a Spark cluster
TFParallel   runs independent instances of a TensorFlow program on them
TFNode       for programs on the nodes: paths, servers, feeds
pipeline     training and models as stages of Spark ML
keras        synchronous training of a Keras model on all workers
collective   what it is made of: all-reduce and its relatives
dfutil       DataFrames as TFRecord files
records      TFRecord files of tf.train.Example and SequenceExample as NumPy and Arrow columns
util, gpu_info, compat   small helpers of programs

MirroredStrategyRunner   trains with a plain training function on several Spark tasks
attach       makes format("tfrecord") known to a Spark session
"""

import atexit as _atexit
import importlib as _importlib
from typing import Any as _Any

from . import _native

__version__: str = _native.version
__all__ = ["TFCluster", "TFNode", "TFParallel", "TFSparkNode", "collective", "compat", "dfutil", "gpu_info", "keras"]
__all__ += ["pipeline", "records", "util", "MirroredStrategyRunner", "attach", "__version__"]

# Log lines of the library reach logging.getLogger("tensorflowonspark") until the interpreter ends.
_atexit.register(_native.log_stop)


def attach(spark: _Any) -> _Any:
    """Makes the data source `tfrecord` known to a Spark session (or to that of a SparkContext), and returns it: the jar
    of this package goes to its driver and its executors. Nothing is to be done where the application has it already,
    by --jars or because a cluster was started."""
    from . import _spark

    _spark.attach(spark)
    return spark


def __getattr__(name: str) -> object:
    """Modules are imported when they are first used: a node starts without NumPy and PySpark."""
    if name == "MirroredStrategyRunner":
        return _importlib.import_module("._runner", __name__).MirroredStrategyRunner
    if name in __all__:
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
