"""The golden vectors through Spark, TensorFlow, the command and the old Java classes, from each to each other."""

import glob
import json
import os
import subprocess
import sys

import conftest
import make_vectors as wire
import pyspark
import pytest
import tensorflow as tf
from processes import JAVA_OPTIONS
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from test_records_vectors import EXPECTED, load

import spark_tools
import tensorflowonspark
from spark_tools import data_files, spark_context

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

COMMAND = os.path.join(os.path.dirname(sys.executable), "tfos")
HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = {"example": "Example", "sequence_example": "SequenceExample", "bytes": "ByteArray"}
OLD_JAR = os.path.expanduser("~/.m2/repository/org/tensorflow/tensorflow-hadoop/1.15.0/tensorflow-hadoop-1.15.0.jar")


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    with spark_context("local[2]", tmp_path_factory.mktemp("spark")) as context:
        yield tensorflowonspark.attach(SparkSession(context))


@pytest.fixture(scope="module")
def written(spark, tmp_path_factory):
    """Each vector as Spark has read and written it: the path of the one file."""
    folder = tmp_path_factory.mktemp("written")
    found = {}
    for path in EXPECTED:
        vector, file, _ = load(path)
        name = os.path.basename(path)[:-5]
        df = table(spark, vector, file)
        if name == "sequence":  # Spark has an array for a list of single features as well as for a feature of several
            df = df.withColumn("label", F.transform("label", lambda each: F.array(each)))
        df.coalesce(1).write.format("tfrecord").options(**options_of(vector)).save(f"{folder}/{name}")
        [found[path]] = data_files(f"{folder}/{name}")
    return found


@pytest.fixture(scope="module")
def copied(written, tmp_path_factory):
    """Those files, copied by the old classes."""
    assert os.path.exists(OLD_JAR), f"{OLD_JAR} is missing: `scripts/maven -DskipTests package` fetches it"
    folder = tmp_path_factory.mktemp("copied")
    pairs = {path: str(folder / os.path.basename(path)[:-5]) for path in written}
    arguments = [each for path, copy in pairs.items() for each in (written[path], copy)]
    hadoop = glob.glob(os.path.join(os.path.dirname(pyspark.__file__), "jars", "hadoop-client-api-*.jar"))
    java = subprocess.check_output([f"{spark_tools.ROOT}/scripts/find-java"], text=True).strip()
    places = os.pathsep.join([OLD_JAR, *hadoop])
    command = [f"{java}/bin/java", *JAVA_OPTIONS.split(), "-cp", places, f"{HERE}/OldRecords.java"]
    subprocess.run([*command, *arguments], check=True, timeout=100)
    return pairs


def options_of(vector):
    return {"recordType": TYPES[vector["schema"]["record"]]}


def table(spark, vector, path, schema=None):
    """With a schema where files do not tell all of it: of a feature that no record has, nothing is written."""
    reader = spark.read if schema is None else spark.read.schema(schema)
    return reader.format("tfrecord").options(**options_of(vector)).load(path)


def rows_of(df, vector):
    """In the form of the vectors. Spark's name for a record as it is differs from that of the core."""
    rows = [conftest.plain(json_like(row)) for row in df.collect()]
    if vector["schema"]["record"] == "bytes":
        rows = [{"record": row["byteArray"]} for row in rows]
    return rows


def json_like(value):
    if isinstance(value, pyspark.sql.Row):
        return {name: json_like(item) for name, item in value.asDict().items()}
    if isinstance(value, list):
        return [json_like(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: os.path.basename(path)[:-5])
class TestVector:
    def test_spark_reads_what_tensorflow_wrote(self, spark, path):
        vector, file, _ = load(path)
        assert conftest.same(rows_of(table(spark, vector, file), vector), vector["rows"])

    def test_tensorflow_reads_what_spark_wrote(self, written, path):
        vector, _, _ = load(path)
        found = [wire.row_of(item.numpy(), vector["schema"]) for item in tf.data.TFRecordDataset(written[path])]
        assert conftest.same(found, vector["rows"])

    def test_the_command_reads_what_spark_wrote_and_back(self, spark, written, path, tmp_path):
        vector, file, _ = load(path)
        schema = table(spark, vector, file).schema
        copy = str(tmp_path / "copy.tfrecord")
        convert = [COMMAND, "records", "convert", "--record", vector["schema"]["record"], written[path]]
        subprocess.run([*convert, copy], check=True, capture_output=True)
        assert conftest.same(rows_of(table(spark, vector, copy, schema), vector), vector["rows"])
        lines = str(tmp_path / "lines.jsonl")
        subprocess.run([*convert, lines], check=True, capture_output=True)
        again = str(tmp_path / "again.tfrecord")
        (tmp_path / "schema.json").write_text(json.dumps(vector["schema"]))
        stated = [COMMAND, "records", "convert", "--schema", str(tmp_path / "schema.json"), lines, again]
        subprocess.run(stated, check=True, capture_output=True)
        assert conftest.same(rows_of(table(spark, vector, again, schema), vector), vector["rows"])

    def test_the_old_classes_read_what_spark_wrote_and_back(self, spark, written, copied, path):
        vector, file, _ = load(path)
        schema = table(spark, vector, file).schema
        with open(written[path], "rb") as ours, open(copied[path], "rb") as theirs:
            assert ours.read() == theirs.read()
        assert conftest.same(rows_of(table(spark, vector, copied[path], schema), vector), vector["rows"])
