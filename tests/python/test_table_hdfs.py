"""TFRecords as tables of Spark on a real HDFS: blocks, permissions, quotas, and what goes wrong there."""

import os
import re
import time

import pytest
from hadoop_tools import hdfs
from processes import wait_for
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_tools
import tensorflowonspark
from spark_tools import ROOT, marked_processes, read_bytes, spark_context
from tensorflowonspark import dfutil
from tensorflowonspark.pipeline import TFModel

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)]

BLOCK_BYTES = 64 << 10
ROWS = 40_000
SUM = ROWS * (ROWS - 1) // 2


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    with hdfs(tmp_path_factory.mktemp("hdfs")) as found:
        yield found


@pytest.fixture(scope="module")
def spark(tmp_path_factory, files):
    """Executors of their own. Paths without a scheme are in HDFS, as on a cluster; later contexts know nothing of it,
    as they would of settings that a JVM is started with."""
    settings = {
        "fs.defaultFS": files.address,
        "dfs.replication": "1",
        "dfs.blocksize": str(BLOCK_BYTES),
        "dfs.client.max.block.acquire.failures": "1",
        "dfs.client.retry.window.base": "10",
    }
    conf = {"spark.sql.shuffle.partitions": "2"}
    home = tmp_path_factory.mktemp("spark")
    with spark_context("local-cluster[2,1,1024]", home, executors=2, conf=conf) as context:
        for key, value in settings.items():
            context._jsc.hadoopConfiguration().set(key, value)
        session = tensorflowonspark.attach(SparkSession(context))
        session.conf.set("spark.sql.files.openCostInBytes", "0")
        yield session


@pytest.fixture
def path(request):
    """A folder of the test's own, without a scheme: /test_name."""
    return "/" + re.sub(r"\W+", "-", request.node.name).strip("-")


def numbers(spark, partitions=2):
    frame = spark.range(0, ROWS, 1, partitions)
    return frame.withColumn("x", F.array_repeat(F.col("id").cast("float"), 20))


def sums(frame):
    return tuple(frame.agg(F.count("*"), F.sum("id"), F.sum(frame.x[19])).collect()[0])


def with_split_bytes(spark, count, action):
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(count))
    try:
        return action()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def first_line(action):
    """The first line of what Spark raises."""
    with pytest.raises(Exception) as raised:
        action()
    error = raised.value
    text = error.java_exception.toString() if hasattr(error, "java_exception") else str(error)
    return text.strip().splitlines()[0]


# ---- models ----


def test_a_model(spark, files, path):
    """Whose folder has no scheme. Executors copy it, once, and notice when it is another one."""
    hadoop = spark._jvm.org.apache.hadoop.fs
    system = hadoop.FileSystem.get(spark._jsc.hadoopConfiguration())

    def put():
        system.delete(hadoop.Path(path), True)
        system.copyFromLocalFile(
            hadoop.Path(f"file://{ROOT}/tests/vectors/tensorflow/saved_model/plain"), hadoop.Path(path)
        )

    put()
    spark.conf.set("spark.tfos.model.idle_ms", "500")
    frame = spark.range(0, 100, 1, 4).selectExpr("array(float(id), 1f) as a")
    found = TFModel({}).setExportDir(path).setSignatureDefKey("three").transform(frame)
    assert sorted(row["sum"] for row in found.collect()) == [float(number + 1) for number in range(100)]
    wait_for(lambda: not marked_processes("tfos model"), 10)
    assert found.count() == 100  # of the copy
    wait_for(lambda: not marked_processes("tfos model"), 10)
    put()
    assert "the model was replaced after transform() was called" in failure_of(found)
    again = TFModel({}).setExportDir(files.address + path).setSignatureDefKey("three").transform(frame)
    assert again.count() == 100


def failure_of(frame):
    with pytest.raises(Exception) as raised:
        frame.collect()
    return str(raised.value)


# ---- there and back ----


@pytest.mark.parametrize("options", [{}, {"index": "true"}, {"codec": "gzip"}], ids=["plain", "index", "gzip"])
def test_there_and_back(spark, files, path, options):
    place = files.address + path
    numbers(spark).write.format("tfrecord").options(**options).save(place)
    names = [name.partition(".tfrecord")[2] for name in files.data_files(path)]
    assert names == {"index": ["", ".tfindex"] * 2, "codec": [".gz"] * 2}.get(next(iter(options), ""), [""] * 2)
    # Splits, frames and blocks have nothing to do with each other; one split has several blocks, or less than one.
    for split in (10 << 20, 3 * BLOCK_BYTES + 1000, BLOCK_BYTES - 500):
        found = with_split_bytes(spark, split, lambda: spark.read.format("tfrecord").load(place))
        assert found.dtypes == [("id", "bigint"), ("x", "array<float>")]

        def look(found=found, split=split):
            data = sum(count for name, count in files.files(path).items() if not name.endswith(".tfindex"))
            parts = found.rdd.getNumPartitions()
            assert parts >= data // split if "codec" not in options else parts == 2
            assert sums(found) == (ROWS, SUM, float(SUM))
            assert found.count() == ROWS
            assert found.filter("id % 1000 = 7").count() == ROWS // 1000

        with_split_bytes(spark, split, look)
    if "codec" not in options:
        assert max(files.files(path).values()) > 10 * BLOCK_BYTES


def test_partitions(spark, files, path):
    numbers(spark).withColumn("day", F.col("id") % 3).write.partitionBy("day").format("tfrecord").save(path)
    found = spark.read.format("tfrecord").load(path)
    assert sums(found) == (ROWS, SUM, float(SUM))
    assert found.filter("day = 1").agg(F.sum("id")).collect()[0][0] == sum(range(1, ROWS, 3))
    assert {os.path.basename(os.path.dirname(name)) for name in files.data_files(path)} == {"day=0", "day=1", "day=2"}


def test_a_schema_from_a_job(spark, path):
    """Files of more than 64 MB are looked at by tasks, each of which begins in the middle of a file."""
    wide = spark.range(0, 36_000, 1, 1).withColumn("x", F.array_repeat(F.col("id").cast("float"), 500))
    late = wide.withColumn("late", F.when(F.col("id") == 35_000, F.lit("here")))
    late.write.format("tfrecord").save(path)
    found = spark.read.format("tfrecord").load(path)
    assert found.dtypes == [("id", "bigint"), ("late", "string"), ("x", "array<float>")]
    assert found.filter("late = 'here'").first().id == 35_000


def test_dfutil(spark, files, path):
    dfutil.saveAsTFRecords(numbers(spark), path)
    found = dfutil.loadTFRecords(spark.sparkContext, files.address + path)
    assert dict(found.dtypes) == {"id": "bigint", "x": "array<double>"}
    assert dfutil.isLoadedDF(found)
    assert sums(found) == (ROWS, SUM, float(SUM))


def test_save_modes(spark, files, path):
    numbers(spark).write.format("tfrecord").option("index", "true").save(path)
    before = files.data_files(path)
    assert len(before) == 4
    spark.range(10).coalesce(1).write.mode("append").format("tfrecord").save(path)
    assert spark.read.format("tfrecord").load(path).count() == ROWS + 10
    spark.range(7).coalesce(1).write.mode("overwrite").format("tfrecord").save(path)
    assert not set(before) & set(files.data_files(path))
    assert sorted(row.id for row in spark.read.format("tfrecord").load(path).collect()) == list(range(7))
    with pytest.raises(Exception, match="already exists"):
        spark.range(7).write.format("tfrecord").save(path)


def test_streams(spark, path):
    source, sink, place = (f"{path}/{name}" for name in ("in", "out", "check"))
    spark.range(10).write.format("tfrecord").save(source)
    stream = spark.readStream.schema("id long").format("tfrecord").load(source)
    query = stream.writeStream.format("tfrecord").option("checkpointLocation", place).start(sink)
    try:
        query.processAllAvailable()
        assert spark.read.format("tfrecord").load(sink).count() == 10
        spark.range(10, 15).write.mode("append").format("tfrecord").save(source)
        query.processAllAvailable()
        found = spark.read.format("tfrecord").load(sink).collect()
        assert sorted(row.id for row in found) == list(range(15))
    finally:
        query.stop()


def test_bytes_that_were_read(spark, files, path):
    """Most of them by threads of the core's."""
    numbers(spark).write.format("tfrecord").save(path)
    frame = spark.read.schema("id long, x array<float>").format("tfrecord").load(path)
    whole = sum(files.files(path).values())
    for split in (10 << 20, 3 * BLOCK_BYTES + 1000):
        found = with_split_bytes(spark, split, lambda: read_bytes(spark.sparkContext, frame.count))
        assert whole <= found < 2 * whole  # with what is read behind the ends of splits


# ---- what goes wrong ----


def test_damage(spark, files, path):
    spark.range(1000, 11_000).coalesce(1).write.format("tfrecord").save(path)  # records of one size
    [name] = files.data_files(path)
    data = bytearray(files.read(name))
    size = len(data) // 10_000
    assert size * 10_000 == len(data) > 3 * BLOCK_BYTES
    frame = spark.read.schema("id long").format("tfrecord").load(path)
    data[size * 9000 + 14 : size * 9000 + 17] = b"\xff" * 3
    files.write(name, data, blocksize=BLOCK_BYTES)
    for split in (10 << 20, 50_000):
        line = with_split_bytes(spark, split, lambda: first_line(lambda: frame.agg(F.sum("id")).collect()))
        found = re.search(re.escape(files.address + name) + r": offset (\d+)", line)
        assert found and int(found[1]) == size * 9000, line
    assert files.address + name in first_line(lambda: spark.read.format("tfrecord").load(path))
    skipping = spark.read.schema("id long").format("tfrecord").option("onCorrupt", "skip").load(path)
    assert with_split_bytes(spark, 50_000, skipping.count) == 9999
    # Shorter than Spark was told, in the middle of a record and between two.
    for length in (size * 5000 + 5, size * 5000):
        files.write(name, data[:length], blocksize=BLOCK_BYTES)
        assert files.address + name in first_line(lambda: frame.agg(F.sum("id")).collect())


def test_a_file_that_is_gone(spark, files, path):
    spark.range(1000).coalesce(1).write.format("tfrecord").save(path)
    [name] = files.data_files(path)
    frame = spark.read.schema("id long").format("tfrecord").load(path)
    ignoring = spark.read.schema("id long").option("ignoreMissingFiles", "true").format("tfrecord").load(path)
    files.delete(name)
    assert files.address + name in first_line(frame.collect)
    assert ignoring.count() == 0


def test_a_file_that_is_forbidden(spark, files, path):
    spark.range(1000).coalesce(1).write.format("tfrecord").save(path)
    [name] = files.data_files(path)
    frame = spark.read.schema("id long").format("tfrecord").load(path)
    files.give_away(name, "000")
    for action in (frame.collect, lambda: spark.read.format("tfrecord").load(path)):
        line = first_line(action)
        assert files.address + name in line and "Permission denied" in line


def test_a_folder_that_is_forbidden(spark, files, path):
    files.call("MKDIRS", path, "PUT")
    files.give_away(path, "755")
    line = first_line(lambda: spark.range(10).write.format("tfrecord").save(f"{path}/t"))
    assert "Permission denied" in line and path in line
    assert files.files(path) == {}


@pytest.mark.parametrize("how", ["missing", "corrupt"])
def test_a_block_that_is_lost(spark, files, path, how):
    before = files.blocks()
    spark.range(10_000).coalesce(1).write.format("tfrecord").save(path)
    [name] = files.data_files(path)
    blocks = sorted(files.blocks() - before, key=lambda block: int(block.rpartition("_")[2]))
    assert len(blocks) > 3
    frame = spark.read.schema("id long").format("tfrecord").load(path)
    assert frame.count() == 10_000
    if how == "missing":
        os.remove(blocks[2])
    else:
        with open(blocks[2], "r+b") as file:
            file.seek(1000)
            file.write(b"\0" * 1000)
    start = time.monotonic()
    for split in (10 << 20, 50_000):
        line = with_split_bytes(spark, split, lambda: first_line(lambda: frame.agg(F.sum("id")).collect()))
        assert files.address + name in line, line
    assert files.address + name in first_line(lambda: spark.read.format("tfrecord").load(path))
    # Records that cannot be had are not damaged ones, which may be skipped.
    skipping = spark.read.schema("id long").format("tfrecord").option("onCorrupt", "skip").load(path)
    assert files.address + name in first_line(skipping.count)
    assert time.monotonic() - start < 60


# ---- writes that fail ----


@pytest.mark.parametrize("partitioned", [False, True])
def test_a_task_that_fails_leaves_nothing_behind(spark, files, path, partitioned):
    @F.udf("long")
    def fail_late(number):
        if number == ROWS - 10:
            raise ValueError("no such number")
        return number

    frame = numbers(spark).withColumn("id", fail_late("id")).withColumn("day", F.col("id") % 3)
    writer = frame.write.format("tfrecord").option("index", "true")
    with pytest.raises(Exception, match="no such number"):
        (writer.partitionBy("day") if partitioned else writer).save(path)
    assert files.files(path) == {}


def test_a_quota_that_is_used_up(spark, files, path):
    """The disk of a cluster is full when the name node says so."""
    files.call("MKDIRS", path, "PUT", permission="777")
    files.call("SETQUOTA", path, "PUT", namespacequota=-1, storagespacequota=5 * BLOCK_BYTES)
    with pytest.raises(Exception) as raised:
        numbers(spark).write.format("tfrecord").option("index", "true").save(f"{path}/t")
    # One line, though the name node has sent its stack.
    place = re.escape(f"{files.address}{path}/t/") + r"\S+\.tfrecord"
    assert re.search(rf"IO: {place}: writing failed: .*quota.*\n\tat org\.tfos", str(raised.value))
    assert files.files(path) == {}
