"""What the records section runs: the programs that measure, each in processes of their own, and the data files."""

import dataclasses
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


@dataclasses.dataclass
class File:
    path: str
    rows: int
    bytes: int = 0  # not compressed

    @property
    def row_bytes(self):
        return self.bytes / self.rows


class Processes:
    """Starts the programs that measure. One thread means one core: TensorFlow starts more threads than it is told."""

    def __init__(self, program, quick):
        self.program = program
        self.quick = quick
        self.peers = {}
        self.languages = ("c", "python") if self._has_package() else ("c",)

    def _has_package(self):
        command = [sys.executable, "-c", "import tensorflowonspark.records"]
        return subprocess.run(command, capture_output=True).returncode == 0

    def _start(self, command, threads, **options):
        everywhere = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(everywhere)} if threads == 1 else everywhere)
        try:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        finally:
            os.sched_setaffinity(0, everywhere)

    def _run(self, command, threads):
        process = self._start(command, threads)
        output, errors = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with status {process.returncode}:\n{errors.strip()}")
        return json.loads(output) if output else None

    def make(self, kind, file):
        self._run([self.program, kind, file.path, str(file.rows)], 1)

    def ours(self, language, work, path, threads, passes, out=None):
        """In C and Python no thread of a pool at all is the one thread that calls."""
        start = [self.program] if language == "c" else [sys.executable, os.path.join(HERE, "records_ours.py")]
        pool = 0 if threads == 1 else threads
        return self._run([*start, work, path, str(pool), str(passes), *([out] if out else [])], threads)

    def peer(self, work, path, threads, rows, passes, out=None):
        """A fresh process for each job; in a quick run, which only shows that all works, one for each thread count."""
        peer = self.peers.pop(threads, None) or self._start(
            [sys.executable, os.path.join(HERE, "records_peer.py"), str(threads)], threads, stdin=subprocess.PIPE
        )
        job = {"work": work, "path": path, "rows": rows, "passes": passes, "out": out}
        try:
            print(json.dumps(job), file=peer.stdin, flush=True)
        except BrokenPipeError:
            pass  # it has died, and says why below
        answer = peer.stdout.readline()
        if self.quick and answer:
            self.peers[threads] = peer
            return json.loads(answer)
        errors = peer.communicate()[1]
        if not answer:
            raise RuntimeError(f"TensorFlow could not do {job}:\n{errors.strip()[-2000:]}")
        return json.loads(answer)

    def close(self):
        for peer in self.peers.values():
            peer.communicate()
        self.peers.clear()


def compile_program(root, build, folder):
    library = os.path.join(build, "src", "libtfos.so")
    if not os.path.exists(library):
        raise RuntimeError(f"there is no {library}: build it with scripts/build release")
    program = os.path.join(folder, "records_bench")
    sources = [os.path.join(HERE, name) for name in ("records_bench.c", "records_data.c")]
    command = ["cc", "-std=gnu11", "-O2", "-Wall", "-I", os.path.join(root, "include"), "-o", program, *sources]
    command += [library, f"-Wl,-rpath,{os.path.dirname(library)}"]
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"cc failed:\n{result.stderr.strip()}")
    return program


# ---- data ----


def is_fresh(path):
    made_from = os.path.getmtime(os.path.join(HERE, "records_data.c"))
    return os.path.exists(path) and os.path.getmtime(path) > made_from


def make_data(processes, scale, folder, say):
    """The files, made once and kept: A is of scalars, B of images."""

    def named(name, rows, ending=".tfrecord"):
        return File(os.path.join(folder, f"{name}-{rows}{ending}"), rows)

    files = {
        "A": named("scalars", scale.scalars),
        "A small": named("scalars", scale.scalars_small),
        "A gzip": named("scalars", scale.scalars_small, ".tfrecord.gz"),
        "A peer": named("scalars-tensorflow", scale.scalars_small),
        "B": named("image", scale.images),
    }
    for name, kind in (("A", "scalars"), ("A small", "scalars"), ("B", "image")):
        if not is_fresh(files[name].path):
            say(f"records: making {files[name].path}")
            processes.make(kind, files[name])
    small = files["A small"]
    if not is_fresh(files["A gzip"].path):
        processes.ours("c", "write", small.path, 1, 1, files["A gzip"].path)
    if not is_fresh(files["A peer"].path):
        part = files["A peer"].path + ".part"  # the peer's writer shows half a file under its name
        processes.peer("write", small.path, 1, small.rows, 1, part)
        os.replace(part, files["A peer"].path)
    for file in files.values():
        file.bytes = os.path.getsize(file.path)
    files["A gzip"].bytes = small.bytes
    return files
