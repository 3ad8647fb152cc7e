"""DataFrames that Spark has in columns: Parquet, ORC and caches. What comes is what comes of their rows."""

import os
import re
import sys

import pytest
from pyspark import cloudpickle
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import Answers, counted, node_processes, open_feed, spark_context, wait_for
from tensorflowonspark import TFCluster, attach

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

ROWS = 10_000  # Spark reads Parquet in batches of 4096


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.tfos.feed.lane_bytes": str(1 << 20),
        "spark.tfos.feed.memory_bytes": str(1 << 20),
    }
    with spark_context("local[2]", tmp_path_factory.mktemp("spark"), conf=conf) as context:
        yield SparkSession(context)
    wait_for(lambda: not node_processes(), 10)


@pytest.fixture
def setting(spark):
    """Sets something for the session until the test is over."""
    changed = []

    def change(key, value):
        changed.append(key)
        spark.conf.set(key, value)

    yield change
    for key in changed:
        spark.conf.unset(key)


VECTORIZED = "spark.sql.parquet.enableVectorizedReader"


# ---- feeding ----


def take_all(args, ctx):
    """The rows that come, as lists by column, without the spelling that JSON has not."""
    from tensorflowonspark import _native

    feed, columns = _native.Feed("input"), {}
    while (batch := feed.next(1000)) is not None:
        for name, values in _native.decode_columns(batch, [(name, name) for name in args["names"]]).items():
            columns.setdefault(name, []).extend(map(repr, values))
    return columns


def take_some_and_wait(args, ctx):
    """Takes a hundred rows, and the others when a file is there."""
    import os
    import time

    from tensorflowonspark import _native

    feed, numbers = _native.Feed("input"), []
    while (batch := feed.next(100)) is not None:
        numbers += _native.decode_columns(batch, [("id", "id")])["id"]
        open(args["taken"], "w").close()
        while not os.path.exists(args["go"]):
            time.sleep(0.02)
    return numbers


def start(spark, answers, look, arguments):
    mode = TFCluster.InputMode.SPARK
    return TFCluster.run(spark.sparkContext, answers.program(look), arguments, 1, 0, input_mode=mode)


class Fed:
    """What the program on the one node has got of a DataFrame, and how it came there."""

    def __init__(self, frame, folder, columns=(), **options):
        answers, before = Answers(folder), counted(frame.sparkSession)
        names = sorted(options["input_mapping"].values()) if "input_mapping" in options else frame.columns
        cluster = start(frame.sparkSession, answers, take_all, {"names": names})
        try:
            cluster.train(frame, 1, feed_timeout=60, columns=dict(columns), **options)
        finally:
            cluster.shutdown(timeout=60)
        (self.values,) = answers.read()
        after = counted(frame.sparkSession)
        self.from_columns, self.from_rows = (b - a for a, b in zip(before, after))

    def rows(self):
        return sorted(zip(*self.values.values()))


@pytest.fixture
def fed(tmp_path):
    def feed(frame, columns=(), **options):
        folder = tmp_path / f"answers-{len(os.listdir(tmp_path))}"
        folder.mkdir()
        return Fed(frame, folder, columns, **options)

    return feed


# ---- data ----

SCALARS = {
    "id": "id",
    "flag": "id % 3 = 0",
    "byte": "cast(id % 100 - 50 as byte)",
    "short": "cast(id % 1000 - 500 as short)",
    "int": "cast(id * 7 - 5 as int)",
    "few": "cast(id % 5 as int)",  # of few values Parquet makes a dictionary
    "long": "id * 10000000000",
    "float": "cast(id * 0.5 as float)",
    "double": "id / 3",
    "few_doubles": "cast(id % 3 as double)",
    "text": "concat('é', id)",
    "word": "element_at(array('one', 'two', '', 'three'), cast(id % 4 + 1 as int))",
    "binary": "cast(concat('b', id % 7) as binary)",
    "date": "date_add(date'1970-01-02', cast(id as int))",
    "time": "timestamp_micros(id * 1000003)",
    "ntz": "cast(timestamp_micros(id) as timestamp_ntz)",
    "money": "cast(id % 100 * 1.25 - 50 as decimal(9, 2))",
    "more_money": "cast(id * 1.001 as decimal(18, 3))",
    "most_money": "cast(id as decimal(30, 5)) * -1000000000000",
    "maybe": "if(id % 3 = 1, null, id)",
    "maybe_few": "if(id % 2 = 1, null, cast(id % 4 as int))",
    "maybe_word": "if(id % 5 = 1, null, concat('w', id % 3))",
    "never": "cast(null as float)",
}
LISTS = {
    "pair": "array(cast(id as float), cast(id % 2 as float))",
    "ragged": "transform(slice(array(1, 2, 3), 1, cast(id % 4 as int)), k -> id * k)",
    "words": "if(id % 2 = 0, array('x', concat('y', id)), array())",
    "holes": "array(id, if(id % 3 = 0, null, 1), 2)",
    "lost": "if(id % 7 = 0, null, array(id))",
    "lists": "array(array(cast(id as int)), array(1, cast(id % 10 as int)))",
    "prices": "array(cast(id % 9 as decimal(5, 2)))",
}
DECLARED = {
    "short": {"cast": "double"},
    "long": {"cast": "float"},
    "money": {"cast": "double"},
    "more_money": {"cast": "int64"},
    "most_money": {"cast": "string"},
    "maybe": {"default": -1},
    "maybe_few": {"default": -2},
    "maybe_word": {"default": "nothing"},
    "never": {"default": 0.5},
    "ragged": {"shape": [None]},
    "words": {"shape": [None]},
    "holes": {"default": -3},
    "lost": {"default": [77]},
    "lists": {"shape": [None, None]},
    "prices": {"cast": "double"},
}


def declared(names):
    return {name: DECLARED[name] for name in names if name in DECLARED}


def made(spark, columns, rows=ROWS):
    return spark.range(0, rows, 1, 1).selectExpr(*(f"{text} as {name}" for name, text in columns.items()))


@pytest.fixture(scope="module")
def files(spark, tmp_path_factory):
    """The same rows in one file of each format, in order."""
    folder = tmp_path_factory.mktemp("files")
    for format in ("parquet", "orc"):
        made(spark, {**SCALARS, **LISTS}).write.format(format).save(str(folder / format))
    return folder


# ---- tests ----


@pytest.mark.parametrize("off_heap", [False, True])
def test_parquet_of_every_type_is_fed_from_columns(spark, files, fed, setting, off_heap):
    setting("spark.sql.columnVector.offheap.enabled", str(off_heap).lower())
    frame = spark.read.parquet(str(files / "parquet"))
    columns = fed(frame, declared(frame.columns))
    assert (columns.from_columns, columns.from_rows) == (ROWS, 0)
    setting(VECTORIZED, "false")
    rows = fed(frame.select("*"), declared(frame.columns))
    assert (rows.from_columns, rows.from_rows) == (0, ROWS)
    assert columns.values.keys() == rows.values.keys()
    for name, values in columns.values.items():
        assert values == rows.values[name], name
    # Not only are both the same, but they are what they should be.
    assert columns.values["id"] == [repr(i) for i in range(ROWS)]
    assert columns.values["maybe"] == [repr(-1 if i % 3 == 1 else i) for i in range(ROWS)]
    assert columns.values["word"][:5] == ["'one'", "'two'", "''", "'three'", "'one'"]
    assert columns.values["ragged"][:4] == ["[]", "[1]", "[2, 4]", "[3, 6, 9]"]
    assert columns.values["lists"][12] == "[[12], [1, 2]]"


def test_records_are_fed_from_columns(spark, fed, setting, tmp_path):
    """Tables of TFRecords: what Spark scans of them goes to the program as it is, lists too."""
    attach(spark)
    odd = {"byte", "short", "date", "time", "ntz", "holes"}  # for which records have no place
    columns = {name: text for name, text in {**SCALARS, **LISTS}.items() if name not in odd}
    data = made(spark, columns)
    path = str(tmp_path / "table")
    data.write.format("tfrecord").option("recordType", "SequenceExample").save(path)
    frame = spark.read.schema(data.schema).format("tfrecord").option("recordType", "SequenceExample").load(path)
    found = fed(frame, declared(frame.columns))
    assert (found.from_columns, found.from_rows) == (ROWS, 0)
    rows = fed(frame.filter("id >= 0"), declared(frame.columns))
    assert (rows.from_columns, rows.from_rows) == (0, ROWS)
    assert found.rows() == rows.rows()  # a large file is several partitions: they come in any order
    by_id = dict(zip(map(int, found.values["id"]), zip(found.values["ragged"], found.values["lists"])))
    assert sorted(by_id) == list(range(ROWS))
    assert by_id[0][0] == "[]" and by_id[3][0] == "[3, 6, 9]" and by_id[12][1] == "[[12], [1, 2]]"


def test_orc_is_fed_from_columns_unless_it_has_lists(spark, files, fed, setting):
    frame = spark.read.orc(str(files / "orc"))
    scalars = frame.select(*SCALARS)
    columns, mixed = fed(scalars, declared(SCALARS)), fed(frame, declared(frame.columns))
    assert (columns.from_columns, columns.from_rows) == (ROWS, 0)
    assert (mixed.from_columns, mixed.from_rows) == (0, ROWS)
    setting("spark.sql.orc.enableVectorizedReader", "false")
    rows = fed(frame.select("*"), declared(frame.columns))
    assert rows.from_rows == ROWS
    for name, values in rows.values.items():
        assert mixed.values[name] == values, name
        assert name not in SCALARS or columns.values[name] == values, name


def test_a_cached_frame_is_fed_from_columns(spark, fed, setting):
    names = ["id", "flag", "byte", "short", "int", "few", "long", "float", "double", "maybe", "never"]
    frame = made(spark, {name: SCALARS[name] for name in names}, 25_000).cache()
    columns = fed(frame, declared(names))
    assert (columns.from_columns, columns.from_rows) == (25_000, 0)
    setting("spark.sql.inMemoryColumnarStorage.enableVectorizedReader", "false")
    rows = fed(frame.select("*"), declared(names))
    assert (rows.from_columns, rows.from_rows) == (0, 25_000)
    assert columns.values == rows.values and columns.values["id"][-1] == "24999"
    frame.unpersist()


def test_columns_of_partitions_and_other_names_and_orders(spark, fed, tmp_path):
    """The value of a partition is there once for all of its rows; choosing columns is no reason for rows."""
    path = str(tmp_path / "days")
    data = spark.range(0, 3000, 1, 1).selectExpr("id", "concat('t', id) as text", "id % 3 as day", "'é' as place")
    data.write.partitionBy("day", "place").parquet(path)
    frame = spark.read.parquet(path)
    everything = fed(frame)
    assert (everything.from_columns, everything.from_rows) == (3000, 0)
    assert everything.rows() == sorted((repr(i), repr(f"t{i}"), repr(i % 3), "'é'") for i in range(3000))
    renamed = fed(frame, input_mapping={"text": "a", "day": "b", "id": "c"})
    assert (renamed.from_columns, renamed.from_rows) == (3000, 0)
    assert renamed.rows() == sorted((repr(f"t{i}"), repr(i % 3), repr(i)) for i in range(3000))


@pytest.mark.parametrize("change", ["filter", "expression", "limit", "shuffle"])
def test_plans_that_end_with_rows_are_fed_from_rows(spark, files, fed, change):
    frame = spark.read.parquet(str(files / "parquet")).select("id", "few")
    changed = {
        "filter": lambda: frame.filter("few = 2"),
        "expression": lambda: frame.selectExpr("id", "few + 1 as few"),
        "limit": lambda: frame.limit(50),
        "shuffle": lambda: frame.repartition(2, "id"),
    }[change]()
    found = fed(changed)
    assert found.from_columns == 0 and found.from_rows == changed.count()
    assert found.rows() == sorted((repr(row.id), repr(row.few)) for row in changed.collect())


def test_vectors_are_fed_from_rows(spark, fed, tmp_path):
    path = str(tmp_path / "vectors")
    data = [(i, Vectors.dense([i, 0.5]) if i % 2 else Vectors.sparse(2, {1: 2.5})) for i in range(100)]
    spark.createDataFrame(data, ["id", "vector"]).coalesce(1).write.parquet(path)
    found = fed(spark.read.parquet(path))
    assert found.from_rows == 100
    assert found.rows() == sorted((repr(i), repr(vector.toArray().tolist())) for i, vector in data)


@pytest.mark.parametrize(
    ("column", "columns", "message"),
    [
        ("if(id = 9000, null, id)", {}, "the value is null: declare a default"),
        pytest.param(
            "if(id = 9000, null, concat('t', id))", {}, "the value is null: declare a default", marks=pytest.mark.long
        ),
        ("array(1, if(id = 9000, null, 2))", {}, "a value of the list is null"),
        ("array_repeat(id, if(id = 9000, 2, 3))", {"shape": [3]}, r"expected a list of 3 values, as declared, found 2"),
        pytest.param(
            "if(id = 9000, 5000000000, id)",
            {"cast": "int32"},
            "the value 5000000000 does not fit int32",
            marks=pytest.mark.long,
        ),
        ("if(id = 9000, cast(X'ff' as string), 'a')", {}, "invalid UTF-8 at byte 0"),
    ],
)
def test_a_bad_row_is_named_alike(spark, fed, setting, tmp_path, column, columns, message):
    path = str(tmp_path / "bad")
    spark.range(0, ROWS, 1, 1).selectExpr("id", f"{column} as bad").write.parquet(path)
    messages = []
    for vectorized in ("true", "false"):
        setting(VECTORIZED, vectorized)
        with pytest.raises(TFCluster.TFClusterError, match=message) as raised:
            fed(spark.read.parquet(path), {"bad": columns})
        place = "partition 0: column 'bad', row 9000 of the partition: .*"
        messages.append(re.search(place, str(raised.value)).group())
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    "order",
    [
        ("false", "true"),
        pytest.param(("true", "false"), marks=pytest.mark.long),
        pytest.param(("true", "true"), marks=pytest.mark.long),
    ],
)
def test_a_second_attempt_goes_on_where_the_first_has_stopped(spark, setting, tmp_path, order):
    """Whichever of them had columns: rows come once, and in their order."""
    path, rows = str(tmp_path / "data"), 1_000_000
    spark.range(0, rows, 1, 1).write.parquet(path)
    answers = Answers(tmp_path)
    files = {"taken": str(tmp_path / "taken"), "go": str(tmp_path / "go")}
    cluster = start(spark, answers, take_some_and_wait, files)
    session = cluster._session
    try:
        attempts = []
        for vectorized in order:
            setting(VECTORIZED, vectorized)
            data = spark.sparkContext._jvm.org.tfos.spark.FeedData(spark.read.parquet(path)._jdf, "{}")
            assert data.columnar() == (vectorized == "true")
            attempts.append(data)
        ticket = bytearray(open_feed(cluster, 1))
        first = attempts[0].submit(ticket, "the first attempt")
        wait_for(lambda: os.path.exists(files["taken"]), 60)
        first.cancel()
        wait_for(first.isDone, 60)
        before = counted(spark)
        second = attempts[1].submit(ticket, "the second attempt")
        open(files["go"], "w").close()
        assert second.awaitEnd(60_000) and second.failure() is None
        fed_again = sum(counted(spark)) - sum(before)
        assert 0 < fed_again <= rows - 100
    except BaseException:
        session.stop("the test is over")  # the program may still wait for its file
        raise
    finally:
        cluster.shutdown(timeout=60)
    assert answers.read()[0] == list(range(rows))
