"""What `keras.distributed` does to a model while it is fitted: hooks on the instance, which are gone afterwards.

A step: `train_step` tells how much its batch counts (rows, as a rule), and `apply` of each optimizer merges the
gradients of all workers by that before anything else is done with them. An epoch: a worker whose data has ended joins,
and takes part in the steps of the others without a batch of its own; when all have joined, everything that training
changes is brought from the one that went on for longest. Then metrics are those of all, and validation begins.
"""

import contextlib
import contextvars
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import _ops, collective

# How much the batch of the step that is being traced, or run, counts: a number or a scalar; None: in no step.
_weight: contextvars.ContextVar[Any] = contextvars.ContextVar("tfos_weight", default=None)


# ---- gradients ----


def merge_gradients(gradients: list[Any], op: str, weight: Any, about: str) -> list[Any]:
    """The gradients of all workers, as one call: dense ones merged, slices gathered. None stays None."""
    import tensorflow as tf

    tensors: list[Any] = []
    merges: list[str] = []
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            tensors += [gradient.values, gradient.indices]
            merges += [{"sum": "gather", "weighted mean": "weighted gather"}[op], "gather"]
        elif gradient is not None:
            tensors.append(gradient)
            merges.append(op)
    merged = iter(_ops.merge(tensors, merges, weight, about=about)[1])
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


class Optimizers:
    """The optimizers of a model, each with an `apply` that merges first."""

    def __init__(self, model: Any, op: str):
        self._op = op
        self._restore: list[Callable[[], None]] = []
        for number, optimizer in enumerate(optimizers_of(model)):
            self._hook(optimizer, f"gradients {number}")

    def _hook(self, optimizer: Any, about: str) -> None:
        import tensorflow as tf

        name = "apply" if hasattr(optimizer, "apply") else "apply_gradients"
        original = getattr(optimizer, name)

        def apply(gradients: Any, variables: Any = None, **options: Any) -> Any:
            weight = _weight.get()
            pairs = list(gradients)
            if name == "apply_gradients":
                pairs, variables = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            merged = merge_gradients(pairs, self._op, 1.0 if weight is None else weight, about)
            # Behind all of them: what the optimizer counts by itself is not to be counted in a step that fails.
            with tf.control_dependencies([] if tf.executing_eagerly() else _tensors_of(merged)):
                if name == "apply_gradients":
                    return original(list(zip(merged, variables)), **options)
                return original(merged, variables, **options)

        self._restore.append(override(optimizer, name, apply))

    def release(self) -> None:
        for restore in self._restore:
            restore()


def optimizers_of(model: Any) -> list[Any]:
    """The one that it was compiled with, and those of a program's own train_step."""
    found = [model.optimizer]
    for _, value in sorted(vars(model).items()):
        if hasattr(value, "apply_gradients") and hasattr(value, "learning_rate"):
            found.append(value)
    unique = {id(each): each for each in found if each is not None}
    inner = {id(getattr(each, "inner_optimizer", None)) for each in unique.values()}
    return [each for key, each in unique.items() if key not in inner]


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


# ---- a model ----


class Fitting:
    """One call of `fit`."""

    def __init__(self, model: Any, op: str, weigh: Callable[[Any], Any]):
        import tensorflow as tf

        self._model = model
        self._weigh = weigh
        self._in_step = False
        self._joined = False  # this epoch
        self._last_logs: Any = None
        self._last_test_logs: Any = None
        self._ended = False  # we have ended the epoch, by the flag that ends training …
        self._stop_wanted = False  # … which was this before
        self._metric_names: set[str] = set()
        with tf.init_scope():
            self._rows = tf.Variable(0.0, dtype=tf.float64, trainable=False, name="tfos_rows")
        self._optimizers = Optimizers(model, op)
        self._restore = [
            override(model, "train_step", self._train_step(model.train_step)),
            override(model, "make_train_function", self._make_train_function(model.make_train_function)),
            override(model, "make_test_function", self._make_test_function(model.make_test_function)),
            override(model, "get_metrics_result", self._get_metrics_result(model.get_metrics_result)),
        ]
        model.train_function = model.test_function = None  # made without the hooks

    def release(self) -> None:
        self._optimizers.release()
        for restore in self._restore:
            restore()
        self._model.train_function = self._model.test_function = None

    # ---- hooks ----

    def _train_step(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def train_step(data: Any) -> Any:
            import tensorflow as tf

            weight = tf.cast(self._weigh(data), tf.float64)
            self._rows.assign_add(tf.cast(rows_of(data), tf.float64))
            before = _weight.set(weight)
            try:
                return original(data)
            finally:
                _weight.reset(before)

        return train_step

    def _make_train_function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make_train_function(force: bool = False) -> Any:
            made = original(force)
            if not getattr(self._model.train_function, "_tfos", False):
                self._model.train_function = self._ended_function(made or self._model.train_function)
            return self._model.train_function

        return make_train_function

    def _ended_function(self, train: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """At the end of the data it joins, and ends the epoch by the flag that ends training. To let Keras see the end
        would make it cap later epochs at the length of this one."""
        import tensorflow as tf

        def train_function(iterator: Any) -> Any:
            try:
                with self.local():
                    self._last_logs = train(iterator)
            except (StopIteration, tf.errors.OutOfRangeError):
                self.finish_epoch()
                self._ended, self._stop_wanted = True, bool(self._model.stop_training)
                self._model.stop_training = True
                if self._last_logs is None:
                    with self.local():
                        self._last_logs = self._model.get_metrics_result()
            return self._last_logs

        train_function._tfos = True  # type: ignore[attr-defined]
        return train_function

    def _make_test_function(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make_test_function(force: bool = False) -> Any:
            import tensorflow as tf

            self._last_test_logs = None
            made = original(force)
            test = made or self._model.test_function

            def test_function(iterator: Any) -> Any:
                with self.local():
                    try:
                        self._last_test_logs = test(iterator)
                    except (StopIteration, tf.errors.OutOfRangeError):
                        if not hasattr(self._model, "stop_evaluating"):
                            raise
                        self._model.stop_evaluating = True
                        self._last_test_logs = self._last_test_logs or self._model.get_metrics_result()
                    return self._last_test_logs

            self._model.test_function = test_function
            return test_function

        return make_test_function

    @contextlib.contextmanager
    def local(self) -> Iterator[None]:
        """Within this, metrics are those of this worker."""
        self._in_step, before = True, self._in_step
        try:
            yield
        finally:
            self._in_step = before

    def _get_metrics_result(self, original: Callable[[], Any]) -> Callable[[], Any]:
        """Outside of steps: what the metrics of all workers say."""

        def get_metrics_result() -> Any:
            if self._in_step:
                return original()
            self.finish_epoch()
            variables = [variable for metric in self._model.metrics for variable in metric.variables]
            before = _values_of(variables)
            _assign_all(variables, _sum_of_all(variables, before))
            try:
                result = {name: np.asarray(value) for name, value in original().items()}
                self._metric_names = set(result)
                return result
            finally:
                _assign_all(variables, before)

        return get_metrics_result

    # ---- epochs ----

    def begin(self) -> None:
        """Every worker begins with what the first one has."""
        variables = self._state() + self._averaged() + self._kept()
        _assign_all(variables, collective.broadcast(_values_of(variables)))

    def begin_epoch(self) -> None:
        self._joined = False
        self._last_logs = None
        self._rows.assign(0.0)

    def finish_epoch(self) -> None:
        """Joins, and has the state of whoever was last. Nothing happens a second time in an epoch."""
        if self._joined:
            return
        self._joined = True
        last = collective.join()
        changed = self._state() + self._kept()
        _assign_all(changed, collective.broadcast(_values_of(changed), root=last))
        means, rows = self._averaged(), float(self._rows)
        if means and collective.allreduce(rows, "sum") > 0:
            _assign_all(means, collective.allreduce(_values_of(means), "weighted_mean", rows))

    def take_logs(self, logs: dict[str, Any]) -> None:
        """Before the callbacks of the program hear of the end of an epoch: the flag is theirs again, and logs that are
        not those of the model's metrics, which are of all workers already, become the mean of all."""
        if self._ended:
            self._model.stop_training = self._stop_wanted
            self._ended = False
        training = [name for name in logs if not name.startswith("val_")]
        validation = [name for name in logs if name.startswith("val_")]
        own = [] if set(training) == self._metric_names else training
        own += [] if {name[4:] for name in validation} == self._metric_names else validation
        values = {name: float(logs[name]) for name in own if np.ndim(logs[name]) == 0}
        said = tell_all((float(self._rows), values, sorted(logs)))
        logs.update(_means_of(said))
        # Who has had no rows has made up logs, and may have others than a step of the program's gives.
        names = next((names for rows, _, names in said if rows > 0), sorted(logs))
        for name in set(logs) - set(names):
            del logs[name]

    def agree_to_stop(self) -> None:
        """Behind the callbacks of the program: one that wants to stop stops all."""
        self._model.stop_training = bool(collective.allreduce(int(bool(self._model.stop_training)), "max"))

    # ---- variables ----

    def _state(self) -> list[Any]:
        optimizers = [variable for each in optimizers_of(self._model) for variable in _variables_of(each)]
        return [*self._model.trainable_variables, *optimizers]

    def _averaged(self) -> list[Any]:
        return [each for each in self._model.non_trainable_weights if "float" in str(each.dtype)]

    def _kept(self) -> list[Any]:
        return [each for each in self._model.non_trainable_weights if "float" not in str(each.dtype)]


def _variables_of(optimizer: Any) -> list[Any]:
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def _values_of(variables: list[Any]) -> list[Any]:
    return [np.asarray(each) for each in variables]


def _assign_all(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values):
        variable.assign(value)


def _sum_of_all(variables: list[Any], values: list[Any]) -> list[Any]:
    """Counts and sums of all workers; a variable that says so is averaged."""
    kinds = ["mean" if "mean" in str(getattr(each, "aggregation", "")).lower() else "sum" for each in variables]
    sums = collective.allreduce([value for value, kind in zip(values, kinds) if kind == "sum"], "sum")
    means = collective.allreduce([value for value, kind in zip(values, kinds) if kind == "mean"], "mean")
    of = {"sum": iter(sums), "mean": iter(means)}
    return [next(of[kind]) for kind in kinds]


def _means_of(said: list[tuple[float, dict[str, float], Any]]) -> dict[str, float]:
    """Of (rows, values, …) of each worker the mean of each value over the rows of those that have it."""
    means = {}
    for name in sorted({name for _, values, _ in said for name in values}):
        of = [(rows, values[name]) for rows, values, _ in said if name in values and rows > 0]
        if of:
            means[name] = sum(rows * value for rows, value in of) / sum(rows for rows, _ in of)
    return means


def rows_of(data: Any) -> Any:
    """The rows of a batch: the first dimension of the first tensor in x."""
    import tensorflow as tf

    x = data[0] if isinstance(data, (tuple, list)) else data
    leaves = [leaf for leaf in tf.nest.flatten(x) if leaf is not None]
    return tf.shape(leaves[0])[0]


# ---- arguments ----


def tell_all(what: Any) -> list[Any]:
    """What each worker says, as far as JSON can say it."""
    mine = np.frombuffer(json.dumps(what, sort_keys=True, default=str).encode(), np.uint8).astype(np.int32)
    codes, lengths = collective.allgather([mine, np.array([len(mine)], np.int32)])
    ends = np.cumsum(lengths)
    return [json.loads(codes[end - length : end].astype(np.uint8).tobytes()) for end, length in zip(ends, lengths)]


def compare(what: dict[str, Any]) -> None:
    """Raises the same error on every worker unless all say the same."""
    group = _ops.group()
    texts = tell_all(what)
    for rank, other in enumerate(texts):
        for name in sorted(set(texts[0]) | set(other)):
            if texts[0].get(name) != other.get(name):
                raise ValueError(
                    f"workers do not call fit alike: {name} is {texts[0].get(name)} on {group.member(0)} and "
                    f"{other.get(name)} on {group.member(rank)}; every worker must run the same program"
                )
