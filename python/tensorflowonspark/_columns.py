"""Python data as Arrow columns, for writing.

A column is a chain of levels, each a tuple that the extension turns into an Arrow array without copying the buffers:

    (name, Arrow format, feature_list, length, null_count, buffers, the level below or None)
"""

import numpy as np

# The kind of value that a tf.train.Feature holds, by the type of a field and by the format of a level.
_KINDS = {"int32": "int", "int64": "int", "bool": "int", "float": "float", "double": "float"}
_KINDS |= dict.fromkeys("bcCsSiIlL", "int") | dict.fromkeys("efg", "float")
_DTYPES = {"float": np.float32, "double": np.float64}
_NUMBER_FORMATS = {("i", 1): "c", ("i", 2): "s", ("i", 4): "i", ("i", 8): "l", ("f", 2): "e", ("f", 4): "f"}
_NUMBER_FORMATS |= {("u", 1): "C", ("u", 2): "S", ("u", 4): "I", ("u", 8): "L", ("f", 8): "g"}


def columns(data, schema=None):
    """The rows and levels of a dict of columns, in the order of the schema if there is one."""
    fields = {field.name: field for field in schema.fields} if schema is not None else dict.fromkeys(data)
    unknown = [name for name in data if name not in fields]
    missing = [name for name in fields if name not in data]
    if unknown or missing:
        problem = f"column {unknown[0]!r} is not in the schema" if unknown else f"column {missing[0]!r} is missing"
        raise ValueError(f"{problem}; the columns of the schema are {', '.join(fields)}")
    levels = [_column(name, data[name], field) for name, field in fields.items()]
    lengths = {level[0]: level[3] for level in levels}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"columns differ in length: {', '.join(f'{k} has {v}' for k, v in lengths.items())}")
    return next(iter(lengths.values()), 0), levels


def _column(name, data, field):
    if not isinstance(name, str):
        raise TypeError(f"the name of a column is a str, found {type(name).__name__}: {name!r}")
    try:
        level = _level(data, field)
        if field is not None:
            _check(level, field)
    except (TypeError, ValueError, OverflowError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"column {name!r}: {error}") from error
    feature_list = field is not None and field.feature_list and level[6] is not None
    return (name, level[1], feature_list, *level[3:])


def _level(data, field):
    if isinstance(data, (str, bytes, bytearray, memoryview, dict)) or not hasattr(data, "__len__"):
        raise TypeError(f"expected a list or an array with a value for each row, found {type(data).__name__}")
    if isinstance(data, (list, tuple)):
        return _from_items(list(data), field)
    return _from_array(np.ma.asarray(data) if isinstance(data, np.ma.MaskedArray) else np.asarray(data), field)


def _made(format, length, mask, buffers, below=None):
    """A level; `mask` is True where a row is missing."""
    null_count = 0 if mask is None else int(np.count_nonzero(mask))
    validity = np.packbits(~mask, bitorder="little") if null_count else None
    return ("", format, False, length, null_count, (validity, *buffers), below)


# ---- arrays ----


def _from_array(array, field):
    if array.ndim == 0:
        raise TypeError("expected an array with a value for each row, found one of no dimension")
    if array.dtype.kind in "OUS":
        return _from_items(array.tolist(), field)
    mask = np.ma.getmaskarray(array) if np.ma.is_masked(array) else None
    values = np.ma.getdata(array)
    if mask is not None and array.ndim > 1:
        flat = mask.reshape(len(array), -1)
        mask = flat.all(axis=1)
        in_part = np.flatnonzero(flat.any(axis=1) != mask)
        if in_part.size > 0:
            raise ValueError(f"row {in_part[0]} is masked in part: a list has no nulls")
    return _from_values(values, field, mask)


def _from_values(values, field, mask=None):
    """One dimension is values, each further one a list of fixed length around them."""
    if values.ndim > 1:
        below = _from_values(values.reshape(-1, *values.shape[2:]), field)
        return _made(f"+w:{values.shape[1]}", len(values), mask, (), below)
    if field is not None and field.type in _DTYPES and values.dtype.kind in "iu":
        values = values.astype(_DTYPES[field.type])
    if values.dtype.kind == "b":
        return _made("b", len(values), mask, (np.packbits(values, bitorder="little"),))
    return _made(_number_format(values.dtype), len(values), mask, (_contiguous(values),))


def _number_format(dtype):
    format = _NUMBER_FORMATS.get((dtype.kind, dtype.itemsize))
    if format is None:
        advice = "int64" if dtype.kind in "mM" else "float32"
        raise TypeError(f"the dtype {dtype} has no place in a record: convert it, for example with .astype({advice!r})")
    return format


def _contiguous(values):
    return np.require(values, dtype=values.dtype.newbyteorder("="), requirements=["C", "A"])


# ---- lists ----


def _from_items(items, field):
    mask = np.fromiter((item is None for item in items), dtype=np.bool_, count=len(items))
    present = [item for item in items if item is not None]
    if not present:
        return _made("n", len(items), mask, ())[:5] + ((), None)
    kinds = {_kind_of(item) for item in present}
    if kinds == {"list"}:
        return _from_lists(items, mask, field)
    if kinds <= {"str", "bytes"} and len(kinds) == 1:
        return _from_texts(items, mask, kinds.pop())
    if kinds == {"bool"} or kinds <= {"int", "float"}:
        return _from_numbers(items, mask, kinds, field)
    row = next(row for row, item in enumerate(items) if item is not None and _kind_of(item) != _kind_of(present[0]))
    found = items[row]
    raise TypeError(f"row {row} is of type {type(found).__name__}, earlier ones are {type(present[0]).__name__}")


def _kind_of(item):
    if isinstance(item, (bool, np.bool_)):
        return "bool"
    for kind, types in _ITEM_KINDS.items():
        if isinstance(item, types):
            return kind
    if hasattr(item, "__len__") and hasattr(item, "__array__"):
        return "list"
    found = type(item).__name__
    raise TypeError(f"a value of type {found} has no place in a record: expected a number, str, bytes or a list")


_ITEM_KINDS = {
    "int": (int, np.integer),
    "float": (float, np.floating),
    "str": str,
    "bytes": (bytes, bytearray, memoryview),
    "list": (list, tuple, np.ndarray),
}


def _from_numbers(items, mask, kinds, field):
    zero = False if kinds == {"bool"} else 0
    filled = [zero if item is None else item for item in items] if mask.any() else items
    wanted = np.bool_ if kinds == {"bool"} else np.int64 if kinds == {"int"} else np.float64
    try:
        values = np.array(filled, dtype=wanted)
    except OverflowError:
        row = next(row for row, item in enumerate(filled) if not -(2**63) <= item < 2**63)
        raise ValueError(f"row {row}: the value {filled[row]} does not fit int64") from None
    return _from_values(values, field, mask)


def _from_texts(items, mask, kind):
    if kind == "str":
        items = [b"" if item is None else item.encode() for item in items]
    else:
        items = [b"" if item is None else bytes(item) for item in items]
    return _made("U" if kind == "str" else "Z", len(items), mask, (_offsets(items), b"".join(items)))


def _from_lists(items, mask, field):
    items = [() if item is None else item for item in items]
    arrays = [item for item in items if isinstance(item, np.ndarray)]
    plain = len(arrays) == len(items) and len({(item.dtype, item.shape[1:]) for item in arrays}) == 1
    if plain and arrays[0].ndim > 0 and arrays[0].dtype.kind in "biuf" and not any(map(np.ma.is_masked, arrays)):
        below = _from_values(np.concatenate(arrays), field)
    else:
        below = _from_items([value for item in items for value in item], field)
    if field is not None and field.shape not in ((), (None,)) and not field.feature_list:
        _check_lengths(items, mask, field.shape[0])
    return _made("+L", len(items), mask, (_offsets(items),), below)


def _check_lengths(items, mask, expected):
    for row, item in enumerate(items):
        if len(item) != expected and not mask[row]:
            raise ValueError(f"row {row}: expected a list of {expected} values, found {len(item)}")


def _offsets(items):
    offsets = np.zeros(len(items) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, items), dtype=np.int64, count=len(items)), out=offsets[1:])
    return offsets


# ---- the schema ----


def _check(level, field):
    """Whether the data are what the schema says, where Arrow alone could not tell."""
    lists, leaf = 0, level
    while leaf[6] is not None:
        lists, leaf = lists + 1, leaf[6]
    expected = len(field.shape) + field.feature_list
    if lists != expected and leaf[1] != "n":
        raise ValueError(f"the schema says {_nested(expected)}, found {_nested(lists)}")
    wanted, found = _KINDS.get(field.type, "bytes"), _KINDS.get(leaf[1], "bytes")
    if wanted != found and leaf[1] != "n":
        raise ValueError(f"the schema says {field.type}, found values of kind {found}")
    if level[4] > 0 and not field.nullable:
        raise ValueError("a value is missing, and the schema does not say that the column is nullable")


def _nested(lists):
    return ("a value for each row", "a list for each row", "a list of lists for each row")[min(lists, 2)]
