"""Results of a program as batches: rows of Python objects, or arrays, of which no object is made for each row."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import _native

# Types of NumPy that are types of columns, too: the letter in the note (python/_rows.h), and the type.
_PLAIN = {("b", 1): ("?", "bool"), ("i", 4): ("i", "int32"), ("i", 8): ("l", "int64")}
_PLAIN |= {("f", 4): ("f", "float"), ("f", 8): ("d", "double")}


class Encoder:
    """Makes batches of what batch_results is given."""

    def __init__(self) -> None:
        self._rows = _native.RowEncoder()
        self._known: dict[str, Any] = {}  # schemas by their text: a batch that has the one before it costs less

    def batches(self, results: Any) -> Iterator[Any]:
        if isinstance(results, Mapping):
            yield from self._of_columns(results)
            return
        array = _as_array(results)
        if array is not None and array.ndim > 0 and _is_plain(array):
            yield from self._of_arrays("value", {"value": array})
        else:
            yield from self._of_rows(results if array is None else array)

    def _of_rows(self, rows: Any) -> Iterator[Any]:
        rest, more = iter(rows), True
        while more:
            try:
                more = self._rows.add_many(rest)
                batch = self._rows.take()
            except BaseException:
                self._rows = _native.RowEncoder()  # what was encoded before belongs to the call that fails
                raise
            if batch is not None:
                yield batch

    def _of_columns(self, results: Mapping[str, Any]) -> Iterator[Any]:
        columns = {name: _as_column(name, values) for name, values in results.items()}
        lengths = {name: len(values) for name, values in columns.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise ValueError(f"columns of results differ in length: {found}")
        if all(isinstance(values, np.ndarray) and _is_plain(values) for values in columns.values()):
            yield from self._of_arrays("dict", columns)
        else:
            yield from self._of_rows([dict(zip(columns, row)) for row in zip(*columns.values())])

    def _of_arrays(self, row: str, arrays: dict[str, Any]) -> Iterator[Any]:
        count = len(next(iter(arrays.values()), ()))
        if count == 0:
            return
        note = {"rows": 1, "row": row, "fields": [_noted(name, array) for name, array in arrays.items()]}
        fields = [_field(name, array) for name, array in arrays.items()]
        text = json.dumps({"record": "example", "note": json.dumps(note), "fields": fields})
        if text not in self._known:
            self._known = {text: _native.Schema(text)}
        yield _native.Feed.batch_of(self._known[text], count, [_buffer(array) for array in arrays.values()])


def _as_array(values: Any) -> Any:
    """Arrays of NumPy, and tensors; None for anything else."""
    if isinstance(values, np.ma.MaskedArray):
        return None
    if isinstance(values, np.ndarray):
        return values
    return np.asarray(values) if hasattr(values, "__array__") and hasattr(values, "shape") else None


def _as_column(name: str, values: Any) -> Any:
    array = _as_array(values)
    if array is None and hasattr(values, "tolist"):
        return values.tolist()  # None where an array is masked
    if array is None and hasattr(values, "to_list"):
        return values.to_list()  # a RaggedTensor
    column = values if array is None else array
    if isinstance(column, (str, bytes)) or not hasattr(column, "__len__") or (array is not None and array.ndim == 0):
        raise TypeError(
            f"column {name!r} of the results: expected an array, a tensor or a list with a value for each row, found "
            f"{type(values).__name__}"
        )
    return column


def _is_plain(array: Any) -> bool:
    return (array.dtype.kind, array.dtype.itemsize) in _PLAIN and 0 not in array.shape[1:] and array.dtype.isnative


def _noted(name: str, array: Any) -> dict[str, Any]:
    code, _ = _PLAIN[array.dtype.kind, array.dtype.itemsize]
    field: dict[str, Any] = {"name": name, "is": "array" if array.ndim > 1 else "value", "of": f"numpy {code}"}
    if array.ndim > 2:
        field["shape"] = list(array.shape[1:])
    return field


def _field(name: str, array: Any) -> dict[str, Any]:
    _, kind = _PLAIN[array.dtype.kind, array.dtype.itemsize]
    shape = [math.prod(array.shape[1:])] if array.ndim > 1 else []
    return {"name": name, "type": kind, "shape": shape}


def _buffer(array: Any) -> Any:
    if array.dtype.kind == "b":
        return np.packbits(array, bitorder="little")
    return np.ascontiguousarray(array)
