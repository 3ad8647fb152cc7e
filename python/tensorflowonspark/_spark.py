"""The Spark context of the driver: our jar and package on it, its task slots, and the job that starts nodes."""

import hashlib
import os
import sys
import threading
import weakref
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

FOLDER = os.path.dirname(os.path.abspath(__file__))
_JAR = os.path.join(FOLDER, "jars", "tfos.jar")
NUM_PS = "spark.tfos.num_ps"  # for util.num_param_servers; the other keys spark.tfos.* are settings of the core
_LOADER_CLASS = "org.apache.spark.util.MutableURLClassLoader"

_lock = threading.Lock()
_attached: "weakref.WeakSet[Any]" = weakref.WeakSet()
_installed: "weakref.WeakKeyDictionary[Any, str]" = weakref.WeakKeyDictionary()


def context_of(spark: Any) -> Any:
    """The SparkContext of a classic session, which is given itself or by its session."""
    sc = getattr(spark, "_sc", None) or spark
    if getattr(sc, "_jsc", None) is not None and getattr(sc, "_jvm", None) is not None:
        return sc
    kind = f"{type(sc).__module__}.{type(sc).__qualname__}"
    if hasattr(sc, "_jsc"):
        raise RuntimeError("the SparkContext was stopped; make a new one")
    if ".connect." in kind or sc is None or os.environ.get("SPARK_REMOTE"):
        raise RuntimeError(
            f"a TensorFlow cluster needs the SparkContext of a classic Spark session, found {kind}. A Spark Connect "
            "client cannot start nodes: run the program on the cluster with spark-submit, or make the session with "
            "SparkSession.builder.master(…) instead of .remote(…)."
        )
    raise TypeError(f"expected a pyspark.SparkContext, or a SparkSession that has one, found {kind}")


def end_of(sc: Any) -> str:
    """How the context has come to its end; empty while it runs."""
    context = sc._jsc
    try:
        return "" if context is not None and not context.sc().isStopped() else "was stopped"
    except Exception:  # nobody answers
        return "was stopped" if sc._jsc is None else "has lost its JVM"


def install(sc: Any) -> str:
    """Brings our jar and our package to the context, once. Returns the name of the package among Spark's files."""
    attach(sc)
    with _lock:
        if sc not in _installed:
            _installed[sc] = _add_package(sc)
        return _installed[sc]


def attach(spark: Any) -> None:
    """Brings our jar to a context, once."""
    sc = context_of(spark)
    with _lock:
        if sc not in _attached:
            _add_jar(sc)
            _attached.add(sc)


def _add_jar(sc: Any) -> None:
    if not os.path.isfile(_JAR):
        raise RuntimeError(
            f"{_JAR} is missing: this package was built without its jar. Install a wheel that has it, or build one "
            "with scripts/build-python."
        )
    sc._jsc.addJar(_JAR)
    loader = _driver_loader(sc)
    loader.addURL(sc._jvm.java.io.File(_JAR).toURI().toURL())


def _driver_loader(sc: Any) -> Any:
    """The class loader to which Spark itself adds the jars of an application."""
    java_class = sc._jvm.java.lang.Class.forName(_LOADER_CLASS)
    loader = sc._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    while loader is not None and not java_class.isInstance(loader):
        loader = loader.getParent()
    if loader is None:
        raise RuntimeError(
            f"the driver's JVM has no {_LOADER_CLASS}, to which the jar could be added; start it with --jars {_JAR}"
        )
    return loader


def _package_files() -> list[str]:
    """Files of this package that a node needs: all but the command and the jar."""
    found = []
    for folder, folders, names in os.walk(FOLDER):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", "bin", "jars"))
        found += [os.path.join(folder, name) for name in sorted(names) if not name.endswith((".pyc", ".pyi"))]
    return found


def _add_package(sc: Any) -> str:
    """Ships this package as a file: executors need not have it installed, and have the driver's version."""
    files = _package_files()
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            digest.update(os.path.relpath(path, FOLDER).encode() + b"\0" + file.read())
    name = f"tfos-python-{digest.hexdigest()[:16]}.zip"
    zipped = os.path.join(sc._temp_dir, name)
    with zipfile.ZipFile(zipped, "w") as archive:
        for path in files:
            archive.write(path, os.path.join("tensorflowonspark", os.path.relpath(path, FOLDER)))
    sc.addFile(zipped)
    return name


def java(sc: Any, name: str) -> Any:
    """One of our classes in the driver's JVM."""
    return getattr(sc._jvm.org.tfos.spark, name)


def settings(sc: Any) -> list[str]:
    """Spark's settings spark.tfos.* as key=value."""
    prefix = "spark.tfos."
    pairs = sc.getConf().getAll()
    return sorted(f"{key[len(prefix):]}={value}" for key, value in pairs if key.startswith(prefix) and key != NUM_PS)


def tensorflow_offer(sc: Any, python: str) -> Any:
    """The driver's TensorFlow, for executors on which this Python has none."""
    return java(sc, "TensorFlowOffer").of(sc._jsc.sc(), settings(sc), python, sys.executable)


def default_fs(sc: Any) -> str:
    """Such as hdfs://host:8020 or file://."""
    found = sc._jsc.hadoopConfiguration().get("fs.defaultFS")
    return found[:-1] if found.startswith("file://") and len(found) > len("file://") and found.endswith("/") else found


def slots_now(sc: Any) -> int:
    return java(sc, "Slots").now(sc._jsc)


def slots_configured(sc: Any, gpu_resource: str) -> tuple[int, str]:
    """The most tasks that Spark can ever run at a time, or -1, and where the number comes from."""
    found = java(sc, "Slots").configured(sc._jsc, gpu_resource)
    return found.most(), found.reason()


def pickle_for_nodes(sc: Any, value: Any) -> tuple[bytes, list[Any]]:
    """Pickles as Spark does for its tasks. Returns the broadcast variables that were met, too."""
    from pyspark.serializers import CloudPickleSerializer

    pickled = CloudPickleSerializer().dumps(value)
    broadcasts = list(sc._pickled_broadcast_vars)
    sc._pickled_broadcast_vars.clear()
    if broadcasts and sc._encryption_enabled:
        raise NotImplementedError(
            "the function uses broadcast variables, which is not possible while spark.io.encryption.enabled is true: "
            "a node cannot decrypt them. Pass the values in the arguments instead."
        )
    return pickled, broadcasts


def submit(
    sc: Any,
    name: str,
    indexes: range,
    ticket: bytes,
    broadcasts: Sequence[Any],
    detach: bool,
    gpu_resource: str,
    settings: Sequence[str] = (),
    tensorflow: Any = None,
) -> Any:
    """Submits the job that starts the nodes; returns an org.tfos.spark.SparkJob."""
    cores = java(sc, "Slots").coresOfNode(sc._jsc, len(indexes))
    environment: Mapping[str, str] = {key: str(value) for key, value in sc.environment.items()}
    starter = java(sc, "NodeStarter")(
        bytearray(ticket),
        cores,
        detach,
        install(sc),
        list(sc._python_includes),
        dict(environment),
        [broadcast._jbroadcast for broadcast in broadcasts],
        gpu_resource,
    )
    starter.settings(list(settings))
    if tensorflow is not None:
        starter.tensorflow(tensorflow)
    return starter.submit(sc._jsc, name, indexes.start, len(indexes))
