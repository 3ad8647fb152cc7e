"""Two clusters of one application on two task slots: the one that waits says who has them."""

import sys
import threading
import time
from urllib.parse import urlsplit

import pytest
from pyspark import cloudpickle

import spark_tools
from spark_tools import node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster, TFParallel

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)

# Nodes do not have this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    with spark_context("local[2]", tmp_path_factory.mktemp("spark")) as context:
        yield context
    wait_for(lambda: not node_processes(), 10)


def wait_for_file(args, ctx):
    """Goes on when the file is there."""
    import os
    import time

    while not os.path.exists(args):
        time.sleep(0.05)


def take_all(args, ctx):
    feed = ctx.get_data_feed()
    while not feed.should_stop():
        feed.next_batch(10)


def test_a_cluster_that_waits_says_who_has_the_slots(sc, tmp_path, capfd):
    first = TFCluster.run(sc, wait_for_file, str(tmp_path / "go"), 2, 0)
    address = urlsplit(first.status_url).netloc
    held = f"nother cluster of this application holds some (status page {address}, 2 nodes, InputMode.TENSORFLOW)"
    with pytest.raises(TFCluster.TFClusterError) as caught:
        TFCluster.run(sc, take_all, None, 2, 0, input_mode=TFCluster.InputMode.SPARK, reservation_timeout=3)
    assert "0 of 2 nodes came within 3 s (reservation_timeout)" in str(caught.value)
    assert f" A{held}: shut it down first." in str(caught.value)
    assert f"0 of 2 nodes registered, waiting for executor slots; a{held}" in capfd.readouterr().err
    assert urlsplit(first.status_url).path.strip("/") not in str(caught.value)
    (tmp_path / "go").touch()
    first.shutdown(timeout=60)


def test_a_cluster_that_is_fed_holds_none(sc, tmp_path, capfd):
    """Its tasks have returned. TFParallel gets the slots, and whoever comes next is told of that."""
    fed = TFCluster.run(sc, take_all, None, 2, 0, input_mode=TFCluster.InputMode.SPARK)
    capfd.readouterr()  # its own nodes have registered, too
    parallel = threading.Thread(target=TFParallel.run, args=(sc, wait_for_file, str(tmp_path / "go"), 2))
    parallel.start()
    try:
        wait_for(lambda: "2 of 2 nodes registered" in capfd.readouterr().err, 30)
        with pytest.raises(TFCluster.TFClusterError) as caught:
            TFCluster.run(sc, wait_for_file, "", 1, 0, reservation_timeout=2)
    finally:
        (tmp_path / "go").touch()
        parallel.join(60)
    text = str(caught.value)
    assert "2 nodes, TFParallel): shut it down first" in text
    assert "InputMode.SPARK" not in text and urlsplit(fed.status_url).netloc not in text
    begin = time.monotonic()
    fed.shutdown(timeout=60)
    assert time.monotonic() - begin < 30
