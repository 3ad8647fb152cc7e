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

        def batches():  # of two schemas: the first are taken when the others are waited for
            yield from batches_of([1, 2, 3])
            yield from batches_of(["a"])
            cluster.wait(lambda: "interrupted" in cluster.output)

        cluster.begin()(batches(), batches=True)
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


def test_what_its_rows_raise_is_what_a_task_raises(tmp_path):
    """Unchanged, with its traceback; and the next attempt goes on."""

    def rows(failure):
        for number in range(10_000):
            if number == 5000 and failure is not None:
                raise failure
            yield number

    with FedCluster(tmp_path, SIGNALS, "report(feed.next_batch(20_000))") as cluster:
        feed = cluster.begin()
        with pytest.raises(TypeError, match="rows is an iterator"):
            feed([1, 2])
        for failure in (ArithmeticError("a fault of the user's"), KeyboardInterrupt()):
            with pytest.raises(type(failure)) as caught:
                feed(rows(failure))
            assert caught.value is failure and caught.traceback[-1].name == "rows"
        feed(rows(None))
        cluster.end()
        assert cluster.result() == list(range(10_000))


class Pickled:
    """Has no column type."""


def test_results_that_cannot_be_sent_leave_nothing_behind():
    encoder = _results.Encoder()
    for results in ([Pickled(), lambda: None], [1, lambda: None]):
        with pytest.raises((AttributeError, TypeError, _native.Error), match="pickle|lambda"):
            list(encoder.batches(results))
        found = [row for batch in encoder.batches([10, 20]) for row in _native.decode_rows(batch)]
        assert found == [10, 20]
