"""The end of a Spark context ends the clusters on it, as the death of the driver does: within seconds, with the cause,
and nothing is left. Drivers are processes of their own, for they come to a bad end."""

import json

import pytest

import spark_tools
from spark_tools import node_processes, wait_for

IN_TIME = 5 + 10  # seconds: what is promised, and what a busy machine may add; without an end it would be 60

DRIVER = (
    spark_tools.CONTEXT
    + """
    import json
    import os
    import signal
    import threading

    def main(args, ctx):
        import time

        if args == "rows":
            feed = ctx.get_data_feed()
            while not feed.should_stop():
                feed.next_batch(10)
        time.sleep(3600)

    def end_context():
        time.sleep(1)  # the cluster is at work by then; if it is not, it has to end all the same
        global ended
        ended = time.monotonic()
        if how == "kill":
            os.kill(jvm, signal.SIGKILL)
        elif how == "session":
            SparkSession(sc).stop()
        else:
            sc.stop()

    def outcome(function):
        try:
            function()
            text = ""
        except TFCluster.TFClusterError as error:
            text = str(error)
        return [text, time.monotonic() - ended]

    from pyspark.sql import SparkSession

    how, mode, ended = os.environ["HOW"], os.environ["MODE"], 0.0
    sc = SparkContext(conf=conf)
    sc.setLogLevel("OFF")
    jvm = sc._jvm.java.lang.ProcessHandle.current().pid()
    fed = mode == "SPARK"
    cluster = TFCluster.run(
        sc, main, "rows" if fed else "none", 2, 0, input_mode=getattr(TFCluster.InputMode, mode)
    )
    rows = sc.parallelize(range(1000), 4)
    thread = threading.Thread(target=end_context)
    thread.start()
    answers = [outcome(lambda: cluster.train(rows))] if fed else []
    answers.append(outcome(lambda: cluster.shutdown(timeout=60)))
    answers.append(outcome(lambda: cluster.shutdown(timeout=60)))
    thread.join()
    print(json.dumps(answers), flush=True)
    sys.stdin.readline()
"""
)


SOME = [
    ("local[2]", "SPARK", "session"),
    ("local[2]", "TENSORFLOW", "kill"),
    ("local-cluster[2,1,1024]", "SPARK", "thread"),
    pytest.param("local[2]", "SPARK", "kill", marks=pytest.mark.long),
    pytest.param("local[2]", "SPARK", "thread", marks=pytest.mark.long),
    pytest.param("local[2]", "TENSORFLOW", "session", marks=pytest.mark.long),
    pytest.param("local[2]", "TENSORFLOW", "thread", marks=pytest.mark.long),
    pytest.param("local-cluster[2,1,1024]", "TENSORFLOW", "thread", marks=pytest.mark.long),
]


@pytest.mark.parametrize("master, mode, how", SOME)
def test_the_end_of_the_context_ends_the_cluster(tmp_path, master, mode, how):
    variables = {"MODE": mode, "HOW": how}
    settings = [f"spark.master={master}", "spark.executor.memory=512m"]
    driver = spark_tools.start_program(tmp_path, DRIVER, *settings, variables=variables)
    try:
        line = driver.stdout.readline()
        assert line, driver.communicate()[1]
        for text, seconds in json.loads(line):
            assert ("has lost its JVM" if how == "kill" else "the Spark context was stopped") in text
            assert "while the cluster ran" in text and seconds < IN_TIME
        wait_for(lambda: not node_processes(), 2)  # the driver lives on
    finally:
        driver.communicate("\n", timeout=60)
