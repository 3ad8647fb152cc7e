"""native.Trainer: what TFCluster.run takes instead of a function, to train without Python on the nodes."""

import copy
import json
import os
import pathlib
import shutil
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native, _spark

_PLACES = ("model_dir", "export_dir", "log_dir")


class Trainer:
    """Trains a model that `native.export` has written, on every node of a cluster, in a process without Python.

        cluster = TFCluster.run(sc, native.Trainer("exported", model_dir="/share/model"), None, 2, 0,
                                input_mode=TFCluster.InputMode.SPARK)
        cluster.train(dataframe, num_epochs=3)
        cluster.shutdown()

    model          the folder that was exported; it travels to the nodes with the application
    data           TFRecord files, folders and globs that the nodes see, with InputMode.TENSORFLOW; None: Spark feeds
    validation     files likewise; or True: what train(…, validation=…) feeds
    columns        {column: name}: columns that have other names than the model's inputs and labels
    batch_size     rows of a step, on each worker
    epochs, steps  how often files are read; the step with which training ends, counted over all runs
    shuffle, seed  how many rows each row of files is drawn from, 0 for their own order; and the order's seed
    learning_rate  a number, or {step: rate} from which step on; None: the optimizer's own, with its schedule
    model_dir      where checkpoints are written, and training goes on from, if there are some
    export_dir     where the trained model is written as a SavedModel for prediction
    log_dir        where event files for TensorBoard are written; by default model_dir
    save_steps, save_seconds, keep
                   how often checkpoints are written, and how many are kept
    resume         False: checkpoints in model_dir are not used
    patience, monitor, min_delta, mode, restore_best
                   early stopping, as keras.callbacks.EarlyStopping has it; none without patience
    on_nan         what becomes of a step whose loss is not finite: "stop", "continue", or "skip"
    on_corrupt     what becomes of damaged records: "error" or "skip"
    threads        of TensorFlow; by default as many as a node has cores
    op_libraries   libraries of ops to load, as tf.load_op_library does; paths on the nodes
    python         the Python on the nodes whose TensorFlow is used; by default that of Spark, or where it has none, the
                   driver's TensorFlow, which is brought to the nodes

    Options that make no sense, and a model that cannot be trained, raise ValueError or FileNotFoundError here.
    """

    def __init__(
        self,
        model: Any,
        *,
        data: Any = None,
        validation: Any = None,
        columns: Mapping[str, str] | None = None,
        batch_size: int | None = None,
        epochs: int | None = None,
        steps: int | None = None,
        shuffle: int | None = None,
        seed: int | None = None,
        learning_rate: float | Mapping[int, float] | None = None,
        model_dir: Any = None,
        export_dir: Any = None,
        log_dir: Any = None,
        save_steps: int | None = None,
        save_seconds: float | None = None,
        keep: int | None = None,
        resume: bool | None = None,
        monitor: str | None = None,
        patience: int | None = None,
        min_delta: float | None = None,
        mode: str | None = None,
        restore_best: bool | None = None,
        on_nan: str | None = None,
        on_corrupt: str | None = None,
        threads: int | None = None,
        op_libraries: Sequence[str] | None = None,
        python: str | None = None,
        queue: str | None = None,
    ):
        given = {name: value for name, value in locals().items() if name != "self" and value is not None}
        if isinstance(learning_rate, Mapping):
            given["learning_rate"] = [[step, rate] for step, rate in sorted(learning_rate.items())]
        self._take(given)

    def _take(self, given: dict[str, Any]) -> None:
        given = given | {name: _place(given[name]) for name in ("model", *_PLACES) if name in given}
        given |= {name: _paths(given[name]) for name in ("data", "validation") if name in given}
        self.options: dict[str, Any] = given
        self.plan: dict[str, Any] = json.loads(_native.trainer_plan(_json(given)))

    def changed(self, **options: Any) -> "Trainer":
        """A trainer like this one but for some options; None takes one back."""
        other = copy.copy(self)
        other._take({name: value for name, value in (self.options | options).items() if value is not None})
        return other

    def payload(self, sc: Any) -> bytes:
        """What the nodes are told; the model is brought to them. Restarts are told the same."""
        told = {"python": sc.pythonExec, "run": uuid.uuid4().hex} | self.options
        return _json(told | {"model": _ship(sc, self.options["model"])}).encode()

    def tensorflow(self, sc: Any) -> Any:
        """What nodes without TensorFlow get; nothing if the user says where theirs is."""
        return None if "python" in self.options else _spark.tensorflow_offer(sc, sc.pythonExec)

    def settings(self, given: list[str]) -> list[str]:
        """Settings of the cluster, with those that a trainer needs and nobody has set."""
        known = {each.partition("=")[0] for each in given}
        return given + [f"{key}={value}" for key, value in self.plan["settings"].items() if key not in known]

    def mapping(self, frame: Any) -> dict[str, str]:
        """The columns of a DataFrame that the model takes. One that is missing is told by the trainer, who knows what
        the model wants."""
        return {name: name for name in self.plan["columns"] if name in frame.columns}


def _json(options: dict[str, Any]) -> str:
    try:
        return json.dumps(options, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"options of a Trainer are numbers, texts, lists and dicts: {error}") from error


def _place(path: Any) -> str:
    """Nodes work in folders of their own."""
    text = os.fspath(path)
    return text if "://" in text else os.path.abspath(text)


def _paths(given: Any) -> Any:
    if isinstance(given, bool):
        return given
    return [_place(given)] if isinstance(given, str | os.PathLike) else [_place(each) for each in given]


_shipping = threading.Lock()
_shipped: dict[tuple[str, str, float], str] = {}  # by application, folder and time


def _ship(sc: Any, folder: str) -> str:
    """Brings a model to the executors, once for each application; returns how the nodes find it."""
    key = (sc.applicationId, folder, os.path.getmtime(os.path.join(folder, "saved_model.pb")))
    with _shipping:
        if key not in _shipped:
            name = f"tfos-trainable-{len(_shipped)}-{abs(hash(key)):x}"
            made = tempfile.mkdtemp(prefix="tfos-", dir=sc._temp_dir)
            archive = shutil.make_archive(os.path.join(made, name), "zip", folder)
            sc.addArchive(f"{pathlib.Path(archive).as_uri()}#{name}")
            _shipped[key] = f"sparkfiles:{name}"
        return _shipped[key]
