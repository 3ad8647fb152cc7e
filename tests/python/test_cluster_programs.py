"""Programs as users start them: with spark-submit and its flags, typed into a session, and with Spark Connect."""

import os
import re
import subprocess
import sys
import textwrap
import zipfile

import pytest
import spark_tools
from spark_tools import environment, node_processes, run_program, wait_for

# Shows what nodes see of the files that travel with the application. Bodies end with an empty line, as one types them.
MAP_FUN = """
    from pyspark import SparkConf, SparkContext, SparkFiles
    from tensorflowonspark import TFCluster

    GREETING = "hello"

    class Reader:
        def read(self, *names):
            import os
            with open(os.path.join(*names), encoding="utf-8") as file:
                return file.read()

    def main(args, ctx):
        import single_module
        import zipped_module
        from zipped_package import deep
        archived = Reader().read(SparkFiles.get("unpacked"), "inside.txt")
        text = Reader().read(SparkFiles.get("text.txt"))
        print(GREETING, single_module.NAME, zipped_module.NAME, deep.NAME, archived, text, args, "on", ctx.task_index)

    sc = SparkContext(conf=SparkConf().set("spark.ui.enabled", "false").set("spark.executor.memory", "512m"))
    cluster = TFCluster.run(sc, main, {"steps": 3}, 2, 0)
    cluster.shutdown()
    sc.stop()
    print("finished")
"""


@pytest.fixture
def flags(tmp_path):
    """Flags of spark-submit with a module, a zip of modules, an archive and a file."""
    (tmp_path / "single_module.py").write_text("NAME = 'single'\n")
    with zipfile.ZipFile(tmp_path / "modules.zip", "w") as archive:
        archive.writestr("zipped_module.py", "NAME = 'zipped'\n")
        archive.writestr("zipped_package/__init__.py", "")
        archive.writestr("zipped_package/deep.py", "NAME = 'deep'\n")
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("inside.txt", "archived")
    (tmp_path / "text.txt").write_text("a-file")
    modules = f"{tmp_path}/modules.zip,{tmp_path}/single_module.py"
    return ["--py-files", modules, "--archives", f"{tmp_path}/archive.zip#unpacked", "--files", f"{tmp_path}/text.txt"]


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    wait_for(lambda: not node_processes(), 10)


def check_output(code, out, err):
    """Looks in both streams: spark-submit makes one of those of its program."""
    text = out + err
    assert code == 0 and "finished" in out.split(), text
    for index in range(2):
        line = f"hello single zipped deep archived a-file {{'steps': 3}} on {index}"
        assert re.search(rf"\[worker:{index} \S+\] {re.escape(line)}\n", text), text


def test_flags_of_spark_submit(tmp_path, flags):
    submit = [os.path.join(spark_tools.spark_home(tmp_path), "bin", "spark-submit")]
    launch = [*submit, "--master", "local-cluster[1,2,1024]", *flags]
    check_output(*run_program(tmp_path, MAP_FUN, launch=launch))


def test_functions_typed_into_a_session(tmp_path, flags):
    """As in a notebook there is no file: the functions and classes of __main__ exist in memory alone."""
    arguments = " ".join(["--master", "local[2]", *flags, "pyspark-shell"])
    done = subprocess.run(
        [sys.executable, "-i"],
        env={**os.environ, **environment(tmp_path), "PYSPARK_SUBMIT_ARGS": arguments},
        input="assert '__file__' not in globals()\n" + textwrap.dedent(MAP_FUN),
        capture_output=True,
        text=True,
        timeout=120,
    )
    check_output(done.returncode, done.stdout, done.stderr)


@pytest.mark.long
def test_spark_connect_is_refused(tmp_path):
    """Whatever a program with a Connect session has, it is told what to do instead."""
    for name in ("grpc", "grpc_status", "pandas", "zstandard"):
        pytest.importorskip(name, reason="a session of Spark Connect needs it")
    code, out, err = run_program(
        tmp_path,
        """
        from pyspark.sql import SparkSession
        from tensorflowonspark import TFCluster, TFParallel, util

        spark = SparkSession.builder.remote("local").config("spark.ui.enabled", "false").getOrCreate()
        assert spark.range(5).count() == 5
        for given in (spark, spark.client, spark.range(5), getattr(spark, "_sc", None)):
            for start in (
                lambda: TFCluster.run(given, print, None, 1, 0),
                lambda: TFParallel.run(given, print, None, 1),
                lambda: util.num_executors(given),
            ):
                try:
                    start()
                except RuntimeError as error:
                    print("refused:", error)
        spark.stop()
        """,
        variables={"SPARK_TESTING": "1"},  # its server takes any port; else it is always the same one
    )
    assert code == 0, err
    refused = [line for line in out.splitlines() if line.startswith("refused:")]
    assert len(refused) == 12
    assert all("Spark Connect" in line and "spark-submit" in line and ".master(" in line for line in refused)
    assert "found pyspark.sql.connect.session.SparkSession" in refused[0]
