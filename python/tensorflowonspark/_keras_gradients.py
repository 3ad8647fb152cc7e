"""Gradients of all workers, merged before an optimizer sees them: hooks on its instance.

Before anything else is done with gradients: clipping, decay, averages of weights, scales of losses and what an
optimizer accumulates by itself see those of all workers. With `accumulate` those of several batches are added up first,
each times what its batch counts, and are merged once.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

from . import _keras_count, _ops

MERGES = {"mean": "weighted mean", "sum": "sum"}

# Gradients are merged already: an optimizer inside of another one, or a DistributedOptimizer inside of distributed(),
# takes them as they are.
_merged: contextvars.ContextVar[bool] = contextvars.ContextVar("tfos_merged", default=False)


def merge_gradients(gradients: list[Any], op: str, weight: Any, about: str, wire: str) -> list[Any]:
    """The gradients of all workers, as one call: dense ones merged, slices gathered. None stays None."""
    import tensorflow as tf

    merge = MERGES[op]
    tensors: list[Any] = []
    merges: list[str] = []
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            tensors += [gradient.values, gradient.indices]
            merges += [{"sum": "gather", "weighted mean": "weighted gather"}[merge], "gather"]
        elif gradient is not None:
            tensors.append(gradient)
            merges.append(merge)
    merged = iter(_ops.merge(tensors, merges, weight, about=about, wire=wire)[1])
    return [
        None
        if gradient is None
        else tf.IndexedSlices(next(merged), next(merged), gradient.dense_shape)
        if isinstance(gradient, tf.IndexedSlices)
        else next(merged)
        for gradient in gradients
    ]


def _tensors_of(gradients: list[Any]) -> list[Any]:
    return [getattr(gradient, "values", gradient) for gradient in gradients if gradient is not None]


# ---- an optimizer ----


class Applying:
    """An optimizer's `apply` (in tf_keras `apply_gradients`), which is given gradients of this worker and lets the
    optimizer see those of all.

    take   what is done with gradients and variables: a function of them
    """

    def __init__(self, optimizer: Any, op: str, wire: str, about: str, take: Callable[[list[Any], list[Any]], None]):
        self._name = "apply" if hasattr(optimizer, "apply") else "apply_gradients"
        self._optimizer = optimizer
        self._original = getattr(optimizer, self._name)
        self._options: dict[str, Any] = {}
        self._op = op
        self._wire = wire
        self._about = about

        def apply(gradients: Any, variables: Any = None, **options: Any) -> Any:
            pairs = list(gradients)
            if self._name == "apply_gradients":
                pairs, variables = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            self._options = options
            if _merged.get():
                return self._apply(pairs, variables)
            take(pairs, variables)
            return optimizer.iterations

        self.release = override(optimizer, self._name, apply)

    def _apply(self, gradients: list[Any], variables: Any) -> Any:
        if self._name == "apply_gradients":
            return self._original(list(zip(gradients, variables)), **self._options)
        return self._original(gradients, variables, **self._options)

    def merge(self, gradients: list[Any], variables: list[Any], weight: Any) -> None:
        """Merges, and applies."""
        import tensorflow as tf

        merged = merge_gradients(gradients, self._op, weight, self._about, self._wire)
        # Behind all of them: what the optimizer counts by itself is not to be counted in a step that fails.
        before = _merged.set(True)
        try:
            with tf.control_dependencies([] if tf.executing_eagerly() else _tensors_of(merged)):
                self._apply(merged, variables)
        finally:
            _merged.reset(before)


def override(owner: Any, name: str, value: Any) -> Callable[[], None]:
    """Puts an attribute on an instance, past whatever it does with attributes; returns what takes it away again."""
    had = name in vars(owner)
    before = vars(owner).get(name)
    object.__setattr__(owner, name, value)

    def restore() -> None:
        if had:
            object.__setattr__(owner, name, before)
        else:
            with contextlib.suppress(AttributeError):
                object.__delattr__(owner, name)

    return restore


# ---- the optimizers of a model ----


class Optimizers:
    """The optimizers of a model that is fitted, and what they have accumulated.

    accumulate   how many batches are merged at once
    """

    def __init__(self, model: Any, op: str, wire: str, accumulate: int):
        import tensorflow as tf

        self._accumulate = accumulate
        with tf.init_scope():
            self._batches = tf.Variable(0, trainable=False, name="tfos_batches", dtype=tf.int64)
        self._full: Any = None  # whether the batch of this step is the last of those that are merged
        self._hooks = [
            _Hook(self, optimizer, op, wire, f"gradients {number}")
            for number, optimizer in enumerate(optimizers_of(model))
        ]
        self._order: list[_Hook] = []  # in which a step applies them

    def release(self) -> None:
        for hook in self._hooks:
            hook.applying.release()

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Within this gradients are those of one more batch."""
        import tensorflow as tf

        for hook in self._hooks:
            hook.applied = False
        self._full = self._batches >= self._accumulate - 1 if self._accumulate > 1 else None
        yield
        if self._accumulate > 1:
            self._batches.assign(tf.where(self._full, tf.zeros_like(self._batches), self._batches + 1))

    def take(self, hook: "_Hook", gradients: list[Any], variables: list[Any]) -> None:
        import tensorflow as tf

        step = _keras_count.current()
        weight = tf.constant(1.0, tf.float64) if step is None else step.weight()
        if self._full is None or step is None:
            hook.applying.merge(gradients, variables, weight)
            return
        if hook.applied:
            raise ValueError("an optimizer is applied twice in one step: leave accumulate out, which is for one time")
        hook.applied = True
        if hook not in self._order:
            self._order.append(hook)
        hook.add(gradients, variables, weight)
        if tf.executing_eagerly():
            if self._full:
                hook.flush()
        else:
            tf.cond(self._full, hook.flush, lambda: tf.constant(False))

    def flush(self) -> None:
        """At the end of an epoch: merges what batches are left, with those of the others."""
        if int(self._batches) > 0:
            self._batches.assign(0)
            for hook in self._order:
                hook.flush()


class _Hook:
    """One optimizer of a model: gradients that were added up, each times what its batch counts."""

    def __init__(self, owner: Optimizers, optimizer: Any, op: str, wire: str, about: str):
        self.applied = False  # in the step that is traced, or run
        self._op = op
        self._variables: list[Any] = []
        self._sums: list[Any] = []
        self._weight: Any = None
        self.applying = Applying(optimizer, op, wire, about, lambda *gradients: owner.take(self, *gradients))

    def add(self, gradients: list[Any], variables: list[Any], weight: Any) -> None:
        import tensorflow as tf

        if self._weight is None:
            self._variables = variables
            with tf.init_scope():
                self._weight = tf.Variable(0.0, trainable=False, name="tfos_weight", dtype=tf.float64)
                self._sums = [_sum_for(*each) for each in zip(gradients, variables)]
        self._weight.assign_add(weight)
        for gradient, total in zip(gradients, self._sums):
            if gradient is not None:
                total.add(gradient, weight if self._op == "mean" else None, weight > 0)

    def flush(self) -> Any:
        """Merges what there is, and applies it."""
        import tensorflow as tf

        weight = tf.identity(self._weight)
        by = weight if self._op == "mean" else None
        gradients = [None if total is None else total.take(by) for total in self._sums]
        self._weight.assign(0.0)
        self.applying.merge(gradients, self._variables, weight)
        return tf.constant(True)


def _sum_for(gradient: Any, variable: Any) -> Any:
    import tensorflow as tf

    if gradient is None:
        return None
    shape = list(variable.shape)
    return _Slices(gradient, shape) if isinstance(gradient, tf.IndexedSlices) else _Dense(gradient, shape)


def _wide(dtype: Any) -> Any:
    """The type that sums of halves are kept in."""
    import tensorflow as tf

    return tf.float32 if dtype.size < 4 else dtype


def _times(tensor: Any, weight: Any, counts: Any) -> Any:
    """Zeros where the batch does not count, whatever there is."""
    import tensorflow as tf

    wide = tf.cast(tensor, _wide(tensor.dtype))
    scaled = wide if weight is None else wide * tf.cast(weight, wide.dtype)
    return tf.where(counts, scaled, tf.zeros_like(scaled))


def _by(tensor: Any, weight: Any, dtype: Any) -> Any:
    import tensorflow as tf

    return tf.cast(tensor if weight is None else tf.math.divide_no_nan(tensor, tf.cast(weight, tensor.dtype)), dtype)


class _Dense:
    def __init__(self, like: Any, shape: list[int]):
        import tensorflow as tf

        self._dtype = like.dtype
        self._sum = tf.Variable(tf.zeros(shape, _wide(like.dtype)), trainable=False, name="tfos_sum")

    def add(self, gradient: Any, weight: Any, counts: Any) -> None:
        self._sum.assign_add(_times(gradient, weight, counts))

    def take(self, weight: Any) -> Any:
        import tensorflow as tf

        taken = _by(tf.identity(self._sum), weight, self._dtype)
        with tf.control_dependencies([] if tf.executing_eagerly() else [taken]):
            self._sum.assign(tf.zeros_like(self._sum))
        return taken


class _Slices:
    """Slices one behind the other: to add up those of one index would be another gradient to some optimizers."""

    def __init__(self, like: Any, shape: list[int]):
        import tensorflow as tf

        self._dtype, self._shape = like.values.dtype, shape
        inner = shape[1:]
        values, indices = tf.zeros([0, *inner], _wide(self._dtype)), tf.zeros([0], like.indices.dtype)
        self._values = tf.Variable(values, trainable=False, name="tfos_values", shape=[None, *inner])
        self._indices = tf.Variable(indices, trainable=False, name="tfos_indices", shape=[None])
        self._none = values, indices

    def add(self, gradient: Any, weight: Any, counts: Any) -> None:
        import tensorflow as tf

        values = _times(gradient.values, weight, counts)
        self._values.assign(tf.concat([self._values, values], 0))
        self._indices.assign(tf.concat([self._indices, gradient.indices], 0))

    def take(self, weight: Any) -> Any:
        import tensorflow as tf

        values, indices = _by(tf.identity(self._values), weight, self._dtype), tf.identity(self._indices)
        with tf.control_dependencies([] if tf.executing_eagerly() else [values, indices]):
            self._values.assign(self._none[0])
            self._indices.assign(self._none[1])
        return tf.IndexedSlices(values, indices, tf.constant(self._shape))


def optimizers_of(model: Any) -> list[Any]:
    """The one that it was compiled with, and those of a program's own train_step."""
    found = [model.optimizer]
    for _, value in sorted(vars(model).items()):
        if hasattr(value, "apply_gradients") and hasattr(value, "learning_rate"):
            found.append(value)
    unique = {id(each): each for each in found if each is not None}
    inner = {id(getattr(each, "inner_optimizer", None)) for each in unique.values()}
    return [each for key, each in unique.items() if key not in inner]
