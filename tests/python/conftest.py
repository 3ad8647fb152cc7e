"""What several test files share: the folder of the golden vectors, TFRecord framing, rows in comparable form."""

import base64
import importlib.util
import math
import os
import signal
import struct
import sys

import processes
import pytest

VECTORS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vectors")
sys.path.insert(0, VECTORS)
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

# A shell that runs tests in the background has them ignore Ctrl-C, and all that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The environments of the matrix have TensorFlow, Spark or both.
ON_SPARK = ["test_cluster*.py", "test_feed*.py", "test_pipeline*.py", "test_table*.py"]
collect_ignore_glob = [] if importlib.util.find_spec("pyspark") else ON_SPARK


# Tests marked "long" are for make test-all: "only" them, "all" tests, or by default those that are not.
LONG = os.environ.get("TFOS_TEST_LONG", "without")
LONG_S = 1800


def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.timeout(LONG_S))
    if LONG == "all":
        return
    chosen = [item for item in items if (item.get_closest_marker("long") is not None) == (LONG == "only")]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    result = yield
    if call.excinfo is not None and "Timeout (>" in str(call.excinfo.value):
        result.sections.append(("processes that were there when the time was over", processes.report()))
    return result


def _crc_table():
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_TABLE = _crc_table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def header(length):
    """A header that says `length`, with the checksum that belongs to it."""
    packed = struct.pack("<Q", length % 2**64)
    return packed + struct.pack("<I", masked_crc(packed))


def framed(payload):
    return header(len(payload)) + payload + struct.pack("<I", masked_crc(payload))


def columns_to_rows(columns):
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def rows_of(reader):
    """Every row as a dict, in the form of the golden vectors: bytes are in base64."""
    return [row for batch in reader for row in columns_to_rows(plain(batch.to_pydict()))]


def plain(value):
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def same(found, expected):
    """Equality, down to the sign of zero; a NaN equals a NaN."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in found)
    if isinstance(found, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(found, float):
        return math.isnan(found) and math.isnan(expected) or struct.pack("<d", found) == struct.pack("<d", expected)
    return found == expected


@pytest.fixture(scope="session")
def double_op(tmp_path_factory):
    """A library with an op, and the op, which a process can load only once. See ops.py."""
    import ops
    import tensorflow as tf

    library = ops.build(tmp_path_factory.mktemp("ops"))
    return library, tf.load_op_library(library).tfos_test_double


@pytest.fixture(scope="session")
def doubling(tmp_path_factory, double_op):
    """A model that is none without the library of its op: x, a whole number, → y. Its folder, and the library."""
    import tensorflow as tf

    folder = str(tmp_path_factory.mktemp("models") / "doubling")
    library, double = double_op

    @tf.function(input_signature=[tf.TensorSpec([None], tf.int32, "x")])
    def predict(x):
        return {"y": tf.ensure_shape(double(x), [None])}

    tf.saved_model.save(tf.Module(), folder, signatures=predict)
    return folder, library


@pytest.fixture(scope="session")
def trainables(tmp_path_factory):
    """A folder of models to be trained, and of rows for them."""
    import trainables

    return trainables.write(tmp_path_factory.mktemp("trainables"))


@pytest.fixture
def small_file(tmp_path):
    """Three records of one int64, and the offsets at which they begin."""
    from tensorflowonspark import records

    path = tmp_path / "small.tfrecord"
    records.write(path, {"x": [1, 2, 3]})
    size = os.path.getsize(path) // 3
    return path, [0, size, 2 * size, 3 * size]
