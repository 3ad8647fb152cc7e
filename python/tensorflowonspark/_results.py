"""Results of a program as batches: rows of Python objects, or arrays, of which no object is made for each row."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from . import _native

# Types of NumPy that are types of columns, too, by kind and size: their memory is that of a column. (tfos/rows.h)
_PLAIN = {("b", 1): "?", ("i", 4): "i", ("i", 8): "l", ("f", 4): "f", ("f", 8): "d"}


class Encoder:
    """Makes batches of what batch_results is given."""

    def __init__(self) -> None:
        self._rows = _native.RowEncoder()
        self._known: dict[Any, Any] = {}  # the schema before: a batch that has the same one costs less

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
        fields = [(name, _PLAIN[_type_of(array)], array.shape[1:]) for name, array in arrays.items()]
        known = (row, *fields)
        if known not in self._known:
            self._known = {known: _native.array_schema(row, fields)}
        yield _native.Feed.batch_of(self._known[known], count, [_buffer(array) for array in arrays.values()])


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


def _type_of(array: Any) -> tuple[str, int]:
    return array.dtype.kind, array.dtype.itemsize


def _is_plain(array: Any) -> bool:
    return _type_of(array) in _PLAIN and 0 not in array.shape[1:] and array.dtype.isnative


def _buffer(array: Any) -> Any:
    if array.dtype.kind == "b":
        return np.packbits(array, bitorder="little")
    return np.ascontiguousarray(array)
