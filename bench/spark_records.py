"""Section "spark-records": TFRecords as tables of Spark, against its Java connectors and against Parquet.

The peer is what the connectors are made of: the formats of tensorflow-hadoop and protobuf's Example, in Java
(SparkRecordsPeer.java). Its classes have the names of ours, so each side has a Spark of its own.
"""

import dataclasses
import glob
import json
import os
import shutil
import subprocess
import sys

from records_processes import File, Processes, compile_program
from table import Row, Section, times

HERE = os.path.dirname(os.path.abspath(__file__))
PEER_JARS = [
    "org.tensorflow:tensorflow-hadoop:1.15.0",
    "org.tensorflow:proto:1.15.0",
    "com.google.protobuf:protobuf-java:3.5.1",
]


@dataclasses.dataclass
class Scale:
    scalars: int
    images: int
    many: int
    passes: int


FULL = Scale(400_000, 40_000, 4_000_000, passes=6)
QUICK = Scale(2_000, 200, 4_000, passes=1)
NAMES = {"scalars": "40 scalars", "images": "784 floats + label"}


def java_home(root):
    return subprocess.check_output([os.path.join(root, "scripts", "find-java")], text=True).strip()


def peer_jars(root, folder):
    """Fetches what the peer needs, and compiles it."""
    jars = os.path.join(folder, "jars")
    os.makedirs(jars, exist_ok=True)
    for artifact in PEER_JARS:
        command = ["mvn", "--batch-mode", "--quiet", "dependency:copy", f"-Dartifact={artifact}"]
        subprocess.run([*command, f"-DoutputDirectory={jars}"], check=True, cwd=folder, stdout=sys.stderr)
    import pyspark

    spark = os.path.join(os.path.dirname(pyspark.__file__), "jars", "*")
    classes = os.path.join(folder, "classes")
    places = os.pathsep.join([spark, os.path.join(jars, "*")])
    javac = os.path.join(java_home(root), "bin", "javac")
    source = os.path.join(HERE, "SparkRecordsPeer.java")
    subprocess.run([javac, "-nowarn", "-cp", places, "-d", classes, source], check=True, stderr=sys.stderr)
    peer = os.path.join(jars, "peer.jar")
    jar = os.path.join(java_home(root), "bin", "jar")
    subprocess.run([jar, "--create", "--file", peer, "-C", classes, "."], check=True)
    return sorted(glob.glob(os.path.join(jars, "*.jar")))


def our_jar():
    import tensorflowonspark

    return [os.path.join(os.path.dirname(tensorflowonspark.__file__), "jars", "tfos.jar")]


def run(root, which, folder, passes, jars):
    command = [sys.executable, os.path.join(HERE, "spark_records_program.py"), which, folder, str(passes), *jars]
    environment = os.environ | {"JAVA_HOME": java_home(root), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"the Spark of {which} ended with status {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def compare(work, rows, theirs, ours, asked):
    ratio = theirs / ours
    sides = [f"{rows / seconds:,.0f} rows/s" for seconds in (theirs, ours)]
    met = ratio >= asked if asked else None
    return Row(work, *sides, times(ratio), f"≥ {asked:g} ×" if asked else "", met)


def rows_of(scale, theirs, ours):
    rows = []
    for name, count in (("scalars", scale.scalars), ("images", scale.images)):
        of = NAMES[name]
        key = lambda work, name=name: f"{work}/{name}"
        rows.append(compare(f"scan to noop, {of}", count, theirs[key("read")], ours[key("read")], 3.5))
        rows.append(compare("… against Spark's Parquet", count, ours[key("parquet")], ours[key("read")], 1))
        share = ours[key("read")] / ours[key("column")]
        asked = {"asked": "≥ 3 ×", "met": share >= 3} if name == "scalars" else {}
        alone = f"{count / ours[key('column')]:,.0f} rows/s"
        rows.append(Row("… one column of it, against all", ours=alone, ratio=times(share), **asked))
        none = f"{count / ours[key('rows')]:,.0f} rows/s"
        share = ours[key("read")] / ours[key("rows")]
        rows.append(Row("… no column of it, against all", ours=none, ratio=times(share)))
        rows.append(compare(f"write, {of}", count, theirs[key("write")], ours[key("write")], 3))
        rows.append(compare(f"inference of the schema, {of}", count, theirs[key("infer")], ours[key("infer")], 10))
    rows.append(compare("count(), 40 scalars", scale.many, theirs["count/many"], ours["count/many"], 10))
    return rows


def measure(root, build, quick, say):
    scale = QUICK if quick else FULL
    folder = os.path.join(root, "build", "bench", "spark-records")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    say("spark-records: files")
    processes = Processes(compile_program(root, build, folder), quick)
    for kind, name, count in (
        ("scalars", "scalars", scale.scalars),
        ("image", "images", scale.images),
        ("scalars", "many", scale.many),
    ):
        processes.make(kind, File(os.path.join(folder, f"{name}.tfrecord"), count))
    processes.close()
    jars = peer_jars(root, folder)
    say("spark-records: ours")
    ours = run(root, "ours", folder, scale.passes, our_jar())
    say("spark-records: theirs")
    theirs = run(root, "theirs", folder, scale.passes, jars)
    shutil.rmtree(folder, ignore_errors=True)
    title = "TFRecords as tables of Spark, against its Java connectors"
    return Section("spark-records", title, rows_of(scale, theirs, ours), NOTES)


NOTES = [
    "Spark's local[2], files in the page cache, best of six, so that the JVM has compiled (count: of three).",
    "The scan goes to noop: every row is made, and dropped. No column is count(): checksums, and nothing parsed.",
    "The peer reads by tensorflow-hadoop 1.15 and protobuf's Example, in a Spark of its own; so it writes and infers.",
    "Parquet is Spark's vectorized scan of the same rows, in the Spark that scans the records.",
    "Rows that are written come from a cached DataFrame.",
]
