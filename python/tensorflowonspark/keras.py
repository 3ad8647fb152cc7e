"""Synchronous training with Keras 3 (3.3 and newer) and tf_keras, on all workers of a cluster.

    def train(args, ctx):
        feed = ctx.get_data_feed()
        model = keras.Sequential([...])
        with tfos_keras.distributed(ctx):
            model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
            model.fit(feed.dataset(64, epochs="split").map(pair), epochs=3)

Each worker reads its own share of the rows. A step is the step of all: gradients are averaged over the rows of all
batches, so the model is the one that a single process would have with the batches of all workers put together, also
where batches and shares differ in size. A worker whose rows have ended waits for the others, and gets their state;
every row is trained on once in every epoch. Logs, validation results and the decision to stop are those of all workers.

What `distributed` changes in a model is gone when `fit` returns: saved models load where this package is not installed.
"""

import contextlib
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import _check, _keras_count, _keras_fit, _keras_gradients, _keras_state, _ops
from ._callback import Callback
from ._keras_callbacks import BroadcastVariables, CheckpointOnChief, MetricAverage
from ._progress import ReportEpochs, ReportProgress

__all__ = ["BroadcastVariables", "CheckpointOnChief", "DistributedOptimizer", "MetricAverage", "ReportProgress"]
__all__ += ["distributed"]

_log = logging.getLogger("tensorflowonspark")

_OPS = ("mean", "sum")

# Arguments of fit that every worker must give alike.
_AGREED = ("epochs", "initial_epoch", "steps_per_epoch", "validation_steps", "validation_freq", "class_weight")


@contextlib.contextmanager
def distributed(
    ctx: Any = None,
    weight: Callable[[Any], Any] | None = None,
    op: str | None = None,
    accumulate: int = 1,
    wire: str = "float32",
) -> Iterator[None]:
    """Within this every `fit` trains together with the other workers, which must call it, too.

    ctx         the context of the node; it is not needed, and shows who reads the program where it runs
    weight      how much a batch counts: a function of the batch, (x, y) or (x, y, sample_weight), as `train_step` gets
                it. By default what the loss divides by: rows, time steps that are not masked, or sample weights
    op          "mean" over all, weighted, or "sum"; by default what the reduction of the loss means
    accumulate  gradients of so many batches of each worker are added up before they are merged: one step of the
                optimizer, and one call of all workers, for all of them
    wire        "bfloat16" or "float16": gradients travel from host to host as these, in half the bytes and less exact.
                Those of workers of one host, slices, and everything else than gradients stay what they are
    """
    _check_op(op)
    _ops.check_wire(wire)
    accumulate = _check.count("accumulate", accumulate, 1)
    del ctx
    _ops.group()
    with contextlib.ExitStack() as stack:
        for keras in _loaded():
            stack.enter_context(_keras_count.listening(keras))
            stack.enter_context(_patched(keras, weight, op, accumulate, wire))
        yield


def DistributedOptimizer(  # noqa: N802
    optimizer: Any, op: str = "mean", weight: Any = None, wire: str = "float32"
) -> Any:
    """The optimizer, which from now on applies the gradients of all workers: for loops of your own, and for `fit`
    without `distributed`. Every worker must apply gradients equally often, or `collective.join()` when it has no more.

    op      "mean", weighted, or "sum"
    weight  how much the gradients of this worker count in a mean: a number, a scalar variable that is set before each
            step, or a function without arguments, which is called for each step (in a tf.function: when it is traced).
            By default all workers count alike
    wire    as in `distributed`

    It stays what it is: a model that is saved with it loads where this package is not installed.
    """
    _check_op(op)
    _ops.check_wire(wire)
    _forbid_inner(optimizer)
    _ops.group()
    applying: Any = None

    def take(gradients: list[Any], variables: list[Any]) -> None:
        given = weight() if callable(weight) and not hasattr(weight, "assign") else weight
        applying.merge(gradients, variables, 1.0 if given is None else given)

    applying = _keras_gradients.Applying(optimizer, op, wire, "gradients", take)
    return optimizer


def _forbid_inner(optimizer: Any) -> None:
    """A LossScaleOptimizer leaves out its inner one when gradients are not finite: on one worker, and not on others."""
    keras = sys.modules.get(type(optimizer).__module__.partition(".")[0])
    policy = getattr(keras, "mixed_precision", None)
    policy = getattr(policy, "dtype_policy", getattr(policy, "global_policy", lambda: None))()
    if getattr(policy, "name", "") == "mixed_float16" and not hasattr(optimizer, "inner_optimizer"):
        raise ValueError(
            "with mixed_float16, Keras puts a LossScaleOptimizer around the optimizer, which must be the one that "
            "merges: give DistributedOptimizer a LossScaleOptimizer"
        )


def _check_op(op: str | None) -> None:
    if op is not None and op not in _OPS:
        raise ValueError(f"op is 'mean' or 'sum', found {op!r}")


def _loaded() -> list[Any]:
    """The Kerases that the program has; the standard one if it has none yet."""
    found = [sys.modules[name] for name in ("keras", "tf_keras") if name in sys.modules]
    if not found:
        import keras

        found = [keras]
    return found


@contextlib.contextmanager
def _patched(keras: Any, weight: Any, op: str | None, accumulate: int, wire: str) -> Iterator[None]:
    original = keras.Model.fit
    if hasattr(original, "_tfos"):
        raise RuntimeError("distributed() is open already; one is enough for all models")
    own = "fit" in vars(keras.Model)

    @functools.wraps(original)
    def fit(model: Any, *args: Any, **options: Any) -> Any:
        if getattr(model, "optimizer", None) is None:
            return original(model, *args, **options)  # which says what is missing
        strict = op is None and weight is None
        chosen = op or ("mean" if weight is not None else _keras_count.op_of(model))
        merging = _keras_fit.Merging(chosen, weight, strict, accumulate, wire)
        return _fit(keras, model, original, inspect.signature(original).bind(model, *args, **options), merging)

    fit._tfos = True  # type: ignore[attr-defined]
    keras.Model.fit = fit
    try:
        yield
    finally:
        if own:
            keras.Model.fit = original
        else:
            del keras.Model.fit


def _fit(keras: Any, model: Any, original: Any, call: inspect.BoundArguments, merging: _keras_fit.Merging) -> Any:
    defaults = {name: each.default for name, each in call.signature.parameters.items()}
    said = {name: call.arguments.get(name, defaults.get(name)) for name in _AGREED}
    said |= {"op": merging.op, "accumulate": merging.accumulate, "wire": merging.wire}
    _keras_fit.compare(said | {"validation_data": call.arguments.get("validation_data") is not None})
    with _without_jit(model):
        fitting = _keras_fit.Fitting(keras, model, merging)
        try:
            data = [call.arguments.get(name) for name in ("x", "y", "sample_weight")]
            call.arguments["callbacks"] = _with_ours(call.arguments.get("callbacks"), fitting, data)
            return original(*call.args, **call.kwargs)
        finally:
            fitting.release()


@contextlib.contextmanager
def _without_jit(model: Any) -> Iterator[None]:
    if getattr(model, "jit_compile", False) is not True:
        yield
        return
    _log.warning("jit_compile is off while workers train together: XLA has no ops for what they merge")
    model.jit_compile = False
    try:
        yield
    finally:
        model.jit_compile = True


# ---- callbacks ----


class _First(Callback):
    """Before the program's callbacks."""

    def __init__(self, fitting: _keras_fit.Fitting, data: list[Any]):
        self._fitting, self._data = fitting, data

    def on_train_begin(self, logs: Any = None) -> None:
        with self._fitting.local():
            _keras_state.build(self.model, self._data)
        self._fitting.begin()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._fitting.begin_epoch()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._fitting.take_logs(logs if logs is not None else {})


class _Last(Callback):
    """Behind the program's callbacks."""

    def __init__(self, fitting: _keras_fit.Fitting):
        self._fitting = fitting

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._fitting.agree_to_stop()


def _with_ours(given: Any, fitting: _keras_fit.Fitting, data: list[Any]) -> Any:
    """The program's callbacks, with one of ours before and one behind them; and one that reports how epochs have
    ended, if the program has none: that is the history of the node."""
    in_list = hasattr(given, "callbacks")  # of a CallbackList
    several = given.callbacks if in_list else given
    listed = [] if several is None else list(several) if isinstance(several, (list, tuple)) else [several]
    reports = [] if any(isinstance(each, ReportEpochs) for each in listed) else [ReportEpochs()]
    ours = [_First(fitting, data), *reports, _Last(fitting)]
    if not in_list:
        return [ours[0], *listed, *ours[1:]]
    for each in ours:
        each.set_model(given.model)
        each.set_params(given.params)
    given.callbacks[:] = [ours[0], *listed, *ours[1:]]
    return given
