"""Processes as /proc shows them: who has started whom, what those of a test that hangs do. And JVMs, and waiting."""

import contextlib
import glob
import os
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# For JVMs that live for seconds: the second compiler and a collector with threads cost half of their processor time,
# and so does reading the classes of Spark, if scripts/spark-archive was not run. A JVM with other jars says nothing.
ARCHIVE = os.path.join(sys.prefix, "spark-classes.jsa")
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    f"-XX:SharedArchiveFile={ARCHIVE} -Xlog:disable -Xlog:all=error:stderr"
)


def java_home():
    """Of a JDK."""
    return os.environ.get("JAVA_HOME") or subprocess.check_output([f"{ROOT}/scripts/find-java"], text=True).strip()


# A machine may be so many times as slow as those that the seconds in tests were chosen on, for a while.
PATIENCE = 4


def wait_for(predicate, seconds):
    """Waits until the predicate gives something true, and returns that. It should take less than so many seconds."""
    deadline = time.monotonic() + PATIENCE * seconds
    while True:
        found = predicate()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {PATIENCE} times {seconds} s"
        time.sleep(0.05)


def _read(path):
    with contextlib.suppress(OSError):
        with open(path, "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def parent_of(pid):
    """0: it has ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _descendants():
    """The processes that this one has started, and those that they have started."""
    parents = {pid: parent_of(pid) for pid in map(int, filter(str.isdigit, os.listdir("/proc")))}
    found, newest = set(), {os.getpid()}
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest} - found
        found |= newest
    return sorted(found)


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
