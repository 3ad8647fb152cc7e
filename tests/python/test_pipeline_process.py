"""The process of a model beside an executor: who shares it, what it may cost, and how it ends."""

import concurrent.futures
import os
import re
import shutil
import signal
import threading

import pytest
from processes import parent_of, wait_for
from pyspark.sql import SparkSession

import ops
import spark_tools
from spark_tools import counted, executors_of, spark_context, stages_of
from tensorflowonspark import attach, pipeline

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

CORES = 2


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    conf = {"spark.tfos.model.idle_ms": "600000", "spark.sql.shuffle.partitions": "2"}
    conf["spark.ui.liveUpdate.period"] = "0"  # how many tasks are active is always known
    master = f"local-cluster[2,{CORES},1024]"
    with spark_context(master, tmp_path_factory.mktemp("spark"), executors=2, conf=conf) as context:
        session = SparkSession(context)
        attach(session)
        yield session
    wait_for(lambda: not model_processes(), 10)  # though somebody might want them for ten minutes


@pytest.fixture(autouse=True)
def nobody(spark):
    """No process of the tests before."""
    for pid in model_processes():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not model_processes(), 10)


def model_processes():
    return [pid for pid, command in spark_tools.marked_processes("tfos model").items()]


def export(folder, version):
    """Signatures that say what they are given: how many rows at a time, and by which version of the model."""
    import tensorflow as tf

    module = tf.Module()
    rows = [tf.TensorSpec([None], tf.float32, "x")]

    @tf.function(input_signature=rows)
    def size(x):
        return {"x": x, "size": tf.fill(tf.shape(x), tf.size(x))}

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32, "x")])
    def wide(x):
        return {"x": x[:, -1], "size": tf.fill(tf.shape(x)[:1], tf.shape(x)[0])}

    @tf.function(input_signature=rows)
    def slow(x):
        noise = tf.reduce_max(x) + tf.zeros([512])
        steps = 1000 * tf.size(x)
        y = tf.while_loop(lambda i, y: i < steps, lambda i, y: (i + 1, tf.sin(y)), (0, noise), parallel_iterations=1)
        return {"x": x, "version": tf.fill(tf.shape(x), version) + tf.cast(y[1][0] * 0, tf.int32)}

    tf.saved_model.save(module, str(folder), signatures={"size": size, "wide": wide, "slow": slow})


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "made"
    export(folder, 1)
    return str(folder)


def transform(folder, signature, frame, **params):
    return pipeline.TFModel({}).setExportDir(folder).setSignatureDefKey(signature)._set(**params).transform(frame)


def rows_of(spark, count, partitions):
    return spark.range(0, count, 1, partitions).selectExpr("float(id) as x")


def slowly(spark, folder, count=2400, partitions=4):
    return transform(folder, "slow", rows_of(spark, count, partitions), batch_size=10)


def in_background(work):
    """A thread, which ends with the test, and what comes of the work."""
    result = concurrent.futures.Future()

    def run():
        try:
            result.set_result(work())
        except Exception as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result


def is_computing(pid):
    """Whether a task has given it work: it has taken some seconds, and loading a model takes less than that."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        ticks = sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK") > 2.5


# ---- who shares it ----


def test_tasks_that_run_at_a_time_share_it(spark, made):
    found = in_background(lambda: slowly(spark, made).collect())
    tracker, most, seen = spark.sparkContext.statusTracker(), 0, set()

    def active():
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return sum(stage.numActiveTasks for stage in stages if stage is not None)

    while not found.done():
        most, seen = max(most, active()), seen | set(model_processes())
    assert sorted(row["x"] for row in found.result()) == [float(x) for x in range(2400)]
    assert most == 2 * CORES and len(seen) == 2


def test_threads_of_the_driver_use_models_at_a_time(spark, made, doubling):
    folder, library = doubling

    def sizes(number):
        frame = rows_of(spark, 100 + number, 3)
        return [row["x"] for row in transform(made, "size", frame).collect()] == [float(x) for x in range(100 + number)]

    def doubles(number):
        model = pipeline.TFModel({}).setExportDir(folder).setOpLibraries([library])
        found = model.transform(spark.range(0, 100 + number, 1, 3).selectExpr("int(id) as x")).collect()
        return [row["y"] for row in found] == [2 * x for x in range(100 + number)]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda number: (doubles if number % 2 else sizes)(number), range(12)))
    assert len(model_processes()) <= 4  # two models, two executors


def test_batches_have_the_size_that_was_set(spark, made):
    for size, expected in ((7, {7, 6}), (20, {20}), (1000, {20})):
        found = transform(made, "size", rows_of(spark, 20, 1), batch_size=size).collect()
        assert [row["x"] for row in found] == [float(x) for x in range(20)]
        assert {row["size"] for row in found} == expected
    # However many bytes that is: these are 10 MB, and what goes through the lane at a time is a part of them.
    large = rows_of(spark, 100, 1).selectExpr("array_repeat(x, 25600) as x")
    found = transform(made, "wide", large, batch_size=50).collect()
    assert [row["x"] for row in found] == [float(x) for x in range(100)]
    assert {row["size"] for row in found} == {50}


def test_an_op_has_as_many_threads_as_a_task_has_cores(spark, made):
    """TensorFlow makes the threads of a session when it is made."""

    def threads(put, remove, name, count):
        put(name, str(count))
        try:
            found = transform(made, "size", rows_of(spark, 10, 1))  # which is when settings are looked at
        finally:
            remove(name)
        assert found.count() == 10
        (pid,) = model_processes()
        names = [open(f"/proc/{pid}/task/{task}/comm").read().strip() for task in os.listdir(f"/proc/{pid}/task")]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not model_processes(), 10)
        return len(names)

    session, context = spark.conf, spark._jsc.sc().conf()
    one = threads(session.set, session.unset, "spark.tfos.model.threads", 0)
    five = threads(session.set, session.unset, "spark.tfos.model.threads", 5)
    assert five == one + 4
    assert threads(context.set, context.remove, "spark.task.cpus", 5) == five


# ---- what it may cost ----


def test_it_is_killed_rather_than_its_executor(spark, made):
    assert transform(made, "size", rows_of(spark, 10, 2)).count() == 10

    def score(pid):
        with open(f"/proc/{pid}/oom_score_adj", encoding="ascii") as file:
            return int(file.read())

    assert model_processes()
    for pid in model_processes():
        executor = parent_of(pid)
        with open(f"/proc/{executor}/comm", encoding="ascii") as file:
            assert file.read() == "java\n"
        assert score(pid) == min(score(executor) + 100, 1000) > score(executor)


def test_an_abort_costs_its_task_and_no_executor(spark, doubling):
    """With what was cached there."""
    folder, library = doubling
    model = pipeline.TFModel({}).setExportDir(folder).setOpLibraries([library])
    cached = spark.range(0, 400, 1, 4).selectExpr("int(id) as x").cache()
    assert cached.count() == 400
    before, stored, failed = executors_of(spark), stored_of(spark), failed_tasks(spark)
    wrong = cached.selectExpr(f"if(x = 250, {ops.ABORTS}, x) as x")
    with pytest.raises(Exception) as caught:
        model.transform(wrong).collect()
    said = str(caught.value)
    lines = rf"signal 6 \(it aborted\)\. It said last:\n(.*\n)*double\.c:1\] Check failed: value != {ops.ABORTS}\n"
    assert re.search(lines, said), said
    assert failed_tasks(spark) >= failed + 4  # Spark has tried as often as it does
    assert executors_of(spark) == before and stored_of(spark) == stored
    assert [row["y"] for row in model.transform(cached).collect()] == [2 * x for x in range(400)]
    cached.unpersist()


def failed_tasks(spark):
    """Of all stages so far."""
    return sum(stage.numFailedTasks() for stage in stages_of(spark))


def stored_of(spark):
    """Where the blocks of what is cached are, by executors."""
    return sorted(
        (info.numCachedPartitions(), info.memSize(), info.diskSize())
        for info in spark._jsc.sc().getRDDStorageInfo()
        if info.isCached()
    )


def test_spark_tries_again(spark, made):
    found = in_background(lambda: slowly(spark, made).collect())
    victim = wait_for(lambda: next(filter(is_computing, model_processes()), None), 60)
    before, failed = executors_of(spark), failed_tasks(spark)
    os.kill(victim, signal.SIGSEGV)
    assert sorted(row["x"] for row in found.result(300)) == [float(x) for x in range(2400)]
    assert failed_tasks(spark) > failed and executors_of(spark) == before


def test_rows_go_as_columns(spark, made, tmp_path):
    """Of Parquet, and of our TFRecords."""
    rows_of(spark, 500, 2).write.parquet(str(tmp_path / "parquet"))
    rows_of(spark, 500, 2).write.format("tfrecord").save(str(tmp_path / "records"))
    for frame in (
        spark.read.parquet(str(tmp_path / "parquet")),
        spark.read.format("tfrecord").load(str(tmp_path / "records")),
    ):
        before = counted(spark)
        found = transform(made, "size", frame).collect()
        assert sorted(row["x"] for row in found) == [float(x) for x in range(500)]
        assert counted(spark) == (before[0] + 500, before[1])


# ---- how it ends ----


def test_it_ends_with_its_executor(spark, made):
    found = in_background(lambda: slowly(spark, made).collect())
    victim = wait_for(lambda: next(filter(is_computing, model_processes()), None), 60)
    os.kill(parent_of(victim), signal.SIGKILL)
    wait_for(lambda: victim not in model_processes(), 10)
    assert sorted(row["x"] for row in found.result(300)) == [float(x) for x in range(2400)]


# ---- models that are replaced ----


def test_results_of_two_models_are_not_mixed(spark, tmp_path):
    folder = tmp_path / "model"
    export(folder, 1)
    export(tmp_path / "new", 2)
    assert slowly(spark, str(folder), 40).collect()  # there are processes of it
    rows = slowly(spark, str(folder))
    found = in_background(rows.collect)
    wait_for(lambda: any(map(is_computing, model_processes())), 60)
    shutil.move(folder, tmp_path / "old")
    shutil.move(tmp_path / "new", folder)
    assert {row["version"] for row in slowly(spark, str(folder), 40).collect()} == {2}
    assert {row["version"] for row in found.result(300)} == {1}
    os.kill(model_processes()[0], signal.SIGKILL)
    for pid in model_processes():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(Exception, match="the model was replaced after transform"):
        rows.collect()  # nobody has the old one any more


# ---- models of other kinds ----


def test_a_model_of_tensorflow_1(spark, tmp_path):
    """With variables, and a table that an op fills when the model is loaded."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        weights = v1.get_variable("w", initializer=tf.constant([[1.0], [10.0], [100.0]]))
        words = v1.lookup.KeyValueTensorInitializer(["cat", "dog"], tf.constant([3, 4], tf.int64))
        table = v1.lookup.StaticHashTable(words, default_value=-1)
        word = v1.placeholder(tf.string, [None], "word")
        results = {"y": tf.squeeze(tf.matmul(x, weights), 1), "label": table.lookup(word)}
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        describe = v1.saved_model.utils.build_tensor_info
        predict = v1.saved_model.build_signature_def(
            {"x": describe(x), "word": describe(word)},
            {name: describe(result) for name, result in results.items()},
            "tensorflow/serving/predict",
        )
        builder = v1.saved_model.Builder(str(tmp_path / "model"))
        builder.add_meta_graph_and_variables(
            session, ["serve", "old"], {"predict": predict}, main_op=v1.tables_initializer()
        )
        builder.save()
    frame = spark.createDataFrame([([1.0, 2.0, 3.0], "dog"), ([0.0, 0.0, 1.0], "cow")], "x array<float>, word string")
    found = transform(str(tmp_path / "model"), "predict", frame.coalesce(1), tag_set="serve,old").collect()
    assert [(row["y"], row["label"]) for row in found] == [(321.0, 4), (100.0, -1)]
