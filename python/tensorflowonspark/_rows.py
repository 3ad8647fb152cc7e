"""Columns of rows that were fed, as NumPy arrays: no Python object for a number.

A note in the schema says what the values were (tfos/rows.h). Numbers, and lists and arrays of one shape, become an
array over the memory of the batch; text, bytes and pickled values an array of objects; lists of different lengths an
array of arrays. Where values are missing the array is masked, or None stands in its place.
"""

import numpy as np

from . import _arrays, _native


def arrays(batch, columns=None):
    """{column: array} of all columns, or of those that are named."""
    schema = batch.schema()
    fields = _native.row_fields(schema)
    names = [field[0] for field in schema.fields()] if columns is None else columns
    return {name: _array_of(batch, name, fields.get(name)) for name in names}


def _array_of(batch, name, field):
    column = batch.column(name)
    if field is None:
        return _arrays.array_of(column)
    form, leaf, dtype, shape = field
    if leaf == "pickle":
        return _arrays._objects(_native.decode_column(batch, name))
    if dtype is not None and column.layout == "bytes":
        return _raw_of(batch, name, column, form, dtype, shape)
    return _shaped(_arrays.array_of(column), shape)


def _shaped(array, shape):
    """Arrays of more dimensions than one travel as lists of one length."""
    if shape is None:
        return array
    if array.dtype != object:
        return array.reshape((len(array), *shape))
    return _arrays._objects([None if row is None else row.reshape(shape) for row in array])


def _raw_of(batch, name, column, form, dtype, shape):
    """Numbers of types that columns do not have: their bytes stand one after the other."""
    lengths = np.diff(np.asarray(column.offsets))
    if column.mask() is not None or len(lengths) == 0 or (lengths != lengths[0]).any():
        return _arrays._objects(_native.decode_column(batch, name))
    values = np.frombuffer(column.data, dtype=np.dtype(dtype))
    if form == "value":
        return values
    return values.reshape((column.length, *((-1,) if shape is None else shape)) if len(values) else (column.length, 0))
