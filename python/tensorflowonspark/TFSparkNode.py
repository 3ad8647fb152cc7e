"""What a program on a node is given: the context `ctx`."""

from typing import Any

from . import TFNode, _progress


class TFNodeContext:
    """A node's place in the cluster.

    executor_id    the node's number among all nodes; worker_num is the same
    job_name       its role: "ps", "chief", "master", "evaluator" or "worker"
    task_index     its number among the nodes of that role
    cluster_spec   {role: ["host:port", …]}, as TensorFlow's ClusterSpec takes it
    num_workers    workers and master together; for TFParallel the number of instances
    defaultFS      Hadoop's default file system, such as hdfs://host:8020, or file://
    working_dir    the driver's working folder
    mgr            small values and, with InputMode.SPARK, the feed of this node
    tmp_socket     holds the node's port when release_port=False, until it is closed
    attempt        how often the cluster was started again
    """

    def __init__(
        self,
        executor_id: int = 0,
        job_name: str = "",
        task_index: int = 0,
        cluster_spec: dict[str, list[str]] | None = None,
        defaultFS: str = "file://",
        working_dir: str = ".",
        mgr: Any = None,
        tmp_socket: Any = None,
        attempt: int = 0,
    ):
        spec = cluster_spec or {}
        self.worker_num = executor_id
        self.executor_id = executor_id
        self.job_name = job_name
        self.task_index = task_index
        self.cluster_spec = spec
        self.num_workers = sum(len(spec.get(role, ())) for role in ("master", "chief", "worker"))
        self.defaultFS = defaultFS
        self.working_dir = working_dir
        self.mgr = mgr
        self.tmp_socket = tmp_socket
        self.attempt = attempt

    def absolute_path(self, path: str) -> str:
        """TFNode.hdfs_path for this node."""
        return TFNode.hdfs_path(self, path)

    def start_cluster_server(self, num_gpus: int = 1, rdma: bool = False) -> tuple[Any, Any]:
        """TFNode.start_cluster_server for this node."""
        return TFNode.start_cluster_server(self, num_gpus, rdma)

    def export_saved_model(self, sess: Any, export_dir: str, tag_set: Any = None, signatures: Any = None) -> None:
        """TFNode.export_saved_model."""
        TFNode.export_saved_model(sess, export_dir, tag_set, signatures)

    def get_data_feed(
        self, train_mode: bool = True, qname_in: str = "input", qname_out: str = "output", input_mapping: Any = None
    ) -> "TFNode.DataFeed":
        """TFNode.DataFeed of this node."""
        return TFNode.DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def report(
        self,
        step: int | None = None,
        epoch: int | None = None,
        loss: Any = None,
        *,
        rows: int | None = None,
        every_node: bool = False,
        **metrics: Any,
    ) -> None:
        """Reports the progress of this program: to the driver, where the chief's reports are lines, to the status page,
        and to cluster.results(). As often as it likes: what comes faster than node.report_ms is kept in the history.

        step, rows   since the beginning, from which steps and rows per second are computed
        epoch        from 1
        loss         and whatever else is given by name: numbers, NaN among them
        every_node   a line on the driver also if this is not the chief
        """
        values = metrics if loss is None else {"loss": loss} | metrics
        _progress.report(values, step=step, epoch=epoch, rows=rows, aloud=every_node)

    def release_port(self) -> None:
        """TFNode.release_port for this node."""
        TFNode.release_port(self)

    def __repr__(self) -> str:
        return f"<TFNodeContext {self.job_name}:{self.task_index}, node {self.executor_id}, attempt {self.attempt}>"
