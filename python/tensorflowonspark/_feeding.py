"""Feeding: what the driver does with a call of train or inference; _feeding_task has what its Spark tasks do."""

import contextlib
import json
import threading
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from . import _spark
from ._session import Job, Session

_GROUP = ("spark.jobGroup.id", "spark.job.interruptOnCancel")
_LOOK_S = 0.5  # how often it is looked whether the cluster is there

# ---- on the driver ----


class Feeding:
    """Carries out what a call of the driver wants done with data.

    sources   the data, and what it is validated with if there is such
    """

    def __init__(self, session: Session, *sources: "Source"):
        self._session = session
        self._sources = sources
        self._job: Job | None = None
        self.result: Any = None  # of the last job

    def _feed(self, order: dict[str, Any]) -> None:
        self._job = Job(self._session, order["job"], lambda: self._run(order))

    def _run(self, order: dict[str, Any]) -> None:
        self.result = self._sources[order["source"]].job(order["bytes"])

    def _cancel(self, _order: dict[str, Any] | None) -> None:
        if self._job is not None:
            self._job.cancel()

    def run(self, options: list[dict[str, Any]], epochs: int | None, stream: bool = False) -> bool:
        """Feeds so many epochs, or until the programs want no more if it is None. False if they have ended it."""
        data, validation = options if len(options) == 2 else (options[0], None)
        try:
            outcome = self._session.call(
                lambda driver: driver.feed(data, validation, -1 if epochs is None else epochs, stream),
                lambda order: getattr(self, "_" + order["kind"])(order),
            )
        finally:  # also after Ctrl-C
            self._cancel(None)
        return outcome["outcome"] == "done"


# ---- data ----


class Source(NamedTuple):
    """Data that can be fed."""

    partitions: int
    determinate: bool  # Spark computes a partition in the same order every time
    job: Callable[[bytes], Any]  # runs the Spark job that feeds it, with the ticket of an epoch

    def options(self, queue: str, timeout_ms: int, again: bool, inference: bool = False) -> dict[str, Any]:
        """What the driver is to know of a feed of it."""
        return {
            "queue": queue,
            "partitions": self.partitions,
            "inference": inference,
            "determinate": self.determinate,
            "again": again,
            "timeout_ms": timeout_ms,
        }


def while_alive(session: Session, make: Callable[[], Any]) -> Any:
    """What `make` gives. Where the plan of a query depends on what its first stages give, Spark computes these while it
    plans, which may take hours: that ends with the cluster, and what has ended it is raised."""
    sc = session.sc
    group, done = f"tfos plan {uuid.uuid4().hex}", threading.Event()
    before = {name: sc.getLocalProperty(name) for name in _GROUP}

    def watch() -> None:
        while not done.wait(_LOOK_S):
            if session.over.is_set():
                with contextlib.suppress(Exception):  # the context was stopped, or its JVM is gone
                    sc.cancelJobGroup(group)

    threading.Thread(target=watch, name="tfos-plan", daemon=True).start()
    for name, value in zip(_GROUP, (group, "true")):
        sc.setLocalProperty(name, value)
    try:
        return make()
    except Exception:
        if session.over.is_set():
            session.finish(0, -1)
        raise
    finally:
        done.set()
        with contextlib.suppress(Exception):
            for name, value in before.items():
                sc.setLocalProperty(name, value)


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


def open_feed(session: Session, data: Source, queue: str, timeout_ms: int) -> bytes:
    """The ticket for tasks of inference, which feed whenever Spark runs them, as long as the cluster runs."""
    options = data.options(queue, timeout_ms, again=True, inference=True)
    return session.call(lambda driver: driver.open_feed(options))["bytes"]


def infer(session: Session, rdd: Any, queue: str, timeout_ms: int) -> Any:
    """The RDD of results."""
    ticket = open_feed(session, source(rdd.context, rdd, None, None), queue, timeout_ms)
    return rdd.mapPartitionsWithIndex(_partition_function(rdd.context, "feed_partition", ticket))


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
