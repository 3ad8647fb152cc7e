"""DataFrames and TFRecord files: saved, loaded, and Examples converted by hand."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from . import _spark

loadedDF: dict[Any, str] = {}  # where DataFrames were loaded from

_FLOATS = ("float", "double")
_INTS = ("boolean", "tinyint", "smallint", "int", "bigint", "long")
_BYTES = ("binary", "string")


def isLoadedDF(df: Any) -> bool:
    """Whether a DataFrame is one that loadTFRecords has returned."""
    return df in loadedDF


def saveAsTFRecords(df: Any, output_dir: str) -> None:
    """Saves a DataFrame as a folder of TFRecord files, one Example a row. The folder must not exist."""
    _spark.attach(df.sparkSession)
    _spark.java(df.sparkSession.sparkContext, "DFUtil").saveAsTFRecords(df._jdf, output_dir)


def loadTFRecords(sc: Any, input_dir: str, binary_features: Sequence[str] = ()) -> Any:
    """A DataFrame of TFRecord files. Real numbers are double; bytes are strings if all of them are text and they are
    not among `binary_features`."""
    from pyspark.sql import DataFrame

    session = _session(sc)
    context = session.sparkContext
    names = context._gateway.new_array(context._jvm.java.lang.String, len(binary_features))
    for i, name in enumerate(binary_features):
        names[i] = name
    found = _spark.java(context, "DFUtil").loadTFRecords(session._jsparkSession, input_dir, names)
    df = DataFrame(found, session)
    loadedDF[df] = input_dir
    return df


def toTFExample(dtypes: Sequence[tuple[str, str]]) -> Callable[[Iterable[Any]], list[tuple[bytearray, None]]]:
    """A function that makes (bytes of an Example, None) of rows, for mapPartitions; `dtypes` is df.dtypes."""

    def convert(rows: Iterable[Any]) -> list[tuple[bytearray, None]]:
        import tensorflow as tf

        results: list[tuple[bytearray, None]] = []
        for row in rows:
            features = {name: _to_feature(tf, name, kind, row[name]) for name, kind in dtypes}
            example = tf.train.Example(features=tf.train.Features(feature=features))
            results.append((bytearray(example.SerializeToString()), None))
        return results

    return convert


def fromTFExample(records: Iterable[Any], binary_features: Sequence[str] = ()) -> list[Any]:
    """Rows of records that are (bytes of an Example, anything)."""
    import tensorflow as tf
    from pyspark.sql import Row

    results = []
    for record in records:
        example = tf.train.Example.FromString(bytes(record[0]))
        features = sorted(example.features.feature.items())
        results.append(Row(**{name: _from_feature(name, value, binary_features) for name, value in features}))
    return results


def infer_schema(example: Any, binary_features: Sequence[str] = ()) -> Any:
    """The schema of a DataFrame whose rows are like this tf.train.Example."""
    from pyspark.sql.types import ArrayType, BinaryType, DoubleType, LongType, StringType, StructField, StructType

    types = {"int64_list": LongType(), "float_list": DoubleType()}
    fields = []
    for name, feature in sorted(example.features.feature.items()):
        kind, values = _values(feature)
        one = types.get(kind, BinaryType() if name in binary_features else StringType())
        fields.append(StructField(name, ArrayType(one) if len(values) > 1 else one, True))
    return StructType(fields)


def _session(sc: Any) -> Any:
    from pyspark.sql import SparkSession

    _spark.attach(sc)
    return sc if isinstance(sc, SparkSession) else SparkSession(sc)


def _to_feature(tf: Any, name: str, kind: str, value: Any) -> Any:
    inner = kind[len("array<") : -1] if kind.startswith("array<") else kind
    if value is None:
        return tf.train.Feature()
    values = value if inner != kind else [value]
    if inner in _FLOATS:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    if inner in _INTS:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, values)))
    if inner in _BYTES:
        texts = [each.encode() if isinstance(each, str) else bytes(each) for each in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))
    raise TypeError(f"column {name!r}: an Example has no place for {kind}; cast it, or leave it out")


def _values(feature: Any) -> tuple[str, Any]:
    kind = feature.WhichOneof("kind") or "bytes_list"
    return kind, getattr(feature, kind).value


def _from_feature(name: str, feature: Any, binary_features: Sequence[str]) -> Any:
    kind, values = _values(feature)
    if kind == "bytes_list":
        values = [bytearray(each) if name in binary_features else each.decode() for each in values]
    if len(values) > 1:
        return list(values)
    return values[0] if len(values) == 1 else None
