"""What reading and writing do to the process: the GIL, threads, memory, signals, logging, the interpreter's end."""

import ast
import gc
import inspect
import logging
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time

import conftest
import numpy as np
import pytest

import tensorflowonspark
from tensorflowonspark import _native, records

X = {"fields": [{"name": "x", "type": "int64"}]}


def run_python(code):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def big_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("big") / "big.tfrecord"
    rng = np.random.default_rng(0)
    data = {"x": rng.random((20_000, 50), np.float32), "name": [f"name {i}" for i in range(20_000)]}
    records.write(path, data)
    return path


# ---- threads ----


def test_reading_releases_the_gil(tmp_path):
    """The reader waits for a pipe that another Python thread fills: with the GIL held, both would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = conftest.framed(b"one") + conftest.framed(b"two")

    def fill():
        with open(pipe, "wb") as file:
            file.write(data)

    filler = threading.Thread(target=fill)
    filler.start()
    found = [item for batch in records.read(pipe, record="bytes") for item in batch["record"].tolist()]
    filler.join()
    assert found == [b"one", b"two"]


def test_writing_releases_the_gil(tmp_path):
    """The same with a producer of Arrow data that waits for another Python thread."""
    import pyarrow as pa

    ready = threading.Event()

    def batches():
        assert ready.wait(timeout=30)
        yield pa.record_batch({"x": [1, 2]})

    reader = pa.RecordBatchReader.from_batches(pa.schema([("x", pa.int64())]), batches())
    timer = threading.Timer(0.05, ready.set)
    timer.start()
    assert records.write(tmp_path / "x.tfrecord", reader) == 2
    timer.join()


def test_readers_in_many_threads(big_file):
    expected = sum(float(batch["x"].sum(dtype=np.float64)) for batch in records.read(big_file))
    sums = []

    def read():
        reader = records.read(big_file, columns=["x"], batch_rows=777, threads=2)
        sums.append(sum(float(batch["x"].sum(dtype=np.float64)) for batch in reader))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sums) == 6 and all(abs(found - expected) < 1e-6 * expected for found in sums)


def test_one_reader_for_many_threads(big_file):
    reader = records.read(big_file, batch_rows=100)
    names = []

    def read():
        for batch in reader:
            names.extend(batch["name"].tolist())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(names) == sorted(f"name {i}" for i in range(20_000))


def test_closing_while_a_thread_reads(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    reader = records.read(pipe, record="bytes", batch_rows=1)
    outcome = []

    def read():
        try:
            outcome.append(next(reader))
        except (records.CancelledError, ValueError) as error:
            outcome.append(error)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    closer = threading.Thread(target=reader.close, daemon=True)
    closer.start()
    os.write(writer, conftest.framed(b"one"))
    os.close(writer)
    closer.join(timeout=30)
    thread.join(timeout=30)
    assert not thread.is_alive() and not closer.is_alive() and len(outcome) == 1


# ---- memory, files and threads are given back ----


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def everything(path, other):
    for batch in records.read(path, batch_rows=5000):
        batch["x"], batch["name"], batch.to_pydict, batch.mask("x"), repr(batch)
        batch.__arrow_c_array__(), batch.values("name"), batch.offsets("name")
    reader = records.read(path)
    next(reader)
    reader.__arrow_c_stream__()
    records.schema(path).__arrow_c_schema__()
    records.write(other, {"x": np.zeros((1000, 50)), "s": ["text"] * 1000, "l": [[1], None] * 500}, overwrite=True)
    for bad in [{"x": [object()]}, {"x": [[1, None]]}, {"x": np.array([2**63], np.uint64)}]:
        with pytest.raises((TypeError, ValueError)):
            records.write(other, bad, overwrite=True)
    with pytest.raises(records.InvalidError):
        records.read(path, columns=["nope"])
    with pytest.raises(FileNotFoundError):
        records.read("no/such/file")


def test_nothing_leaks(big_file, tmp_path):
    other = tmp_path / "other.tfrecord"
    for _ in range(5):
        everything(big_file, other)
    gc.collect()
    files, threads, objects, memory = (
        len(os.listdir("/proc/self/fd")),
        len(os.listdir("/proc/self/task")),
        len(gc.get_objects()),
        resident_bytes(),
    )
    for _ in range(40):
        everything(big_file, other)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= files
    assert len(os.listdir("/proc/self/task")) <= threads
    assert len(gc.get_objects()) - objects < 200
    assert resident_bytes() - memory < 40 * 2**20  # each round holds more than 8 MB: a leak would be 320


def test_references_are_counted(small_file):
    """Every object that the extension hands out is freed. NumPy is left out: it miscounts None by itself."""
    path, _ = small_file
    kinds = [_native.Schema, _native.Batch, _native.Column, _native.Buffer, _native.Reader, _native.Writer]

    def use():
        arguments = (None, ["x"], "auto", "auto", "error", 100, 1000, 0, True, 1, 0, -1)
        reader = _native.Reader([path], *arguments)
        column = reader.next().column("x")
        assert (column.child, column.mask(), column.offsets, reader.next()) == (None, None, None, None)
        column.data, column.tolist(), reader.schema().fields(), reader.schema().to_json(), reader.progress()
        reader.__arrow_c_stream__()
        reader.close()
        writer = _native.Writer(path.parent / "other", "auto", "auto", -1, True)
        writer.record(b"x")
        writer.columns(1, [("a", "l", False, 1, 0, (None, b"12345678"), None)])
        writer.abort()

    use()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in [*kinds, None]]
    for _ in range(100):
        use()
    assert [sys.getrefcount(thing) for thing in [*kinds, None]] == before


def test_memory_is_bounded(big_file):
    reader = records.read([big_file] * 10, batch_rows=500, threads=2)
    for _ in reader:
        pass
    assert reader.progress.total_bytes > 40 * 2**20
    assert reader.progress.memory_bytes < 20 * 2**20


def test_reader_that_is_dropped_stops_its_threads(big_file):
    before = len(os.listdir("/proc/self/task"))
    reader = records.read([big_file] * 20, batch_rows=10, threads=4)
    next(reader)
    del reader
    gc.collect()
    assert len(os.listdir("/proc/self/task")) <= before


# ---- signals and the end ----


def test_interrupt_while_reading(big_file):
    code = f"""
        import sys
        from tensorflowonspark import records
        schema = records.schema({str(big_file)!r})
        print("ready", flush=True)
        while True:
            for batch in records.read([{str(big_file)!r}] * 50, schema=schema):
                pass
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    started = time.monotonic()
    _, errors = child.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors and child.returncode != 0
    assert time.monotonic() - started < 10


def test_interrupt_while_inferring(tmp_path):
    """One call that would take minutes: a search through 64 GiB of nothing."""
    path = tmp_path / "zeros.tfrecord"
    path.touch()
    os.truncate(path, 2**36)
    code = f"""
        from tensorflowonspark import records
        print("ready", flush=True)
        records.read({str(path)!r}, on_corrupt="skip")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors and child.returncode != 0


def test_interrupt_while_a_stream_is_written(big_file, tmp_path):
    """One call that would take minutes; nothing of the file is left."""
    code = f"""
        from tensorflowonspark import records
        schema = records.schema({str(big_file)!r})
        reader = records.read([{str(big_file)!r}] * 1000, schema=schema)
        print("ready", flush=True)
        records.write({str(tmp_path / "copy.tfrecord")!r}, reader)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)  # into the call; before it, the signal ends the process as well
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors and child.returncode != 0
    assert os.listdir(tmp_path) == []


def test_interpreter_ends_with_open_objects(big_file, tmp_path):
    code = f"""
        import pyarrow, threading
        from tensorflowonspark import records
        reader = records.read([{str(big_file)!r}] * 20, batch_rows=10, threads=4)
        batch = next(reader)
        array = batch["x"]
        stream = pyarrow.RecordBatchReader.from_stream(records.read({str(big_file)!r}, batch_rows=10))
        writer = records.Writer({str(tmp_path / "left.tfrecord")!r})
        writer.write_record(b"x")
    """
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "")


def test_log_lines_at_the_end(small_file):
    """Library threads that still have something to say when the interpreter ends do no harm."""
    path, offsets = small_file
    data = path.read_bytes()
    path.write_bytes((data[: offsets[1] - 1] + b"?") * 5000)
    code = f"""
        import logging
        logging.basicConfig(level="WARNING")
        from tensorflowonspark import records
        reader = records.read([{str(path)!r}] * 8, schema={X!r}, on_corrupt="skip", batch_rows=1, threads=4)
        next(reader, None)
    """
    done = run_python(code)
    assert done.returncode == 0 and "skipped" in done.stderr and "Traceback" not in done.stderr


def test_log_lines_with_a_path_that_is_not_utf8(small_file, caplog):
    path, offsets = small_file
    data = bytearray(path.read_bytes())
    data[offsets[1] + 14] ^= 1
    latin = path.parent / os.fsdecode(b"lat\xedn.tfrecord")
    latin.write_bytes(data)
    with caplog.at_level(logging.WARNING, logger="tensorflowonspark"):
        assert conftest.rows_of(records.read(latin, schema=X, on_corrupt="skip")) == [{"x": 1}, {"x": 3}]
    assert "lat\N{REPLACEMENT CHARACTER}n.tfrecord" in caplog.text and "skipped" in caplog.text


@pytest.mark.parametrize("schema", ["5", "'{}'", "records.Schema({'fields': []})", "object()"])
@pytest.mark.parametrize("function", ["Reader", "infer"])
def test_arguments_of_a_wrong_type(small_file, function, schema):
    """In a process of its own, which a wrong cast would end."""
    code = f"""
        from tensorflowonspark import _native, records
        try:
            options = ("auto", "auto", "error", 0, 0, 0, True, 0, 0, -1)
            _native.{function}([{str(small_file[0])!r}], {schema}, None, *options)
        except TypeError as error:
            print(error)
    """
    done = run_python(code)
    assert (done.returncode, done.stderr) == (0, "") and "schema must be a Schema or None" in done.stdout


@pytest.mark.parametrize("depth", [0, 200000])
def test_columns_of_a_wrong_form(tmp_path, depth):
    code = f"""
        from tensorflowonspark import _native
        level = 5 if {depth} == 0 else ("x", "l", False, 1, 0, (None, b"12345678"), None)
        for _ in range({depth}):
            level = ("x", "+L", False, 1, 0, (None, bytes(16)), level)
        try:
            _native.Writer({str(tmp_path / "x")!r}, "auto", "auto", -1, False).columns(1, [level])
        except (TypeError, ValueError) as error:
            print(error)
    """
    done = run_python(code)
    expected = "a column is a tuple" if depth == 0 else "nested more than 64 deep"
    assert (done.returncode, done.stderr) == (0, "") and expected in done.stdout


def test_log_handlers_that_fail_do_no_harm(small_file):
    path, offsets = small_file
    data = bytearray(path.read_bytes())
    data[offsets[1] + 14] ^= 1
    path.write_bytes(data)

    class Broken(logging.Handler):
        def emit(self, record):
            raise RuntimeError("broken handler")

    seen = []
    logger, handler = logging.getLogger("tensorflowonspark"), Broken()
    logger.addHandler(handler)
    hook, sys.unraisablehook = sys.unraisablehook, lambda event: seen.append(str(event.exc_value))
    try:
        rows = conftest.rows_of(records.read(path, schema=X, on_corrupt="skip"))
    finally:
        logger.removeHandler(handler)
        sys.unraisablehook = hook
    assert rows == [{"x": 1}, {"x": 3}] and seen == ["broken handler"]


def test_import_order_with_tensorflow(big_file):
    """TensorFlow brings a zlib of its own into the process; neither sees the other's."""
    use = "records.write(path, {'x': [1]}, overwrite=True); print(next(records.read(path))['x'].tolist())"
    for first, second in [("import tensorflow", ""), ("", "import tensorflow")]:
        path = str(big_file.parent / "order.tfrecord.gz")
        done = run_python(f"{first}\nfrom tensorflowonspark import records\n{second}\npath = {path!r}\n{use}")
        assert done.stdout == "[1]\n", done.stderr


# ---- the package ----


def test_version():
    assert tensorflowonspark.__version__ == _native.version
    header = pathlib.Path(__file__).parents[2] / "include" / "tfos" / "base.h"
    assert f'#define TFOS_VERSION "{tensorflowonspark.__version__}"' in header.read_text()


def test_stubs_and_module_agree():
    folder = pathlib.Path(tensorflowonspark.__file__).parent
    assert (folder / "py.typed").exists()
    tree = ast.parse((folder / "_native.pyi").read_text())
    stubs = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    stubs |= {node.target.id: node for node in tree.body if isinstance(node, ast.AnnAssign)}
    assert set(stubs) == {name for name in dir(_native) if not name.startswith("__")}
    for name, node in stubs.items():
        kind = getattr(_native, name)
        if isinstance(node, ast.ClassDef) and not issubclass(kind, Exception):
            methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
            methods -= {"__new__", "__buffer__", "__len__", "__iter__", "__next__"}
            assert methods == {item for item in vars(kind) if not item.startswith("__") or "arrow" in item}, name
        if inspect.isclass(kind) and issubclass(kind, Exception):
            bases = [ast.unparse(base).split(".")[-1] for base in node.bases]
            assert [base.__name__ for base in kind.__bases__] == bases


def test_public_functions_are_typed():
    for name in records.__all__:
        thing = getattr(records, name)
        members = [thing] if inspect.isfunction(thing) else [m for m in vars(thing).values() if inspect.isfunction(m)]
        for function in members if not name.endswith("Error") else []:
            if function.__name__ != "__init__" and function.__module__ == "tensorflowonspark.records":
                assert "return" in function.__annotations__, function
