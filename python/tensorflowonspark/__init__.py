"""TensorFlow on Spark, with a native core.

records   TFRecord files of tf.train.Example and SequenceExample as NumPy and Arrow columns
"""

import atexit as _atexit

from . import _native, records

__version__: str = _native.version
__all__ = ["records", "__version__"]

# Log lines of the library reach logging.getLogger("tensorflowonspark") until the interpreter ends.
_atexit.register(_native.log_stop)
