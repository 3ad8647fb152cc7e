"""Java jobs on a real HDFS, alone and on YARN, that are compiled against the old formats and run with ours."""

import collections
import os
import random
import re
import subprocess

import pytest
from conftest import framed
from hadoop_tools import SOURCES, hdfs, jars, java
from processes import java_home

import tensorflowonspark
from tensorflowonspark import records

pytestmark = pytest.mark.long

BLOCK_BYTES = 64 << 10
OURS = os.path.join(os.path.dirname(tensorflowonspark.__file__), "jars", "tfos.jar")
LOG = """
log4j.rootLogger=INFO,stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.SimpleLayout
"""
TASK = "org.apache.hadoop.mapreduce.TaskCounter"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    with hdfs(tmp_path_factory.mktemp("hdfs"), yarn=True) as found:
        yield found


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A jar of the jobs, which know nothing of ours."""
    folder = tmp_path_factory.mktemp("jobs")
    sources = [os.path.join(SOURCES, name) for name in ("RecordJob.java", "OldRecordJob.java")]
    places = os.pathsep.join(jars(old_formats=True))
    javac = [os.path.join(java_home(), "bin", "javac"), "--release", "11", "-proc:none", "-cp", places]
    subprocess.run([*javac, "-d", str(folder / "classes"), *sources], check=True)
    jar = [os.path.join(java_home(), "bin", "jar"), "--create", "--file", str(folder / "jobs.jar")]
    subprocess.run([*jar, "-C", str(folder / "classes"), "."], check=True)
    return str(folder / "jobs.jar")


def local_settings(folder):
    staging = "mapreduce.jobtracker.staging.root.dir"
    return {"mapreduce.framework.name": "local", "hadoop.tmp.dir": folder, staging: f"{folder}/staging"}


def yarn_settings(folder):
    """Containers have Hadoop's jars by their paths, as on a cluster; ours is sent to them."""
    return {
        "yarn.is.minicluster": "false",
        "mapreduce.application.classpath": ",".join(jars()),
        "tmpjars": f"file://{OURS}",
        "hadoop.tmp.dir": folder,
        "yarn.app.mapreduce.am.command-opts": "-Xmx256m",
        "mapreduce.map.java.opts": "-Xmx256m",
        "mapreduce.reduce.java.opts": "-Xmx256m",
    }


@pytest.fixture
def run(tmp_path, files, jobs):
    """Runs a job with our jar on the class path; returns its counters, or what it says when it fails."""
    (tmp_path / "log4j.properties").write_text(LOG)

    def run_job(name, *arguments, fails=False, where=local_settings, **settings):
        given = where(str(tmp_path)) | {"dfs.blocksize": BLOCK_BYTES, "dfs.replication": 1} | settings
        options = [word for key, value in given.items() for word in ("-D", f"{key}={value}")]
        log = [f"-Dlog4j.configuration=file:{tmp_path}/log4j.properties"]
        places = [jobs, OURS, *jars()]
        words = ["-conf", f"{files.folder}/site.xml", *options, *arguments]
        command = java(str(tmp_path), places, name, *words, options=log)
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert (done.returncode != 0) == fails, done.stderr[-4000:]
        if fails:
            return done.stderr
        return {name: int(value) for name, value in re.findall(r"^(\S+)=(\d+)$", done.stdout, re.MULTILINE)}

    return run_job


def records_of(paths):
    with records.read(paths, record="bytes") as reader:
        return [bytes(each) for batch in reader for each in batch["record"]]


def some_records():
    """Of all sizes, none to more than a block, many of them equal."""
    draw = random.Random(1)
    blobs = [b"record %d" % draw.randrange(1000) for _ in range(30_000)]
    return [*blobs, b"", b"", b"x" * 200_000, b"y" * 70_000, *blobs[:5000]]


def write_input(files, path, blobs):
    half = len(blobs) // 2
    files.write(f"{path}/a", b"".join(map(framed, blobs[:half])), blocksize=BLOCK_BYTES)
    files.write(f"{path}/b", b"".join(map(framed, blobs[half:])), blocksize=BLOCK_BYTES)


# On YARN each split has a JVM of its own, so there are fewer.
@pytest.mark.parametrize(
    "where, split_bytes", [(local_settings, BLOCK_BYTES), (yarn_settings, 6 * BLOCK_BYTES)], ids=["local", "yarn"]
)
def test_a_job_for_the_old_formats(files, run, tmp_path, where, split_bytes):
    blobs = some_records()
    path = f"/{where.__name__}"
    write_input(files, f"{path}/in", blobs)
    split = {"mapreduce.input.fileinputformat.split.minsize": split_bytes}
    counters = run("RecordJob", f"{path}/in", f"{path}/out", where=where, **split)
    counts = collections.Counter(blobs)
    expected = sorted(b"%s %d" % (blob, count) for blob, count in counts.items())
    names = [os.path.basename(each) for each in files.data_files(f"{path}/out")]
    assert names == ["part-r-00000", "part-r-00001"]
    assert sorted(records_of(files.fetch(f"{path}/out", tmp_path))) == expected
    assert f"{path}/out/_SUCCESS" in files.files(f"{path}/out")
    # The last split of a file may be a tenth larger.
    splits = sum(-(-count // split_bytes) for count in files.files(f"{path}/in").values())
    assert splits - 2 <= counters["job.splits"] <= splits and splits > 3
    assert counters["job.bytes"] == sum(map(len, blobs))
    assert counters["org.apache.hadoop.mapreduce.FileSystemCounter.HDFS_BYTES_READ"] > counters["job.bytes"]
    assert counters[f"{TASK}.MAP_INPUT_RECORDS"] == len(blobs)
    assert counters[f"{TASK}.REDUCE_INPUT_GROUPS"] == counters[f"{TASK}.REDUCE_OUTPUT_RECORDS"] == len(counts)


def test_settings_of_hadoop(files, run, tmp_path):
    """What a job writes compressed, another one reads, without being told."""
    blobs = [b"record %d" % (i % 100) for i in range(10_000)]
    write_input(files, "/settings/in", blobs)
    compress = "mapreduce.output.fileoutputformat.compress"
    codec = "org.apache.hadoop.io.compress.GzipCodec"
    run("RecordJob", "/settings/in", "/settings/gzip", **{compress: "true", f"{compress}.codec": codec})
    assert [os.path.basename(path) for path in files.data_files("/settings/gzip")] == [
        "part-r-00000.gz",
        "part-r-00001.gz",
    ]
    counters = run("RecordJob", "/settings/gzip", "/settings/out", **{"tfrecord.index": "true"})
    assert counters["job.splits"] == 2
    data = [path for path in files.fetch("/settings/out", tmp_path) if not path.endswith(".tfindex")]
    assert len(data) == 2
    assert sorted(records_of(data)) == sorted(b"record %d 100 1" % i for i in range(100))
    # Indexes are no input.
    assert run("RecordJob", "/settings/out", "/settings/again")[f"{TASK}.MAP_INPUT_RECORDS"] == 100


def test_a_job_of_the_older_interface(files, run, tmp_path):
    lines = [b"line %d" % i for i in range(20_000)]
    files.write("/lines/in", b"\n".join(lines), blocksize=BLOCK_BYTES)
    run("OldRecordJob", "/lines/in", "/lines/out")
    assert len(files.data_files("/lines/out")) > 1
    assert sorted(records_of(files.fetch("/lines/out", tmp_path))) == sorted(lines)


def test_a_job_that_fails(files, run):
    """Damage is told with its place, and nothing is left."""
    blobs = [b"record %05d" % i for i in range(10_000)]
    data = bytearray(b"".join(map(framed, blobs)))
    size = len(data) // len(blobs)
    data[7000 * size + 14] ^= 1
    files.write("/bad/in", bytes(data), blocksize=BLOCK_BYTES)
    said = run("RecordJob", "/bad/in", "/bad/out", fails=True)
    assert f"{files.address}/bad/in: offset {7000 * size}: the checksum of the payload" in said
    assert files.files("/bad") == {"/bad/in": len(data)}
    counters = run("RecordJob", "/bad/in", "/bad/again", **{"tfrecord.onCorrupt": "skip"})
    assert counters[f"{TASK}.MAP_INPUT_RECORDS"] == len(blobs) - 1
