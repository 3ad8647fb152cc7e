"""Training and models as stages of Spark ML: TFEstimator trains a TensorFlow program on the rows of a DataFrame and
gives a TFModel.

    estimator = TFEstimator(train_fn, args).setInputMapping({"image": "x", "label": "y"}).setClusterSize(4)
    model = estimator.fit(dataframe)            # train_fn(args, ctx) runs on every node of a TFCluster
"""

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.ml import Estimator, Model
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsReader, DefaultParamsWritable, DefaultParamsWriter

from . import _check, _training, util
from ._namespace import Namespace
from ._params import (
    HasBatchSize,
    HasClusterSize,
    HasDriverPSNodes,
    HasEpochs,
    HasExportDir,
    HasFeedTimeout,
    HasGraceSecs,
    HasInputMapping,
    HasInputMode,
    HasKeepCols,
    HasMasterNode,
    HasModelDir,
    HasNumPS,
    HasOpLibraries,
    HasOutputMapping,
    HasProtocol,
    HasReaders,
    HasSignatureDefKey,
    HasSteps,
    HasTagSet,
    HasTensorboard,
    HasTFRecordDir,
    HasValidationCol,
    TFParams,
    TFTypeConverters,
)
from ._trainer import Trainer
from .TFCluster import InputMode

__all__ = ["Namespace", "TFEstimator", "TFModel", "TFParams", "TFTypeConverters", "single_node_env"]
__all__ += ["HasBatchSize", "HasClusterSize", "HasDriverPSNodes", "HasEpochs", "HasExportDir", "HasFeedTimeout"]
__all__ += ["HasGraceSecs", "HasInputMapping", "HasInputMode", "HasKeepCols", "HasMasterNode", "HasModelDir"]
__all__ += ["HasNumPS", "HasOpLibraries", "HasOutputMapping", "HasProtocol", "HasReaders", "HasSignatureDefKey"]
__all__ += ["HasSteps", "HasTFRecordDir", "HasTagSet", "HasTensorboard", "HasValidationCol"]


class TFEstimator(
    Estimator,
    TFParams,
    HasInputMapping,
    HasClusterSize,
    HasNumPS,
    HasInputMode,
    HasMasterNode,
    HasProtocol,
    HasGraceSecs,
    HasTensorboard,
    HasModelDir,
    HasExportDir,
    HasTFRecordDir,
    HasBatchSize,
    HasEpochs,
    HasReaders,
    HasSteps,
    HasFeedTimeout,
    HasValidationCol,
    HasOutputMapping,
    HasSignatureDefKey,
    HasTagSet,
    HasKeepCols,
):
    """Trains a TensorFlow program on a cluster.

    train_fn    called as train_fn(args, ctx) on each node; args are tf_args with all params by their names. Or a
                native.Trainer, which trains without Python; params have its options as their defaults
    tf_args     arguments of the program: a dict, what argparse returns, or a list of words, which train_fn gets as they
                are, and as sys.argv
    export_fn   called as export_fn(args) after the training, on an executor, to make a SavedModel of what was trained
    """

    _added = frozenset(
        {"feed_timeout", "validation_col", "output_mapping", "signature_def_key", "tag_set", "keep_cols"}
    )

    def __init__(
        self, train_fn: Callable[[Any, Any], Any] | Trainer, tf_args: Any, export_fn: Callable[[Any], Any] | None = None
    ):
        super().__init__()
        if not isinstance(train_fn, Trainer):
            _check.function("train_fn", train_fn)
        if export_fn is not None and not callable(export_fn):
            raise TypeError(f"export_fn is a function that is called as export_fn(args), or None; found {export_fn!r}")
        self.train_fn = train_fn
        self.export_fn = export_fn
        self.args = Namespace(tf_args)
        self._setDefault(input_mapping={}, output_mapping={}, input_mode=InputMode.SPARK, validation_col=None)
        self._setDefault(cluster_size=1, num_ps=0, driver_ps_nodes=False, master_node="chief", protocol="grpc")
        self._setDefault(model_dir=None, export_dir=None, tfrecord_dir=None, tag_set=None, tensorboard=False)
        self._setDefault(batch_size=100, epochs=1, readers=1, steps=1000, grace_secs=30, feed_timeout=600)
        self._setDefault(keep_cols=[])
        if isinstance(train_fn, Trainer):
            self._setDefault(**{name: train_fn.plan["options"][name] for name in _training.OF_TRAINERS})

    def _fit(self, dataset: Any) -> "TFModel":
        inputs = _training.fit(self, dataset)
        model = self._copyValues(TFModel(self.args))
        if isinstance(self.train_fn, Trainer):
            model = _training.complete(model, self.train_fn, dataset)
        return model._inherit() if inputs is None else model.setInputMapping(inputs)

    def fit(self, dataset: Any, params: Any = None) -> Any:
        """Trains on a DataFrame. Returns a TFModel, or with a list of param maps one for each of them; a map may have
        a folder of its own in it, and must if there are several."""
        clash = self._clash(params) if isinstance(params, (list, tuple)) else None
        if clash:
            raise ValueError(f"{clash}, the last in place of the others: give each param map an export_dir of its own")
        return super().fit(dataset, params)

    def fitMultiple(self, dataset: Any, paramMaps: Sequence[Any]) -> Iterator[tuple[int, "TFModel"]]:
        """The models by the index of their param map, each trained when it is asked for."""
        estimator = self.copy()
        return _Fits(lambda index: estimator.fit(dataset, paramMaps[index]), len(paramMaps), self._clash(paramMaps))

    def _clash(self, param_maps: Sequence[Any]) -> str | None:
        """Says which models would be in the same folder."""
        seen: dict[str, int] = {}
        for index, each in enumerate(map(self.copy, param_maps)):
            folder = each.getExportDir() or each.getModelDir()
            if folder and folder in seen:
                return f"the models of param maps {seen[folder]} and {index} would both be in {folder}"
            seen |= {folder: index} if folder else {}
        return None


class _Fits:
    """An iterator that several threads may use, if no two models are in one folder."""

    def __init__(self, fit: Callable[[int], Any], count: int, clash: str | None):
        self._fit = fit
        self._indexes = iter(range(count))
        self._clash = clash
        self._thread: int | None = None  # the first that has asked
        self._lock = threading.Lock()

    def __iter__(self) -> "_Fits":
        return self

    def __next__(self) -> tuple[int, Any]:
        with self._lock:
            self._thread = self._thread or threading.get_ident()
            if self._clash and self._thread != threading.get_ident():
                raise ValueError(
                    f"{self._clash}, and one would be trained while the other is looked at: set parallelism to 1, or "
                    "give each param map an export_dir of its own"
                )
            index = next(self._indexes)
        return index, self._fit(index)


class TFModel(
    Model,
    TFParams,
    HasInputMapping,
    HasOutputMapping,
    HasBatchSize,
    HasModelDir,
    HasExportDir,
    HasSignatureDefKey,
    HasTagSet,
    HasKeepCols,
    HasOpLibraries,
    DefaultParamsWritable,
    DefaultParamsReadable,
):
    """A model in a folder, which gives the rows of a DataFrame columns of predictions.

    tf_args   arguments of the program, as TFEstimator takes them
    """

    _added = frozenset({"keep_cols", "op_libraries"})

    def __init__(self, tf_args: Any):
        super().__init__()
        self.args = Namespace(tf_args)
        self._setDefault(input_mapping={}, output_mapping={}, batch_size=100)
        self._setDefault(model_dir=None, export_dir=None, signature_def_key=None, tag_set=None)
        self._setDefault(keep_cols=[], op_libraries=[])

    def _inherit(self) -> "TFModel":
        """Makes the mapping that the program was fed by, with labels perhaps, the one that counts until it is set."""
        mapping = self.getInputMapping()
        self.clear(self.input_mapping)
        return self._setDefault(input_mapping=mapping)

    def _transform(self, dataset: Any) -> Any:
        args = self.merge_args_params()
        from . import _model

        return _model.transform(dataset, args, lenient=not self.isSet(self.input_mapping))

    def write(self) -> "_ModelWriter":
        return _ModelWriter(self)

    @classmethod
    def read(cls) -> "_ModelReader":
        return _ModelReader(cls)


class _ModelWriter(DefaultParamsWriter):
    """Saves params and arguments of a TFModel. What it was trained to stays in its folder."""

    def save(self, path: str) -> None:
        _check_saved(vars(self.instance.args))  # before anything is overwritten
        super().save(path)

    def saveImpl(self, path: str) -> None:
        DefaultParamsWriter.saveMetadata(self.instance, path, self.sc, {"tf_args": vars(self.instance.args)})


class _ModelReader(DefaultParamsReader):
    def load(self, path: str) -> Any:
        metadata = DefaultParamsReader.loadMetadata(path, self.sc)
        model = self.cls(metadata["tf_args"])
        model._resetUid(metadata["uid"])
        nothing = [name for name, value in metadata["paramMap"].items() if value is None]  # Spark sets it to no param
        DefaultParamsReader.getAndSetParams(model, metadata, nothing)
        return model._set(**dict.fromkeys(nothing))


def single_node_env(args: Any) -> None:
    """Prepares a process that is not on a node for a program: sys.argv if args are words, and free GPUs or none."""
    words = args if isinstance(args, list) else getattr(args, "argv", None)
    if words:
        sys.argv = words
    util.single_node_env(args.num_gpus if "num_gpus" in args else 1)


def _check_saved(arguments: dict[str, Any]) -> None:
    """What does not come back from JSON as it was is not saved."""
    for name, value in arguments.items():
        if not _is_json(value):
            raise ValueError(
                f"the argument {name!r} of the model cannot be saved: it is {value!r} ({type(value).__name__}), and "
                "what is saved are texts, numbers, booleans, None, and lists and dicts of these. Change it in "
                f"model.args.{name}, or delete it there."
            )


def _is_json(value: Any) -> bool:
    if type(value) is list:
        return all(map(_is_json, value))
    if type(value) is dict:
        return all(type(key) is str and _is_json(each) for key, each in value.items())
    return type(value) in (type(None), bool, int, float, str)
