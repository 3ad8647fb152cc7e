"""Programs in their interpreters: what they log appears on the driver, and they end as Python's do, only sooner."""

import subprocess
import sys
import time

import pytest

import spark_tools
from spark_tools import node_processes, spark_context, wait_for
from tensorflowonspark import TFCluster

pytestmark = pytest.mark.filterwarnings(*spark_tools.SPARK_WARNINGS)


@pytest.fixture(scope="module")
def sc(tmp_path_factory):
    with spark_context("local[2]", tmp_path_factory.mktemp("spark")) as context:
        yield context
    wait_for(lambda: not node_processes(), 10)


# ---- logs ----


def test_logs_of_a_program_reach_the_driver(sc, capfd):
    """Lines of level INFO as well, as programs know it."""

    def main(args, ctx):
        import logging

        logging.info("of the root, %d", 1)
        logging.getLogger("module").info("of a module")
        logging.debug("too much")
        logging.getLogger("module").debug("too much")

    TFCluster.run(sc, main, None, 1, 0).shutdown()
    lines = capfd.readouterr().err.splitlines()
    assert len([line for line in lines if line.endswith(" INFO root: of the root, 1")]) == 1
    assert len([line for line in lines if line.endswith(" INFO module: of a module")]) == 1
    assert not [line for line in lines if "too much" in line]


def test_program_that_configures_its_logs(sc, capfd):
    def main(args, ctx):
        import logging
        import logging.config

        logging.basicConfig(level=logging.DEBUG, format="mine: %(levelname)s %(message)s")
        logging.debug("first")
        logging.basicConfig(format="not a second time: %(message)s")
        logging.info("second")
        handlers = {"only": {"class": "logging.StreamHandler", "formatter": "form"}}
        formatters = {"form": {"format": "by dict: %(message)s"}}
        root = {"handlers": ["only"], "level": "ERROR"}
        logging.config.dictConfig({"version": 1, "formatters": formatters, "handlers": handlers, "root": root})
        logging.info("too little")
        logging.error("third")

    TFCluster.run(sc, main, None, 1, 0).shutdown()
    text = capfd.readouterr().err
    found = [line.partition("] ")[2] for line in text.splitlines() if line.endswith((" first", " second", " third"))]
    assert found == ["mine: DEBUG first", "mine: INFO second", "by dict: third"] and "too little" not in text


def test_logging_of_the_driver_is_its_own():
    program = "import logging, tensorflowonspark.TFCluster; assert not logging.root.handlers; logging.info('no')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout + done.stderr == ""


# ---- the end ----


def exit_with(code):
    """A program for nodes, which do not have this file."""

    def main(args, ctx):
        import sys

        sys.exit(code if ctx.task_index == 0 else 0)

    return main


@pytest.mark.parametrize("code", [0, None, False, 256])
def test_exit_codes_of_programs_that_are_content(sc, code):
    TFCluster.run(sc, exit_with(code), None, 2, 0).shutdown()


@pytest.mark.parametrize("code, found", [(3, 3), (True, 1), (-1, 255), (2**64, 255), ("a reason in words", 1)])
def test_exit_codes_of_programs_that_are_not(sc, capfd, code, found):
    """As Python does: what is no number is written to stderr, and the code is 1."""
    with pytest.raises(TFCluster.TFClusterError, match=rf"(?s)worker:0 on .*exited with an error.*\b{found}\b"):
        TFCluster.run(sc, exit_with(code), None, 2, 0).shutdown()
    assert not isinstance(code, str) or f"] {code}\n" in capfd.readouterr().err


def test_what_a_program_does_at_its_end(sc, tmp_path, capfd):
    """Threads are waited for, then exit handlers are called, whatever one of them does; nothing that was written is
    lost."""

    def main(args, ctx):
        import atexit
        import builtins
        import ctypes
        import logging.handlers
        import multiprocessing
        import os
        import sys
        import threading
        import time

        def write(name, text):
            with open(os.path.join(args, name), "a") as file:
                file.write(text)

        def work():
            time.sleep(1)
            write("order", "thread, ")
            atexit.register(write, "order", "handler of the thread, ")

        atexit.register(write, "order", "first handler, ")
        atexit.register(lambda: 1 // 0)
        atexit.register(sys.exit, 7)
        atexit.register(write, "order", "last handler, ")
        threading.Thread(target=work).start()
        threading.Thread(target=time.sleep, args=[600], daemon=True).start()
        process = multiprocessing.get_context("fork").Process(target=write, args=("process", "there"))
        process.start()
        logger = logging.getLogger("of the program")
        kept = logging.FileHandler(os.path.join(args, "log"), delay=True)
        logger.addHandler(logging.handlers.MemoryHandler(1000, target=kept))
        logger.warning("kept until the end")
        builtins.left_open = open(os.path.join(args, "open"), "w")  # modules hold it until the end
        builtins.left_open.write("not closed")
        library = ctypes.CDLL(None)
        library.fopen.restype = ctypes.c_void_p
        library.fputs(b"by C", ctypes.c_void_p(library.fopen(os.path.join(args, "of C").encode(), b"w")))
        sys.stdout.write("no end of line")

    TFCluster.run(sc, main, str(tmp_path), 1, 0).shutdown()
    assert (tmp_path / "order").read_text() == "thread, handler of the thread, last handler, first handler, "
    assert (tmp_path / "process").read_text() == "there"
    assert (tmp_path / "log").read_text() == "kept until the end\n"
    assert (tmp_path / "open").read_text() == "not closed"
    assert (tmp_path / "of C").read_text() == "by C"
    errors = capfd.readouterr().err
    assert "no end of line" in errors and "ZeroDivisionError" in errors and "SystemExit: 7" in errors


def test_file_that_takes_nothing_does_not_keep_a_program(sc):
    """A daemon thread writes to a pipe that nobody reads, and has its file for as long as that."""

    def main(args, ctx):
        import os
        import threading
        import time

        read, write = os.pipe()
        file = open(write, "wb")
        threading.Thread(target=file.write, args=[bytes(1 << 20)], daemon=True).start()
        time.sleep(0.5)  # it writes by now

    begin = time.monotonic()
    TFCluster.run(sc, main, None, 1, 0).shutdown(timeout=60)
    assert time.monotonic() - begin < 40


def test_program_has_an_excepthook(sc, capfd):
    """It is called instead of Python's; the driver gets the traceback all the same."""

    def main(args, ctx):
        import sys

        sys.excepthook = lambda kind, error, trace: print("told by a hook:", kind.__name__, error, trace.tb_lineno > 0)
        raise ValueError("for the hook")

    with pytest.raises(TFCluster.TFClusterError, match="(?s)Traceback.*ValueError: for the hook"):
        TFCluster.run(sc, main, None, 1, 0).shutdown()
    errors = capfd.readouterr().err
    assert "told by a hook: ValueError for the hook True" in errors and "] Traceback" not in errors
