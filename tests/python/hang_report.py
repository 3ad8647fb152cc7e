"""What the processes below this one are doing, for the report of a test that hangs."""

import contextlib
import glob
import os
import subprocess


def _read(path):
    with contextlib.suppress(OSError):
        with open(path, "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _descendants():
    """The processes that this one has started, and those that they have started."""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        fields = _read(path).rpartition(")")[2].split()
        if fields:
            parents[int(path.split("/")[2])] = int(fields[1])
    found = {os.getpid()}
    for _ in parents:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            break
        found |= more
    return sorted(found - {os.getpid()})


def _threads(pid):
    """Where each thread waits, as the kernel calls it."""
    tasks = glob.glob(f"/proc/{pid}/task/*")
    return " ".join(f"{_read(task + '/comm')}:{_read(task + '/wchan') or '?'}" for task in tasks[:20])


def _java_stacks(pid):
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(["jstack", str(pid)], capture_output=True, text=True, timeout=20, check=True).stdout
    return "no stacks: jstack did not answer\n"


def report():
    text = ""
    for pid in _descendants():
        command = _read(f"/proc/{pid}/cmdline")
        text += f"{pid} {command[:200]}\n    {_threads(pid)}\n"
        if _read(f"/proc/{pid}/comm") == "java":
            text += _java_stacks(pid)
    return text
