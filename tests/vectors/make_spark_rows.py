"""Writes spark_rows.*: rows as a real Spark lays them out in memory, and what must become of them.

    .venv/bin/python tests/vectors/make_spark_rows.py

The files are committed; run this only to add columns. spark_rows.block is what tfos_spark_rows_append takes,
spark_rows.columns.json the description of its columns, and spark_rows.jsonl what Spark itself says is in the rows.
Spark 3.5 and 4.1 give the same block.
"""

import base64
import datetime
import decimal
import json
import os
import struct
import time

from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

FOLDER = os.path.dirname(os.path.abspath(__file__))

COLUMNS = {
    "small": {"cast": "double"},
    "big": {"cast": "string"},
    "bigs": {"cast": "double"},
    "maybe": {"default": -1},
    "tags": {"shape": [None], "default": "?"},
    "lists": {"shape": [None, None]},
    "vector": {"cast": "float"},
}

SELECT = """
    id % 2 = 1 as flag, cast(id - 2 as byte) as byte, cast(id * -1000 as short) as short, cast(id * 100000 as int)
    as int, id * 10000000000 as long, cast(id / 4 as float) as float, id / 8 as double, concat('é', id) as string,
    cast(concat('b', id) as binary) as binary, date_add(date'1970-01-01', cast(id as int)) as date,
    timestamp_micros(id * 1000001) as time, to_timestamp_ntz('1970-01-01 00:00:00') as ntz, cast(id * 1.25 as
    decimal(10, 2)) as small, cast(id * -1.5 as decimal(38, 10)) as big, array(cast(id as decimal(20, 1))) as bigs,
    if(id % 2 = 0, null, id) as maybe, array(cast(id as float), cast(0.5 as float), cast(-1 as float)) as fixed,
    if(id = 0, array(), array('x', null, 'a longer text')) as tags, array(id = 1, true) as flags, array(cast(id as
    byte), cast(-1 as byte)) as bytes, array(cast(id as short)) as shorts, transform(sequence(1, id), x ->
    transform(sequence(1, x), y -> y * 1.5d)) as lists
"""


VECTORS = [
    Vectors.dense([1.0, 0.5, 0.0]),
    Vectors.sparse(3, {1: 2.5}),
    Vectors.sparse(3, {}),
    Vectors.dense([3.0, 3.0, 3.0]),
]


def split(text):
    """The expressions of a select list: commas inside brackets do not count."""
    parts, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[begin:at].strip())
            begin = at + 1
    return parts + [text[begin:].strip()]


def expected(name, value):
    """What a value becomes: the declared default for nulls, numbers for times, base64 for bytes."""
    if isinstance(value, list):
        return [expected(name, item) for item in value]
    if value is None:
        return COLUMNS[name]["default"]
    if isinstance(value, decimal.Decimal):
        return float(value) if COLUMNS[name]["cast"] == "double" else format(value, "f")
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(bytes(value)).decode()
    return value.toArray().tolist() if hasattr(value, "toArray") else value


def write(name, data):
    with open(os.path.join(FOLDER, name), "wb") as file:
        file.write(data)


def main():
    os.environ["TZ"] = "UTC"
    time.tzset()
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = session.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    frame = spark.createDataFrame(list(enumerate(VECTORS)), ["id", "vector"]).selectExpr(*split(SELECT), "vector")
    block = b""
    for row in frame._jdf.queryExecution().executedPlan().executeCollect():
        bytes_of_row = bytes(row.getBytes())
        block += struct.pack("<Q", len(bytes_of_row)) + bytes_of_row
    description = {"schema": json.loads(frame._jdf.schema().json()), "columns": COLUMNS}
    lines = [
        json.dumps({name: expected(name, value) for name, value in row.asDict().items()}, ensure_ascii=False) + "\n"
        for row in frame.collect()
    ]
    write("spark_rows.block", block)
    write("spark_rows.columns.json", (json.dumps(description, indent=1) + "\n").encode())
    write("spark_rows.jsonl", "".join(lines).encode())
    spark.stop()


if __name__ == "__main__":
    main()
