"""Runs the program of a node: `python -m tensorflowonspark._child`, started by the node's supervisor.

The interpreter is fresh; it gets what a Python task of Spark has (paths of py-files, SparkFiles, broadcast variables),
then unpickles map_fun and its arguments and calls it. An exception is reported to the supervisor with its traceback.
PySpark itself is imported only if the program does: that takes longer than everything else here.
"""

import _io
import atexit
import errno
import faulthandler
import gc
import importlib
import importlib.abc
import importlib.machinery
import json
import logging
import os
import pickle
import sys
import threading
import traceback
import types
from typing import Any, NoReturn

from . import _progress, _returned
from .TFSparkNode import TFNodeContext


class Supervisor:
    """The socket to the node: one JSON object per line, both ways."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._lock = threading.Lock()  # any thread may report
        os.set_inheritable(descriptor, False)

    def tell(self, **event: Any) -> None:
        line = json.dumps(event).encode() + b"\n"
        with self._lock:
            while line:
                line = line[os.write(self._descriptor, line) :]

    def ask(self, **event: Any) -> dict[str, Any]:
        self.tell(**event)
        line = b""
        while not line.endswith(b"\n"):
            got = os.read(self._descriptor, 1)
            if not got:
                raise ConnectionError("the node's supervisor is gone")
            line += got
        return json.loads(line)


class HeldPort:
    """ctx.tmp_socket: stands for the socket with which the supervisor holds the node's port until this is closed."""

    def __init__(self, supervisor: Supervisor, port: int):
        self._supervisor = supervisor
        self._port: int | None = port

    def getsockname(self) -> tuple[str, int]:
        if self._port is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return "0.0.0.0", self._port

    def close(self) -> None:
        if self._port is None:
            return
        answer = self._supervisor.ask(event="release_port")
        if not answer.get("ok"):
            raise OSError(f"the port of this node could not be released: {answer.get('error', answer)}")
        self._port = None

    def __enter__(self) -> "HeldPort":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"ctx.tmp_socket has no {name}, only getsockname() and close(): the node's supervisor has the socket. To "
            "serve on the port, release it (ctx.release_port()) and bind it."
        )


class Values:
    """ctx.mgr: values that a program keeps under a name.

    queues   the names of the queues that the cluster has; None: it is not fed
    """

    def __init__(self, queues: list[str] | None) -> None:
        self.queues = queues
        self._values: dict[str, Any] = {"state": "running"}

    def get(self, key: str) -> Any:
        return self._values.get(key)

    def set(self, key: str, value: Any) -> None:
        self._values[key] = value

    def get_queue(self, name: str) -> Any:
        raise NotImplementedError(f"the queue {name!r} is no object of its own; read it with ctx.get_data_feed()")


class SparkOfTask(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes PySpark know that it is in a task, at the moment when the program imports it."""

    def __init__(self, spark: dict[str, Any]):
        self._spark = spark
        self._loaders: dict[str, Any] = {}

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.partition(".")[0] != "pyspark" or name.rpartition(".")[2] not in ("pyspark", "files", "broadcast"):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            self._loaders[name] = spec.loader
            spec.loader = self
        return spec

    def create_module(self, spec: Any) -> Any:
        return self._loaders[spec.name].create_module(spec)

    def exec_module(self, module: Any) -> None:
        loader = self._loaders.pop(module.__name__)
        module.__loader__ = module.__spec__.loader = loader
        if module.__name__ == "pyspark":
            module.cloudpickle = sys.modules["pyspark.cloudpickle"]  # which was there before it
        loader.exec_module(module)
        if hasattr(module, "SparkFiles") and module.__name__ != "pyspark":
            module.SparkFiles._root_directory = self._spark["files"]
            module.SparkFiles._is_running_on_worker = True
        if hasattr(module, "_broadcastRegistry"):
            for number, path in self._spark["broadcasts"].items():
                module._broadcastRegistry[int(number)] = module.Broadcast(path=path)


def set_up_spark(spark: dict[str, Any]) -> None:
    """The paths of a Spark task, and PySpark when it is wanted."""
    paths = [spark["files"], *(os.path.join(spark["files"], name) for name in spark["includes"])]
    for path in [*reversed(paths), *reversed(spark.get("paths", []))]:
        if path not in sys.path:
            sys.path.insert(1, path)
    importlib.invalidate_caches()
    sys.meta_path.insert(0, SparkOfTask(spark))
    load_cloudpickle()


def load_cloudpickle() -> None:
    """Loads pyspark.cloudpickle, to which pickled functions refer, without the rest of PySpark."""
    package = importlib.machinery.PathFinder.find_spec("pyspark")
    if package is None or package.submodule_search_locations is None:
        raise ModuleNotFoundError(f"PySpark was not found by {sys.executable} on {sys.path}", name="pyspark")
    stand_in = types.ModuleType("pyspark")
    stand_in.__path__ = package.submodule_search_locations
    sys.modules["pyspark"] = stand_in
    try:
        importlib.import_module("pyspark.cloudpickle")
    finally:
        del sys.modules["pyspark"]


class Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Python would import the package above a module even if the module is there."""
        if module.startswith("pyspark.cloudpickle") and hasattr(sys.modules.get(module), name):
            return getattr(sys.modules[module], name)
        return super().find_class(module, name)


def load_payload(descriptor: int) -> Any:
    """Unpickles (map_fun, args)."""
    with open(descriptor, "rb") as payload:
        payload.seek(0)
        return Unpickler(payload).load()


def show_logs() -> None:
    """Lets what the program logs appear, as programs know it: lines of level INFO, too. Before TensorFlow is imported,
    because that has a handler of its own where there is none. A program that configures logging itself is not
    disturbed: basicConfig, which does nothing where there is a handler, finds none."""
    handler, configure = logging.StreamHandler(), logging.basicConfig

    def basic_config(**options: Any) -> None:
        logging.basicConfig = configure
        logging.root.removeHandler(handler)
        configure(**options)

    configure(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", handlers=[handler])
    logging.basicConfig = basic_config


def check_python(wanted: list[int]) -> None:
    """Bytecode in a pickle is that of one version."""
    if list(sys.version_info[:2]) != wanted:
        found = "%d.%d" % sys.version_info[:2]
        raise RuntimeError(
            f"this node runs Python {found} ({sys.executable}), the driver {wanted[0]}.{wanted[1]}; a function cannot "
            "be sent between different versions. Set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to the same version."
        )


def make_context(driver: dict[str, Any], node: dict[str, Any], supervisor: Supervisor) -> TFNodeContext:
    parallel = driver.get("parallel", False)
    ctx = TFNodeContext(
        executor_id=node["index"],
        job_name="" if parallel else node["role"],
        task_index=0 if parallel else node["task"],
        cluster_spec={} if parallel else node.get("spec", {}),
        defaultFS=driver["default_fs"],
        working_dir=driver["working_dir"],
        mgr=Values(driver.get("queues")),
        tmp_socket=None if driver.get("release_port", True) else HeldPort(supervisor, node["port"]),
        attempt=node["attempt"],
    )
    if parallel:
        ctx.num_workers = driver["num_executors"]
    return ctx


def run(supervisor: Supervisor) -> None:
    context = json.loads(os.environ["TFOS_CONTEXT"])
    driver, node = context["driver"], context["node"]
    spark = context.get("spark") or {}
    check_python(driver["python"])
    show_logs()
    set_up_spark(spark if "files" in spark else driver["driver"])
    function, args = load_payload(int(os.environ["TFOS_PAYLOAD_FD"]))
    if isinstance(args, list):
        sys.argv = args
    _progress.connect(supervisor.tell)
    _returned.hand_over(function(args, make_context(driver, node, supervisor)), supervisor)


def report(supervisor: Supervisor, error: BaseException) -> int:
    """Tells of an exception that the program has not caught: the supervisor, and by the program's own excepthook
    whoever is to hear of it. Returns the exit code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next  # the first frames are ours
    error.__traceback__ = trace
    supervisor.tell(event="raised", text="".join(traceback.format_exception(error)))
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit as wanted:
        return exit_code(wanted)
    except BaseException as fault:
        sys.__excepthook__(type(fault), fault, fault.__traceback__)
    return 1


def exit_code(error: SystemExit) -> int:
    """The code with which Python ends after this; what is no number is written to stderr."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF if abs(error.code) < 1 << 63 else 0xFF
    if sys.stderr is not None:
        print(error.code, file=sys.stderr)
    return 1


_FLUSH_S = 5.0  # for files to take what is left; one that never does must not keep the program


def flush() -> None:
    """Writes what is left in open files, also in those that the program has not closed. In a thread of its own: a
    daemon thread of the program's may hold a file in a write that does not end."""
    thread = threading.Thread(target=flush_files, daemon=True)
    thread.start()
    thread.join(_FLUSH_S)


def flush_files() -> None:
    import ctypes

    files = [each for each in gc.get_objects() if issubclass(type(each), _io._IOBase)]
    files.sort(key=lambda each: not isinstance(each, _io.TextIOWrapper))  # text goes to files of bytes first
    for file in [sys.stdout, sys.stderr, *files]:
        try:
            file.flush()
        except Exception:  # it is closed, or nobody reads it any more
            pass
    ctypes.CDLL(None).fflush(None)  # those of C


def leave(code: int) -> NoReturn:
    """Ends as the interpreter would: waits for threads, calls exit handlers, writes what is left. But it does not take
    the modules apart: that takes TensorFlow a second or more, and the kernel no time."""
    for step in (threading._shutdown, atexit._run_exitfuncs, flush):
        try:
            step()
        except BaseException as error:
            sys.__excepthook__(type(error), error, error.__traceback__)
    os._exit(code)


def run_to_end(supervisor: Supervisor) -> int:
    """The exit code."""
    try:
        run(supervisor)
        return 0
    except SystemExit as error:
        return exit_code(error)
    except BaseException as error:
        return report(supervisor, error)


def main() -> None:
    faulthandler.enable()
    supervisor = Supervisor(int(os.environ["TFOS_REPORT_FD"]))
    for name in ("TFOS_PAYLOAD_FD", "TFOS_RESULT_FD"):
        os.set_inheritable(int(os.environ[name]), False)
    leave(run_to_end(supervisor))


if __name__ == "__main__":
    main()
