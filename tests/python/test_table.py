"""The data source "tfrecord": what people expect of a format of Spark's, on real files."""

import datetime
import decimal
import os
import struct

import pytest
from conftest import framed, header
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

import spark_tools
import tensorflowonspark
from spark_tools import data_files, read_bytes, spark_context, wait_for
from tensorflowonspark import records

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.default.parallelism": "2",
    }
    with spark_context("local[2]", tmp_path_factory.mktemp("spark"), conf=conf) as context:
        yield tensorflowonspark.attach(SparkSession(context))


def rows_of(df):
    return sorted(map(tuple, df.collect()), key=repr)


def failure(action):
    """The first line of what Spark raises."""
    with pytest.raises(Exception) as raised:
        action()
    return str(raised.value).strip().splitlines()[0] if "Py4JJava" not in str(raised.type) else lines(raised.value)


def lines(error):
    """The first line of an exception of Java's, as Py4J has it."""
    return error.java_exception.toString().splitlines()[0]


# ---- types ----

TYPES = StructType(
    [
        StructField("long", LongType()),
        StructField("int", IntegerType()),
        StructField("float", FloatType()),
        StructField("double", DoubleType()),
        StructField("decimal", DecimalType(10, 2)),
        StructField("text", StringType()),
        StructField("bytes", BinaryType()),
        StructField("flag", BooleanType()),
        StructField("longs", ArrayType(LongType())),
        StructField("ints", ArrayType(IntegerType())),
        StructField("floats", ArrayType(FloatType())),
        StructField("doubles", ArrayType(DoubleType())),
        StructField("texts", ArrayType(StringType())),
        StructField("blobs", ArrayType(BinaryType())),
        StructField("flags", ArrayType(BooleanType())),
    ]
)
ROWS = [
    (
        -(2**63),
        -(2**31),
        0.5,
        -1.25,
        decimal.Decimal("12.50"),
        "tëxt",
        bytearray(b"\x00\xff"),
        True,
        [1, 2**62],
        [3],
        [0.5, 1.5],
        [2.5],
        ["a", ""],
        [bytearray(b"\xfe"), bytearray()],
        [True, False, True],
    ),
    (None,) * 15,
    (0, 0, 0.0, 0.0, decimal.Decimal("0.00"), "", bytearray(), False, [], [], [], [], [], [], []),
]


def test_every_type_comes_back(spark, tmp_path):
    folder = str(tmp_path / "t")
    df = spark.createDataFrame(ROWS, TYPES)
    df.coalesce(1).write.format("tfrecord").save(folder)
    assert [tuple(row) for row in spark.read.schema(TYPES).format("tfrecord").load(folder).collect()] == ROWS
    chosen = spark.read.schema(TYPES).format("tfrecord").load(folder).select("texts", "int").collect()
    assert [tuple(row) for row in chosen] == [(row[12], row[1]) for row in ROWS]


def test_what_tensorflow_sees(spark, tmp_path):
    tf = pytest.importorskip("tensorflow")
    folder = str(tmp_path / "t")
    spark.createDataFrame(ROWS, TYPES).coalesce(1).write.format("tfrecord").save(folder)
    [path] = data_files(folder)
    examples = [tf.train.Example.FromString(raw.numpy()) for raw in tf.data.TFRecordDataset(path)]
    first, missing, empty = (example.features.feature for example in examples)
    assert list(first["longs"].int64_list.value) == [1, 2**62]
    assert list(first["decimal"].float_list.value) == [12.5]
    assert list(first["text"].bytes_list.value) == ["tëxt".encode()]
    assert list(first["flags"].int64_list.value) == [1, 0, 1]
    assert not missing
    assert empty["longs"].WhichOneof("kind") == "int64_list" and not empty["longs"].int64_list.value


def test_files_of_tensorflow(spark, tmp_path):
    tf = pytest.importorskip("tensorflow")

    def feature(**lists):
        kinds = {"ints": ("int64_list", tf.train.Int64List), "floats": ("float_list", tf.train.FloatList)}
        kinds["bytes"] = ("bytes_list", tf.train.BytesList)
        [(name, values)] = lists.items()
        key, kind = kinds[name]
        return tf.train.Feature(**{key: kind(value=values)})

    path = str(tmp_path / "x.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(100):
            features = {"i": feature(ints=[i]), "f": feature(floats=[i, i / 2]), "s": feature(bytes=[b"%d" % i])}
            features["raw"] = feature(bytes=[b"\xff%d" % i])
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    df = spark.read.format("tfrecord").load(path)
    assert df.dtypes == [("f", "array<float>"), ("i", "bigint"), ("raw", "binary"), ("s", "string")]
    assert rows_of(df.select("i", "f", "s", "raw")) == sorted(
        [(i, [i, i / 2], str(i), bytearray(b"\xff%d" % i)) for i in range(100)], key=repr
    )


def test_sequence_examples(spark, tmp_path):
    folder = str(tmp_path / "s")
    df = spark.createDataFrame(
        [(1, ["a"], [[1, 2], [], [3]], [["x"]]), (2, [], [], [[], ["y", "z"]]), (3, None, None, None)],
        "id long, tags array<string>, steps array<array<long>>, words array<array<string>>",
    )
    df.coalesce(1).write.format("tfrecord").option("recordType", "SequenceExample").save(folder)
    reader = spark.read.format("tfrecord").option("recordType", "SequenceExample")
    assert rows_of(reader.schema(df.schema).load(folder)) == rows_of(df)
    found = reader.load(folder)
    assert dict(found.dtypes)["steps"] == "array<array<bigint>>"
    assert "an array of arrays has no place in a tf.train.Example" in failure(
        lambda: df.write.format("tfrecord").save(str(tmp_path / "no"))
    )


def test_a_feature_list_of_single_values_is_a_list(spark, tmp_path):
    path = str(tmp_path / "s.tfrecord")
    tf = pytest.importorskip("tensorflow")
    example = tf.train.SequenceExample()
    example.context.feature["id"].int64_list.value.append(7)
    for value in (1, 2, 3):
        example.feature_lists.feature_list["steps"].feature.add().int64_list.value.append(value)
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(example.SerializeToString())
    reader = spark.read.format("tfrecord").option("recordType", "SequenceExample")
    assert reader.load(path).collect() == [Row(id=7, steps=[1, 2, 3])]
    assert reader.schema("steps array<int>").load(path).collect() == [Row(steps=[1, 2, 3])]


def test_records_as_they_are(spark, tmp_path):
    folder = str(tmp_path / "b")
    blobs = [(bytearray(b"one"),), (bytearray(),), (bytearray(b"\xff" * 1000),)]
    df = spark.createDataFrame(blobs, "byteArray binary")
    df.coalesce(1).write.format("tfrecord").option("recordType", "ByteArray").save(folder)
    found = spark.read.format("tfrecord").option("recordType", "ByteArray").load(folder)
    assert found.dtypes == [("byteArray", "binary")]
    assert [tuple(row) for row in found.collect()] == blobs
    assert found.count() == 3
    with records.read(data_files(folder), record="bytes") as reader:
        assert [bytes(each) for batch in reader for each in batch["record"]] == [bytes(each) for (each,) in blobs]


def test_types_that_records_do_not_have(spark, tmp_path):
    for kind in ("map<string,int>", "struct<a:int>", "date", "timestamp", "tinyint", "array<array<array<int>>>"):
        df = spark.createDataFrame([], f"fine int, odd {kind}")
        line = failure(lambda df=df: df.write.format("tfrecord").save(str(tmp_path / "no")))
        assert "odd" in line and "TFRecord" in line, line
    assert not os.path.exists(tmp_path / "no")


# ---- reading ----


@pytest.fixture(scope="module")
def numbers(spark, tmp_path_factory):
    """A folder of 20 000 rows in two files of several megabytes."""
    folder = str(tmp_path_factory.mktemp("numbers") / "t")
    df = spark.range(0, 20_000, 1, 2).select(
        "id", (F.col("id") % 7).alias("k"), F.array_repeat(F.col("id").cast("float"), 100).alias("x")
    )
    df.write.format("tfrecord").save(folder)
    return folder


def test_plans_are_columnar(spark, numbers):
    df = spark.read.format("tfrecord").load(numbers)
    plan = df._jdf.queryExecution().executedPlan().toString()
    assert "FileScan tfrecord" in plan and "Batched: true" in plan and "ColumnarToRow" in plan


def test_counts_and_columns(spark, numbers):
    df = spark.read.format("tfrecord").load(numbers)
    assert df.count() == 20_000
    assert df.agg(F.sum("id")).collect() == [Row(**{"sum(id)": 199_990_000})]
    assert df.selectExpr("sum(aggregate(x, 0D, (a, b) -> a + b))").collect()[0][0] == 19_999_000_000.0
    assert df.filter("k = 3").count() == len([i for i in range(20_000) if i % 7 == 3])
    assert df.limit(5).count() == 5 and len(df.take(3)) == 3


def test_rows_where_spark_asks_for_rows(spark, numbers):
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try:
        df = spark.read.format("tfrecord").load(numbers)
        assert df.agg(F.sum("id"), F.sum(df.x[99])).collect()[0][0] == 199_990_000
    finally:
        spark.conf.unset("spark.sql.codegen.wholeStage")
    wide = spark.range(3).select(*[F.col("id").alias(f"c{i:03}") for i in range(150)])
    folder = os.path.join(os.path.dirname(numbers), "wide")
    wide.write.format("tfrecord").save(folder)
    assert spark.read.format("tfrecord").load(folder).agg(F.sum("c149")).collect()[0][0] == 3


def test_large_files_are_split(spark, numbers):
    for size in ("1000000", "300000"):
        spark.conf.set("spark.sql.files.maxPartitionBytes", size)
        try:
            df = spark.read.format("tfrecord").load(numbers)
            assert df.rdd.getNumPartitions() > 4
            assert df.count() == 20_000
            assert df.agg(F.sum("id")).collect()[0][0] == 199_990_000
        finally:
            spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_indexes(spark, tmp_path):
    folder = str(tmp_path / "t")
    df = spark.range(10_000).withColumn("pad", F.lit("x" * 100))
    df.coalesce(1).write.format("tfrecord").option("index", "true").save(folder)
    [path] = [path for path in data_files(folder) if not path.endswith(".tfindex")]
    assert os.path.exists(path + ".tfindex")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "100000")
    try:
        found = spark.read.format("tfrecord").load(folder)
        assert found.count() == 10_000
        assert found.agg(F.sum("id")).collect()[0][0] == 49_995_000
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    line = failure(lambda: df.write.format("tfrecord").options(index="true", codec="gzip").save(str(tmp_path / "no")))
    assert "cannot be indexed" in line


@pytest.mark.parametrize(
    ("option", "ending"),
    [
        ("gzip", ".tfrecord.gz"),
        ("zlib", ".tfrecord.deflate"),
        ("deflate", ".tfrecord.deflate"),
        ("org.apache.hadoop.io.compress.GzipCodec", ".tfrecord.gz"),
        ("uncompressed", ".tfrecord"),
        ("", ".tfrecord"),
    ],
)
def test_codecs(spark, tmp_path, option, ending):
    folder = str(tmp_path / "t")
    spark.range(5000).coalesce(1).write.format("tfrecord").option("codec", option).save(folder)
    [path] = data_files(folder)
    assert path.endswith(ending)
    assert spark.read.format("tfrecord").load(folder).agg(F.sum("id")).collect()[0][0] == 12_497_500
    # By any other name it is what it is, and only one task reads it.
    os.rename(path, str(tmp_path / "t" / "part-0"))
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2000")
    try:
        assert spark.read.schema("id long").format("tfrecord").load(folder).count() == 5000
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_options_that_are_wrong(spark, tmp_path, numbers):
    for options, part in [
        ({"codec": "snappy"}, "option codec: expected none, gzip or zlib, found 'snappy'"),
        ({"recordType": "Sample"}, "option recordType: expected Example, SequenceExample or ByteArray, found 'Sample'"),
        ({"onCorrupt": "ignore"}, "option onCorrupt: expected fail or skip, found 'ignore'"),
        ({"inferSample": "some"}, "option inferSample: expected a number of records, or all; found 'some'"),
    ]:
        assert part in failure(lambda options=options: spark.read.format("tfrecord").options(**options).load(numbers))


# ---- schemas ----


def test_an_option_without_a_value_is_none(spark, numbers):
    assert spark.read.format("tfrecord").option("codec", None).load(numbers).count() == 20_000


def test_inference(spark, tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    records.write(str(folder / "a"), {"x": [1, 2], "late": [1.5, 2.5]})
    records.write(str(folder / "b"), {"x": [3], "later": ["text"]})
    (folder / "empty").touch()
    load = spark.read.format("tfrecord").load
    assert load(str(folder)).dtypes == [("late", "float"), ("later", "string"), ("x", "bigint")]
    sampled = spark.read.format("tfrecord").option("inferSample", "1").load(str(folder))
    assert sampled.dtypes == [("late", "float"), ("x", "bigint")]
    records.write(str(folder / "c"), {"x": ["not a number"]})
    line = failure(lambda: load(str(folder)))
    assert "feature 'x' changes its kind" in line and "/a" in line and "/c" in line
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    assert "infer schema" in failure(lambda: load(str(nothing)))


# ---- damage ----


def test_damage_is_told_in_the_first_line(spark, tmp_path):
    path = str(tmp_path / "x.tfrecord")
    records.write(path, {"x": list(range(1000, 2000))})  # all of one size
    with open(path, "rb") as file:
        data = bytearray(file.read())
    size = len(data) // 1000
    good = spark.read.schema("x long").format("tfrecord").load(path)
    assert good.count() == 1000
    data[500 * size + 14] ^= 1
    with open(path, "wb") as file:
        file.write(data)
    line = failure(lambda: good.agg(F.sum("x")).collect())
    assert f"{path}: offset {500 * size} (record 500): the checksum of the payload" in line
    skipping = spark.read.schema("x long").format("tfrecord").option("onCorrupt", "skip").load(path)
    assert skipping.agg(F.sum("x")).collect()[0][0] == 1_499_500 - 1500
    assert skipping.count() == 999
    # Cut short, in the first batch and everywhere.
    for length in (5, 12, 13, 100, 700 * size + 3):
        with open(path, "wb") as file:
            file.write(data[:500 * size][:length] if length < 500 * size else data[:length])
        line = failure(lambda: good.agg(F.sum("x")).collect())
        assert path in line and "offset" in line, line


def test_values_that_do_not_go_with_the_schema(spark, tmp_path):
    path = str(tmp_path / "x.tfrecord")
    records.write(path, {"x": [1, 2**40], "s": [b"text", b"\xff\xfe"], "l": [[1], [2, 3]]})
    read = spark.read.format("tfrecord")
    line = failure(lambda: read.schema("x int").load(path).collect())
    assert f"{path}: offset" in line and "column 'x'" in line and "RANGE" in line
    line = failure(lambda: read.schema("s string").load(path).collect())
    assert f"{path}: offset" in line and "column 's'" in line and "binary" in line
    line = failure(lambda: read.schema("x string").load(path).collect())
    assert "column 'x': expected bytes values for type string, found int64" in line
    line = failure(lambda: read.schema("l long").load(path).collect())
    assert "column 'l': expected one value, found 2" in line


def test_decimals_that_do_not_fit(spark, tmp_path):
    path = str(tmp_path / "x.tfrecord")
    records.write(path, {"d": [1.25, 1e9]})
    df = spark.read.schema("d decimal(5, 2)").format("tfrecord").load(path)
    assert "which has no such value" in failure(df.collect)
    assert "which has no such value" in failure(df.filter("d > 1").collect)
    assert df.limit(1).collect() == [Row(d=decimal.Decimal("1.25"))]


def test_nulls_in_lists(spark, tmp_path):
    df = spark.createDataFrame([([1, None],)], "x array<long>")
    with pytest.raises(Exception) as raised:
        df.write.format("tfrecord").save(str(tmp_path / "t"))
    assert "column 'x', row 0 of the partition: a value of the list is null" in str(raised.value)
    assert not data_files(str(tmp_path / "t"))


def test_lies_about_lengths(spark, tmp_path):
    path = str(tmp_path / "x.tfrecord")
    with open(path, "wb") as file:
        file.write(framed(b"") + header(2**62) + b"x" * 100)
    line = failure(lambda: spark.read.schema("x long").format("tfrecord").load(path).collect())
    assert f"{path}: offset 16" in line
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", 5) + b"xxxx")
    line = failure(lambda: spark.read.format("tfrecord").load(path))
    assert path in line


def test_ignoring_files(spark, tmp_path):
    """Spark's own settings for files that are gone or damaged."""
    folder = tmp_path / "t"
    folder.mkdir()
    for name in "ab":
        records.write(str(folder / name), {"x": [1, 2, 3]})
    df = spark.read.schema("x long").format("tfrecord").load(str(folder))
    ignoring = spark.read.schema("x long").option("ignoreMissingFiles", "true").format("tfrecord").load(str(folder))
    damaged = spark.read.schema("x long").option("ignoreCorruptFiles", "true").format("tfrecord").load(str(folder))
    with open(folder / "a", "r+b") as file:
        file.truncate(20)
    assert "cut short" in failure(df.collect)
    assert damaged.count() == 3
    os.remove(folder / "a")
    assert "/a" in failure(df.collect)
    assert ignoring.count() == 3


# ---- what a format can do in Spark ----


def test_partitions(spark, tmp_path):
    folder = str(tmp_path / "t")
    df = spark.range(100).withColumn("k", F.col("id") % 3).withColumn("d", F.lit(datetime.date(2020, 1, 2)))
    df.write.format("tfrecord").partitionBy("d", "k").save(folder)
    found = spark.read.format("tfrecord").load(folder)
    assert sorted(found.columns) == ["d", "id", "k"]
    assert found.filter("k = 1").agg(F.sum("id"), F.max("d")).collect()[0] == (
        sum(range(1, 100, 3)),
        datetime.date(2020, 1, 2),
    )
    plan = found.filter("k = 1")._jdf.queryExecution().executedPlan().toString()
    assert "PartitionFilters: [isnotnull(k" in plan
    assert found.select("k").distinct().count() == 3 and found.groupBy("k").count().count() == 3
    # Of one partition alone, and with the others kept.
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        spark.createDataFrame([(1000, datetime.date(2020, 1, 2), 2)], "id long, d date, k long").write.mode(
            "overwrite"
        ).format("tfrecord").partitionBy("d", "k").save(folder)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    found = spark.read.format("tfrecord").load(folder)
    assert found.filter("k = 2").collect()[0].id == 1000 and found.filter("k = 0").count() == 34


def test_save_modes(spark, tmp_path):
    folder = str(tmp_path / "t")
    save = lambda mode, count: spark.range(count).write.mode(mode).format("tfrecord").save(folder)
    count = lambda: spark.read.format("tfrecord").load(folder).count()
    save("error", 3)
    assert "already exists" in failure(lambda: save("error", 3))
    save("ignore", 5)
    assert count() == 3
    save("append", 4)
    assert count() == 7
    save("overwrite", 2)
    assert count() == 2


def test_tables_of_sql(spark, tmp_path):
    spark.sql("CREATE TABLE t (id BIGINT, name STRING, k INT) USING tfrecord PARTITIONED BY (k)")
    try:
        spark.sql("INSERT INTO t VALUES (1, 'a', 1), (2, NULL, 2)")
        spark.sql("INSERT INTO t PARTITION (k = 3) SELECT 3, 'c'")
        assert rows_of(spark.sql("SELECT * FROM t WHERE k > 1")) == [(2, None, 2), (3, "c", 3)]
        spark.sql("CREATE TABLE u USING tfrecord OPTIONS (codec 'gzip') AS SELECT id, name FROM t")
        assert spark.table("u").count() == 3
        spark.sql("INSERT OVERWRITE t PARTITION (k = 1) VALUES (9, 'z')")
        assert spark.sql("SELECT id FROM t WHERE k = 1").collect() == [Row(id=9)]
        spark.range(50).write.format("tfrecord").bucketBy(4, "id").sortBy("id").saveAsTable("buckets")
        assert spark.table("buckets").filter("id = 7").count() == 1
        location = tmp_path / "direct"
        spark.range(4).write.format("tfrecord").save(str(location))
        assert spark.sql(f"SELECT sum(id) FROM tfrecord.`{location}`").collect()[0][0] == 6
    finally:
        for name in ("t", "u", "buckets"):
            spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_names_and_globs(spark, tmp_path):
    for name in ("a 1.tfrecord", "b%2.tfrecord", "c.other", "deep/down/d.tfrecord", "_hidden", ".hidden"):
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        records.write(str(path), {"x": [1]})
    read = spark.read.schema("x long").format("tfrecord")
    assert read.load(str(tmp_path / "t" / "*.tfrecord")).count() == 2
    assert read.option("recursiveFileLookup", "true").load(str(tmp_path / "t")).count() == 4
    filtered = spark.read.schema("x long").format("tfrecord").option("pathGlobFilter", "*.tfrecord")
    assert filtered.option("recursiveFileLookup", "true").load(str(tmp_path / "t")).count() == 3


def test_metadata(spark, numbers):
    df = spark.read.format("tfrecord").load(numbers).select("id", "_metadata.file_name", "_metadata.file_size")
    found = df.groupBy("file_name").agg(F.count("id"), F.max("file_size")).collect()
    assert sorted((name, size) for name, _, size in found) == [
        (os.path.basename(path), os.path.getsize(path)) for path in data_files(numbers)
    ]


def test_most_records_of_a_file(spark, tmp_path):
    folder = str(tmp_path / "t")
    spark.range(1000).coalesce(1).write.format("tfrecord").option("maxRecordsPerFile", 300).save(folder)
    assert len(data_files(folder)) == 4
    assert spark.read.format("tfrecord").load(folder).count() == 1000


def test_many_small_files(spark, tmp_path):
    folder = str(tmp_path / "t")
    spark.range(400).repartition(200).write.format("tfrecord").save(folder)
    df = spark.read.schema("id long").format("tfrecord").load(folder)
    assert df.rdd.getNumPartitions() < 100
    assert df.agg(F.sum("id")).collect()[0][0] == 79_800


def test_caching(spark, numbers):
    df = spark.read.format("tfrecord").load(numbers).cache()
    try:
        assert df.count() == 20_000 and df.agg(F.sum("id")).collect()[0][0] == 199_990_000
        assert df.filter("id = 77").collect()[0].x == [77.0] * 100
    finally:
        df.unpersist()


def test_streams(spark, tmp_path):
    source, sink, place = (str(tmp_path / name) for name in ("in", "out", "check"))
    spark.range(10).write.format("tfrecord").save(source)
    stream = spark.readStream.schema("id long").format("tfrecord").load(source)
    query = stream.writeStream.format("tfrecord").option("checkpointLocation", place).start(sink)
    try:
        query.processAllAvailable()
        assert spark.read.format("tfrecord").load(sink).count() == 10
        spark.range(10, 15).write.mode("append").format("tfrecord").save(source)
        query.processAllAvailable()
        assert rows_of(spark.read.format("tfrecord").load(sink)) == sorted([(i,) for i in range(15)], key=repr)
    finally:
        query.stop()


def test_skipped_records_are_counted(spark, tmp_path):
    path = str(tmp_path / "x.tfrecord")
    records.write(path, {"x": [1, 2, 3]})
    with open(path, "r+b") as file:
        file.seek(13)
        byte = file.read(1)
        file.seek(13)
        file.write(bytes([byte[0] ^ 1]))
    df = spark.read.schema("x long").format("tfrecord").option("onCorrupt", "skip").load(path)
    assert df.collect() == [Row(x=2), Row(x=3)]
    before = executor_metrics(spark)

    def counted():
        updates = last_stage(spark).accumulatorUpdates()
        found = {updates.apply(i).name(): updates.apply(i).value() for i in range(updates.size())}
        return found.get("tfrecord: damaged records skipped") == "1"

    wait_for(counted, 10)
    assert before["skippedRecords"] >= 1 and before["skippedBytes"] > before["skippedRecords"]
    df.collect()
    after = executor_metrics(spark)
    assert after["skippedRecords"] == before["skippedRecords"] + 1


def executor_metrics(spark):
    """Those that Spark's metrics system has from us; the driver of a local master is its executor."""
    system = spark.sparkContext._jvm.org.apache.spark.SparkEnv.get().metricsSystem()
    sources = system.getSourcesByName("tfrecord")
    assert sources.size() == 1
    counters = sources.apply(0).metricRegistry().getCounters()
    return {name: counters[name].getCount() for name in counters}


def test_bytes_are_counted(spark, tmp_path):
    """Those of tasks, as Spark shows them."""
    path = str(tmp_path / "t")
    spark.range(0, 20_000, 1, 1).write.format("tfrecord").save(path)
    [file] = data_files(path)
    wait_for(lambda: last_stage(spark).outputBytes() >= os.path.getsize(file), 10)
    df = spark.read.schema("id long").format("tfrecord").load(path)
    for action in (df.select("*").collect, df.count, df.rdd.count):
        assert read_bytes(spark.sparkContext, action) == os.path.getsize(file)


def last_stage(spark):
    tracker = spark.sparkContext.statusTracker()
    job = tracker.getJobInfo(max(tracker.getJobIdsForGroup()))
    return spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(max(job.stageIds))
