"""How much the batch of a step counts when the gradients of all workers are averaged: what its losses divide by.

A loss of Keras is a mean over rows, over time steps that are not masked, over sample weights, or a sum. Which, and over
how many, only the function knows that reduces it, and it differs between versions; so that function is listened to
while a step is traced. Only ratios between workers matter: a divisor of 4 × rows does as well as one of rows.
"""

import contextlib
import contextvars
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

# Reductions that are means, by whichever divisor.
MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight", "auto")

_OPTIONS = (
    "give a weight, a function of the batch that counts what the loss divides by, or op='mean' to count "
    "rows, or op='sum' to add gradients up"
)


class _Loss(NamedTuple):
    """What was seen of one loss, while it was reduced."""

    reduction: str | None
    divisor: Any  # a scalar; None: it is known to nobody but the function of the program
    inner: int  # the divisor is so many times that of another loss with the same rows or mask
    masked: bool


class Step:
    """The step that is traced, or run: its batch, and the losses that were computed since gradients were merged last.

    op      "mean" or "sum"
    weight  what the program says that the batch counts, or None
    strict  nobody has said how to merge: what is not known is an error
    """

    def __init__(self, keras: Any, model: Any, rows: Any, op: str, weight: Any, strict: bool):
        import tensorflow as tf

        self._keras = keras
        self._model = model
        self._op = op
        self._strict = strict and weight is None
        self._losses: list[_Loss] = []
        self._known = weight is not None
        self._weight = tf.cast(rows if weight is None else weight, tf.float64)

    def saw(self, loss: _Loss) -> None:
        if not self._known:
            self._losses.append(loss)

    def weight(self) -> Any:
        """How much the batch counts, for gradients that are merged now."""
        losses, self._losses = self._losses, []
        if losses and self._op == "mean" and (self._strict or _alike(losses)):
            self._weight = self._divisor(losses)
        if self._strict:
            self._refuse(losses)
        return self._weight

    def _divisor(self, losses: list[_Loss]) -> Any:
        import tensorflow as tf

        if any(each.divisor is None or each.reduction not in MEANS for each in losses):
            return self._weight  # refused, or not strict
        if not _alike(losses):
            raise ValueError(
                "some losses of this model are means over what is not masked, others over all, so there is no one "
                f"weight for a batch: {_OPTIONS}"
            )
        if not tf.executing_eagerly() and losses[0].divisor.graph is not tf.compat.v1.get_default_graph():
            raise ValueError(f"the loss is computed inside a function of its own, where it cannot be seen: {_OPTIONS}")
        first, *others = [each.divisor / each.inner for each in losses]
        said = f"the losses of this model divide by different numbers: {_OPTIONS}"
        checks = [tf.debugging.assert_equal(first, each, said) for each in others if each is not first]
        with tf.control_dependencies([] if tf.executing_eagerly() else checks):
            return tf.identity(losses[0].divisor)

    def _refuse(self, losses: list[_Loss]) -> None:
        wrong = [str(each.reduction) for each in losses if (each.reduction in MEANS) != (self._op == "mean")]
        if wrong:
            kind = "a mean" if self._op == "mean" else "a sum"
            raise ValueError(f"the reduction of a loss is {wrong[0]!r}, which is not {kind} as expected: {_OPTIONS}")
        if any(each.divisor is None for each in losses) and self._op == "mean":
            raise ValueError(
                "a loss gives one number for the whole batch, and only its own code says whether that is a mean over "
                f"rows: let it return a number for each row, or {_OPTIONS}"
            )
        self._refuse_added(any(each.masked for each in losses))

    def _refuse_added(self, masked: bool) -> None:
        """What is added to the loss besides: of weights it is the same on all workers, of batches a mean, if at all."""
        added = _added_by(self._model)
        if added and (self._op == "sum" or masked or not _divides_by_rows(self._keras, added)):
            raise ValueError(
                f"the layer {added[0].name} adds to the loss, and it is not known that this is a mean over the same "
                f"rows: {_OPTIONS}"
            )
        if self._op == "sum" and self._model.losses:
            raise ValueError(
                "the loss is a sum over rows, and what regularizers add to it would be counted once for each worker: "
                "use a loss that is a mean, or give op='sum' if that is meant"
            )


def _alike(losses: list[_Loss]) -> bool:
    """Whether one divisor can stand for all."""
    return len({each.masked for each in losses}) == 1 and all(each.divisor is not None for each in losses)


# ---- what losses mean ----


def op_of(model: Any) -> str:
    """What the reductions of the losses mean: a mean over what all workers have, or a sum."""
    reductions = {getattr(loss, "reduction", "sum_over_batch_size") for loss in losses_of(model)}
    if reductions <= set(MEANS):
        return "mean"
    if reductions == {"sum"}:
        return "sum"
    raise ValueError(
        f"the losses of this model have the reductions {sorted(map(str, reductions))}, and there is no one way to "
        "merge their gradients: give op='mean' or op='sum', and a weight"
    )


def losses_of(model: Any) -> list[Any]:
    import tensorflow as tf

    return [loss for loss in tf.nest.flatten(getattr(model, "loss", None)) if loss is not None]


# ---- what is added to losses ----


def layers_of(model: Any) -> list[Any]:
    flatten = getattr(model, "_flatten_layers", None)
    return list(flatten()) if flatten else list(model.layers)


def _added_by(model: Any) -> list[Any]:
    """Layers that have called add_loss in this step."""
    return [each for each in layers_of(model) if getattr(each, "_eager_losses", getattr(each, "_losses", []))]


def _divides_by_rows(keras: Any, layers: list[Any]) -> bool:
    """Whether all that these layers have added is activity regularization, and Keras makes that a mean over rows, which
    it does from some version on."""
    import tensorflow as tf

    if any(each.activity_regularizer is None for each in layers):
        return False
    with tf.init_scope():
        probe = keras.layers.Activation("linear", activity_regularizer=tf.reduce_sum)
        probe(tf.ones([2, 1]))
        return float(probe.losses[0]) == 1.0


# ---- listening ----

_step: contextvars.ContextVar[Step | None] = contextvars.ContextVar("tfos_step", default=None)


def current() -> Step | None:
    """The step that is being traced, or run."""
    return _step.get()


@contextlib.contextmanager
def taking(step: Step) -> Iterator[None]:
    """Within this, losses are those of a step."""
    before = _step.set(step)
    try:
        yield
    finally:
        _step.reset(before)


@contextlib.contextmanager
def listening(keras: Any) -> Iterator[None]:
    """Within this, steps see how their losses are reduced."""
    if keras.__name__ == "tf_keras":
        module, begin, end = "tf_keras.src.utils.losses_utils", "apply_valid_mask", "reduce_weighted_loss"
    else:
        module, begin, end = "keras.src.losses.loss", "reduce_weighted_values", "reduce_values"
    owner = importlib.import_module(module)
    if not hasattr(owner, begin) or not hasattr(owner, end):
        raise RuntimeError(
            f"expected {begin} and {end} in {module}, which {keras.__name__} {keras.__version__} has not: how losses "
            "are reduced there is not known; use a version that has them"
        )
    before = {name: getattr(owner, name) for name in (begin, end)}
    seen: contextvars.ContextVar[Any] = contextvars.ContextVar("tfos_loss", default=None)
    setattr(owner, begin, _hearing(before[begin], seen.set))
    setattr(owner, end, _hearing(before[end], lambda said: _tell(seen.get(), said)))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(owner, name, function)


def _hearing(function: Callable[..., Any], hear: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
    """The function, whose arguments are heard when there is a step."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def heard(*args: Any, **options: Any) -> Any:
        if _step.get() is not None:
            call = signature.bind(*args, **options)
            call.apply_defaults()
            hear(call.arguments)
        return function(*args, **options)

    return heard


def _tell(begun: dict[str, Any] | None, ended: dict[str, Any]) -> None:
    """Tells the step of a loss: what it was before it was weighted, and what of it is reduced."""
    step = _step.get()
    if step is None or begun is None:
        return
    raw = begun.get("values", begun.get("losses"))
    values = ended.get("values", ended.get("weighted_losses"))
    weights = ended.get("sample_weight") if ended["reduction"] == "mean_with_sample_weight" else None
    step.saw(_loss_of(ended["reduction"], raw, values, weights, begun["mask"]))


def _loss_of(reduction: str | None, raw: Any, values: Any, weights: Any, mask: Any) -> _Loss:
    import tensorflow as tf

    def total(tensor: Any) -> Any:
        return tf.reduce_sum(tf.cast(tensor, tf.float64))

    shape = values.shape[1:]
    if len(raw.shape) == 0:
        return _Loss(reduction, None, 1, mask is not None)
    if weights is not None:
        return _Loss(reduction, total(weights), 1, True)
    divisor = tf.cast(tf.size(values), tf.float64)
    if mask is not None:
        share = total(mask) / tf.cast(tf.size(mask), tf.float64)
        return _Loss(reduction, divisor * share, 1, True)
    inner = functools.reduce(lambda a, b: a * b, shape, 1) if None not in tuple(shape) else 1
    return _Loss(reduction, divisor, inner, False)
