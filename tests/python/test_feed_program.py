"""Programs that are fed and get into trouble: signals while they wait, results that cannot be sent."""

import pytest

from feed_tools import FedCluster, batches_of
from tensorflowonspark import _native, _results

SIGNALS = """
import signal
from tensorflowonspark import TFNode

feed = TFNode.DataFeed(None)
"""


def test_rows_of_an_interrupted_call_come_with_the_next(tmp_path):
    program = """
    class Enough(Exception):
        pass

    def handler(number, frame):
        raise Enough

    signal.signal(signal.SIGALRM, handler)
    while feed._kept is None or len(feed._kept) < 3:  # until the interrupted call has rows
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            feed.next_batch(10)
        except Enough:
            pass
    print("interrupted", flush=True)
    stops = feed.should_stop()
    report([feed.next_batch(2), feed.next_batch(10), stops])
    """
    with FedCluster(tmp_path, SIGNALS, program) as cluster:
        feeder = cluster.begin()()
        for rows in ([1, 2, 3], ["a"]):  # of two schemas: the first are taken when the others are waited for
            for batch in batches_of(rows):
                assert feeder.batch(batch)
        cluster.wait(lambda: "interrupted" in cluster.output)
        assert feeder.finish()
        feeder.close()
        cluster.end()
        assert cluster.result() == [[1, 2], [3, "a"], False]


def test_terminate_in_the_handler_of_a_signal(tmp_path):
    program = """
    signal.signal(signal.SIGALRM, lambda number, frame: feed.terminate())
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    report([feed.next_batch(10), feed.should_stop()])
    """
    with FedCluster(tmp_path, SIGNALS, program) as cluster:
        assert cluster.result() == [[], True]


class Pickled:
    """Has no column type."""


def test_results_that_cannot_be_sent_leave_nothing_behind():
    encoder = _results.Encoder()
    for results in ([Pickled(), lambda: None], [1, lambda: None]):
        with pytest.raises((AttributeError, TypeError, _native.Error), match="pickle|lambda"):
            list(encoder.batches(results))
        found = [row for batch in encoder.batches([10, 20]) for row in _native.decode_rows(batch)]
        assert found == [10, 20]
