"""Inference over a DataFrame, on the driver: which columns are fed, which are kept, and which come back."""

import json
from collections.abc import Sequence
from typing import Any

from . import _feeding, _spark
from ._session import Session, TFClusterError


def infer(
    session: Session,
    frame: Any,
    queue: str,
    timeout_ms: int,
    schema: Any,
    keep: Sequence[str] | None,
    input_mapping: dict[str, str] | None,
    columns: dict[str, Any] | None,
) -> Any:
    """The DataFrame of kept columns and results."""
    if frame.isStreaming:
        raise ValueError("inference takes no streaming DataFrame: call it for each batch, in writeStream.foreachBatch")
    fed = _feeding.select_fed(frame, input_mapping, columns)
    kept = _kept(frame, keep)
    declared = None if schema is None else _parsed(schema)
    if declared is not None:
        _check_names(declared, kept)
        _feeding.refusing(lambda: _java(session).check(declared.json()))
    make = _Maker(session, queue, timeout_ms, json.dumps(columns or {}))
    if declared is None:
        declared = _schema_of_first(make, fed)
        _check_names(declared, kept)
    data = make.data(*_selected(frame, fed, kept, input_mapping))
    rows = data.results(bytearray(make.ticket(data)), declared.json())
    return _frame_of(frame, rows, [frame.schema[name] for name in kept] + declared.fields)


class _Maker:
    """Makes what is fed, and feeds."""

    def __init__(self, session: Session, queue: str, timeout_ms: int, columns: str):
        self.session = session
        self._queue = queue
        self._timeout_ms = timeout_ms
        self._columns = columns

    def data(self, frame: Any, keep: bool, pair: bool) -> Any:
        make = _java(self.session)
        given = frame._jdf, self._columns, keep, pair
        return _feeding.while_alive(self.session, lambda: _feeding.refusing(lambda: make(*given)))

    def ticket(self, data: Any) -> bytes:
        return _feeding.open_feed(self.session, self._source(data), self._queue, self._timeout_ms)

    def result_schema(self, data: Any) -> str | None:
        """Feeds the rows now."""
        source = self._source(data)
        feeding = _feeding.Feeding(self.session, source)
        feeding.run([source.options(self._queue, self._timeout_ms, again=True, inference=True)], 1)
        return feeding.result

    def _source(self, data: Any) -> _feeding.Source:
        return _feeding.Source(
            data.partitions(), data.determinate(), lambda ticket: data.resultSchema(bytearray(ticket))
        )


def _java(session: Session) -> Any:
    _spark.install(session.sc)
    return _spark.java(session.sc, "InferenceData")


# ---- columns ----


def _kept(frame: Any, keep: Sequence[str] | None) -> list[str]:
    if isinstance(keep, str):
        raise TypeError(f"keep is a list of names, found the text {keep!r}; write [{keep!r}]")
    kept = list(frame.columns if keep is None else keep)
    missing = [name for name in kept if name not in frame.columns]
    if missing:
        raise ValueError(f"keep names the column {missing[0]!r}; the DataFrame has {frame.columns}")
    return kept


def _parsed(schema: Any) -> Any:
    from pyspark.sql.types import DataType, StructType, _parse_datatype_string

    parsed = _parse_datatype_string(schema) if isinstance(schema, str) else schema
    if not isinstance(parsed, DataType):
        raise TypeError(f"schema is a text such as 'prediction float' or a StructType, found {type(schema).__name__}")
    return parsed if isinstance(parsed, StructType) else StructType().add("value", parsed)


def _check_names(declared: Any, kept: list[str]) -> None:
    both = [name for name in declared.names if name in kept]
    if both:
        raise ValueError(
            f"the DataFrame has a column {both[0]!r}, and so have the results: say with keep= which columns are kept, "
            "or give the result another name"
        )


def _selected(
    frame: Any, fed: Any, kept: list[str], input_mapping: dict[str, str] | None
) -> tuple[Any, bool, bool]:
    """What is computed, whether it has columns that are kept, and whether it is a pair of what is fed and kept."""
    from pyspark.sql.functions import struct

    if not kept:
        return fed, False, False
    if input_mapping is None and kept == frame.columns:
        return frame, True, False
    mapping = {name: name for name in frame.columns} if input_mapping is None else dict(sorted(input_mapping.items()))
    to_feed = [_feeding.column(frame, name).alias(alias) for name, alias in mapping.items()]
    to_keep = [_feeding.column(frame, name) for name in kept]
    return frame.select(struct(*to_feed).alias("fed"), struct(*to_keep).alias("kept")), True, True


# ---- results ----


def _schema_of_first(make: _Maker, frame: Any) -> Any:
    """The columns of the first result, by feeding the first row."""
    from pyspark.sql.types import StructType

    try:
        found = make.result_schema(make.data(frame.limit(1), False, False))
    except TFClusterError as error:
        raise TFClusterError(f"the first row got no result that shows the columns: {error}") from error
    if found is None:
        raise ValueError(
            "the DataFrame has no rows, so nothing shows what columns the results have: declare them with schema="
        )
    return StructType.fromJson(json.loads(found))


def _frame_of(frame: Any, rows: Any, fields: list[Any]) -> Any:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    session = frame.sparkSession
    java_schema = session._jsparkSession.parseDataType(StructType(fields).json())
    return DataFrame(session._jsparkSession.internalCreateDataFrame(rows, java_schema, False), session)
