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

from . import _keras_fit, _ops

__all__ = ["distributed"]

_log = logging.getLogger("tensorflowonspark")

# Arguments of fit that every worker must give alike.
_AGREED = ("epochs", "initial_epoch", "steps_per_epoch", "validation_steps", "validation_freq", "class_weight")

_OPS = {"mean": "weighted mean", "sum": "sum"}


@contextlib.contextmanager
def distributed(ctx: Any = None, weight: Callable[[Any], Any] | None = None, op: str | None = None) -> Iterator[None]:
    """Within this every `fit` trains together with the other workers, which must call it, too.

    ctx      the context of the node; it is not needed, and shows who reads the program where it runs
    weight   how much a batch counts: a function of the batch, (x, y) or (x, y, sample_weight), as `train_step` gets it.
             By default its rows, which is what most losses divide by
    op       "mean" over all, weighted, or "sum"; by default what the reduction of the loss means
    """
    if op is not None and op not in _OPS:
        raise ValueError(f"op is 'mean' or 'sum', found {op!r}")
    del ctx
    _ops.group()
    with contextlib.ExitStack() as stack:
        for keras in _loaded():
            stack.enter_context(_patched(keras, weight, op))
        yield


def _loaded() -> list[Any]:
    """The Kerases that the program has; the standard one if it has none yet."""
    found = [sys.modules[name] for name in ("keras", "tf_keras") if name in sys.modules]
    if not found:
        import keras

        found = [keras]
    return found


@contextlib.contextmanager
def _patched(keras: Any, weight: Any, op: str | None) -> Iterator[None]:
    original = keras.Model.fit
    if hasattr(original, "_tfos"):
        raise RuntimeError("distributed() is open already; one is enough for all models")
    own = "fit" in vars(keras.Model)

    @functools.wraps(original)
    def fit(model: Any, *args: Any, **options: Any) -> Any:
        return _fit(keras, model, original, inspect.signature(original).bind(model, *args, **options), weight, op)

    fit._tfos = True  # type: ignore[attr-defined]
    keras.Model.fit = fit
    try:
        yield
    finally:
        if own:
            keras.Model.fit = original
        else:
            del keras.Model.fit


def _fit(keras: Any, model: Any, original: Any, call: inspect.BoundArguments, weight: Any, op: str | None) -> Any:
    if getattr(model, "optimizer", None) is None:
        return original(*call.args, **call.kwargs)  # which says what is missing
    chosen, weigh = _choose(model, weight, op)
    defaults = {name: each.default for name, each in call.signature.parameters.items()}
    said = {name: call.arguments.get(name, defaults.get(name)) for name in _AGREED} | {"op": chosen}
    _keras_fit.compare(said | {"validation_data": call.arguments.get("validation_data") is not None})
    _forbid_jit(model)
    fitting = _keras_fit.Fitting(model, _OPS[chosen], weigh)
    try:
        data = [call.arguments.get(name) for name in ("x", "y", "sample_weight")]
        call.arguments["callbacks"] = _with_ours(keras, call.arguments.get("callbacks"), fitting, data)
        return original(*call.args, **call.kwargs)
    finally:
        fitting.release()


def _forbid_jit(model: Any) -> None:
    if getattr(model, "jit_compile", False) is True:
        _log.warning("jit_compile is off while workers train together: XLA has no ops for what they merge")
        model.jit_compile = False


# ---- callbacks ----


def _with_ours(keras: Any, given: Any, fitting: Any, data: list[Any]) -> Any:
    """The program's callbacks, with one of ours before and one behind them."""

    class First(keras.callbacks.Callback):  # type: ignore[misc]
        def on_train_begin(self, logs: Any = None) -> None:
            with fitting.local():
                _build(self.model, data)
            fitting.begin()

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            fitting.begin_epoch()

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            fitting.take_logs(logs if logs is not None else {})

    class Last(keras.callbacks.Callback):  # type: ignore[misc]
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            fitting.agree_to_stop()

    if hasattr(given, "callbacks"):  # a CallbackList
        given.callbacks.insert(0, First())
        given.append(Last())
        for each in (given.callbacks[0], given.callbacks[-1]):
            each.set_model(given.model)
        return given
    listed = [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    return [First(), *listed, Last()]


def _build(model: Any, data: list[Any]) -> None:
    """Makes the variables of a model, its metrics and its optimizer, so that all workers can begin with the same."""
    batch = _spec_of(data)
    if batch is not None and hasattr(model, "_symbolic_build"):
        model._symbolic_build(data_batch=batch)
    elif batch is not None:
        _trace(model, batch)
    if not model.built:
        raise ValueError(
            "the model has no variables yet, and its data does not show their shapes: build it before fit, for example "
            "by calling it on a batch"
        )
    for optimizer in _keras_fit.optimizers_of(model):
        if not getattr(optimizer, "built", True):
            optimizer.build(model.trainable_variables)


def _trace(model: Any, batch: Any) -> None:
    """In tf_keras, variables of models and metrics are made when a step is traced first."""
    import tensorflow as tf

    def spec_of(each: Any) -> Any:
        return each if isinstance(each, tf.TypeSpec) else tf.TensorSpec([None, *each.shape[1:]], each.dtype)

    tf.function(model.test_step).get_concrete_function(tf.nest.map_structure(spec_of, batch))


def _spec_of(data: list[Any]) -> Any:
    """What a batch looks like; None: nobody knows before it is there."""
    x, *rest = data
    if hasattr(x, "element_spec"):
        return x.element_spec
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return tuple(each for each in (x, *rest) if each is not None)
    return None


# ---- what a batch counts ----


def _choose(model: Any, weight: Any, op: str | None) -> tuple[str, Callable[[Any], Any]]:
    """The op, and the function that weighs a batch."""
    if weight is not None:
        return op or "mean", weight
    reductions = {_reduction_of(loss) for loss in _losses_of(model)}
    masked = [layer.name for layer in _layers_of(model) if _makes_mask(layer)]
    if masked:
        raise ValueError(
            f"the layer {masked[0]} masks time steps, so the loss is not a mean over rows: give distributed() a "
            "weight, a function of the batch that counts what is not masked"
        )
    if op is not None:
        return op, _keras_fit.rows_of
    if reductions <= {"sum_over_batch_size", "mean", "auto"}:
        return "mean", _keras_fit.rows_of
    if reductions == {"sum"}:
        return "sum", _keras_fit.rows_of
    if reductions == {"mean_with_sample_weight"}:
        return "mean", _sample_weight_of
    raise ValueError(
        f"the losses of this model have the reductions {sorted(map(str, reductions))}, and there is no one way to "
        "average their gradients: give distributed() op='mean' or 'sum', and a weight"
    )


def _losses_of(model: Any) -> list[Any]:
    import tensorflow as tf

    return [loss for loss in tf.nest.flatten(getattr(model, "loss", None)) if loss is not None]


def _reduction_of(loss: Any) -> str | None:
    return getattr(loss, "reduction", "sum_over_batch_size")


def _layers_of(model: Any) -> list[Any]:
    flatten = getattr(model, "_flatten_layers", None)
    return list(flatten()) if flatten else list(model.layers)


def _makes_mask(layer: Any) -> bool:
    return bool(getattr(layer, "mask_zero", False)) or type(layer).__name__ == "Masking"


def _sample_weight_of(data: Any) -> Any:
    import tensorflow as tf

    weights = data[2] if isinstance(data, (tuple, list)) and len(data) > 2 else None
    return _keras_fit.rows_of(data) if weights is None else tf.reduce_sum(tf.cast(weights, tf.float64))
