"""What a Python worker of Spark runs before it has our package: pickled by value, it may refer to nothing of ours."""

from collections.abc import Iterator
from typing import Any


def partition_function(package: str, name: str, *arguments: Any) -> Any:
    """A function for mapPartitionsWithIndex that calls `name` of tensorflowonspark._feeding_task."""

    def run(index: int, rows: Iterator[Any]) -> Iterator[Any]:
        _bring_package(package)
        import importlib

        module = importlib.import_module("tensorflowonspark._feeding_task")
        return getattr(module, name)(index, iter(rows), *arguments)

    return run


def _bring_package(package: str) -> None:
    """Puts the driver's version of the package on the path; nodes on this machine may have unpacked it before."""
    import os
    import sys

    if "tensorflowonspark" in sys.modules:
        return
    problems = []
    for place in [*os.environ.get("SPARK_LOCAL_DIRS", "").split(","), os.getcwd()]:
        if not place:
            continue
        folder = os.path.join(place, package.removesuffix(".zip"))
        try:
            if not os.path.isdir(folder):
                _unpack(package, folder)
            sys.path.insert(1, folder)
            import tensorflowonspark._native  # noqa: F401  (fails where libraries may not be loaded)

            return
        except (ImportError, OSError) as error:
            problems.append(f"{place}: {error}")
            if folder in sys.path:
                sys.path.remove(folder)
            for module in [name for name in sys.modules if name.partition(".")[0] == "tensorflowonspark"]:
                del sys.modules[module]
    raise ImportError(
        f"cannot load the package tensorflowonspark in this task: {'; '.join(problems)}. Set spark.local.dir (or "
        "SPARK_LOCAL_DIRS) on the executors to a folder that can be written and allows libraries to be loaded."
    )


def _unpack(package: str, folder: str) -> None:
    """The folder appears whole, by renaming, so any number of tasks may unpack at the same time."""
    import os
    import shutil
    import tempfile
    import zipfile

    from pyspark import SparkFiles

    made = tempfile.mkdtemp(prefix=".tfos-", dir=os.path.dirname(folder))
    try:
        with zipfile.ZipFile(SparkFiles.get(package)) as archive:
            archive.extractall(made)
        os.chmod(made, 0o755)
        os.rename(made, folder)
    except OSError:
        if not os.path.isdir(folder):
            raise  # otherwise another task was faster: its folder is as good as ours
    finally:
        shutil.rmtree(made, ignore_errors=True)
