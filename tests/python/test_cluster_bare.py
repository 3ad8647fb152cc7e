"""Executors without TensorFlow: they get the driver's, once for each host."""

import contextlib
import glob
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading

import numpy
import pyspark
import pytest
from hadoop_tools import hdfs
from processes import wait_for
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import run_program, spark_context, standalone_cluster
from tensorflowonspark import TFCluster, _spark, attach, native, pipeline, records

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

PLAIN = os.path.join(spark_tools.ROOT, "tests", "vectors", "tensorflow", "saved_model", "plain")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("bare")


@pytest.fixture(scope="module")
def bare(folder):
    """A Python without packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "python"], check=True)
    return str(folder / "python" / "bin" / "python")


@pytest.fixture(scope="module")
def cache(folder):
    return str(folder / "cache")


@pytest.fixture(scope="module")
def spark(folder, bare, cache):
    conf = {"spark.tfos.tensorflow.cache": cache, "spark.task.maxFailures": "1"}
    with spark_context("local-cluster[2,1,1024]", folder, executors=2, conf=conf, python=bare) as context:
        session = SparkSession(context)
        attach(session)
        yield session


@pytest.fixture(scope="module")
def frame(spark):
    return spark.range(200).selectExpr("array(cast(id as float), 1f) as a").repartition(2).cache()


def transform(frame):
    """Sums of both numbers of each row."""
    model = pipeline.TFModel({}).setExportDir(PLAIN).setSignatureDefKey("three")
    return sorted(row["sum"] for row in model.transform(frame).collect())


SUMS = [float(number + 1) for number in range(200)]


def model_processes():
    return list(spark_tools.marked_processes("tfos model"))


def said(folder):
    """What executors have printed of tfos and the folder. They work below the home of the first application of this
    process, which may be that of other tests."""
    lines = []
    paths = glob.glob(f"{folder.parent}/*/spark-home/work/**/stderr", recursive=True)
    for path in {os.path.realpath(each) for each in paths}:  # pytest has a link beside each of its folders
        with open(path, encoding="utf-8", errors="replace") as file:
            lines += [line for line in file if line.startswith("tfos: ") and str(folder) in line]
    return lines


def loaded(pid):
    """Inodes and paths of TensorFlow in a process."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        words = [line.split() for line in maps if "libtensorflow_" in line]
    return {(each[4], each[5]) for each in words}


def entries(cache, kind):
    return glob.glob(f"{cache}/{kind}-*")


# ---- what is brought ----


@pytest.mark.long
def test_a_model_is_served_by_two_executors_that_share_one_copy(folder, frame, cache):
    assert transform(frame) == SUMS
    first, second = model_processes()
    assert loaded(first) == loaded(second) and len(loaded(first)) == 2
    assert len(entries(cache, "tensorflow")) == len(entries(cache, "packed")) == 1
    assert all(path.startswith(entries(cache, "tensorflow")[0]) for _, path in loaded(first))
    assert sum("was brought to this host" in line for line in said(folder)) == 1


@pytest.fixture(scope="module")
def trainable(folder):
    """Makes a trainer of a model that is exported, with files."""
    import keras

    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input([2], name="x"), keras.layers.Dense(1)])
    native.export(model, "sgd", "mse", None, folder / "model")
    values = numpy.arange(64, dtype=numpy.float32) / 64
    records.write(folder / "data.tfrecord", {"x": numpy.stack([values, values], 1), "label": values})
    return lambda: native.Trainer(folder / "model", data=folder / "data.tfrecord", epochs=2, batch_size=16)


@pytest.mark.long
def test_a_trainer_runs(spark, trainable):
    cluster = TFCluster.run(spark.sparkContext, trainable(), None, 2, 0)
    cluster.shutdown()
    assert [result.value["rows"] for result in cluster.results()] == [128, 128]


# ---- what is not ----


@pytest.fixture
def settings(spark, monkeypatch):
    """Sets spark.tfos.… of a session, which counts for models, and of a context that runs, which counts for nodes."""
    real = _spark.settings
    before = {}

    def change(**values):
        more = [f"tensorflow.{key}={value}" for key, value in values.items()]
        monkeypatch.setattr(_spark, "settings", lambda sc: [*real(sc), *more])
        for key, value in values.items():
            name = f"spark.tfos.tensorflow.{key}"
            before[name] = spark.conf.get(name, None)
            spark.conf.set(name, str(value))

    yield change
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)


def failure_of(frame):
    with pytest.raises(Exception) as caught:
        transform(frame)
    return str(caught.value)


def test_nothing_is_brought_if_that_is_forbidden(frame, settings, bare):
    settings(ship="never")
    message = failure_of(frame)
    assert "TensorFlow was not found: install it for the Python in use" in message and bare in message
    assert "or let the driver bring its own (spark.tfos.tensorflow.ship=auto; it is 'never')" in message


def test_a_path_that_is_set_is_meant(frame, settings):
    settings(lib="/no/such/library")
    assert "or a folder that holds one of them, found no such file '/no/such/library'" in failure_of(frame)


def test_a_path_is_enough(frame, settings, cache):
    """On executors whose Python has nothing, and who are brought nothing."""
    package = importlib.util.find_spec("tensorflow").submodule_search_locations[0]
    before = sorted(os.listdir(cache)) if os.path.isdir(cache) else []
    settings(lib=package, ship="never")
    assert transform(frame) == SUMS
    assert (sorted(os.listdir(cache)) if os.path.isdir(cache) else []) == before


def test_a_word_that_is_unknown_is_refused_at_once(frame, settings):
    settings(ship="sometimes")
    with pytest.raises(ValueError, match="spark.tfos.tensorflow.ship is auto, always or never, found 'sometimes'"):
        transform(frame)


def test_a_folder_that_others_can_write_to_is_refused(spark, frame, trainable, settings, tmp_path):
    tmp_path.chmod(0o777)
    settings(cache=tmp_path)
    with pytest.raises(TFCluster.TFClusterError) as caught:
        TFCluster.run(spark.sparkContext, trainable(), None, 2, 0)
    assert f"{tmp_path}: others can write to it (rwxrwxrwx)" in str(caught.value)
    message = failure_of(frame)
    assert "this executor has no TensorFlow of its own, and that of the driver could not be brought" in message
    assert f"{tmp_path}: others can write to it (rwxrwxrwx)" in message and "Set spark.tfos.tensorflow.cache" in message
    assert os.listdir(tmp_path) == []


def test_a_driver_without_tensorflow_says_so(frame, settings, bare, monkeypatch):
    monkeypatch.setattr(sys, "executable", bare)
    settings(ship="always")
    message = failure_of(frame)
    assert "on the driver's host, there is none, either" in message and f"what {bare} can import" in message


# ---- what takes long ----


def forget(cache, kind):
    """As if nobody had needed it yet on this host."""
    for pid in model_processes():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not model_processes(), 30)
    for entry in entries(cache, kind):
        shutil.rmtree(entry)


@pytest.mark.long
def test_a_damaged_copy_is_made_again(folder, frame, cache):
    assert transform(frame) == SUMS
    forget(cache, "nothing")
    [library] = glob.glob(f"{cache}/tensorflow-*/libtensorflow_framework.so.2")
    os.truncate(library, 1000)
    assert transform(frame) == SUMS
    assert os.path.getsize(library) > 1000
    damage = "is damaged, and made again: libtensorflow_framework.so.2 has 1000 bytes"
    assert sum(damage in line for line in said(folder)) == 1
    assert len(entries(cache, "tensorflow")) == 1 and not glob.glob(f"{cache}/.*-*")


@pytest.mark.long
def test_an_executor_that_is_killed_amid_unpacking_is_no_obstacle(spark, frame, cache, monkeypatch):
    forget(cache, "tensorflow")
    failures = []
    thread = threading.Thread(target=lambda: failures.append(failure_of(frame)))
    thread.start()
    wait_for(lambda: glob.glob(f"{cache}/.tfos-new-*/libtensorflow_cc.so.2"), 60)
    [unpacker] = [pid for pid in spark_tools.marked_processes("CoarseGrainedExecutorBackend") if writes(pid, cache)]
    os.kill(unpacker, signal.SIGKILL)
    thread.join()
    assert len(failures) == 1  # no task is tried twice here
    wait_for(lambda: spark_tools.executor_count(spark.sparkContext) == 2, 60)
    assert transform(frame) == SUMS
    assert len(entries(cache, "tensorflow")) == 1 and not glob.glob(f"{cache}/.*-*")


def writes(pid, cache):
    """Whether a process has a file open that is being made."""
    opened = []
    for path in glob.glob(f"/proc/{pid}/fd/*"):
        with contextlib.suppress(OSError):
            opened.append(os.readlink(path))
    return any(path.startswith(f"{cache}/.tfos-new-") for path in opened)


@pytest.mark.long
def test_another_application_packs_and_unpacks_nothing(folder, cache, bare, frame, tmp_path):
    assert transform(frame) == SUMS
    for at, master in enumerate(["local-cluster[1,1,1024]", "local[1]"]):
        err = run_another(tmp_path / str(at), master, cache, bare)
        assert "packing" not in err and not said(tmp_path / str(at))


@pytest.mark.long
def test_on_a_standalone_cluster(bare, tmp_path):
    (tmp_path / "hosts").mkdir()
    with standalone_cluster(tmp_path / "hosts", cores=1, hosts=("127.0.0.2", "127.0.0.3")) as master:
        err = run_another(tmp_path / "driver", master, tmp_path / "cache", bare)
    assert "tfos: TensorFlow is packed" in err
    assert sum("was brought to this host" in line for line in said(tmp_path)) == 1


@pytest.mark.long
def test_on_yarn(bare, tmp_path):
    """Whose containers have folders that vanish with them."""
    (tmp_path / "hadoop").mkdir()
    with hdfs(tmp_path / "hadoop", yarn=True):
        for name in ("core-site.xml", "yarn-site.xml"):
            shutil.copy(tmp_path / "hadoop" / "site.xml", tmp_path / name)
        jars = f"spark.yarn.jars=local:{os.path.dirname(pyspark.__file__)}/jars/*"
        conf = [jars, "spark.executor.instances=2", "spark.yarn.maxAppAttempts=1", "spark.hadoop.fs.defaultFS=file:///"]
        mapping = "net.topology.node.switch.mapping.impl"  # a class of Hadoop's tests, in a cluster for tests
        conf.append(f"spark.hadoop.{mapping}=org.apache.hadoop.net.ScriptBasedMapping")
        home = spark_tools.spark_home(tmp_path / "home", archives=True)
        variables = {"HADOOP_CONF_DIR": str(tmp_path), "SPARK_HOME": home}
        err = run_another(tmp_path / "driver", "yarn", tmp_path / "cache", bare, conf, variables)
    assert "tfos: TensorFlow is packed" in err
    assert len(entries(tmp_path / "cache", "tensorflow")) == 1


def run_another(folder, master, cache, bare, conf=(), variables=()):
    """What another driver says, behind which a model has computed."""
    folder.mkdir()
    words = [master, PLAIN, f"spark.tfos.tensorflow.cache={cache}", *conf]
    variables = {"PYSPARK_PYTHON": bare} | dict(variables)
    code, out, err = run_program(folder, ANOTHER, *words, seconds=600, variables=variables)
    assert code == 0 and "found 6" in out, err
    return err


ANOTHER = """
    import sys
    from pyspark import SparkConf
    from pyspark.sql import SparkSession
    from tensorflowonspark import pipeline

    conf = SparkConf().setMaster(sys.argv[1]).set("spark.ui.enabled", "false").set("spark.executor.memory", "512m")
    conf.setAll([word.split("=", 1) for word in sys.argv[3:]])
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    frame = spark.range(6).selectExpr("array(cast(id as float), 1f) as a").repartition(2)
    model = pipeline.TFModel({}).setExportDir(sys.argv[2]).setSignatureDefKey("three")
    print("found", model.transform(frame).count())
    spark.stop()
"""
