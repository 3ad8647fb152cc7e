"""Feeding: what a Spark task does with its partition, and what the driver does with a call of train or inference."""

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _native, _spark
from ._session import FeedState, Session, TFClusterError

# ---- in a Spark task ----


def _open(ticket: bytes, index: int) -> Any:
    import socket

    from pyspark import TaskContext

    context = TaskContext.get()
    return _native.Feeder(
        ticket=ticket, partition=index, attempt=context.taskAttemptId() if context else 0, host=socket.gethostname()
    )


_PATIENCE_MS = 50  # where rows come slowly, consumers do not wait for a batch to fill
_FINAL = ("LIMIT", "MISMATCH", "UNSUPPORTED")  # errors that another attempt would meet again


def _batches(rows: Iterator[Any]) -> Iterator[Any]:
    encoder, more = _native.RowEncoder(), True
    while more:
        more = encoder.add_many(rows, limit_ms=_PATIENCE_MS)
        batch = encoder.take()
        if batch is not None:
            yield batch


def _put(feeder: Any, batch: Any) -> bool:
    """Feeds a batch; False if the feed wants no more. Rows that cannot be fed fail the feed, so nobody tries again."""
    try:
        return feeder.batch(batch)
    except _native.Error as error:
        if error.status in _FINAL:
            feeder.fail(str(error))
        raise


def _check_end(index: int) -> None:
    """To be called behind the last row. When Spark cannot go on with a partition, or is gone, PySpark's iterator ends
    as if there were no more rows. Only what Spark sends behind the last row tells the difference: its mark, or
    nothing. A function that has left rows unread has not come to that place, and is right."""
    frame: Any = sys._getframe()
    while frame is not None and not (frame.f_code.co_name == "main" and hasattr(frame.f_locals.get("infile"), "peek")):
        frame = frame.f_back
    if frame is not None and not frame.f_locals["infile"].peek(1):
        raise EOFError(f"Spark has not sent all rows of partition {index}; what made it stop is told by its executor")


def feed_partition(index: int, rows: Iterator[Any], ticket: bytes) -> Iterator[Any]:
    """Feeds a partition; returns when its last row is on its way."""
    feeder = _open(ticket, index)
    try:
        if feeder.open and all(_put(feeder, batch) for batch in _batches(rows)):
            _check_end(index)
            feeder.finish()
    finally:
        feeder.close()
    return iter(())


def infer_partition(index: int, rows: Iterator[Any], ticket: bytes) -> Iterator[Any]:
    """Feeds a partition and yields the results while they come."""
    feeder = _open(ticket, index)
    try:
        if not feeder.open:
            return
        for batch in _batches(rows):
            if not _put(feeder, batch):
                break
            while results := feeder.results(False):
                yield from _native.decode_rows(results)
        if feeder.open and feeder.exhaust():
            while results := feeder.results(True):
                yield from _native.decode_rows(results)
            feeder.finish()
    finally:
        feeder.close()


# ---- on the driver ----

_CLUSTER_FAILED = "the cluster has failed: "  # begins the reason why a feed failed, if it is that

# What a task says that could not feed its rows, in what Spark says of it.
_OURS = re.compile(r"^tensorflowonspark\.records\.(\w+): (.*?)(?=\n\s*\n|\n\s+at |\Z)", re.MULTILINE | re.DOTALL)
_OF_DATA = ("LimitError", "MismatchError", "UnsupportedError")  # errors that the cluster has no part in


class Feeding:
    """One call of train: a feed, epoch by epoch, over all attempts of the cluster.

    source   the data; its job is called with a ticket, in a thread with a job group of its own

    Methods that feed return "done"; "stopped": by the consumers; or "again": the cluster was started again meanwhile.
    """

    def __init__(self, session: Session, source: "Source", queue: str, timeout_ms: int, again: bool, inference=False):
        self._session = session
        self._job = source.job
        self._options = {
            "queue": queue,
            "partitions": source.partitions,
            "inference": inference,
            "determinate": source.determinate,
            "again": again,
            "timeout_ms": timeout_ms,
        }
        self._feed = 0
        self._attempt = -1  # of the cluster, for which the feed was opened
        self._consumed = 0

    def run(self, epochs: int | None) -> bool:
        """Feeds so many epochs, or until the consumers stop if it is None. False if they have stopped."""
        return run(self, None, epochs)

    @property
    def consumed(self) -> int:
        """Epochs of which every row was taken. Only the ledger knows; that Spark has fed them all proves nothing."""
        return max(self._consumed, self._heard.consumed + 1)

    def rewind(self, epochs: int) -> None:
        """The cluster was started again, and only so many epochs count."""
        self._consumed, self._feed = epochs, 0

    def feed_epoch(self, epoch: int) -> str:
        """Puts every row of an epoch on its way to the programs."""
        session = self._session
        session.wait(lambda: session.ready)
        if self._is_over():
            return "stopped"
        attempt = session.ready_attempt
        try:
            ticket = self._begin(attempt, epoch)
        except (_native.Error, TFClusterError) as error:
            return self._after_failure(attempt, error)
        if ticket is None:
            return self._after_end(attempt)
        job = _Job(session, self._job, ticket)
        session.wait(lambda: job.done or self._heard.state in ("failed", "ended") or session.attempt != attempt)
        session.wait_for_thread(job.thread, None if job.done else job.cancel)
        if job.error is not None and not self._heard.over:
            return self._after_failure(attempt, job.error)
        session.order(lambda native: native.epoch_end(self._feed, epoch))
        self._wait(attempt, lambda: self._heard.epochs["exhausted"] >= epoch)
        fed = session.attempt == attempt and not self._heard.over and self._heard.epochs["exhausted"] >= epoch
        return "done" if fed else self._after_end(attempt)

    def await_settled(self, epochs: int) -> str:
        """Waits until nothing of so many epochs is on its way any more."""

        def settled() -> bool:
            return max(self._consumed, self._heard.epochs["settled"] + 1) >= epochs

        self._wait(self._attempt, settled)
        return "done" if settled() else self._after_end(self._attempt)

    def close(self) -> None:
        self._session.order(lambda native: native.feed_close(self._feed))

    def ticket(self) -> bytes:
        """For tasks that feed whenever Spark runs them, as long as the cluster runs."""
        session = self._session
        session.wait(lambda: session.ready)
        self._is_over()
        ticket = self._begin(session.attempt, 0)
        if ticket is None:
            self._after_end(session.attempt)
            raise TFClusterError("the cluster takes no more rows")
        return ticket

    @property
    def _heard(self) -> FeedState:
        return self._session.feeds.get(self._feed) or FeedState()

    def _begin(self, attempt: int, epoch: int) -> bytes | None:
        """The ticket of an epoch; None if the feed has come to an end before it."""
        session = self._session
        if self._attempt != attempt:
            self._feed = session.ask(lambda native: native.feed(**self._options))
            self._attempt = attempt
        session.ask(lambda native: native.epoch(self._feed, epoch))
        self._wait(attempt, lambda: self._heard.epochs["epoch"] == epoch)
        if self._heard.over or session.attempt != attempt:
            return None
        return session.ask(lambda native: native.feed_ticket(self._feed, epoch))

    def _wait(self, attempt: int, predicate: Callable[[], bool]) -> None:
        """Waits for a word of the coordinator, as long as one may come."""
        session = self._session
        session.wait(lambda: predicate() or self._heard.over or session.attempt != attempt)

    def _after_end(self, attempt: int) -> str:
        """The feed has come to an end by itself, or its cluster has: why?"""
        session, heard = self._session, self._heard
        if session.attempt != attempt and not session.over:
            return "again"
        if heard.state == "failed":
            error = TFClusterError(heard.text)
            if heard.text.startswith(_CLUSTER_FAILED):
                return self._after_failure(attempt, error)
            if "(feed_timeout)" in heard.text:
                session.stop("its programs do not take what is fed to them")  # nor would they end by themselves
            raise error
        if heard.state in ("terminated", "finished"):
            return "stopped"
        return self._after_failure(attempt, TFClusterError("the cluster was stopped while it was being fed"))

    def _after_failure(self, attempt: int, error: BaseException) -> str:
        """If the cluster is failing, that is the cause; it may be starting again."""
        session = self._session
        found = _OURS.search(str(error))
        by_user = found is None and "PythonException: Traceback" in str(error)
        patience: float | None = 1 if by_user or (found and found[1] in _OF_DATA) else 10
        if _CLUSTER_FAILED in str(error):
            patience = None  # it will be over, or start again
        session.wait(lambda: session.attempt != attempt, patience)
        session.await_word(attempt)
        if session.attempt != attempt and not session.over:
            return "again"
        if self._is_over():
            return "stopped"
        if found is not None:
            raise TFClusterError(found[2].strip()) from error
        raise error

    def _is_over(self) -> bool:
        """Whether the programs have ended while they were being fed; raises if they failed, or were never fed."""
        session = self._session
        if session.over:
            session.raise_if_failed()
            if self._attempt < 0 or session.stopped:
                raise TFClusterError("the cluster has ended; it cannot be fed any more")
        return session.over


class _Job:
    """A Spark job in a thread of its own, which can be cancelled."""

    def __init__(self, session: Session, job: Callable[[bytes], Any], ticket: bytes):
        from pyspark import InheritableThread

        self.done = False
        self.error: BaseException | None = None
        self._session = session
        self._group = f"tfos feed {id(self):x} {threading.get_ident():x}"
        self.thread = InheritableThread(target=self._run, args=(job, ticket), name="tfos-feed", daemon=True)
        self.thread.start()

    def _run(self, job: Callable[[bytes], Any], ticket: bytes) -> None:
        try:
            self._session.sc.setJobGroup(self._group, "tfos: feeding a cluster", interruptOnCancel=True)
            job(ticket)
        except BaseException as error:  # raised again in the program's thread
            self.error = error
        finally:
            self.done = True
            self._session.notify()

    def cancel(self) -> None:
        """To be called until the thread has ended: Spark does not cancel what has yet to be submitted."""
        try:
            self._session.sc.cancelJobGroup(self._group)
        except Exception:  # the context was stopped, or its JVM is gone
            pass


def run(training: Feeding, validation: Feeding | None, epochs: int | None) -> bool:
    """Feeds epochs in turn: the data, then what it is validated with. The next begins when every row of one is on its
    way, and the last is waited for until it was taken. False if the consumers have stopped, which is the only end if
    epochs is None."""
    turns = [training] if validation is None else [training, validation]
    step, last = 0, None if epochs is None else epochs * len(turns)
    try:
        while True:
            each = turns[step % len(turns)]
            outcome = _await_all(turns, epochs or 0) if step == last else each.feed_epoch(step // len(turns))
            if outcome == "stopped" or (outcome == "done" and step == last):
                return outcome == "done"
            step = _rewind(turns) if outcome == "again" else step + 1
    finally:
        for each in turns:
            each.close()


def _await_all(turns: list[Feeding], epochs: int) -> str:
    for each in turns:
        outcome = each.await_settled(epochs)
        if outcome != "done":
            return outcome
    return "done"


def _rewind(turns: list[Feeding]) -> int:
    """After a restart: goes back to the first step whose rows were not all taken, and returns its number."""
    step = 0
    while turns[step % len(turns)].consumed > step // len(turns):
        step += 1
    for at, each in enumerate(turns):
        each.rewind((step - at + len(turns) - 1) // len(turns))
    return step


# ---- data ----


class Source(NamedTuple):
    """Data that can be fed."""

    partitions: int
    determinate: bool  # Spark computes a partition in the same order every time
    job: Callable[[bytes], Any]  # runs the Spark job that feeds it, with the ticket of an epoch


def source(sc: Any, data: Any, input_mapping: dict[str, str] | None, columns: dict[str, Any] | None) -> Source:
    """An RDD or a DataFrame as a source."""
    if hasattr(data, "_jdf"):
        return _frame_source(sc, data, input_mapping, columns)
    if not hasattr(data, "mapPartitionsWithIndex"):
        kind = f"{type(data).__module__}.{type(data).__qualname__}"
        raise TypeError(f"expected an RDD or a DataFrame of a classic Spark session, found {kind}")
    if input_mapping is not None or columns is not None:
        raise ValueError("input_mapping and columns are for DataFrames; the rows of an RDD are fed as they are")
    return Source(data.getNumPartitions(), _is_determinate(data), _rdd_job(data))


def _frame_source(sc: Any, frame: Any, input_mapping: dict[str, str] | None, columns: dict[str, Any] | None) -> Source:
    _spark.install(sc)
    fed = select_fed(frame, input_mapping, columns)
    data = refusing(lambda: _spark.java(sc, "FeedData")(fed._jdf, json.dumps(columns or {})))
    return Source(data.partitions(), data.determinate(), lambda ticket: data.feed(bytearray(ticket)))


def select_fed(frame: Any, input_mapping: dict[str, str] | None, columns: dict[str, Any] | None) -> Any:
    """The columns of a DataFrame that are fed, under the names that they are to have."""
    if input_mapping is not None:
        missing = [name for name in input_mapping if name not in frame.columns]
        if missing:
            raise ValueError(f"input_mapping names the column {missing[0]!r}; the DataFrame has {frame.columns}")
        frame = frame.select([column(frame, name).alias(alias) for name, alias in sorted(input_mapping.items())])
    unknown = [name for name in columns or {} if name not in frame.columns]
    if unknown:
        raise ValueError(f"columns= declares {unknown[0]!r}, which is not fed; what is fed: {frame.columns}")
    return frame


def column(frame: Any, name: str) -> Any:
    quoted = name.replace("`", "``")
    return frame[f"`{quoted}`"]


def refusing(make: Callable[[], Any]) -> Any:
    """What `make` gives; what the core refuses is a ValueError."""
    try:
        return make()
    except Exception as error:
        java = getattr(error, "java_exception", None)
        if java is None or not java.getClass().getName().startswith("org.tfos."):
            raise
        raise ValueError(java.reason()) from None


def _partition_function(sc: Any, name: str, *arguments: Any) -> Any:
    from pyspark import cloudpickle

    from . import _task

    cloudpickle.register_pickle_by_value(_task)
    return _task.partition_function(_spark.install(sc), name, *arguments)


def _rdd_job(rdd: Any) -> Callable[[bytes], Any]:
    def job(ticket: bytes) -> None:
        rdd.mapPartitionsWithIndex(_partition_function(rdd.context, "feed_partition", ticket)).collect()

    return job


def _is_determinate(rdd: Any) -> bool:
    return rdd._jrdd.rdd().outputDeterministicLevel().toString() == "DETERMINATE"


def infer(session: Session, rdd: Any, queue: str, timeout_ms: int) -> Any:
    """The RDD of results."""
    data = source(rdd.context, rdd, None, None)
    ticket = Feeding(session, data, queue, timeout_ms, again=True, inference=True).ticket()
    return rdd.mapPartitionsWithIndex(_partition_function(rdd.context, "infer_partition", ticket))


# ---- streams ----


def is_stream(data: Any) -> bool:
    return hasattr(data, "foreachRDD") or bool(getattr(data, "isStreaming", False))


class Stream:
    """A DStream or a streaming DataFrame, each batch of which is fed as it comes, until the consumers stop."""

    def __init__(self, data: Any, feed: Callable[[Any], bool]):
        self._feed = feed
        self._ended = threading.Event()
        self._batch = threading.Lock()  # held while one is being fed
        self._known = threading.Event()
        self.query: Any = None  # of a streaming DataFrame
        if hasattr(data, "foreachRDD"):
            data.foreachRDD(lambda batch: self._feed_batch(batch))  # PySpark counts the arguments of a function
        else:
            self.query = data.writeStream.foreachBatch(self._feed_batch).start()
        self._known.set()

    def _feed_batch(self, batch: Any, *_number: Any) -> None:
        with self._batch:
            if self._ended.is_set() or self._feed(batch):
                return
            self._ended.set()
        # A query waits for this very thread when it is stopped.
        threading.Thread(target=self._stop, name="tfos-stream", daemon=True).start()

    def _stop(self) -> None:
        self._known.wait()
        try:
            if self.query is not None:
                self.query.stop()
        except Exception:  # the context was stopped, or its JVM is gone
            pass

    def end(self, timeout: float | None) -> None:
        """Begins no batch any more, waits for the one that is being fed, and stops the query."""
        self._ended.set()
        if self._batch.acquire(timeout=-1 if timeout is None else timeout):
            self._batch.release()
        self._stop()
