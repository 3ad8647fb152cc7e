"""For programs on the nodes: paths, the TensorFlow server, exports, feeds."""

import getpass
import re
from typing import Any

from . import _check, _native, compat


def hdfs_path(ctx: Any, path: str) -> str:
    """The path with the scheme of the cluster's file system.

    A path with a scheme stays as it is. An absolute one is on the default file system; a relative one is in the user's
    folder on HDFS, or in the driver's working folder on a local file system.
    """
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        return path
    if path.startswith("/"):
        return ctx.defaultFS + path
    if ctx.defaultFS.startswith(("hdfs://", "viewfs://")):
        return f"{ctx.defaultFS}/user/{getpass.getuser()}/{path}"
    if ctx.defaultFS.startswith("file://"):
        return f"{ctx.defaultFS}/{ctx.working_dir[1:]}/{path}"
    return f"{ctx.defaultFS}/{path}"


def start_cluster_server(ctx: Any, num_gpus: int = 1, rdma: bool = False) -> tuple[Any, Any]:
    """Starts this node's TensorFlow server; returns (cluster_spec, server). A ps calls server.join() then.

    The GPUs were chosen when the node started (num_gpus of the arguments of TFCluster.run), so num_gpus has no effect.
    """
    if rdma:
        raise ValueError("rdma=True: TensorFlow 2 has no RDMA transport; leave it out")
    import tensorflow as tf

    release_port(ctx)
    cluster_spec = tf.train.ClusterSpec(ctx.cluster_spec)
    server = tf.distribute.Server(cluster_spec, job_name=ctx.job_name, task_index=ctx.task_index)
    return cluster_spec, server


def export_saved_model(sess: Any, export_dir: str, tag_set: Any = None, signatures: Any = None) -> None:
    """Saves a model for serving. `sess` is a model of Keras 3 or tf_keras, or a tf.Module.

    Sessions of TensorFlow 1 and their tensor names are not taken: save such a graph with tf.compat.v1.saved_model.
    """
    import tensorflow as tf

    if isinstance(sess, (tf.compat.v1.Session, tf.compat.v1.train.MonitoredSession)):
        raise TypeError(
            "export_saved_model takes a Keras model or a tf.Module, found a session of TensorFlow 1; save it with "
            "tf.compat.v1.saved_model.simple_save"
        )
    if hasattr(sess, "save") and hasattr(sess, "export") and signatures is None:
        compat.save_keras_model(sess, export_dir)
    else:
        tf.saved_model.save(sess, export_dir, signatures=signatures)


def release_port(ctx: Any) -> None:
    """Lets go of the port that was kept for this node's TensorFlow server. Needed once, with release_port=False."""
    if ctx.tmp_socket is not None:
        ctx.tmp_socket.close()
        ctx.tmp_socket = None


class DataFeed:
    """The rows that Spark feeds to this node.

        feed = ctx.get_data_feed()
        while not feed.should_stop():
            rows = feed.next_batch(64)      # fewer at the end of the data

    mgr            ctx.mgr
    train_mode     False: the program gives a result for each row (batch_results), and a batch ends with its partition
    qname_in       the queue, as TFCluster.train and inference name it
    qname_out      has no effect: results go back to the task that fed the rows
    input_mapping  {column: name}: next_batch returns a dict of lists by name; columns in the order of their names
    """

    def __init__(
        self,
        mgr: Any,
        train_mode: bool = True,
        qname_in: str = "input",
        qname_out: str = "output",
        input_mapping: dict[str, str] | None = None,
    ):
        if getattr(mgr, "queues", None) is not None:
            _check.queue("qname_in", qname_in, mgr.queues)
        self.mgr = mgr
        self.train_mode = train_mode
        self.qname_in = qname_in
        self.qname_out = qname_out
        self.done_feeding = False
        self.input_mapping = input_mapping
        self.input_tensors = None if input_mapping is None else [name for _, name in sorted(input_mapping.items())]
        self._feed = _native.Feed(qname_in)
        self._results: Any = None
        self._kept: Any = None  # rows of a next_batch that was interrupted

    def next_batch(self, batch_size: int) -> Any:
        """The next rows: a list, or with input_mapping a dict of lists. Waits until there are batch_size of them; at
        the end of the data there are fewer, or none."""
        rows = self._kept
        if rows is None:
            rows = [] if self.input_mapping is None else {name: [] for name in self.input_tensors}
        self._kept = rows  # what has come stays here until it is given away, whatever happens
        while _count(rows) < batch_size:
            batch = self._feed.next(batch_size - _count(rows))
            if batch is None:
                self.done_feeding = True
                break
            self._add(rows, batch)
            if not self.train_mode:
                break  # of one partition
        taken, self._kept = _split(rows, batch_size)
        return taken

    def _add(self, rows: Any, batch: Any) -> None:
        if self.input_mapping is None:
            rows.extend(_native.decode_rows(batch))
            return
        for name, values in _native.decode_columns(batch, sorted(self.input_mapping.items())).items():
            rows[name].extend(values)

    def next_arrays(self, batch_size: int, columns: Any = None) -> dict[str, Any]:
        """The next rows as {column: NumPy array}, at most batch_size of them; {} at the end of the data."""
        from . import _dataset

        arrays = _dataset.next_arrays(self._feed, batch_size, columns)
        self.done_feeding = self.done_feeding or not arrays
        return arrays

    def dataset(
        self,
        batch_size: int,
        columns: Any = None,
        drop_remainder: bool = False,
        epochs: str | int = "all",
        validation: bool = False,
    ) -> Any:
        """The rows as a tf.data.Dataset of dicts of tensors by column; no Python is between Spark and the dataset.

        columns         the names of those that are wanted, or {name: TensorSpec, dtype or shape} to declare them
        drop_remainder  leave out a batch that is not full
        epochs          "all": the dataset ends with the data; "split": it ends with each epoch and can be iterated
                        again for the next one; a number, from 0 on: it is this epoch, and what was left of earlier ones
        validation      the rows of train(validation=…) instead
        """
        from . import _dataset

        return _dataset.make_dataset(self.qname_in, batch_size, columns, drop_remainder, epochs, validation)

    def should_stop(self) -> bool:
        """Whether the data has come to its end."""
        self.done_feeding = self.done_feeding or (self._kept is None and self._feed.ended())
        return self.done_feeding

    def batch_results(self, results: Any) -> None:
        """Sends results back, one for each row, in the order of the rows.

        results   a list of results, whatever they are; an array or tensor with a result for each row; or a dict of such
                  arrays by the name of a column. For a DataFrame a result has its columns by name (dict, Row), by
                  position (tuple), or is the only one
        """
        from . import _results

        self._results = self._results or _results.Encoder()
        for batch in self._results.batches(results):
            self._feed.results(batch)

    def terminate(self) -> None:
        """Ends feeding, for all nodes: rows that are left are skipped."""
        self.done_feeding = True
        self._feed.terminate()


def _count(rows: Any) -> int:
    return len(rows) if isinstance(rows, list) else len(next(iter(rows.values()), ()))


def _split(rows: Any, count: int) -> tuple[Any, Any]:
    """The first `count` rows, and the others; None if there are none."""
    if _count(rows) <= count:
        return rows, None
    if isinstance(rows, list):
        return rows[:count], rows[count:]
    return {name: values[:count] for name, values in rows.items()}, {k: values[count:] for k, values in rows.items()}
