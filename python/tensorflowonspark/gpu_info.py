"""The GPUs of this machine, by nvidia-smi. Nodes of a cluster need none of this: theirs are chosen when they start."""

import random
import re
import subprocess

MAX_RETRIES = 3  #: kept for programs that read it; there is no waiting for GPUs
AS_STRING = "string"
AS_LIST = "list"


def is_gpu_available() -> bool:
    """Whether this machine has a GPU that nvidia-smi lists."""
    try:
        return bool(_all_gpus())
    except (OSError, subprocess.CalledProcessError):
        return False


def get_gpus(num_gpu: int = 1, worker_index: int = -1, format: str = AS_STRING) -> str | list[str]:
    """Indexes of GPUs that no process uses, as "0,1" or as a list.

    worker_index   of several processes on a machine, the one that asks: each gets other GPUs; -1: any
    """
    if format not in (AS_STRING, AS_LIST):
        raise ValueError(f"format is {AS_STRING!r} or {AS_LIST!r}, found {format!r}")
    gpus = _all_gpus()
    busy = set(_smi("--format=csv,noheader,nounits", "--query-compute-apps=gpu_uuid").split())
    free = [index for index, uuid in gpus if uuid not in busy]
    if len(free) < num_gpu:
        raise RuntimeError(f"{num_gpu} free GPUs were asked for; of {len(gpus)} GPUs, {len(free)} are free")
    if worker_index < 0:
        chosen = random.sample(free, num_gpu)
    else:
        first = worker_index * num_gpu
        chosen = [free[(first + i) % len(free)] for i in range(num_gpu)]
    return ",".join(chosen) if format == AS_STRING else chosen


def _smi(*options: str) -> str:
    return subprocess.run(["nvidia-smi", *options], check=True, capture_output=True, text=True).stdout


def _all_gpus() -> list[tuple[str, str]]:
    """(index, UUID) of each."""
    return re.findall(r"^GPU (\d+):.*\(UUID: ([^)]+)\)", _smi("--list-gpus"), re.M)
