"""A cluster of the driver, over all its attempts: what TFCluster and TFParallel share.

What is done and when is decided by the library (tfos/driver.h). A thread of its own takes the library's orders one
after the other: those of a call go to whoever waits for it, the others are carried out at once.
"""

import atexit
import contextlib
import json
import queue
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from . import _native, _spark

_LOOK_S = 0.5  # how often the Spark context is looked at
_CANCEL_S = 0.5  # … and how often a job is cancelled that does not end
_EXIT_S = 75.0  # programs end: a trainer that is stopped has a minute for its last checkpoint
_CAUSES = 64  # exceptions that are kept, because they may be the cause of another

_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()
_sessions_lock = threading.Lock()


class TFClusterError(RuntimeError):
    """The cluster failed. The message names the node, its role and host, and has its traceback."""

    __module__ = "tensorflowonspark.TFCluster"  # where programs find it


def say(text: str) -> None:
    """Writes lines to where the driver's own messages go; a program without stderr, or with a closed one, misses
    them."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def text_of(error: BaseException) -> str:
    """What an exception says. That of Java asks its JVM, which may be gone."""
    with contextlib.suppress(Exception):
        return str(error) or type(error).__name__
    return type(error).__name__


class Session:
    """Its public attributes change while the cluster runs."""

    def __init__(
        self,
        sc: Any,
        options: dict[str, Any],
        broadcasts: list[Any],
        on_driver: range = range(0),
        restarts: int = 0,
        gpu_resource: str = "gpu",
        tensorflow: Any = None,
    ):
        self.sc = sc
        self.nodes: list[dict[str, Any]] = []  # once ready: what READY says of each
        self.tensorboard = ""
        self.status_url = ""
        self.attempt = -1  # how often the cluster was started again, once it was started
        self.over = threading.Event()  # for good: nothing is started any more
        self._fed = options["spark_feeds"]
        self._settings = options.get("settings") or []
        self._broadcasts = broadcasts
        self._gpu_resource = gpu_resource  # as Spark calls it
        self._tensorflow = tensorflow  # an org.tfos.spark.TensorFlowOffer for programs without Python
        self._job: Any = None  # that starts the nodes
        self._lock = threading.RLock()  # a handler of a signal may come in while its thread has it
        self._calls: dict[int, queue.SimpleQueue[Any]] = {}
        self._causes: dict[int, BaseException] = {}  # by job and call
        self._broken: BaseException | None = None  # what has ended the thread before its time
        self._idle = False  # the thread has ended: whoever calls takes the orders
        self._driver: Any = _native.Driver(options, len(on_driver), restarts, sc.applicationId)
        with _sessions_lock:
            _sessions.add(self)
        from pyspark import InheritableThread

        # Properties of the caller's Spark jobs, such as the scheduler pool, hold for the nodes too.
        thread = InheritableThread(target=self._run, name="tfos-cluster", daemon=True)
        thread.start()
        threading.Thread(target=self._watch_thread, args=(thread,), name="tfos-cluster-end", daemon=True).start()
        threading.Thread(target=self._watch_context, name="tfos-context", daemon=True).start()

    # ---- what the program's thread calls ----

    def call(self, make: Callable[[Any], int], carry_out: Callable[[dict[str, Any]], None] | None = None) -> Any:
        """Makes a call of the driver and waits for its outcome, which is returned; raises if it failed. Orders on the
        way are given to `carry_out`. Ctrl-C stops the cluster before it goes on."""
        orders: queue.SimpleQueue[Any] = queue.SimpleQueue()
        number = 0
        try:
            number = self._begin(make, orders)
            while (order := orders.get()) is not None and order["kind"] != "done":
                carry_out(order)
        except BaseException as error:
            if number or not isinstance(error, Exception):  # otherwise the call was refused
                self.stop("interrupted by the driver")
                self.tell(lambda driver: driver.abandon(number))
                self.over.wait(_EXIT_S)
            raise
        finally:
            with self._lock:
                self._calls.pop(number, None)
        if order is None:
            raise TFClusterError(f"the thread that runs the cluster has failed: {self._broken}") from self._broken
        return self._outcome(order)

    def _begin(self, make: Callable[[Any], int], orders: "queue.SimpleQueue[Any]") -> int:
        with self._lock:
            if self._driver is None:
                orders.put(None)
                return 0
            number = make(self._driver)
            self._calls[number] = orders
        self._take_orders_if_idle()
        return number

    def tell(self, report: Callable[[Any], None]) -> None:
        """Tells the driver something."""
        driver = self._driver
        if driver is not None:
            report(driver)
            self._take_orders_if_idle()

    def await_nodes(self) -> None:
        self.call(lambda driver: driver.await_nodes())

    def finish(self, grace_s: float, timeout_s: float) -> None:
        """Lets the cluster come to its end, and waits for it."""
        self.call(lambda driver: driver.finish(int(grace_s * 1000), -1 if timeout_s < 0 else int(timeout_s * 1000)))

    def await_tensorboard(self) -> None:
        self.call(lambda driver: driver.await_tensorboard())

    def status(self) -> dict[str, Any]:
        """What the status page shows, as of now; the last that was heard when the cluster is over."""
        return json.loads(self.call(lambda driver: driver.ask_status())["text"] or "{}")

    def stop(self, reason: str) -> None:
        """Stops every node; nothing is started again."""
        self.tell(lambda driver: driver.stop(reason))

    def join(self, timeout: float | None = None) -> None:
        self.over.wait(timeout)

    def report_job(self, number: int, error: BaseException | None) -> None:
        """A job has ended; its error may be raised by whoever waits for it."""
        if error is not None:
            self._note_cause(number, error)
        self.tell(lambda driver: driver.report_job(number, None if error is None else text_of(error)))

    def _note_cause(self, number: int, error: BaseException) -> None:
        with self._lock:
            self._causes[number] = error
            while len(self._causes) > _CAUSES:
                del self._causes[next(iter(self._causes))]

    # ---- orders ----

    def _run(self) -> None:
        try:
            while (order := self._driver.next(-1)) is not None:
                self._take(order)
        except BaseException as error:
            self._break(error)
        with self._lock:
            self._idle = self._broken is None
        self._take_orders_if_idle()

    def _watch_thread(self, thread: threading.Thread) -> None:
        """A thread that inherits properties asks Spark for them first, and may not come to its work."""
        thread.join()
        if not self._idle and self._broken is None:
            self._break(RuntimeError("the Spark context was stopped before the cluster was started"))

    def _break(self, error: BaseException) -> None:
        """Nobody will take orders any more. Without the driver, the coordinator and every node end."""
        with self._lock:
            self._broken, self._driver = error, None
            for orders in self._calls.values():
                orders.put(None)
        self.over.set()

    def _take_orders_if_idle(self) -> None:
        """Whoever calls when the thread has ended takes the answer himself."""
        with self._lock:
            while self._idle and (order := self._driver.next(0)) is not None and order["kind"] != "none":
                self._take(order)

    def _take(self, order: dict[str, Any]) -> None:
        if order["call"]:
            with self._lock:
                if order["call"] in self._calls:
                    self._calls[order["call"]].put(order)
        else:
            getattr(self, "_" + order["kind"])(order)

    def _outcome(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["outcome"] != "failed":
            return order
        with self._lock:
            cause = self._causes.get(order["cause"])
        if order["status"] == "RAISED" and cause is not None:
            error = cause
        else:
            error = (ValueError if order["status"] == "INVALID" else TFClusterError)(order["text"])
            error.__cause__ = cause
        self._note_cause(order["call"], error)
        raise error

    def _say(self, order: dict[str, Any]) -> None:
        say(order["text"])

    def _opened(self, order: dict[str, Any]) -> None:
        self.status_url, self.attempt = order["text"], order["index"]

    def _ready(self, order: dict[str, Any]) -> None:
        self.nodes = json.loads(order["text"])

    def _tensorboard(self, order: dict[str, Any]) -> None:
        self.tensorboard = order["text"]
        if order["index"] < len(self.nodes):
            self.nodes[order["index"]] |= {"tensorboard": order["text"], "tensorboard_pid": order["pid"]}

    def _over(self, _order: dict[str, Any]) -> None:
        self.over.set()

    def _look(self, _order: dict[str, Any]) -> None:
        """Tells how Spark is."""
        seen: dict[str, Any] = {}
        end = _spark.end_of(self.sc)
        try:
            if not end:
                _spark.install(self.sc)
                seen["slots"] = _spark.slots_now(self.sc)
                seen["slots_most"], seen["slots_reason"] = _spark.slots_configured(self.sc, self._gpu_resource)
                seen["nodes_failure"] = self._job.failure() if self._job is not None else None
        except Exception as error:  # the context was stopped, or its JVM is gone
            seen["unanswered"] = text_of(error)
            end = _spark.end_of(self.sc)
        self._driver.report_spark(context_end=end or None, **seen)

    def _start_nodes(self, order: dict[str, Any]) -> None:
        indexes = range(order["index"], order["index"] + order["count"])
        try:
            submitted = (order["title"], indexes, order["bytes"], self._broadcasts)
            wanted = {"gpu_resource": self._gpu_resource, "settings": self._settings, "tensorflow": self._tensorflow}
            self._job = _spark.submit(self.sc, *submitted, detach=self._fed, **wanted)
        except Exception as error:  # raised again in the program's thread
            self.report_job(0, error)

    def _end_nodes(self, order: dict[str, Any]) -> None:
        job, self._job = self._job, None
        try:
            if job is not None and getattr(self.sc, "_jsc", None) is not None:
                if not job.awaitEnd(order["patience_ms"]):
                    job.cancel()
                    job.awaitEnd(order["cancel_ms"])
        except Exception:  # the context was stopped, or its JVM is gone
            pass
        self.report_job(0, None)

    def _watch_context(self) -> None:
        """In a thread of its own: a JVM that is slow to answer must not keep us from the cluster."""
        while not (end := _spark.end_of(self.sc)):
            if self.over.wait(_LOOK_S):
                return
        self.tell(lambda driver: driver.report_context_end(end))


class Job:
    """A Spark job in a thread of its own, which can be cancelled; its end is reported, whatever happens to it."""

    def __init__(self, session: Session, number: int, run: Callable[[], Any]):
        from pyspark import InheritableThread

        self._session = session
        self._number = number
        self._run = run
        self._group = f"tfos feed {id(self):x} {threading.get_ident():x}"
        self._lock = threading.Lock()
        self._ended = threading.Event()
        # Properties of the caller's Spark jobs hold for this one too.
        thread = InheritableThread(target=self._work, name="tfos-feed", daemon=True)
        try:
            thread.start()
            threading.Thread(target=self._watch, args=(thread,), name="tfos-feed-end", daemon=True).start()
        except Exception as error:
            self._end(error)

    def _work(self) -> None:
        try:
            self._session.sc.setJobGroup(self._group, "tfos: feeding a cluster", interruptOnCancel=True)
            self._run()
        except BaseException as error:  # raised again in the program's thread
            self._end(error)
        else:
            self._end(None)

    def _watch(self, thread: threading.Thread) -> None:
        """A thread that inherits properties asks Spark for them first, and may not come to its work."""
        thread.join()
        self._end(RuntimeError("the Spark context was stopped before the job began"))

    def _end(self, error: BaseException | None) -> None:
        """The first word counts."""
        with self._lock:
            first = not self._ended.is_set()
            self._ended.set()
        if first:
            self._session.report_job(self._number, error)

    def cancel(self, timeout: float | None = None) -> None:
        """Until it has ended, or for so long: Spark does not cancel what has yet to be submitted."""
        left = timeout
        while not self._ended.is_set() and (left is None or left > 0):
            try:
                self._session.sc.cancelJobGroup(self._group)
            except Exception:  # the context was stopped, or its JVM is gone
                pass
            self._ended.wait(_CANCEL_S)
            left = None if left is None else left - _CANCEL_S


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
