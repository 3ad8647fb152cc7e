"""TFRecords through Hadoop: other file systems, its input and output formats, dfutil, executors, and memory."""

import os
import random

import pytest
from conftest import framed
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

import spark_tools
import tensorflowonspark
from processes import JAVA_OPTIONS
from spark_tools import data_files, read_bytes, spark_context
from tensorflowonspark import dfutil, records

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

INPUT = "org.tensorflow.hadoop.io.TFRecordFileInputFormat"
OUTPUT = "org.tensorflow.hadoop.io.TFRecordFileOutputFormat"
OLD_OUTPUT = "org.tensorflow.hadoop.io.TFRecordFileOutputFormatV1"
BYTES = "org.apache.hadoop.io.BytesWritable"
NOTHING = "org.apache.hadoop.io.NullWritable"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def spark(tmp_path_factory, folder):
    """Executors in processes of their own, and a file system of Hadoop's that is not the local one."""
    conf = {
        "spark.sql.shuffle.partitions": "2",
        # The heap has all of its memory from the start: what grows is not the heap.
        "spark.executor.extraJavaOptions": f"{JAVA_OPTIONS} -Xms512m -XX:+AlwaysPreTouch",
        "spark.hadoop.fs.viewfs.mounttable.c.link./data": f"file://{folder}",
    }
    home = tmp_path_factory.mktemp("spark")
    with spark_context("local-cluster[2,1,1024]", home, executors=2, conf=conf) as context:
        yield tensorflowonspark.attach(SparkSession(context))


# ---- other file systems ----


def test_another_file_system(spark, folder):
    """All goes through Hadoop's streams there, read ahead by a thread of the core."""
    df = spark.range(0, 50_000, 1, 2).withColumn("x", F.array_repeat(F.col("id").cast("float"), 20))
    df.write.format("tfrecord").option("index", "true").save("viewfs://c/data/t")
    assert len(data_files(f"{folder}/t")) == 4  # with their indexes
    for options in ({}, {"maxPartitionBytes": "500000"}):
        for key, value in options.items():
            spark.conf.set(f"spark.sql.files.{key}", value)
        try:
            found = spark.read.format("tfrecord").load("viewfs://c/data/t")
            assert found.dtypes == [("id", "bigint"), ("x", "array<float>")]
            assert found.agg(F.count("*"), F.sum("id"), F.sum(found.x[19])).collect()[0] == (
                50_000,
                1_249_975_000,
                1_249_975_000.0,
            )
            assert found.count() == 50_000
        finally:
            for key in options:
                spark.conf.unset(f"spark.sql.files.{key}")
    df.write.format("tfrecord").option("codec", "gzip").save("viewfs://c/data/packed")
    packed = spark.read.format("tfrecord").load("viewfs://c/data/packed")
    assert packed.agg(F.sum("id")).collect()[0][0] == 1_249_975_000
    stored = sum(map(os.path.getsize, data_files(f"{folder}/packed")))
    # Hadoop counts its checksums, too.
    assert stored <= read_bytes(spark.sparkContext, packed.collect) < stored + 10_000


def test_what_goes_wrong_on_another_file_system(spark, folder):
    spark.range(1000).coalesce(1).write.format("tfrecord").save("viewfs://c/data/bad")
    [path] = data_files(f"{folder}/bad")
    os.remove(os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.crc"))  # Hadoop's own checksums
    with open(path, "r+b") as file:
        file.seek(5000)
        file.write(b"\0" * 10)
    df = spark.read.schema("id long").format("tfrecord").load("viewfs://c/data/bad")
    for size in ("1000000", "3000"):  # whole, and in splits, which look for an index
        spark.conf.set("spark.sql.files.maxPartitionBytes", size)
        try:
            with pytest.raises(Exception) as raised:
                df.select("*").collect()
        finally:
            spark.conf.unset("spark.sql.files.maxPartitionBytes")
        line = raised.value.java_exception.toString().splitlines()[0]
        assert "viewfs://c/data/bad/part-" in line and ": offset " in line
    os.remove(path)
    with pytest.raises(Exception, match="part-.*tfrecord"):
        df.collect()


def test_inference_of_large_files(spark, folder):
    """They are looked at in parts: by threads of the driver if they are local, else by tasks."""
    part = 64 << 20
    path = f"{folder}/large.tfrecord"
    records.write(path, {"x": [list(range(2000))], "y": [1]})
    with open(path, "rb") as file:
        one = file.read()
    records.write(path, {"x": [[1]], "z": [b"\xff"]}, overwrite=True)
    with open(path, "rb") as file:
        last = file.read()
    with open(path, "wb") as file:
        for _ in range(2 * part // len(one) + 100):
            file.write(one)
        file.write(last)
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup())
    local = spark.read.format("tfrecord").load(path)
    assert local.dtypes == [("x", "array<bigint>"), ("y", "bigint"), ("z", "binary")]
    assert len(tracker.getJobIdsForGroup()) == before
    served = spark.read.format("tfrecord").load("viewfs://c/data/large.tfrecord")
    assert served.dtypes == local.dtypes
    assert len(tracker.getJobIdsForGroup()) == before + 1
    assert served.filter("z is not null").count() == 1
    with open(path, "r+b") as file:
        file.seek(part + 1000)
        file.write(b"\0" * 100)
    with pytest.raises(Exception, match="large.tfrecord: offset 6.*: "):
        spark.read.format("tfrecord").load(path)


# ---- Hadoop's formats ----


def test_input_format(spark, folder):
    blobs = [b"%d" % i * (i % 50) for i in range(20_000)]
    with open(f"{folder}/blobs", "wb") as file:
        file.write(b"".join(map(framed, blobs)))
    conf = {"mapreduce.input.fileinputformat.split.maxsize": "200000"}
    rdd = spark.sparkContext.newAPIHadoopFile(f"{folder}/blobs", INPUT, BYTES, NOTHING, conf=conf)
    assert rdd.getNumPartitions() > 3
    found = rdd.map(lambda pair: bytes(pair[0])).collect()
    assert sorted(found) == sorted(blobs)
    assert read_bytes(spark.sparkContext, rdd.count) >= os.path.getsize(f"{folder}/blobs")
    with open(f"{folder}/blobs", "r+b") as file:
        file.truncate(os.path.getsize(f"{folder}/blobs") - 3)
    with pytest.raises(Exception, match="blobs: offset .* cut short"):
        rdd.count()
    skipping = spark.sparkContext.newAPIHadoopFile(
        f"{folder}/blobs", INPUT, BYTES, NOTHING, conf={**conf, "tfrecord.onCorrupt": "skip"}
    )
    assert skipping.count() == len(blobs) - 1


@pytest.mark.parametrize("old", [False, True])
def test_output_formats(spark, folder, old):
    pairs = spark.sparkContext.parallelize([(bytearray(b"record %d" % i), None) for i in range(100)], 2)
    path = f"{folder}/out-{old}"
    if old:
        pairs.saveAsHadoopFile(path, OLD_OUTPUT, BYTES, NOTHING)
    else:
        pairs.saveAsNewAPIHadoopFile(path, OUTPUT, BYTES, NOTHING)
    with records.read(data_files(path), record="bytes") as reader:
        found = [bytes(each) for batch in reader for each in batch["record"]]
    assert sorted(found) == sorted(b"record %d" % i for i in range(100))
    table = spark.read.format("tfrecord").option("recordType", "ByteArray").load(path)
    assert table.count() == 100


def test_output_that_hadoop_is_told_to_compress(spark, folder):
    pairs = spark.sparkContext.parallelize([(bytearray(b"record %d" % i), None) for i in range(100)], 1)
    setting = "mapreduce.output.fileoutputformat.compress"
    gzip = {setting: "true", f"{setting}.codec": "org.apache.hadoop.io.compress.GzipCodec"}
    pairs.saveAsNewAPIHadoopFile(f"{folder}/gzip", OUTPUT, BYTES, NOTHING, conf=gzip)
    [path] = data_files(f"{folder}/gzip")
    assert path.endswith(".gz")
    back = spark.sparkContext.newAPIHadoopFile(f"{folder}/gzip", INPUT, BYTES, NOTHING)
    assert back.map(lambda pair: bytes(pair[0])).collect() == [b"record %d" % i for i in range(100)]
    odd = {setting: "true", f"{setting}.codec": "org.apache.hadoop.io.compress.SnappyCodec"}
    with pytest.raises(Exception, match="option codec: expected none, gzip or zlib"):
        pairs.saveAsNewAPIHadoopFile(f"{folder}/odd", OUTPUT, BYTES, NOTHING, conf=odd)


# ---- dfutil ----


def test_dfutil(spark, folder):
    df = spark.createDataFrame(
        [(1, 2, True, 1.5, 2.5, "text", bytearray(b"\xff"), [1, 2], [0.5, 1.5])],
        "byte tinyint, long bigint, flag boolean, float float, double double, string string, binary binary, "
        "longs array<smallint>, floats array<float>",
    )
    path = f"{folder}/dfutil"
    dfutil.saveAsTFRecords(df, path)
    found = dfutil.loadTFRecords(spark.sparkContext, path)
    assert dict(found.dtypes) == {
        "byte": "bigint",
        "long": "bigint",
        "flag": "bigint",
        "float": "double",
        "double": "double",
        "string": "string",
        "binary": "binary",
        "longs": "array<bigint>",
        "floats": "array<double>",
    }
    [row] = found.collect()
    assert row.asDict() == {**df.collect()[0].asDict(), "flag": 1}
    assert dfutil.isLoadedDF(found) and not dfutil.isLoadedDF(df) and not dfutil.isLoadedDF(found.select("*"))
    assert dict(dfutil.loadTFRecords(spark.sparkContext, path, ["string"]).dtypes)["string"] == "binary"
    assert dfutil.loadTFRecords(spark, f"{path},{path}").rdd.count() == 2
    with pytest.raises(Exception, match="already exists"):
        dfutil.saveAsTFRecords(df, path)


def test_dfutil_of_java(spark, folder):
    """What drivers in Java and Scala have; saving and loading is tested above, which goes by it."""
    java = spark.sparkContext._jvm.org.tfos.spark.DFUtil
    strings = spark.sparkContext._gateway.new_array(spark.sparkContext._jvm.java.lang.String, 1)
    strings[0] = "s"
    df = spark.createDataFrame(
        [(i, [i / 2] * (i % 3), None if i % 5 == 0 else f"text {i}", [i, i]) for i in range(2500)],
        "x bigint, f array<float>, s string, small array<smallint>",
    )
    examples = java.toTFExample(df._jdf)
    schema = "x bigint, f array<float>, s string, small array<int>"
    parsed = spark.sparkContext._jvm.org.apache.spark.sql.types.StructType.fromDDL(schema)
    back = DataFrame(java.fromTFExample(spark._jsparkSession, examples, parsed), spark)
    assert sorted(back.collect()) == sorted(df.collect())
    assert back.limit(3).count() == 3
    jvm = spark.sparkContext._jvm
    classes = [jvm.org.apache.hadoop.io.BytesWritable(), jvm.org.apache.hadoop.io.NullWritable.get()]
    classes.append(jvm.org.tensorflow.hadoop.io.TFRecordFileOutputFormat())
    examples.saveAsNewAPIHadoopFile(f"{folder}/examples", *(each.getClass() for each in classes))
    saved = spark.read.schema(schema).format("tfrecord").load(f"{folder}/examples")
    assert sorted(saved.collect()) == sorted(df.collect())
    with records.read(data_files(f"{folder}/examples")[:1], record="bytes") as reader:
        [one, *_] = next(iter(reader))["record"]
    inferred = java.inferSchema(bytes(one), strings)
    assert inferred.simpleString() == "struct<f:array<double>,small:array<bigint>,x:bigint>"
    loaded = java.loadTFRecords(spark._jsparkSession, f"{folder}/examples", strings)
    assert dict(DataFrame(loaded, spark).dtypes)["s"] == "binary"
    assert java.isLoadedDF(loaded) and not java.isLoadedDF(df._jdf)
    with pytest.raises(Exception, match="column 'd': .*date"):
        java.toTFExample(spark.sql("SELECT current_date() AS d")._jdf)
    wrong = spark.sparkContext._jvm.org.apache.spark.sql.types.StructType.fromDDL("x float")
    with pytest.raises(Exception, match="'x'"):
        java.fromTFExample(spark._jsparkSession, examples, wrong).collect()


def test_examples_by_hand(spark, folder):
    tf = pytest.importorskip("tensorflow")
    rows = [Row(x=1, f=[0.5, 1.5], s="text", b=bytearray(b"\xff"), n=None)]
    dtypes = [("x", "bigint"), ("f", "array<float>"), ("s", "string"), ("b", "binary"), ("n", "int")]
    [(raw, nothing)] = dfutil.toTFExample(dtypes)(rows)
    assert nothing is None and isinstance(raw, bytearray)
    example = tf.train.Example.FromString(bytes(raw))
    schema = dfutil.infer_schema(example, ["b"])
    assert schema.simpleString() == "struct<b:binary,f:array<double>,n:string,s:string,x:bigint>"
    [row] = dfutil.fromTFExample([(raw, None)], ["b"])
    assert row.asDict() == rows[0].asDict()
    with pytest.raises(TypeError, match="column 'd': an Example has no place for date"):
        dfutil.toTFExample([("d", "date")])([Row(d=1)])


# ---- any rows ----


def test_random_schemas_come_back(spark, folder):
    """Written and read back: rows of every type, with nulls, of random schemas."""
    kinds = {
        "bigint": lambda draw: draw.randrange(-(2**63), 2**63),
        "int": lambda draw: draw.randrange(-(2**31), 2**31),
        "float": lambda draw: float(draw.randrange(-(2**20), 2**20)) / 8,
        "double": lambda draw: float(draw.randrange(-(2**20), 2**20)) / 8,
        "string": lambda draw: "".join(draw.choice("aé\U0001f600 ") for _ in range(draw.randrange(5))),
        "binary": lambda draw: bytearray(draw.randbytes(draw.randrange(5))),
        "boolean": lambda draw: draw.random() < 0.5,
    }
    for seed in range(6):
        draw = random.Random(seed)
        columns = {}
        for i in range(draw.randrange(1, 12)):
            kind = draw.choice(list(kinds))
            lists = draw.randrange(3)
            columns[f"c {i}"] = (kind, lists)

        def value(kind, lists):
            if lists == 0:
                return kinds[kind](draw)
            gaps = lists == 2 and draw.random() < 0.2
            return [None if gaps and i % 2 else value(kind, lists - 1) for i in range(draw.choice([0, 1, 1, 5]))]

        def cell(kind, lists):
            return None if draw.random() < 0.2 else value(kind, lists)

        rows = [tuple(cell(*column) for column in columns.values()) for _ in range(draw.randrange(1, 300))]
        schema = ", ".join(
            f"`{name}` " + "array<" * lists + kind + ">" * lists for name, (kind, lists) in columns.items()
        )
        df = spark.createDataFrame(rows, schema)
        path = f"{folder}/random-{seed}"
        options = {"recordType": "SequenceExample", "codec": draw.choice(["none", "gzip", "zlib"])}
        df.write.format("tfrecord").options(**options).save(path)
        found = spark.read.schema(df.schema).format("tfrecord").options(recordType="SequenceExample").load(path)
        assert sorted(map(repr, found.collect())) == sorted(map(repr, df.collect())), seed


# ---- who stops early ----


def test_python_that_takes_a_few_rows(spark, folder):
    """The memory of a scan is there for as long as a thread of Spark's may look at it."""
    path = f"{folder}/few"
    spark.range(0, 200_000, 1, 1).withColumn("t", F.concat(F.lit("t"), "id")).write.format("tfrecord").save(path)
    df = spark.read.schema("id long, t string").format("tfrecord").load(path)
    double = F.udf(lambda text: text * 2, "string")
    for _ in range(5):
        assert len(df.rdd.map(lambda row: row.t).take(1)) == 1
        assert len(df.select(double("t")).limit(1).collect()) == 1
    assert df.select(double("t").alias("d")).filter("d is not null").count() == 200_000


# ---- memory ----


def test_a_thousand_tasks_leave_nothing_behind(spark, folder):
    """Some of them fail midway, some stop early: memory outside of the heap is where it was."""
    path = f"{folder}/leak"
    spark.range(0, 40_000, 1, 1).withColumn("x", F.array_repeat(F.col("id").cast("float"), 100)).write.format(
        "tfrecord"
    ).save(path)
    [file] = data_files(path)
    bad = f"{folder}/leak-bad"
    os.mkdir(bad)
    with open(file, "rb") as source, open(f"{bad}/x", "wb") as sink:
        data = bytearray(source.read())
        data[len(data) - 5] ^= 1
        sink.write(data)
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(len(data) // 95))
    spark.conf.set("spark.sql.files.openCostInBytes", "0")
    good = spark.read.schema("id long, x array<float>").format("tfrecord").load(path)
    broken = spark.read.schema("id long, x array<float>").format("tfrecord").load(bad)
    try:
        tasks = good.rdd.getNumPartitions()
        assert tasks >= 90

        def run():
            assert good.agg(F.sum(good.x[5])).collect()[0][0] == 799_980_000
            assert len(good.select("x").limit(50).collect()) == 50
            with pytest.raises(Exception, match="checksum"):
                broken.agg(F.sum(broken.x[5])).collect()

        run()
        before = _native_bytes(spark)
        for _ in range(6):
            run()
        after = _native_bytes(spark)
        assert 6 * 2 * tasks > 1000
        for was, now in zip(before, after):
            assert now[1] == 0, "objects of the native library are left"
            assert now[0] - was[0] < 64 << 20
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
        spark.conf.unset("spark.sql.files.openCostInBytes")


def _native_bytes(spark):
    """(bytes in memory, objects of the core) of each executor."""
    found = spark.sparkContext._jvm.org.tfos.spark.Footprint.ofExecutors(spark.sparkContext._jsc, 2)
    return sorted((each.residentBytes(), each.objects()) for each in found)
