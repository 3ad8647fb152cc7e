"""A TensorFlow cluster on the executors of a Spark cluster.

    def main(args, ctx):                # runs once on every node, in a Python of its own
        import tensorflow as tf
        …

    cluster = TFCluster.run(sc, main, args, num_executors=4, num_ps=0)
    cluster.shutdown()                  # waits until every worker has ended; raises if one failed

While it runs, what the nodes print appears on the driver's stderr, each line with its node in front.
"""

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from . import _check, _feeding, _inference, _report, _returned, _spark
from ._session import Session, TFClusterError
from ._trainer import Trainer

__all__ = ["InputMode", "TFCluster", "TFClusterError", "run"]

_EPOCHS = 10  # of train, unless a number is given: as programs know it


class InputMode:
    """Who brings the data."""

    TENSORFLOW = 0  #: the program reads its data itself
    SPARK = 1  #: Spark feeds the program with the rows of an RDD or DataFrame


class TFCluster:
    """A cluster that was started by `run`.

    cluster_info   one dict for each node: executor_id, job_name, task_index, host, port, tb_pid, tb_port, addr, authkey
    cluster_meta   what the cluster was asked to be
    cluster_id     a number of its own, cluster_meta["id"]
    status_url     the page that shows the nodes, their states and logs; who knows it can read them
    """

    def __init__(
        self,
        session: Session,
        meta: dict[str, Any],
        input_mode: int,
        queues: Sequence[str],
        tensorboard: bool,
        trainer: Trainer | None = None,
    ):
        self.sc = session.sc
        self.defaultFS = meta["default_fs"]
        self.working_dir = meta["working_dir"]
        self.num_executors = meta["num_executors"]
        self.cluster_id = meta["id"]
        self.cluster_meta = self.meta = meta
        self.input_mode = input_mode
        self.queues = list(queues)
        self._session = session
        self._wants_tensorboard = tensorboard
        self._trainer = trainer
        self._fed_until: float | None = None  # when train returned last
        self._streams: list[_feeding.Stream] = []

    @property
    def cluster_info(self) -> list[dict[str, Any]]:
        return [_node_info(node) for node in self._session.nodes]

    @property
    def status_url(self) -> str:
        return self._session.status_url

    def tensorboard_url(self) -> str | None:
        """The address of TensorBoard, if it was asked for; waits until it is known."""
        if self._wants_tensorboard:
            self._session.await_tensorboard()
        return self._session.tensorboard or None

    def train(
        self,
        dataRDD: Any,
        num_epochs: int | None = 0,
        feed_timeout: float = 600,
        qname: str = "input",
        *,
        input_mapping: dict[str, str] | None = None,
        columns: dict[str, Any] | None = None,
        validation: Any = None,
        retry: str = "exact",
    ) -> Any:
        """Feeds rows to the workers, and returns when they have taken all of them.

        dataRDD        an RDD of anything, or a DataFrame, whose rows go without Python from Spark to the programs. A
                       DStream or a streaming DataFrame feeds batch by batch as they come, and train returns at once
                       (for a streaming DataFrame: the query) until shutdown(ssc) or DataFeed.terminate()
        num_epochs     how often; 0: ten times; None: until a program calls DataFeed.terminate() or all have ended
        feed_timeout   seconds without a row being taken while there are some
        qname          the queue, as the programs name it in get_data_feed(qname_in=…)
        input_mapping  {column: name}: of a DataFrame, the columns to be fed and what the programs call them
        columns        {name: {"shape": …, "default": …, "cast": …}}: what is declared for columns of a DataFrame
        validation     an RDD or DataFrame that is fed after each epoch, for DataFeed.dataset(validation=True)
        retry          what happens when the task of a partition dies midway and Spark does not promise to compute the
                       partition in the same order again: "exact" fails, "again" feeds all of it again, with duplicates
        """
        timeout_ms = self._check_fed("train", feed_timeout, qname, input_mapping, columns)
        epochs = None if num_epochs is None else _check.count("num_epochs", num_epochs) or _EPOCHS
        if retry not in ("exact", "again"):
            raise ValueError(f"retry is 'exact' or 'again', found {retry!r}")

        self._check_trained(qname, validation)

        def feed(data: Any, validation: Any, epochs: int | None, stream: bool) -> bool:
            sets = [(qname, data)] if validation is None else [(qname, data), (f"{qname}.validation", validation)]
            sources = _feeding.while_alive(
                self._session,
                lambda: [
                    _feeding.source(self.sc, each, self._mapping(each, input_mapping), columns) for _, each in sets
                ],
            )
            options = [
                source.options(queue, timeout_ms, again=retry == "again") for (queue, _), source in zip(sets, sources)
            ]
            return _feeding.Feeding(self._session, *sources).run(options, epochs, stream)

        if _feeding.is_stream(dataRDD):
            if validation is not None:
                raise ValueError("validation= needs data with an end; it cannot be used with a stream")
            stream = _feeding.Stream(dataRDD, lambda batch: feed(batch, None, 1, True))
            self._streams.append(stream)
            return stream.query
        self._fed_until = None
        try:
            feed(dataRDD, validation, epochs, False)
        finally:
            self._fed_until = time.monotonic()
        return None

    def inference(
        self,
        dataRDD: Any,
        feed_timeout: float = 600,
        qname: str = "input",
        *,
        schema: Any = None,
        keep: Sequence[str] | None = None,
        input_mapping: dict[str, str] | None = None,
        columns: dict[str, Any] | None = None,
    ) -> Any:
        """Feeds the rows of an RDD or DataFrame to the workers; returns an RDD or DataFrame of their results, one for
        each row and in the order of the rows. Like every RDD and DataFrame it is computed when it is needed, and again
        if it is needed again; while the cluster runs. The programs read rows with DataFeed(train_mode=False) and answer
        with batch_results.

        Of a DataFrame, whose rows and results go without Python between Spark and the programs:

        schema         the columns of the results, as "prediction float, scores array<float>" or a StructType. Without
                       it the first row is fed at once, and the columns are those of its result
        keep           which columns of the DataFrame stand in front of the results: names, [] for none; all by default
        input_mapping  as in train
        columns        as in train
        """
        timeout_ms = self._check_fed("inference", feed_timeout, qname, input_mapping, columns)
        if self._trainer is not None:
            raise ValueError(
                "a native.Trainer answers no rows: pipeline.TFModel gives the rows of a DataFrame the results of the "
                "model that it has written to export_dir"
            )
        if hasattr(dataRDD, "_jdf"):
            return _inference.infer(self._session, dataRDD, qname, timeout_ms, schema, keep, input_mapping, columns)
        if any(given is not None for given in (schema, keep, input_mapping, columns)):
            raise ValueError(
                "schema, keep, input_mapping and columns are for DataFrames; an RDD's rows and results stay as they are"
            )
        return _feeding.infer(self._session, dataRDD, queue=qname, timeout_ms=timeout_ms)

    def feed_report(self) -> _report.FeedReport:
        """How feeding goes: rows fed, consumed and skipped by feed, by node and by partition of its last epoch. It is a
        dict {"feeds": […], "nodes": […], "partitions": […]} and prints as tables. When train has returned, all numbers
        are those of the end; while it feeds, they are those of the last heartbeat."""
        return _report.make(self._session, self._fed_until)

    def results(self) -> list[_returned.NodeResult]:
        """What the programs have left behind, for each node in the order of the cluster: (role, index, host, state,
        value, history, failure, problem). value is what map_fun returned, history what it has reported with ctx.report
        or keras.ReportProgress. Of nodes that have ended well; of others there is neither, and failure says why. After
        a restart, what was returned before it is gone."""
        return _returned.collect(self._session)

    def _check_fed(self, what: str, feed_timeout: Any, qname: Any, input_mapping: Any, columns: Any) -> int:
        """Checks what train and inference have in common; returns the timeout in ms."""
        if self.input_mode != InputMode.SPARK:
            raise ValueError(f"TFCluster.{what} needs a cluster that was started with input_mode=InputMode.SPARK")
        _check.queue("qname", qname, self.queues)
        _check.mapping("input_mapping", input_mapping)
        _check.mapping("columns", columns)
        return int(_check.seconds("feed_timeout", feed_timeout) * 1000)

    def _check_trained(self, qname: str, validation: Any) -> None:
        """A trainer reads one queue, and what it is validated with, or does not: both must know."""
        if self._trainer is None:
            return
        if self._trainer.plan["options"]["queue"] != qname:
            raise ValueError(
                f"the native.Trainer reads the queue {self._trainer.plan['options']['queue']!r}, found {qname!r}"
            )
        if self._trainer.plan["validates"] != (validation is not None):
            raise ValueError(
                "validation= of train and of native.Trainer belong together: give both, or neither; the trainer has "
                f"validation={self._trainer.plan['validates']}"
            )

    def _mapping(self, data: Any, given: dict[str, str] | None) -> dict[str, str] | None:
        """Of a DataFrame for trainers in C, only what they take is fed."""
        if given is not None or self._trainer is None or not hasattr(data, "_jdf"):
            return given
        return self._trainer.mapping(data) or None

    def shutdown(self, ssc: Any = None, grace_secs: float = 0, timeout: float = 259200) -> None:
        """Waits until every worker has ended, then stops ps and evaluators. Raises TFClusterError if a node failed, or
        the last train of a queue. Streaming DataFrames that are still being fed are stopped first.

        ssc          a StreamingContext, waited for first; it is stopped when the cluster ends before it
        grace_secs   how long ps and evaluators go on after the last worker
        timeout      seconds to wait for the workers, three days by default; -1: as long as it takes. Afterwards the
                     cluster is stopped, and TFClusterError raised.
        """
        grace_s = _check.seconds("grace_secs", grace_secs)
        limit = _check.seconds("timeout", timeout, negative=True)
        if ssc is not None:
            self._wait_for_stream(ssc)
        for stream in self._streams:
            stream.end(None if timeout < 0 else timeout)
        self._session.finish(grace_s, limit)

    def _wait_for_stream(self, ssc: Any) -> None:
        if not hasattr(ssc, "awaitTerminationOrTimeout"):
            raise TypeError(f"ssc is a StreamingContext, found {type(ssc).__name__}")
        while not ssc.awaitTerminationOrTimeout(1):
            if self._session.over.is_set():
                ssc.stop(stopSparkContext=False, stopGraceFully=True)
                return


def _node_info(node: dict[str, Any]) -> dict[str, Any]:
    """The form that programs know, with what is new behind it."""
    url = urlsplit(node.get("tensorboard", ""))
    known = {
        "executor_id": node["executor_id"],
        "host": node["host"],
        "job_name": node["job_name"],
        "task_index": node["task_index"],
        "port": node["port"],
        "tb_pid": node.get("tensorboard_pid", 0),
        "tb_port": url.port or 0,
        "addr": (node["host"], node["port"]),
        "authkey": b"",  # keys never leave the processes that need them
    }
    return known | {key: node[key] for key in ("pid", "executor", "gpus") if key in node}


def run(
    sc: Any,
    map_fun: Callable[[Any, Any], Any],
    tf_args: Any,
    num_executors: int,
    num_ps: int,
    tensorboard: bool = False,
    input_mode: int = InputMode.TENSORFLOW,
    log_dir: str | None = None,
    driver_ps_nodes: bool = False,
    master_node: str | None = None,
    reservation_timeout: float = 600,
    queues: Sequence[str] = ("input", "output", "error"),
    eval_node: bool = False,
    release_port: bool = True,
    native_ps: bool = False,
    native_workers: bool | None = None,
    restarts: int = 0,
) -> TFCluster:
    """Starts a cluster, and returns when every node knows its role.

    sc                   a SparkContext, or a SparkSession
    map_fun              called as map_fun(tf_args, ctx) on each node; ctx is a TFSparkNode.TFNodeContext. Or a
                         native.Trainer, which trains on each node without Python
    tf_args              anything that can be pickled; a list becomes sys.argv on the nodes
    num_executors        nodes of the cluster: ps, master, evaluator and workers
    num_ps               how many of them are parameter servers
    tensorboard          start TensorBoard beside the master or the first worker, on log_dir
    input_mode           InputMode.TENSORFLOW: the program reads its data; InputMode.SPARK: Spark feeds it
    driver_ps_nodes      start the ps nodes on the driver's machine instead of on executors
    master_node          "chief" or "master" to have a node of that role
    reservation_timeout  seconds to wait for executors to start the nodes
    queues               the names that train, inference and programs have for what is fed, to tell several apart
    eval_node            have an evaluator
    release_port         False: the program calls ctx.release_port() before it starts its TensorFlow server
    native_ps            run ps nodes as TensorFlow servers, without Python
    native_workers       the same for workers; by default for those of ParameterServerStrategy, that is, if native_ps,
                         master_node and num_ps are given
    restarts             how often the cluster is started again after a failure; ctx.attempt counts

    Raises TFClusterError if the cluster cannot be started, and ValueError for a cluster that makes no sense.
    """
    sc = _spark.context_of(sc)
    trainer = map_fun if isinstance(map_fun, Trainer) else None
    _check.function("map_fun", map_fun if trainer is None else run)
    num_executors = _check.count("num_executors", num_executors)
    num_ps = _check.count("num_ps", num_ps)
    restarts = _check.count("restarts", restarts)
    wait_s = _check.seconds("reservation_timeout", reservation_timeout)
    queues = _check.queues(queues)
    _check_mode(sc, input_mode, driver_ps_nodes, eval_node)
    if trainer is not None:
        _check_trainer(trainer, input_mode, num_executors, num_ps, eval_node, restarts)
    if native_workers is None:
        native_workers = bool(native_ps and master_node and num_ps > 0)
    meta = {
        "id": secrets.randbits(63),
        "num_executors": num_executors,
        "default_fs": _spark.default_fs(sc),
        "working_dir": os.getcwd(),
        "input_mode": input_mode,
        "release_port": release_port,
        "queues": queues,
        "cluster_template": _template(num_executors, num_ps, master_node, eval_node),
    }
    options = {
        "nodes": num_executors,
        "ps": num_ps,
        "master": _check.text("master_node", master_node),
        "evaluator": eval_node,
        "spark_feeds": input_mode == InputMode.SPARK,
        "native_ps": native_ps,
        "native_workers": native_workers,
        "keep_port": not release_port,
        "timeout_ms": int(wait_s * 1000),
        "tensorboard": _tensorboard(sc, _check.text("log_dir", log_dir)) if tensorboard else None,
    }
    session = start(sc, map_fun, tf_args, meta, options, range(num_ps if driver_ps_nodes else 0), restarts)
    session.await_nodes()
    return TFCluster(session, meta, input_mode, queues, tensorboard, trainer)


def start(
    sc: Any,
    function: Any,
    args: Any,
    meta: dict[str, Any],
    options: dict[str, Any],
    on_driver: range = range(0),
    restarts: int = 0,
    gpu_resource: str = "gpu",
) -> Session:
    """Starts the nodes of a cluster, of TFParallel or of a runner, and does not wait."""
    _spark.install(sc)
    tensorflow = None
    if isinstance(function, Trainer):
        program, payload, broadcasts = ["tfos", "trainer"], function.payload(sc), []
        tensorflow = function.tensorflow(sc)
    else:
        program = [sc.pythonExec, "-m", "tensorflowonspark._child"]
        payload, broadcasts = _spark.pickle_for_nodes(sc, (function, args))
    context = meta | {
        "python": list(sys.version_info[:2]),
        "driver": _driver_as_executor(sc, broadcasts),
    }
    common = {
        "program": program,
        "payload": payload,
        "context": json.dumps(context),
        "host": sc.getConf().get("spark.driver.host"),
        "gpus": _wanted_gpus(args),
        "environment": _driver_environment(),
        "settings": _settings(sc, function) or None,
        "folder": sc._temp_dir,  # logs of nodes on the driver; Spark removes it with the application
    }
    return Session(sc, common | options, broadcasts, on_driver, restarts, gpu_resource, tensorflow)


def _check_mode(sc: Any, input_mode: int, driver_ps_nodes: bool, eval_node: bool) -> None:
    if input_mode not in (InputMode.TENSORFLOW, InputMode.SPARK):
        raise ValueError(f"input_mode is InputMode.TENSORFLOW or InputMode.SPARK, found {input_mode!r}")
    if input_mode == InputMode.TENSORFLOW:
        return
    if driver_ps_nodes:
        raise ValueError("driver_ps_nodes=True needs input_mode=InputMode.TENSORFLOW")
    if eval_node:
        raise ValueError("eval_node=True needs input_mode=InputMode.TENSORFLOW: nobody would feed the evaluator")
    if sc.getConf().get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        raise ValueError(
            "InputMode.SPARK does not work with dynamic allocation: between two feeds the executors look idle, and "
            "Spark would remove them with the nodes on them. Set spark.dynamicAllocation.enabled to false, or use "
            "InputMode.TENSORFLOW."
        )


def _check_trainer(
    trainer: Trainer, input_mode: int, num_executors: int, num_ps: int, eval_node: bool, restarts: int
) -> None:
    if num_ps or eval_node:
        raise ValueError("a native.Trainer needs workers alone: num_ps=0, and no evaluator; it evaluates by itself")
    if trainer.plan["fed"] != (input_mode == InputMode.SPARK):
        what, mode = ("no data", "SPARK") if trainer.plan["fed"] else ("files as its data", "TENSORFLOW")
        raise ValueError(f"the native.Trainer has {what}: start the cluster with input_mode=InputMode.{mode}")
    if restarts and trainer.plan["restart_problem"]:
        raise ValueError(trainer.plan["restart_problem"])
    if num_executors > 1 and not trainer.plan["together"]:
        raise ValueError(
            "the model has no step of many workers, because it was exported with distributed=False: export it without "
            "that, or train it on one node (num_executors=1)"
        )


def _settings(sc: Any, function: Any) -> list[str]:
    given = _spark.settings(sc)
    return function.settings(given) if isinstance(function, Trainer) else given


def _template(num_executors: int, num_ps: int, master_node: str | None, eval_node: bool) -> dict[str, list[int]]:
    """Which indexes have which role; the core decides the same."""
    indexes = list(range(num_executors))
    counts = [("ps", num_ps), (master_node or "", 1 if master_node else 0), ("evaluator", 1 if eval_node else 0)]
    template = {}
    for role, count in [*counts, ("worker", num_executors)]:
        if indexes[:count]:
            template[role], indexes = indexes[:count], indexes[count:]
    return template


def _wanted_gpus(args: Any) -> int:
    """num_gpus of the program's arguments; -1: not said."""
    wanted = args.get("num_gpus") if isinstance(args, dict) else getattr(args, "num_gpus", None)
    return -1 if wanted is None else _check.count("num_gpus of the arguments", wanted, -1)


def _tensorboard(sc: Any, log_dir: str | None) -> list[str]:
    words = [sc.pythonExec, "-m", "tensorboard.main", "--logdir", log_dir or "tensorboard"]
    return [*words, "--host={host}", "--port={port}"]


def _driver_environment() -> list[str]:
    """For nodes on the driver's machine; a Spark task replaces it."""
    folder = os.path.dirname(_spark.FOLDER)
    paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
    return ["PYTHONPATH=" + os.pathsep.join(paths), "PYTHONUNBUFFERED=1"]


def _driver_as_executor(sc: Any, broadcasts: list[Any]) -> dict[str, Any]:
    """What a Spark task says of its executor, for nodes on the driver's machine."""
    from pyspark import SparkFiles

    return {
        "files": SparkFiles.getRootDirectory(),
        "includes": list(sc._python_includes),
        "broadcasts": {str(broadcast._jbroadcast.id()): broadcast._path for broadcast in broadcasts},
        "paths": [path for path in sys.path if path],
    }
