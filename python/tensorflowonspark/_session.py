"""A cluster of the driver, over all its attempts: what TFCluster and TFParallel share.

A thread of its own starts the coordinator and the Spark job, prints what the nodes say, remembers the first failure,
and starts the cluster again if it may. The program's thread waits for what it needs to know.
"""

import atexit
import json
import sys
import threading
import time
import weakref
from typing import Any
from urllib.parse import urlsplit

from . import _native, _spark

_LOOK_MS = 500  # how often the job and the slots are looked at while nodes are waited for
_JOB_END_MS = 10_000  # for tasks to end after their nodes have
_JOB_STOP_MS = 500  # … when the cluster was stopped or failed
_JOB_CANCEL_MS = 2_000  # for cancelled tasks to end; one whose node is frozen takes longer, and nobody waits for it
_EXIT_S = 30.0
_STATUS_S = 5.0

_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()
_sessions_lock = threading.Lock()


class TFClusterError(RuntimeError):
    """The cluster failed. The message names the node, its role and host, and has its traceback."""

    __module__ = "tensorflowonspark.TFCluster"  # where programs find it


class FeedState:
    """What the coordinator has said of a feed; tfos/cluster.h explains the states."""

    ENDS = ("failed", "terminated", "finished", "ended")

    def __init__(self) -> None:
        self.state = ""  # the last one that is no epoch's
        self.text = ""  # why it failed
        self.epochs = {"epoch": -1, "exhausted": -1, "settled": -1}  # the last that was begun, is in lanes, is in none
        self.consumed = -1  # the last up to which every row was taken

    @property
    def over(self) -> bool:
        return self.state in self.ENDS

    def hear(self, state: str, epoch: int, text: str) -> None:
        if state in ("consumed", "dropped"):
            # Rows that a program has left behind were not taken: none behind them counts after a restart.
            if state == "consumed" and self.consumed == self.epochs["settled"]:
                self.consumed = epoch
            self.epochs["settled"] = epoch
        elif state in self.epochs:
            self.epochs[state] = epoch
        elif not self.over:
            self.state, self.text = state, text


def say(text: str) -> None:
    """Writes lines to where the driver's own messages go; a program without stderr misses them."""
    if sys.stderr is not None:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


class Session:
    """Its public attributes change while the cluster runs; the lock is in `changed`."""

    def __init__(
        self,
        sc: Any,
        options: dict[str, Any],
        broadcasts: list[Any],
        on_driver: range = range(0),
        restarts: int = 0,
    ):
        self.sc = sc
        self.options = options
        self.nodes: list[dict[str, Any]] = []  # once ready: what READY says of each
        self.tensorboard = ""
        self.status_url = ""
        self.attempt = 0
        self.ready = False
        self.ready_attempt = 0  # the last one that was
        self.over = False  # for good: nothing is started any more
        self.error: BaseException | None = None  # why it failed, once it is over
        self.feeds: dict[int, FeedState] = {}
        self.changed = threading.Condition()
        self._on_driver = on_driver
        self._restarts = restarts
        self._broadcasts = broadcasts
        self._native: Any = None
        self._job: Any = None
        self._finish_ms: int | None = None
        self._feeds_end = False
        self._stop_reason: str | None = None
        self._context_end = ""  # how the Spark context has come to its end before the cluster has
        self._status: dict[str, Any] = {}
        self._status_number = 0
        with _sessions_lock:
            _sessions.add(self)
        from pyspark import InheritableThread

        # Properties of the caller's Spark jobs, such as the scheduler pool, hold for the nodes too.
        self._thread = InheritableThread(target=self._run, name="tfos-cluster", daemon=True)
        self._thread.start()
        threading.Thread(target=self._watch_context, name="tfos-context", daemon=True).start()

    @property
    def stopped(self) -> bool:
        """Whether somebody has asked for the end."""
        return self._stop_reason is not None

    # ---- what the program's thread calls ----

    def wait(self, predicate: Any, timeout: float | None = None) -> bool:
        """Waits until the predicate holds or the cluster is over. Ctrl-C stops the cluster before it goes on."""
        try:
            with self.changed:
                return self.changed.wait_for(lambda: self.over or predicate(), timeout)
        except BaseException:
            self.stop("interrupted by the driver")
            self.join(_EXIT_S)
            raise

    def raise_if_failed(self) -> None:
        if self.error is not None:
            raise self.error

    def finish(self, grace_s: float) -> None:
        """Lets ps and evaluators end after the workers."""
        with self.changed:
            self._finish_ms = int(grace_s * 1000)
            if self._native is not None and self.ready:
                self.order(lambda native: native.finish(self._finish_ms))

    def end_feeds(self) -> None:
        """Tells the programs that no more rows come; also those that are started again."""
        with self.changed:
            self._feeds_end = True
            self.order(lambda native: native.end_of_feed())

    def stop(self, reason: str) -> None:
        """Stops every node; nothing is started again."""
        with self.changed:
            if self._stop_reason is None and not self.over:
                self._stop_reason = reason
                self.order(lambda native: native.stop(reason))

    def join(self, timeout: float | None = None) -> None:
        self._thread.join(timeout)

    def order(self, order: Any) -> None:
        """Tells the coordinator something. If it is gone, the thread hears of it by itself."""
        with self.changed:
            try:
                if self._native is not None:
                    order(self._native)
            except (_native.Error, ValueError):
                pass

    def ask(self, question: Any) -> Any:
        """The answer of a function of the cluster that must be there."""
        with self.changed:
            if self._native is None:
                raise TFClusterError("the cluster is not running")
            return question(self._native)

    def await_word(self, attempt: int) -> None:
        """Waits until the coordinator of this attempt answers, or is given up: one that is frozen knows of nothing."""
        with self.changed:
            before = self._status_number
        self.order(lambda native: native.ask())
        self.wait(lambda: self._status_number > before or self.attempt != attempt)

    def status(self) -> dict[str, Any]:
        """What the status page shows, as of now; the last that was heard when the cluster is over."""
        with self.changed:
            before = self._status_number
        self.order(lambda native: native.ask())
        self.wait(lambda: self._status_number > before or self._native is None, _STATUS_S)
        return self._status

    def notify(self) -> None:
        """Something has changed that a predicate of `wait` looks at."""
        with self.changed:
            self.changed.notify_all()

    def wait_for_thread(self, thread: threading.Thread, meanwhile: Any = None) -> None:
        """Waits for a thread of the caller's, so that Ctrl-C stops the cluster. `meanwhile` is called now and then."""
        try:
            while thread.is_alive():
                if meanwhile is not None:
                    meanwhile()
                thread.join(0.5)
        except BaseException:
            self.stop("interrupted by the driver")
            self.join(_EXIT_S)
            raise

    # ---- the thread ----

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            while True:
                failure = self._run_once()
                if failure is None or self._is_to_end() or self.attempt >= self._restarts:
                    break
                with self.changed:
                    self.attempt += 1
                    self.ready = False
                    self.changed.notify_all()
                say(f"[tfos] {failure}\n[tfos] starting the cluster again: {self.attempt} of {self._restarts} restarts")
            if failure is not None and self._stop_reason is None:
                error = TFClusterError(failure)
        except _native.Error as caught:
            error = ValueError(str(caught)) if caught.status == "INVALID" else TFClusterError(str(caught))
        except BaseException as caught:  # raised again in the program's thread
            error = caught
        error = self._explain(error)
        with self.changed:
            self.error = error
            self.over = True
            self.changed.notify_all()

    def _watch_context(self) -> None:
        """The end of the Spark context ends the cluster, as the death of the driver does. In a thread of its own: a JVM
        that is slow to answer must not keep us from the cluster."""
        while not (end := _spark.end_of(self.sc)):
            with self.changed:
                if self.changed.wait_for(lambda: self.over, _LOOK_MS / 1000):
                    return
        with self.changed:
            self._context_end = end
            self.order(lambda native: native.stop(f"the Spark context {end}"))

    def _is_to_end(self) -> bool:
        return self._stop_reason is not None or bool(_spark.end_of(self.sc))

    def _explain(self, error: BaseException | None) -> BaseException | None:
        """Whatever a cluster meets with when its Spark context ends, that is the cause."""
        end = self._context_end or (error is not None and _spark.end_of(self.sc))
        if not end or self._stop_reason is not None:
            return error
        return TFClusterError(
            f"the Spark context {end} while the cluster ran, and every node was stopped. Call shutdown() before the "
            "context is stopped."
        )

    def _run_once(self) -> str | None:
        """Starts the cluster and sees it through to its end. Returns what made it fail."""
        _spark.install(self.sc)
        most, reason = _spark.slots_configured(self.sc)
        here = len(self._on_driver)
        finished = False
        native = _native.Cluster(
            slots=_spark.slots_now(self.sc) + here,
            slots_most=-1 if most < 0 else most + here,
            slots_reason=reason or None,
            attempt=self.attempt,
            **self.options,
        )
        try:
            with self.changed:
                self._native = native
                self.ready = False
                self.status_url = native.url()
            if self._is_to_end():
                return None
            self._start_nodes(native)
            failure = self._follow(native)
            finished = failure is None and self._stop_reason is None
            return failure
        finally:
            with self.changed:
                self._native = None
            native.close()
            self._end_job(_JOB_END_MS if finished else _JOB_STOP_MS)

    def _start_nodes(self, native: Any) -> None:
        for index in self._on_driver:
            native.spawn(index)
        indexes = range(len(self._on_driver), self.options["nodes"])
        name = urlsplit(native.url()).netloc  # the rest of the address is secret, and Spark shows the name
        detach = self.options["spark_feeds"]
        self._job = _spark.submit(self.sc, name, indexes, native.ticket(), self._broadcasts, detach)

    def _follow(self, native: Any) -> str | None:
        """Handles events until the last one."""
        failure: str | None = None
        looked = time.monotonic()
        try:
            while True:
                event = native.next(_LOOK_MS)
                if event is None:
                    return failure
                kind, text = event[0], event[9]
                if kind == "failed":
                    failure = failure or text
                elif kind == "over":
                    return failure
                else:
                    self._handle(native, event)
                if not self.ready and failure is None and time.monotonic() - looked > _LOOK_MS / 1000:
                    failure = self._look(native)
                    looked = time.monotonic()
        except _native.Error as error:
            return failure or str(error)

    def _handle(self, native: Any, event: tuple[Any, ...]) -> None:
        kind, count, total, index, _stream, node, host, state, url, text, pid = event
        if kind == "log":
            say("\n".join(f"[{node} {host}] {line}" for line in text.splitlines()))
        elif kind == "progress":
            say(f"[tfos] {text}")
        elif kind == "ready":
            with self.changed:
                self.nodes = json.loads(text)
                self.ready, self.ready_attempt = True, self.attempt
                if self._feeds_end:
                    native.end_of_feed()
                if self._finish_ms is not None:
                    native.finish(self._finish_ms)
                self.changed.notify_all()
        elif kind == "status":
            with self.changed:
                self._status = json.loads(text)
                self._status_number += 1
                self.changed.notify_all()
        elif kind == "feed":
            with self.changed:
                self.feeds.setdefault(count, FeedState()).hear(state, total, text)
                self.changed.notify_all()
        elif kind == "node" and url:
            with self.changed:
                self.tensorboard = url
                if index < len(self.nodes):
                    self.nodes[index] |= {"tensorboard": url, "tensorboard_pid": pid}
                self.changed.notify_all()

    def _look(self, native: Any) -> str | None:
        """While nodes are missing: has the job failed, and how many slots are there?"""
        try:
            failure = self._job.failure()
            slots = _spark.slots_now(self.sc)
        except Exception as error:  # the context was stopped, or its JVM is gone
            failure = f"Spark does not answer any more: {error}"
        if failure is None:
            native.slots(slots + len(self._on_driver), self._holders())
            return None
        native.stop("the Spark job that starts the nodes failed")
        return f"the Spark job that starts the nodes failed: {failure}"

    def _holders(self) -> str | None:
        """Other clusters of the application whose tasks hold slots: those that start, and those that read their data
        themselves."""
        others = [each for each in _all_sessions() if each is not self and each.sc is self.sc and not each.over]
        held = [each.describe() for each in others if not (each.ready and each.options["spark_feeds"])]
        return ", and ".join(sorted(held)) or None

    def describe(self) -> str:
        """What can be told of it in another place: the address of its status page without the secret part."""
        nodes = self.options["nodes"] - len(self._on_driver)
        parallel, fed = self.options.get("parallel"), self.options["spark_feeds"]
        kind = "TFParallel" if parallel else "InputMode.SPARK" if fed else "InputMode.TENSORFLOW"
        starting = "" if self.ready else ", starting"
        return f"status page {urlsplit(self.status_url).netloc}, {nodes} nodes, {kind}{starting}"

    def _end_job(self, patience_ms: int) -> None:
        """Tasks end with their nodes; those that have not been started, or whose nodes are frozen, are cancelled."""
        job, self._job = self._job, None
        if job is None or getattr(self.sc, "_jsc", None) is None:
            return
        try:
            if not job.awaitEnd(patience_ms):
                job.cancel()
                job.awaitEnd(_JOB_CANCEL_MS)
        except Exception:  # the context was stopped, or its JVM is gone
            pass


def _all_sessions() -> list[Session]:
    with _sessions_lock:
        return list(_sessions)


@atexit.register
def _stop_all() -> None:
    sessions = _all_sessions()
    for session in sessions:
        session.stop("the driver ends")
    for session in sessions:
        session.join(_EXIT_S)
