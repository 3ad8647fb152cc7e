"""TFRecord files as columns.

    for batch in records.read("data/*.tfrecord", columns=["image", "label"]):
        train(batch["image"], batch["label"])         # NumPy arrays over the batch's own memory

    records.write("out.tfrecord.gz", {"label": [1, 2], "image": np.zeros((2, 784), np.float32)})
    records.schema("data/")

Batches and readers speak the Arrow PyCapsule interface: pyarrow.table(batch), polars.DataFrame(batch),
pyarrow.RecordBatchReader.from_stream(reader). Whatever speaks it can be written.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _arrays, _columns, _native
from ._native import (
    CancelledError,
    CorruptError,
    EncodingError,
    Error,
    ExistsError,
    InvalidError,
    IoError,
    LimitError,
    MismatchError,
    MissingLibraryError,
    NoMemoryError,
    NoSpaceError,
    NotFoundError,
    PermissionError,
    RangeError,
    TruncatedError,
    UnsupportedError,
)

__all__ = [
    "Batch",
    "CancelledError",
    "CorruptError",
    "EncodingError",
    "Error",
    "ExistsError",
    "Field",
    "InvalidError",
    "IoError",
    "LimitError",
    "MismatchError",
    "MissingLibraryError",
    "NoMemoryError",
    "NoSpaceError",
    "NotFoundError",
    "PermissionError",
    "Progress",
    "RangeError",
    "Reader",
    "Schema",
    "TruncatedError",
    "UnsupportedError",
    "Writer",
    "read",
    "schema",
    "write",
]

Path = str | os.PathLike[str]
Paths = Path | Sequence[Path]
SchemaLike = Any  # a Schema, a dict, JSON text, the path of a file of it, or what has __arrow_c_schema__


class Field(NamedTuple):
    """A column: its shape is () for a value, (n,) for a list of n, (None,) for a list of any length."""

    name: str
    type: str
    shape: tuple[int | None, ...] = ()
    nullable: bool = False
    feature_list: bool = False


class Progress(NamedTuple):
    """How far a reader has come. Bytes are those of the files, memory_bytes the most that was held at one time."""

    total_bytes: int
    done_bytes: int
    records: int
    skipped_records: int
    skipped_bytes: int
    memory_bytes: int


class Schema:
    """The columns of a data set.

    Made from another schema, the JSON form, a dict of that form, the path of a file of it, or anything with
    __arrow_c_schema__, such as a pyarrow.Schema.
    """

    __slots__ = ("_native",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, source: "SchemaLike"):
        if isinstance(source, os.PathLike):
            with open(source, encoding="utf-8") as file:
                source = file.read()
        if isinstance(source, Mapping):
            source = json.dumps(source)
        if not isinstance(source, (Schema, str, _native.Schema)):
            if not hasattr(source, "__arrow_c_schema__"):
                raise TypeError(f"expected a Schema, JSON text, a dict or a path, found {type(source).__name__}")
            source = _native.Schema.from_arrow(source.__arrow_c_schema__())
        self._native = _native.Schema(source) if isinstance(source, str) else getattr(source, "_native", source)

    @classmethod
    def from_json(cls, text: str) -> "Schema":
        return cls(text)

    def to_json(self) -> str:
        return self._native.to_json()

    @property
    def record(self) -> str:
        """What a record is: example, sequence_example or bytes."""
        return self._native.record

    @property
    def fields(self) -> list[Field]:
        return [Field(*field) for field in self._native.fields()]

    @property
    def names(self) -> list[str]:
        return [field.name for field in self.fields]

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __eq__(self, other: object) -> bool:
        return self._native == other._native if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._native)

    def __len__(self) -> int:
        return len(self.fields)

    def __repr__(self) -> str:
        return f"Schema({self.to_json()})"


class Batch:
    """Rows as columns, in memory that never changes. Arrays made from it keep it alive."""

    __slots__ = ("_native", "schema")

    def __init__(self, native: Any, schema: Schema):
        self._native = native
        self.schema = schema

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.to_numpy(name)

    @property
    def names(self) -> list[str]:
        return self.schema.names

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the batch holds."""
        return self._native.nbytes

    def to_numpy(self, name: str) -> np.ndarray:
        """The column as an array.

        Numbers are a read-only view of the batch: values have one dimension, fixed lists two, and a masked array shows
        what is missing. Lists of any length are an array of such views, None where the row is missing. bool, str and
        bytes are copied.
        """
        return _arrays.array_of(self._column(name))

    def values(self, name: str) -> np.ndarray:
        """What the lists of a column hold, row after row without borders; for str and bytes, their bytes.

        Numbers and bytes are not copied.
        """
        column = self._column(name)
        return np.asarray(column.data) if column.layout == "bytes" else _arrays.array_of(column.child or column)

    def offsets(self, name: str) -> np.ndarray:
        """Where the rows begin and end in values(name): row i is values[offsets[i]:offsets[i + 1]]. Not copied."""
        offsets = self._column(name).offsets
        if offsets is None:
            raise ValueError(f"column {name!r} has rows of equal length: it needs no offsets")
        return np.asarray(offsets)

    def mask(self, name: str) -> np.ndarray:
        """True where the value is missing."""
        mask = _arrays.mask_of(self._column(name))
        return np.zeros(len(self), dtype=np.bool_) if mask is None else mask

    def to_pydict(self) -> dict[str, list[Any]]:
        """Lists of Python objects, None where a value is missing."""
        return {name: self._native.column(name).tolist() for name in self.names}

    def _column(self, name: str) -> Any:
        try:
            return self._native.column(name)
        except KeyError:
            raise KeyError(f"there is no column {name!r}; the columns are {', '.join(self.names)}") from None

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._native.__arrow_c_array__()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __repr__(self) -> str:
        columns = ", ".join(f"{field.name}: {_describe(field)}" for field in self.schema.fields)
        return f"<Batch of {len(self)} rows: {columns}>"


def _describe(field: Field) -> str:
    shape = "".join(f"[{'' if length is None else length}]" for length in field.shape)
    return f"{'list of ' if field.feature_list else ''}{field.type}{shape}{'?' if field.nullable else ''}"


class Reader:
    """Batches of rows, one after the other. Closes itself at the end, and when nobody holds it any more."""

    def __init__(self, native: Any):
        self._native = native
        self._ended = False
        self.schema = Schema(native.schema())

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        batch = None if self._ended else self._native.next()
        if batch is None:
            self._ended = True
            self.close()
            raise StopIteration
        return Batch(batch, self.schema)

    @property
    def progress(self) -> Progress:
        return Progress(*self._native.progress())

    def close(self) -> None:
        """Stops reading. Batches that were handed out stay valid."""
        self._native.close()

    def __enter__(self) -> "Reader":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The batches that have not been read yet. The stream and this reader take from the same batches."""
        return self._native.__arrow_c_stream__()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __repr__(self) -> str:
        return f"<Reader of {self.schema.record} records: {', '.join(self.schema.names)}>"


def read(
    paths: Paths,
    columns: Sequence[str] | None = None,
    schema: "SchemaLike | None" = None,
    *,
    batch_rows: int = 0,
    batch_bytes: int = 0,
    threads: int = -1,
    ordered: bool = True,
    on_corrupt: str = "error",
    codec: str = "auto",
    record: str = "auto",
    infer_records: int = 0,
    split: tuple[int, int] | None = None,
) -> Reader:
    """Reads files, folders and globs.

    columns        these, in this order; the others are skipped without decoding
    schema         the types to read; otherwise inferred first, from `infer_records` records (0: all)
    batch_rows     most rows of a batch; 0: the setting records.batch_rows
    batch_bytes    a batch ends once its records reach this size; 0: the setting records.batch_bytes
    threads        0: work in the calling thread; -1: the setting records.threads, by default one for each core
    ordered        rows come in the order of the files; False: as they are ready
    on_corrupt     "error", or "skip": go on at the next record that is whole; `progress` counts what was left out
    codec          "auto", "none", "gzip" or "zlib"
    record         "auto", "example", "sequence_example", or "bytes": one column `record`, not parsed
    split          only records that start in the bytes [start, end) of each file; an end of -1 is that of the file

    The GIL is released while the library works. Ctrl-C ends a call within a fraction of a second.
    """
    native_schema = None if schema is None else Schema(schema)._native
    start, end = (0, -1) if split is None else split
    chosen = None if columns is None else _strings(columns, "columns")
    options = (record, codec, on_corrupt, batch_rows, batch_bytes, infer_records, ordered, threads, start, end)
    return Reader(_native.Reader(_paths(paths), native_schema, chosen, *options))


def schema(
    paths: Paths,
    *,
    record: str = "auto",
    sample: int = 0,
    codec: str = "auto",
    on_corrupt: str = "error",
    threads: int = -1,
) -> Schema:
    """The columns of the data: seen in one pass over `sample` records, 0 for all of them."""
    options = (record, codec, on_corrupt, 0, 0, sample, True, threads, 0, -1)
    return Schema(_native.infer(_paths(paths), None, None, *options))


class Writer:
    """A TFRecord file being written.

    It appears under its name when `close` has made it whole; an exception leaves no file.
    """

    def __init__(
        self, path: Path, *, codec: str = "auto", level: int = -1, record: str = "auto", overwrite: bool = False
    ):
        self._native = _native.Writer(path, record, codec, level, overwrite)

    @property
    def records(self) -> int:
        """Records written so far."""
        return self._native.records

    def write_batch(self, data: Any, schema: "SchemaLike | None" = None) -> None:
        """Writes rows: a Batch or Reader, anything with __arrow_c_stream__ or __arrow_c_array__, or a dict of columns.

        The schema goes with a dict: it says which columns are floats or feature lists, and is checked.
        """
        if schema is not None and not isinstance(data, Mapping):
            raise ValueError("a schema goes with a dict of columns; cast Arrow data before writing them")
        if isinstance(data, Batch):
            self._native.batch(data._native)
        elif isinstance(data, Reader):
            for batch in data:
                self._native.batch(batch._native)
        elif isinstance(data, Mapping):
            self._native.columns(*_columns.columns(data, None if schema is None else Schema(schema)))
        elif hasattr(data, "__arrow_c_stream__"):
            self._native.stream(data.__arrow_c_stream__())
        elif hasattr(data, "__arrow_c_array__"):
            self._native.array(*data.__arrow_c_array__())
        else:
            raise TypeError(f"expected a dict of columns or an Arrow table, found {type(data).__name__}")

    def write_record(self, record: Any) -> None:
        """Writes one record of bytes as it is, for example message.SerializeToString()."""
        self._native.record(record)

    def close(self) -> None:
        self._native.close()

    def abort(self) -> None:
        """Throws away what was written."""
        self._native.abort()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()


def write(
    path: Path,
    data: Any,
    *,
    schema: "SchemaLike | None" = None,
    codec: str = "auto",
    level: int = -1,
    record: str = "auto",
    overwrite: bool = False,
) -> int:
    """Writes a TFRecord file and returns its number of records.

    data     a dict of columns (NumPy arrays, lists; None where a value is missing), anything with __arrow_c_stream__ or
             __arrow_c_array__, or for record="bytes" also an iterable of bytes
    codec    "auto": by the end of the name, .gz is gzip, .zlib and .zz are zlib; or "none", "gzip", "zlib"
    level    of compression, 1 to 9; -1 for the default of the codec
    record   "auto": sequence_example if a column is a list of lists, else example; or "bytes"

    The file appears under its name when it is whole, never before.
    """
    if schema is not None:
        schema = Schema(schema)
        record = schema.record if record == "auto" else record
    with Writer(path, codec=codec, level=level, record=record, overwrite=overwrite) as writer:
        if record != "bytes" or _is_columnar(data):
            writer.write_batch(data, schema)
        else:
            for item in data:
                writer.write_record(item)
    return writer.records


def _is_columnar(data: Any) -> bool:
    return isinstance(data, Mapping) or hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def _paths(paths: Paths) -> list[Path]:
    return [paths] if isinstance(paths, (str, bytes, os.PathLike)) else list(paths)


def _strings(values: Sequence[str], what: str) -> list[str]:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"{what} is a sequence of str, found {values!r}")
    return list(values)
