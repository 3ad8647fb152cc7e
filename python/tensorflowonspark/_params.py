"""The params of estimators and models, each in a class of its own, with setter and getter: what TFEstimator and TFModel
are put together from, and what stages of one's own can have, too."""

import copy
from collections.abc import Mapping
from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters

from .TFCluster import InputMode


class TFTypeConverters:
    """Kinds of params that Spark does not have."""

    @staticmethod
    def toDict(value: Any) -> dict[str, str]:
        """Names by names."""
        if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
            raise TypeError(f"It is a dict of names by names, such as {{'image': 'x'}}; found {value!r}")
        return dict(value)

    @staticmethod
    def toText(value: Any) -> str:
        """That of Spark 3.5 does not know NumPy 2, and breaks where it should refuse."""
        if not isinstance(value, str):
            raise TypeError(f"It is a text; found {value!r} ({type(value).__name__})")
        return str(value)

    @staticmethod
    def toInputMode(value: Any) -> int:
        if isinstance(value, bool) or value not in (InputMode.TENSORFLOW, InputMode.SPARK):
            raise TypeError(f"It is InputMode.TENSORFLOW or InputMode.SPARK; found {value!r}")
        return int(value)


def _param(name: str, doc: str, kind: Any) -> Any:
    return Param(Params._dummy(), name, doc, typeConverter=kind)


class TFParams(Params):
    """A stage that has arguments of a program beside its params."""

    args: Any = None
    # Params that the release 2.2.5 did not have: one that is not set does not hide an argument of its name.
    _added: frozenset[str] = frozenset()

    def merge_args_params(self) -> Any:
        """A copy of the arguments, with every param among them under its name."""
        merged = copy.copy(self.args)
        arguments = vars(merged)
        for param in self.params:
            hidden = param.name in self._added and param.name in arguments and not self.isSet(param)
            if self.isDefined(param) and not hidden:
                arguments[param.name] = self.getOrDefault(param)
        return merged


# ---- of the cluster ----


class HasClusterSize(Params):
    cluster_size = _param("cluster_size", "nodes of the cluster: ps, chief and workers", TypeConverters.toInt)

    def setClusterSize(self, value: int) -> Any:
        return self._set(cluster_size=value)

    def getClusterSize(self) -> int:
        return self.getOrDefault(self.cluster_size)


class HasDriverPSNodes(Params):
    driver_ps_nodes = _param("driver_ps_nodes", "run ps nodes on the driver's machine", TypeConverters.toBoolean)

    def setDriverPSNodes(self, value: bool) -> Any:
        return self._set(driver_ps_nodes=value)

    def getDriverPSNodes(self) -> bool:
        return self.getOrDefault(self.driver_ps_nodes)


class HasNumPS(HasDriverPSNodes):
    num_ps = _param("num_ps", "how many nodes are parameter servers", TypeConverters.toInt)

    def setNumPS(self, value: int) -> Any:
        return self._set(num_ps=value)

    def getNumPS(self) -> int:
        return self.getOrDefault(self.num_ps)


class HasMasterNode(Params):
    master_node = _param("master_node", "what the first worker is called: chief, master", TFTypeConverters.toText)

    def setMasterNode(self, value: str | None) -> Any:
        return self._set(master_node=value)

    def getMasterNode(self) -> str | None:
        return self.getOrDefault(self.master_node)


class HasProtocol(Params):
    protocol = _param("protocol", "of TensorFlow between nodes: grpc", TFTypeConverters.toText)

    def setProtocol(self, value: str) -> Any:
        return self._set(protocol=value)

    def getProtocol(self) -> str:
        return self.getOrDefault(self.protocol)


class HasGraceSecs(Params):
    grace_secs = _param("grace_secs", "seconds that ps nodes go on after the last worker", TypeConverters.toInt)

    def setGraceSecs(self, value: int) -> Any:
        return self._set(grace_secs=value)

    def getGraceSecs(self) -> int:
        return self.getOrDefault(self.grace_secs)


class HasTensorboard(Params):
    tensorboard = _param("tensorboard", "start TensorBoard beside the first worker", TypeConverters.toBoolean)

    def setTensorboard(self, value: bool) -> Any:
        return self._set(tensorboard=value)

    def getTensorboard(self) -> bool:
        return self.getOrDefault(self.tensorboard)


# ---- of the data ----


class HasInputMode(Params):
    input_mode = _param("input_mode", "who brings the data: 0 TENSORFLOW, 1 SPARK", TFTypeConverters.toInputMode)

    def setInputMode(self, value: int) -> Any:
        return self._set(input_mode=value)

    def getInputMode(self) -> int:
        return self.getOrDefault(self.input_mode)


class HasInputMapping(Params):
    input_mapping = _param("input_mapping", "columns of the DataFrame, and their tensors", TFTypeConverters.toDict)

    def setInputMapping(self, value: dict[str, str]) -> Any:
        return self._set(input_mapping=value)

    def getInputMapping(self) -> dict[str, str]:
        return self.getOrDefault(self.input_mapping)


class HasValidationCol(Params):
    validation_col = _param("validation_col", "boolean column: true is to validate with", TFTypeConverters.toText)

    def setValidationCol(self, value: str | None) -> Any:
        return self._set(validation_col=value)

    def getValidationCol(self) -> str | None:
        return self.getOrDefault(self.validation_col)


class HasFeedTimeout(Params):
    feed_timeout = _param("feed_timeout", "seconds that rows may wait without one being taken", TypeConverters.toFloat)

    def setFeedTimeout(self, value: float) -> Any:
        return self._set(feed_timeout=value)

    def getFeedTimeout(self) -> float:
        return self.getOrDefault(self.feed_timeout)


class HasTFRecordDir(Params):
    tfrecord_dir = _param("tfrecord_dir", "folder of TFRecords, for InputMode.TENSORFLOW", TFTypeConverters.toText)

    def setTFRecordDir(self, value: str | None) -> Any:
        return self._set(tfrecord_dir=value)

    def getTFRecordDir(self) -> str | None:
        return self.getOrDefault(self.tfrecord_dir)


# ---- of training ----


class HasBatchSize(Params):
    batch_size = _param("batch_size", "rows of a batch", TypeConverters.toInt)

    def setBatchSize(self, value: int) -> Any:
        return self._set(batch_size=value)

    def getBatchSize(self) -> int:
        return self.getOrDefault(self.batch_size)


class HasEpochs(Params):
    epochs = _param("epochs", "how often the data is trained on", TypeConverters.toInt)

    def setEpochs(self, value: int) -> Any:
        return self._set(epochs=value)

    def getEpochs(self) -> int:
        return self.getOrDefault(self.epochs)


class HasReaders(Params):
    readers = _param("readers", "threads of the program that read", TypeConverters.toInt)

    def setReaders(self, value: int) -> Any:
        return self._set(readers=value)

    def getReaders(self) -> int:
        return self.getOrDefault(self.readers)


class HasSteps(Params):
    steps = _param("steps", "steps of training at most", TypeConverters.toInt)

    def setSteps(self, value: int) -> Any:
        return self._set(steps=value)

    def getSteps(self) -> int:
        return self.getOrDefault(self.steps)


# ---- of the model ----


class HasModelDir(Params):
    model_dir = _param("model_dir", "folder of checkpoints", TFTypeConverters.toText)

    def setModelDir(self, value: str | None) -> Any:
        return self._set(model_dir=value)

    def getModelDir(self) -> str | None:
        return self.getOrDefault(self.model_dir)


class HasExportDir(Params):
    export_dir = _param("export_dir", "folder of the SavedModel", TFTypeConverters.toText)

    def setExportDir(self, value: str | None) -> Any:
        return self._set(export_dir=value)

    def getExportDir(self) -> str | None:
        return self.getOrDefault(self.export_dir)


class HasOutputMapping(Params):
    output_mapping = _param("output_mapping", "tensors of the model, and their columns", TFTypeConverters.toDict)

    def setOutputMapping(self, value: dict[str, str]) -> Any:
        return self._set(output_mapping=value)

    def getOutputMapping(self) -> dict[str, str]:
        return self.getOrDefault(self.output_mapping)


class HasSignatureDefKey(Params):
    signature_def_key = _param("signature_def_key", "signature of the SavedModel", TFTypeConverters.toText)

    def __init__(self) -> None:
        super().__init__()
        self._setDefault(signature_def_key=None)

    def setSignatureDefKey(self, value: str | None) -> Any:
        return self._set(signature_def_key=value)

    def getSignatureDefKey(self) -> str | None:
        return self.getOrDefault(self.signature_def_key)


class HasTagSet(Params):
    tag_set = _param("tag_set", "tags of the SavedModel, with commas between them", TFTypeConverters.toText)

    def setTagSet(self, value: str | None) -> Any:
        return self._set(tag_set=value)

    def getTagSet(self) -> str | None:
        return self.getOrDefault(self.tag_set)


class HasKeepCols(Params):
    keep_cols = _param("keep_cols", "columns in front of the results", TypeConverters.toListString)

    def setKeepCols(self, value: list[str]) -> Any:
        return self._set(keep_cols=value)

    def getKeepCols(self) -> list[str]:
        return self.getOrDefault(self.keep_cols)


class HasOpLibraries(Params):
    op_libraries = _param("op_libraries", "libraries of ops that the model needs", TypeConverters.toListString)

    def setOpLibraries(self, value: list[str]) -> Any:
        return self._set(op_libraries=value)

    def getOpLibraries(self) -> list[str]:
        return self.getOrDefault(self.op_libraries)
