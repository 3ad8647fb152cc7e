"""DataFrames to programs on nodes: Spark's memory, columns, lanes. No Python worker is between."""

import sys
import time

import pytest
from pyspark import cloudpickle
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import Answers, node_processes, open_feed, spark_context, wait_for
from tensorflowonspark import TFCluster

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    conf = {
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": str(64 << 20),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }
    with spark_context("local[2]", tmp_path_factory.mktemp("spark"), conf=conf) as context:
        yield SparkSession(context)
    wait_for(lambda: not node_processes(), 10)


@pytest.fixture
def answers(tmp_path):
    return Answers(tmp_path)


def take_all(args, ctx):
    """The rows that come, as lists by column."""
    from tensorflowonspark import _native

    feed, columns = _native.Feed("input"), {}
    while (batch := feed.next(64)) is not None:
        for name, values in _native.decode_columns(batch, [(name, name) for name in args["names"]]).items():
            columns.setdefault(name, []).extend(values)
    return columns


def take_one_and_terminate(args, ctx):
    from tensorflowonspark import _native

    feed = _native.Feed("input")
    taken = len(feed.next(1))
    feed.terminate()
    return taken


def run(frame, answers, look=take_all, columns=(), epochs=1):
    """What the program on the one node has seen."""
    arguments = {"names": frame.columns}
    context = frame.sparkSession.sparkContext
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(context, answers.program(look), arguments, 1, 0, input_mode=mode)
    try:
        cluster.train(frame, epochs, feed_timeout=60, columns=dict(columns))
    finally:
        cluster.shutdown(timeout=60)
    return answers.read()[0]


def sorted_rows(columns):
    return sorted(zip(*columns.values()))


def test_values_of_every_type_arrive(spark, answers):
    vectors = [(0, Vectors.dense([1.0, 0.5])), (1, Vectors.sparse(2, {1: 2.5}))]
    frame = spark.createDataFrame(vectors, ["id", "vector"]).selectExpr(
        "id",
        "id = 1 as flag",
        "cast(-id as byte) as byte",
        "cast(id * 0.5 as float) as float",
        "concat('é', id) as text",
        "date_add(date'1970-01-02', cast(id as int)) as date",
        "timestamp_micros(id + 7) as time",
        "cast(id + 0.25 as decimal(10, 2)) as money",
        "if(id = 0, null, id) as maybe",
        "array(id, id + 1) as fixed",
        "if(id = 0, array(), array('x', 'a longer text')) as ragged",
        "array(array(id), array(id, 2)) as lists",
        "vector",
    )
    declared = {"money": {"cast": "double"}, "maybe": {"default": -1}, "lists": {"shape": [None, None]}}
    assert sorted_rows(run(frame, answers, columns=declared)) == [
        (0, False, 0, 0.0, "é0", 1, 7, 0.25, -1, [0, 1], [], [[0], [0, 2]], [1.0, 0.5]),
        (1, True, -1, 0.5, "é1", 2, 8, 1.25, 1, [1, 2], ["x", "a longer text"], [[1], [1, 2]], [0.0, 2.5]),
    ]


def test_casts_by_the_names_of_spark(spark, answers):
    """Those that the guide names; programs see the type."""
    casts = {
        "cast(id + 0.75 as decimal(10, 2))": {"double": 7.75, "float": 7.75, "long": 7, "string": "7.75"},
        "cast(id as byte)": {"int": 7, "long": 7, "float": 7.0, "double": 7.0},
        "id": {"int": 7, "long": 7, "float": 7.0, "double": 7.0},
        "id = 7": {"int": 1, "long": 1, "float": 1.0, "double": 1.0},
        "timestamp_micros(id)": {"int": 7, "long": 7, "float": 7.0, "double": 7.0},
        "cast(id as double)": {"float": 7.0, "double": 7.0},
        "cast(id as string)": {"string": "7", "binary": b"7"},
    }
    wanted = [(value, cast, found) for value, targets in casts.items() for cast, found in targets.items()]
    frame = spark.range(7, 8).selectExpr(*(f"{value} as c{i}" for i, (value, _, _) in enumerate(wanted)))

    def look(args, ctx):
        return {name: repr(values) for name, values in take_all(args, ctx).items()}

    seen = run(frame, answers, look, {f"c{i}": {"cast": cast} for i, (_, cast, _) in enumerate(wanted)})
    assert list(seen.values()) == [repr([found]) for _, _, found in wanted]


def test_rows_come_once_per_epoch(spark, answers):
    frame = spark.range(0, 5000, 1, 3).selectExpr("id", "cast(id as string) as text")
    columns = run(frame, answers, epochs=2)
    assert sorted_rows(columns) == sorted((i, str(i)) for i in list(range(5000)) * 2)


def test_rows_of_cache_shuffle_and_sort_arrive(spark, answers):
    """Their memory is a byte[], or off the heap after a sort."""
    numbers = spark.range(0, 2000, 1, 2).selectExpr("id", "id * 2 as twice").cache()
    frame = numbers.repartition(2, "id").sortWithinPartitions("twice", ascending=False)
    assert sorted_rows(run(frame, answers)) == [(i, 2 * i) for i in range(2000)]


def test_a_null_fails_the_feed_and_is_named(spark, answers):
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 77, null, id) as number")
    with pytest.raises(TFCluster.TFClusterError, match="partition 1: column 'number', row 27 of the partition: .*null"):
        run(frame, answers)


def test_shutdown_tells_of_data_that_was_not_fed(spark, answers):
    """Unless it was fed in the end: what counts is the last train of a queue."""
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 77, null, id) as number")
    for again in (False, True):
        arguments, mode = {"names": ["number"]}, TFCluster.InputMode.SPARK
        cluster = TFCluster.run(spark.sparkContext, answers.program(take_all), arguments, 1, 0, input_mode=mode)
        with pytest.raises(TFCluster.TFClusterError, match="column 'number'"):
            cluster.train(frame, 1, feed_timeout=60)
        if again:
            cluster.train(frame.where("number is not null"), 1, feed_timeout=60)
            cluster.shutdown(timeout=60)
        else:
            with pytest.raises(TFCluster.TFClusterError, match="their data was not fed: partition 1: column 'number'"):
                cluster.shutdown(timeout=60)
        wait_for(lambda: not node_processes(), 10)


def test_a_list_of_another_length_fails_the_feed_unless_declared(spark, answers):
    frame = spark.range(0, 300_000, 1, 1).selectExpr("sequence(1, if(id = 299999, 2, 1)) as list")
    with pytest.raises(TFCluster.TFClusterError, match="column 'list', row 299999 .* 1 values.* found 2: declare"):
        run(frame, answers)


def test_columns_that_cannot_be_fed_are_refused_before_spark_works(spark):
    for expression, message in [
        ("named_struct('a', id) as column", "column 'column': a struct cannot be fed"),
        ("map(id, id) as column", "column 'column': a map cannot be fed"),
        ("cast(id as decimal(10, 2)) as column", "column 'column': TensorFlow has no decimals: declare a cast"),
    ]:
        frame = spark.range(1).selectExpr(expression)
        with pytest.raises(Exception, match=message):
            spark.sparkContext._jvm.org.tfos.spark.FeedData(frame._jdf, "{}")


def test_partitions_that_nobody_wants_are_not_computed(spark, answers):
    computed = spark.sparkContext.accumulator(0)

    def count(rows):
        computed.add(1)
        return rows

    rdd = spark.sparkContext.parallelize([(i,) for i in range(40)], 40).mapPartitions(count)
    frame = spark.createDataFrame(rdd, "number long")
    assert run(frame, answers, look=take_one_and_terminate) == 1
    assert 0 < computed.value < 40


def fail_soon(args, ctx):
    import time

    time.sleep(2)
    raise ValueError("on purpose")


def test_a_query_that_takes_long_to_plan_ends_with_the_cluster(spark):
    """Spark computes what is before the exchange while it plans what comes behind it."""
    from pyspark.sql import functions

    slow = functions.udf(lambda number: time.sleep(100) or number, "long")
    frame = spark.range(0, 2, 1, 2).select(slow("id").alias("id")).repartition(2)
    cluster = TFCluster.run(spark.sparkContext, fail_soon, None, 1, 0, input_mode=TFCluster.InputMode.SPARK)
    began = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError, match="on purpose"):
        cluster.train(frame, 1)
    assert time.monotonic() - began < 50
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None
    with pytest.raises(TFCluster.TFClusterError, match="on purpose"):
        cluster.shutdown()


def test_a_task_that_waits_can_be_cancelled(spark, answers):
    """The program takes nothing; the job ends soon after it is told to."""

    def sleep(args, ctx):
        time.sleep(600)

    context = spark.sparkContext
    mode = TFCluster.InputMode.SPARK
    cluster = TFCluster.run(context, answers.program(sleep), {}, 1, 0, input_mode=mode)
    try:
        frame = spark.range(1000)
        data = context._jvm.org.tfos.spark.FeedData(frame._jdf, "{}")
        job = data.submit(bytearray(open_feed(cluster, data.partitions())), "a feed")
        assert not job.awaitEnd(1000) and job.failure() is None
        job.cancel()
        tracker = context.statusTracker()
        wait_for(lambda: not tracker.getActiveJobsIds() and not tracker.getActiveStageIds(), 10)
        assert job.isDone() and job.failure() is None
    finally:
        cluster._session.stop("the test is over")
        cluster.shutdown(timeout=60)
