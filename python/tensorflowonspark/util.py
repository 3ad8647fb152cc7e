"""Small helpers of programs."""

import os
import socket
from typing import Any

from . import _spark, gpu_info


def num_executors(spark: Any) -> int:
    """How many executors the application of this session or context has: now, or as configured if more are to come."""
    sc = _spark.context_of(spark)
    conf = sc.getConf()
    infos = sc._jsc.sc().statusTracker().getExecutorInfos()
    local = sc.master.startswith("local") and not sc.master.startswith("local-cluster")
    now = len(infos) - (0 if local else 1)
    dynamic = conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true"
    return max(now, 0 if dynamic or local else int(conf.get("spark.executor.instances", "0")))


def num_param_servers(spark: Any) -> int:
    """The number of ps nodes that the settings of the application ask for: spark.tfos.num_ps, else 0."""
    conf = _spark.context_of(spark).getConf()
    return int(conf.get(_spark.NUM_PS, None) or conf.get("spark.tensorflow.num.ps", None) or 0)


def single_node_env(num_gpus: int = 1, worker_index: int = -1, nodes: list[str] | None = None) -> None:
    """Sets CUDA_VISIBLE_DEVICES for a program that is not on a node of a cluster: free GPUs, or none."""
    index = worker_index
    if nodes and worker_index >= 0:
        host = nodes[worker_index].split(":")[0]
        index = [node for node in nodes if node.split(":")[0] == host].index(nodes[worker_index])
    available = num_gpus > 0 and gpu_info.is_gpu_available()
    os.environ["CUDA_VISIBLE_DEVICES"] = str(gpu_info.get_gpus(num_gpus, index)) if available else ""


def get_ip_address() -> str:
    """The address by which other machines reach this one. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 80))
            return probe.getsockname()[0]
        except OSError:
            return socket.gethostbyname(socket.getfqdn())


def find_in_path(path: str, file: str) -> str | bool:
    """The first file of that name in a list of folders such as PATH; False if there is none."""
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, file)
        if os.path.isfile(candidate):
            return candidate
    return False


def write_executor_id(num: int) -> None:
    """Keeps a number in the file executor_id of the working folder."""
    with open("executor_id", "w", encoding="utf-8") as file:
        file.write(str(num))


def read_executor_id() -> int:
    """The number that write_executor_id kept."""
    try:
        with open("executor_id", encoding="utf-8") as file:
            return int(file.read())
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no file executor_id in {os.getcwd()}: no node has written its number here"
        ) from None
