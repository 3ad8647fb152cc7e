"""MirroredStrategyRunner: a training function, run once in each of some Spark tasks that train together.

It has the arguments and the behaviour of the class of that name in spark-tensorflow-distributor. A training function of
Keras 3 is run within keras.distributed(): MultiWorkerMirroredStrategy does not train Keras 3. One of tf_keras is run in
the scope of that strategy, over TF_CONFIG, as there.
"""

import contextlib
import functools
import importlib.util
import math
import os
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from . import _check, _returned, _spark
from ._session import TFClusterError
from .TFCluster import start


class MirroredStrategyRunner:
    """Trains with a plain training function on several Spark tasks.

    num_slots            GPUs of all tasks together, or tasks if use_gpu=False
    local_mode           run train_fn in this process, without Spark tasks
    use_gpu              GPUs are handed out by Spark's resources; False: none is seen by the tasks
    gpu_resource_name    their name there: spark.task.resource.NAME.amount and spark.executor.resource.NAME.amount
    use_custom_strategy  True: train_fn makes its own tf.distribute strategy, calls keras.distributed(), or uses
                         tensorflowonspark.collective; nothing is done around it
    """

    def __init__(
        self,
        *,
        num_slots: int,
        local_mode: bool = False,
        use_gpu: bool = True,
        gpu_resource_name: str = "gpu",
        use_custom_strategy: bool = False,
    ):
        from pyspark.sql import SparkSession

        self._num_slots = _check.count("num_slots", num_slots, 1)
        self._local_mode = local_mode
        self._use_gpu = use_gpu
        self._gpu_resource_name = gpu_resource_name
        self._use_custom_strategy = use_custom_strategy
        self.sc = _spark.context_of(SparkSession.builder.getOrCreate())
        self._num_tasks = None if local_mode else self.get_num_tasks()

    def get_num_tasks(self) -> int:
        """How many Spark tasks train."""
        if not self._use_gpu:
            return self._num_slots
        key = f"spark.task.resource.{self._gpu_resource_name}.amount"
        amount = self.sc.getConf().get(key)
        if amount is None:
            raise ValueError(
                f"use_gpu=True needs GPUs that Spark hands out, and {key} is not set. Set it and "
                f"spark.executor.resource.{self._gpu_resource_name}.amount, give the name that the resource has as "
                "gpu_resource_name, or train without GPUs with use_gpu=False."
            )
        if not amount.strip().isdigit() or int(amount) < 1:
            raise ValueError(f"{key} is a whole number of at least 1, found {amount}")
        return math.ceil(self._num_slots / int(amount))

    def run(self, train_fn: Callable[..., Any], **kwargs: Any) -> Any:
        """Runs train_fn(**kwargs) once in each task, all at the same time, and returns what the first one returns.
        Raises TFClusterError, with the traceback, if one of them fails; the others are stopped."""
        if not callable(train_fn):
            raise TypeError(f"train_fn is a function, found {train_fn!r}")
        program = {
            "train_fn": train_fn,
            "kwargs": kwargs,
            "custom": self._use_custom_strategy,
            "private": self._must_be_encrypted(),
        }
        if self._local_mode:
            with self._local_gpus():
                return _train(program)
        meta = {
            "num_executors": self._num_tasks,
            "default_fs": _spark.default_fs(self.sc),
            "working_dir": os.getcwd(),
        }
        gpus = {"all_gpus": self._num_slots} if self._use_gpu else {"gpus": 0}
        options = {"nodes": self._num_tasks, "spark_feeds": False} | gpus
        session = start(self.sc, _run_on_node, program, meta, options, gpu_resource=self._gpu_resource_name)
        session.finish(0, -1)
        return _value_of(_returned.collect(session)[0])

    def _must_be_encrypted(self) -> bool:
        """Whether the Spark cluster is one where nothing is to be sent in the clear."""
        conf = self.sc.getConf()
        ignored = conf.get("tensorflow.spark.distributor.ignoreSsl", "false").lower() == "true"
        return conf.get("spark.ssl.enabled", "false").lower() == "true" and not ignored

    @contextlib.contextmanager
    def _local_gpus(self) -> Iterator[None]:
        """Lets this process see the GPUs that it is to use, and no others."""
        if not self._use_gpu and self._num_slots > 1:
            raise ValueError(f"local_mode without GPUs is one process: num_slots is 1 then, found {self._num_slots}")
        owned = self._driver_gpus() if self._use_gpu else []
        before = os.environ.get("CUDA_VISIBLE_DEVICES")
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(owned[: self._num_slots])
        try:
            yield
        finally:
            if before is None:
                del os.environ["CUDA_VISIBLE_DEVICES"]
            else:
                os.environ["CUDA_VISIBLE_DEVICES"] = before

    def _driver_gpus(self) -> list[str]:
        name = self._gpu_resource_name
        found = self.sc.resources.get(name)
        owned = list(found.addresses) if found is not None else []
        if len(owned) < self._num_slots:
            raise ValueError(
                f"num_slots asks for {self._num_slots} GPUs, and Spark gave {len(owned)} to the driver. Set "
                f"spark.driver.resource.{name}.amount and spark.driver.resource.{name}.discoveryScript."
            )
        return owned


def _value_of(chief: _returned.NodeResult) -> Any:
    if chief.problem is not None:
        raise TFClusterError(f"{chief.node} on {chief.host} has trained, but what it returned is lost: {chief.problem}")
    return chief.value


# ---- in a task ----


def _run_on_node(program: dict[str, Any], ctx: Any) -> Any:
    value = _train(program)
    return value if ctx.task_index == 0 else None


def _train(program: dict[str, Any]) -> Any:
    train_fn = program["train_fn"]
    names = _names_of(train_fn)
    legacy = os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true") or "tf_keras" in names
    if program["private"] and (program["custom"] or legacy):
        raise RuntimeError(
            "spark.ssl.enabled is true, and TensorFlow's own strategies send what they train in the clear. Train with "
            "Keras 3 and use_custom_strategy=False, which encrypts it, or set tensorflow.spark.distributor.ignoreSsl "
            "to true."
        )
    if program["custom"]:
        return train_fn(**program["kwargs"])
    if "get_strategy" in names and not legacy:
        raise ValueError(
            "train_fn asks for the strategy that it runs under, and a training function of Keras 3 runs under none. "
            "Make it in train_fn and set use_custom_strategy=True."
        )
    with _strategy() if legacy else _together():
        return train_fn(**program["kwargs"])


def _strategy() -> Any:
    """The scope of TensorFlow's own strategy, whose workers find each other by TF_CONFIG."""
    import tensorflow as tf

    return tf.distribute.MultiWorkerMirroredStrategy().scope()


def _together() -> Any:
    """Training together with Keras. tf_keras trains so, too, wherever a training function may get it from."""
    from . import keras

    for name in ("keras", "tf_keras"):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
    return keras.distributed()


def _names_of(function: Any) -> set[str]:
    """What a function names: attributes and globals, and the packages that these and its imports are of."""
    while isinstance(function, functools.partial):
        function = function.func
    codes: list[Any] = [getattr(function, "__code__", None)]
    names: set[str] = set()
    while codes:
        code = codes.pop()
        if isinstance(code, CodeType):
            names.update(code.co_names)
            codes += code.co_consts
    known = getattr(function, "__globals__", {})
    found = [known[name] for name in names if name in known]
    homes = [getattr(each, "__module__", None) or getattr(each, "__name__", "") for each in found]
    return {str(name).partition(".")[0] for name in [*names, *homes]}
