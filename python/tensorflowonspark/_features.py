"""What tf.io.parse_example is told about features, as the ops of records (src/tensorflow/ops.h) want to be told.

A *column* is what is read of each record: one for each key. An *output* is what the op makes of a column, one to three
tensors; a *feature* is made of one or more outputs, which costs nothing but for partitions of a RaggedFeature.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import records

# In the order of the numbers that the op knows (src/tensorflow/ops_parsed.h).
_DENSE, _SPARSE, _RAGGED, _PADDED = range(4)

_COLUMN_TYPES = {"int64": "int64", "float32": "float", "string": "binary"}
_MOST_DIMENSIONS = 14  # of a row: two less than the op's tensors have


class _Column(NamedTuple):
    """A column of the schema: `length` is () for one value, (n,) for n values, (None,) for any number of them."""

    type: str
    length: tuple[int | None, ...]
    nullable: bool
    multiple: int = 0


class _Output(NamedTuple):
    column: str
    form: int
    types: tuple[Any, ...]  # of its tensors
    shape: tuple[int, ...] = ()  # of a row, or of a step
    filler: Any = None  # a tensor that stands for missing values


class Plan:
    """Columns, outputs, and how features are made of them."""

    def __init__(self, tf: Any, features: Mapping[str, Any]):
        self._tf = tf
        self._columns: dict[str, _Column] = {}
        self._outputs: list[_Output] = []
        self._made: dict[str, Callable[[list[Any]], Any]] = {}
        if not features:
            raise ValueError("features names no feature; leave it out to have all")
        for name, feature in features.items():
            if not isinstance(name, str):
                raise TypeError(f"the name of a feature is a str, found {type(name).__name__}: {name!r}")
            self._made[name] = self._add(name, feature)

    # ---- what the ops are told ----

    def schema(self) -> str:
        fields = [
            {"name": name, "type": column.type, "shape": list(column.length), "nullable": column.nullable}
            for name, column in self._columns.items()
        ]
        return json.dumps({"record": "example", "fields": fields})

    def multiples(self) -> list[int]:
        return [column.multiple for column in self._columns.values()]

    def fillers(self) -> list[Any]:
        return [output.filler for output in self._outputs if output.filler is not None]

    def outputs(self) -> dict[str, Any]:
        """The attributes of TfosRecordsNext that describe its outputs."""
        places = {name: at for at, name in enumerate(self._columns)}
        filled = iter(range(len(self._outputs)))
        return {
            "columns": [places[output.column] for output in self._outputs],
            "forms": [output.form for output in self._outputs],
            "fillers": [-1 if output.filler is None else next(filled) for output in self._outputs],
            "ranks": [len(output.shape) for output in self._outputs],
            "dimensions": [length for output in self._outputs for length in output.shape],
            "T": [kind for output in self._outputs for kind in output.types],
        }

    # ---- what is made of the tensors ----

    def set_shapes(self, tensors: Sequence[Any], rows: int | None) -> None:
        """Says what a function of shapes in C cannot know. `rows` is None where batches may be smaller."""
        for output, own in self._by_output(tensors):
            if output.form == _SPARSE:
                own[0].set_shape([None, 2])
                own[1].set_shape([None])
                own[2].set_shape([2])
            elif output.form == _RAGGED:
                own[0].set_shape([None])
                own[1].set_shape([None if rows is None else rows + 1])
            else:
                own[0].set_shape([rows, *([None] if output.form == _PADDED else []), *output.shape])

    def make(self, tensors: Sequence[Any]) -> dict[str, Any]:
        """{name: tensor} of all features, from the tensors of a batch."""
        parts = [own for _, own in self._by_output(tensors)]
        return {name: made(parts) for name, made in self._made.items()}

    def _by_output(self, tensors: Sequence[Any]) -> Any:
        at = 0
        for output in self._outputs:
            yield output, tensors[at : at + len(output.types)]
            at += len(output.types)

    # ---- features ----

    def _add(self, name: str, feature: Any) -> Callable[[list[Any]], Any]:
        io = self._tf.io
        if isinstance(feature, io.FixedLenSequenceFeature):  # before the next: it has more to say
            return self._add_padded(name, feature)
        if isinstance(feature, io.FixedLenFeature):
            return self._add_dense(name, feature)
        if isinstance(feature, io.VarLenFeature):
            return self._add_sparse(name, feature)
        if isinstance(feature, io.RaggedFeature):
            return self._add_ragged(name, feature)
        if isinstance(feature, io.SparseFeature):
            raise NotImplementedError(
                f"feature {name!r}: a SparseFeature is not supported; ask for {feature.value_key!r} and its indices as "
                "VarLenFeature, and put them together in map"
            )
        raise TypeError(
            f"feature {name!r}: expected a FixedLenFeature, FixedLenSequenceFeature, VarLenFeature or RaggedFeature "
            f"of tf.io, found {feature!r}"
        )

    def _add_dense(self, name: str, feature: Any) -> Callable[[list[Any]], Any]:
        dtype, shape = self._dtype(name, feature.dtype), self._shape(name, feature.shape)
        filler = None
        if feature.default_value is not None:
            filler = self._tf.reshape(self._tf.convert_to_tensor(feature.default_value, dtype), shape)
        length = (math.prod(shape),) if shape else ()
        self._add_column(name, _Column(_COLUMN_TYPES[dtype.name], length, filler is not None))
        at = self._add_output(_Output(name, _DENSE, (dtype,), shape, filler))
        return lambda parts: parts[at][0]

    def _add_padded(self, name: str, feature: Any) -> Callable[[list[Any]], Any]:
        dtype, shape = self._dtype(name, feature.dtype), self._shape(name, feature.shape)
        if not feature.allow_missing:
            raise ValueError(f"feature {name!r}: a FixedLenSequenceFeature of an Example needs allow_missing=True")
        filler = None
        if feature.default_value is not None:
            filler = self._tf.reshape(self._tf.convert_to_tensor(feature.default_value, dtype), [])
        if math.prod(shape) == 0:
            raise NotImplementedError(f"feature {name!r}: expected steps of at least one value, found {list(shape)}")
        self._add_column(name, _Column(_COLUMN_TYPES[dtype.name], (None,), True, math.prod(shape)))
        at = self._add_output(_Output(name, _PADDED, (dtype,), shape, filler))
        return lambda parts: parts[at][0]

    def _add_sparse(self, name: str, feature: Any) -> Callable[[list[Any]], Any]:
        dtype, int64 = self._dtype(name, feature.dtype), self._tf.int64
        self._add_column(name, _Column(_COLUMN_TYPES[dtype.name], (None,), True))
        at = self._add_output(_Output(name, _SPARSE, (int64, dtype, int64)))
        return lambda parts: self._tf.SparseTensor(*parts[at])

    def _add_ragged(self, name: str, feature: Any) -> Callable[[list[Any]], Any]:
        splits, partitions = self._tf.as_dtype(feature.row_splits_dtype), list(reversed(feature.partitions))
        values = self._add_ragged_key(feature.value_key or name, self._dtype(name, feature.dtype), splits)
        keys = [getattr(partition, "key", None) for partition in partitions]
        others = [None if key is None else self._add_ragged_key(key, self._tf.int64, splits) for key in keys]

        def made(parts: list[Any]) -> Any:
            found = self._ragged(parts[values])
            for partition, other in zip(partitions, others):
                borders = None if other is None else self._ragged(parts[other])
                found = _partitioned(self._tf, name, found, partition, borders, feature.validate)
            return found

        return made

    def _add_ragged_key(self, key: str, dtype: Any, splits: Any) -> int:
        self._add_column(key, _Column(_COLUMN_TYPES[dtype.name], (None,), True))
        return self._add_output(_Output(key, _RAGGED, (dtype, splits)))

    def _ragged(self, parts: Sequence[Any]) -> Any:
        return self._tf.RaggedTensor.from_row_splits(*parts, validate=False)

    # ---- columns and outputs ----

    def _add_column(self, key: str, column: _Column) -> None:
        found = self._columns.setdefault(key, column)
        if found != column:
            raise NotImplementedError(f"the feature {key!r} is asked for in two ways that cannot be read at once")

    def _add_output(self, output: _Output) -> int:
        if output.filler is None and output in self._outputs:
            return self._outputs.index(output)
        self._outputs.append(output)
        return len(self._outputs) - 1

    def _dtype(self, name: str, dtype: Any) -> Any:
        found = self._tf.as_dtype(dtype)
        if found.name not in _COLUMN_TYPES:
            raise ValueError(f"feature {name!r}: expected float32, int64 or string, found {found.name}; cast it in map")
        return found

    def _shape(self, name: str, shape: Any) -> tuple[int, ...]:
        found = self._tf.TensorShape(shape)
        if not found.is_fully_defined():
            raise ValueError(
                f"feature {name!r}: expected a shape without unknown dimensions, found {found}; a "
                "FixedLenSequenceFeature, VarLenFeature or RaggedFeature has any number of values"
            )
        if found.rank > _MOST_DIMENSIONS:
            raise NotImplementedError(
                f"feature {name!r}: expected at most {_MOST_DIMENSIONS} dimensions, found {found.rank}"
            )
        return tuple(found.as_list())


def _partitioned(tf: Any, name: str, found: Any, partition: Any, borders: Any, validate: bool) -> Any:
    """One more level of lists inside of each row. `borders` are those of each row, counted from its begin."""
    kinds, ragged = tf.io.RaggedFeature, tf.RaggedTensor
    if isinstance(partition, kinds.UniformRowLength):
        length = tf.cast(partition.length, found.row_splits.dtype)
        if found.ragged_rank > 1:
            inner = ragged.from_uniform_row_length(found.values, length, validate=validate)
        else:
            inner = tf.reshape(found.values, [-1, partition.length, *found.values.shape[1:]])
        return ragged.from_row_splits(inner, found.row_splits // length, validate=validate)
    borders = tf.cast(borders, found.row_splits.dtype)
    if isinstance(partition, kinds.RowLengths):
        return borders.with_values(ragged.from_row_lengths(found.values, borders.values, validate=validate))
    if isinstance(partition, kinds.RowSplits):
        borders = borders[:, 1:]
    elif isinstance(partition, kinds.ValueRowIds):
        raise NotImplementedError(f"feature {name!r}: partitions by ValueRowIds are not supported; use RowLengths")
    moved = borders.values + tf.repeat(found.row_starts(), borders.row_lengths())
    make = ragged.from_row_starts if isinstance(partition, kinds.RowStarts) else ragged.from_row_limits
    return borders.with_values(make(found.values, moved, validate=validate))


def inferred(tf: Any, schema: "records.Schema", names: Sequence[str] | None) -> dict[str, Any]:
    """The features of records of this schema, or those of them that are named."""
    if schema.record != "example":
        raise NotImplementedError(
            f"expected records that are tf.train.Example, found {schema.record}; tensorflowonspark.records reads them"
        )
    fields = {field.name: field for field in schema.fields}
    missing = [name for name in names or () if name not in fields]
    if missing:
        raise ValueError(f"there is no feature {missing[0]!r}; the records have: {', '.join(fields)}")
    return {name: _inferred(tf, fields[name]) for name in names or fields}


def _inferred(tf: Any, field: "records.Field") -> Any:
    dtype = {"int64": tf.int64, "float": tf.float32}.get(field.type, tf.string)
    if field.shape == (None,):
        return tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
    if field.nullable:
        raise ValueError(
            f"feature {field.name!r} is missing from some records; say in features=… what stands for it, such as "
            f"tf.io.FixedLenFeature({list(field.shape)}, tf.{dtype.name}, default_value=…), or name the others"
        )
    return tf.io.FixedLenFeature(field.shape, dtype)
