"""A tf.data.Dataset over a queue of this process, behind DataFeed.dataset.

The source is an op in C (src/tensorflow/ops.h): no Python runs between Spark and the training step. What is here tells
the op which columns to take, and gives its tensors their names and shapes.
"""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _native, _ops, _rows

_REMIND_MS = 10_000

# The type of a column that a tensor of a type is made from.
_COLUMN_TYPES = {"float32": "float", "float64": "double", "int32": "int32", "int64": "int64", "bool": "bool"}
_COLUMN_TYPES |= {"string": "string", "float16": "float", "bfloat16": "float", "uint32": "int64", "uint64": "int64"}
_COLUMN_TYPES |= dict.fromkeys(("int8", "uint8", "int16", "uint16"), "int32")
_TENSOR_TYPES = {"float": "float32", "double": "float64", "binary": "string"}

# Numbers of NumPy that travel as their bytes, and that TensorFlow makes of bytes.
_DECODED = ("int8", "uint8", "int16", "uint16", "int64", "float16", "complex64", "complex128")


class _Column(NamedTuple):
    """A column of the dataset. `shape` is that of a row: at most its first two dimensions are None."""

    name: str
    type: str  # of the column that the op takes
    shape: tuple[int | None, ...]
    dtype: str  # of the tensor
    raw: str = ""  # the values are the bytes of strings: numbers of this type

    @property
    def ragged(self) -> int:
        return sum(length is None for length in self.shape)

    @property
    def fixed(self) -> tuple[int, ...]:
        return tuple(length for length in self.shape if length is not None)

    def field(self) -> dict[str, Any]:
        """The column in the schema of the op."""
        if self.raw:
            return {"name": self.name, "type": self.type}
        inner: list[int | None] = [math.prod(self.fixed)] if self.fixed else [None] if self.ragged else []
        return {"name": self.name, "type": self.type, "shape": inner, "feature_list": self._is_list_of_lists()}

    def _is_list_of_lists(self) -> bool:
        return self.ragged + bool(self.fixed) > 1


def make_dataset(
    queue_name: str,
    batch_size: int,
    columns: Sequence[str] | Mapping[str, Any] | None = None,
    drop_remainder: bool = False,
    epochs: str | int = "all",
    validation: bool = False,
) -> Any:
    """The dataset; DataFeed.dataset says what it is."""
    import tensorflow as tf

    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"batch_size is a whole number from 1 on, found {batch_size!r}")
    if epochs not in ("all", "split") and (not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 0):
        raise ValueError(f"epochs is 'all', 'split' or the number of an epoch, from 0 on, found {epochs!r}")
    queue = f"{queue_name}.validation" if validation else queue_name
    asked = _asked(columns)
    if all(shape is not None and dtype is not None for shape, dtype in asked.values()) and asked:
        wanted = [_declared(name, shape, dtype) for name, (shape, dtype) in asked.items()]
    else:
        schema = _wait_for_schema(queue)
        if schema is None:
            return _nothing(tf, asked)
        wanted = _joined(schema, asked)
    return _built(tf, queue, wanted, batch_size, bool(drop_remainder), epochs)


def next_arrays(feed: Any, batch_size: int, columns: Sequence[str] | None = None, **options: Any) -> dict[str, Any]:
    """The next rows of a _native.Feed as {column: NumPy array}; {} at an end. Options are those of Feed.next."""
    batch = feed.next(batch_size, options.get("split_epochs", False), options.get("timeout_ms", -1))
    return {} if batch is None else _rows.arrays(batch, columns)


# ---- which columns ----


def _asked(columns: Any) -> dict[str, tuple[tuple[int | None, ...] | None, str | None]]:
    """{name: (shape or None, dtype or None)}; empty for all columns."""
    if columns is None:
        return {}
    if isinstance(columns, str):
        raise TypeError(f"columns is a list of names or a dict, found the text {columns!r}; write [{columns!r}]")
    if not columns:
        raise ValueError("columns names no column; leave it out to have all")
    if isinstance(columns, Mapping):
        return {_name(name): _spec(name, spec) for name, spec in columns.items()}
    return {_name(name): (None, None) for name in columns}


def _name(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a column is a str, found {type(name).__name__}: {name!r}")
    return name


def _spec(name: str, spec: Any) -> tuple[tuple[int | None, ...] | None, str | None]:
    """What is said of a column: tf.TensorSpec of a row, a type, a shape, or nothing."""
    import tensorflow as tf

    if spec is None:
        return None, None
    if isinstance(spec, tf.TensorSpec):
        return _shape(name, spec.shape), _dtype(name, spec.dtype)
    if isinstance(spec, (tf.TensorShape, tuple, list)):
        return _shape(name, spec), None
    if isinstance(spec, tf.TypeSpec):
        raise TypeError(f"column {name!r}: describe one row by tf.TensorSpec, with None for any length, found {spec}")
    return None, _dtype(name, spec)


def _shape(name: str, shape: Any) -> tuple[int | None, ...]:
    import tensorflow as tf

    found = tf.TensorShape(shape)
    if found.rank is None:
        raise ValueError(f"column {name!r}: the shape of a row must be known, at least the number of its dimensions")
    lengths = tuple(found.as_list())
    if None in lengths[2:] or (len(lengths) > 1 and lengths[0] is not None and lengths[1] is None) or 0 in lengths:
        raise ValueError(
            f"column {name!r}: expected the shape of a row such as [], [3], [28, 28], [None], [None, 3] or "
            f"[None, None], found {list(lengths)}"
        )
    return lengths


def _dtype(name: str, dtype: Any) -> str:
    import tensorflow as tf

    try:
        found = tf.as_dtype(dtype).name
    except TypeError:
        raise TypeError(f"column {name!r}: expected a tf.TensorSpec, a dtype or a shape, found {dtype!r}") from None
    if found not in _COLUMN_TYPES:
        raise ValueError(f"column {name!r}: expected one of {', '.join(sorted(_COLUMN_TYPES))}, found {found}")
    return found


def _declared(name: str, shape: tuple[int | None, ...], dtype: str) -> _Column:
    return _Column(name, _COLUMN_TYPES[dtype], shape, dtype)


def _joined(schema: Any, asked: dict[str, Any]) -> list[_Column]:
    """What is asked for, completed by what is fed."""
    fields = {field[0]: field for field in schema.fields()}
    notes = _native.row_fields(schema)
    missing = [name for name in asked if name not in fields]
    if missing:
        raise ValueError(f"column {missing[0]!r} is not fed; the columns that are: {', '.join(fields)}")
    everything = asked or dict.fromkeys(fields, (None, None))
    return [_join(fields[name], notes.get(name), *spec) for name, spec in everything.items()]


def _join(field: tuple[Any, ...], note: tuple[Any, ...] | None, shape: Any, dtype: str | None) -> _Column:
    name, kind, fed, _, feature_list = field
    form, leaf, found, noted = note or (None, None, None, None)
    if leaf == "pickle":
        raise ValueError(
            f"column {name!r} holds pickled Python objects, which no tensor can hold; feed numbers, text or lists of "
            "one kind, or name the other columns in columns=…"
        )
    if found is not None and kind == "binary":
        return _join_raw(name, form, found, noted, shape, dtype)
    if noted and math.prod(noted) == math.prod(fed or [0]):
        fed = noted
    if feature_list:
        fed = (None, *fed)
    wanted = dtype or _TENSOR_TYPES.get(kind, kind)
    return _Column(name, _COLUMN_TYPES[wanted], fed if shape is None else shape, wanted)


def _join_raw(name: str, form: str, found: str, noted: Any, shape: Any, dtype: str | None) -> _Column:
    lengths = () if form == "value" else noted or shape
    if found not in _DECODED or lengths is None or None in lengths:
        raise ValueError(
            f"column {name!r} holds arrays of NumPy's {found}, whose lengths are not known; say their shape in "
            "columns=…, or feed them as float32 or int64"
        )
    if dtype is not None and (found.startswith("complex") or found == "float16" and "float" not in dtype):
        raise ValueError(
            f"column {name!r}: expected {dtype}, found {found}, which is not converted without loss; ask for {found} "
            "and convert it in the program"
        )
    return _Column(name, "binary", tuple(shape or lengths), dtype or found, raw=found)


def _wait_for_schema(queue: str) -> Any:
    feed = _native.Feed(queue)
    waited = 0
    while True:
        try:
            return feed.schema(_REMIND_MS)
        except _native.CancelledError:
            waited += _REMIND_MS // 1000
            print(
                f"tfos: waiting for the first rows of the queue {queue!r} for {waited} s now: a dataset has their "
                "columns. Types and shapes of all of them in columns=… make it without waiting.",
                file=sys.stderr,
                flush=True,
            )


# ---- the dataset ----


def _nothing(tf: Any, asked: dict[str, Any]) -> Any:
    """A feed that has ended before it had rows: no element, and nobody knows the columns that were not named."""
    specs = {name: tf.zeros([0], dtype or "float32") for name, (_, dtype) in asked.items()}
    specs = specs or {"value": tf.zeros([0])}
    return tf.data.Dataset.range(0).map(tf.autograph.experimental.do_not_convert(lambda _: specs))


def _built(
    tf: Any, queue: str, columns: list[_Column], batch_size: int, drop_remainder: bool, epochs: str | int
) -> Any:
    ops = _ops.library()
    schema = json.dumps({"record": "sequence_example", "fields": [column.field() for column in columns]})
    types = [kind for column in columns for kind in _component_types(tf, column)]
    rows = batch_size if drop_remainder else None

    # Functions that only hand on one of their arguments are not run by TensorFlow: all work is in the first of them.
    # Their elements may be empty where a full batch is declared; those do not pass the filter.
    def take(_):
        taken = ops.tfos_feed_next(
            queue=queue,
            schema=schema,
            batch_size=batch_size,
            drop_remainder=drop_remainder,
            split_epochs=epochs != "all",
            epoch=epochs if isinstance(epochs, int) else -1,
            T=types,
        )
        components = iter(taken.components)
        return taken.goes_on, taken.has_rows, {c.name: _tensor(tf, c, rows, components) for c in columns}

    def goes_on(flag, *_):
        return flag

    def has_rows(_, flag, __):
        return flag

    def only_rows(_, __, row):
        return row

    plain = tf.autograph.experimental.do_not_convert
    dataset = tf.data.Dataset.counter().map(plain(take)).take_while(plain(goes_on))
    dataset = dataset.filter(plain(has_rows)).map(plain(only_rows))
    options = tf.data.Options()
    # Each process reads rows that no other one has.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    # Rows that are read ahead are lost with their iterator: nobody does so unless the program says it.
    options.experimental_optimization.map_parallelization = False
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


def _component_types(tf: Any, column: _Column) -> list[Any]:
    kind = tf.string if column.raw else tf.as_dtype(_TENSOR_TYPES.get(column.type, column.type))
    return [kind] + [tf.int64] * column.ragged


def _fits_always(tf: Any, found: Any, wanted: Any) -> bool:
    """Whether every value of the one type is one of the other. NumPy says so of large integers and doubles, too."""
    if wanted == tf.bfloat16 or (found.is_integer and found.size == 8 and not wanted.is_integer):
        return False
    return np.can_cast(found.as_numpy_dtype, wanted.as_numpy_dtype)


def _cast(tf: Any, column: _Column, values: Any) -> Any:
    """What the op itself does for the types that it knows: whole numbers stay what they are, real ones are rounded."""
    found, wanted = values.dtype, tf.as_dtype(column.dtype)
    cast = tf.cast(values, wanted)
    if _fits_always(tf, found, wanted):
        return cast
    if found.is_integer:
        # Back again, it may be the same by going round twice.
        fits = tf.logical_and(tf.cast(cast, found) == values, tf.equal(cast >= 0, values >= 0))
        if wanted.is_floating:
            fits = tf.logical_and(fits, tf.math.is_finite(cast))
    else:
        fits = tf.logical_or(tf.math.is_finite(cast), tf.logical_not(tf.math.is_finite(values)))
    advice = f"column {column.name}: a value does not fit {wanted.name}; ask for {found.name}"
    with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(fits), [advice])]):
        return tf.identity(cast)


def _tensor(tf: Any, column: _Column, rows: int | None, components: Any) -> Any:
    """The tensor of a column from its components: values, then row splits from the outside in."""
    values = next(components)
    splits = [next(components) for _ in range(column.ragged)]
    if column.raw:
        values = tf.io.decode_raw(values, column.raw)
    if column.ragged or len(column.fixed) != 1 or column.raw:
        values = tf.reshape(values, [-1, *column.fixed])
    values.set_shape([None if splits else rows, *column.fixed])
    if values.dtype != column.dtype:
        values = _cast(tf, column, values)
    for at in reversed(splits):
        values = tf.RaggedTensor.from_row_splits(values, at, validate=False)
    if splits and rows is not None:
        splits[0].set_shape([rows + 1])
    return values
