"""Columns of a batch as NumPy arrays.

A column is a chain of levels: lists, and at the end the values. Each level becomes an array over the memory of the
batch, and a list level slices the array of the level below it.
"""

import numpy as np


def mask_of(column):
    """True where a row is missing; None if none is."""
    mask = column.mask()
    return None if mask is None else np.frombuffer(mask, dtype=np.bool_)


def array_of(column):
    """All rows of a level as one array. Numbers are not copied."""
    if column.layout == "values":
        return _masked(_values_of(column), mask_of(column))
    if column.layout == "bytes":
        return _objects(column.tolist())
    if column.layout == "fixed_list":
        return _fixed_of(column)
    return _ragged_of(column)


def _values_of(column):
    return np.frombuffer(column.data, dtype=np.bool_) if column.type == "bool" else np.asarray(column.data)


def _masked(values, mask):
    return values if mask is None else np.ma.MaskedArray(values, mask=mask, copy=False)


def _objects(items):
    return np.fromiter(items, dtype=object, count=len(items))


def _fixed_of(column):
    """Two dimensions. A missing row is masked, or None in every place where the values are objects."""
    array = array_of(column.child).reshape(column.length, column.list_length)
    mask = mask_of(column)
    if mask is None:
        return array
    if array.dtype == object:
        array[mask] = None
        return array
    return _masked(array, np.broadcast_to(mask[:, np.newaxis], array.shape))


def _ragged_of(column):
    """One array for each row, a view of the values; None where the row is missing."""
    below = array_of(column.child)
    ends = np.asarray(column.offsets).tolist()
    rows = [below[start:end] for start, end in zip(ends, ends[1:])]
    mask = mask_of(column)
    if mask is not None:
        for row in np.flatnonzero(mask):
            rows[row] = None
    return _objects(rows)
