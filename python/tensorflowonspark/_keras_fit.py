"""What `keras.distributed` does to a model while it is fitted: hooks on the instance, which are gone afterwards.

A step: `train_step` begins to count its batch (`_keras_count.py`), and `apply` of each optimizer merges the gradients
of all workers by that before anything else is done with them (`_keras_gradients.py`). An epoch: a worker whose data has
ended joins, and takes part in the steps of the others without a batch of its own; when all have joined, everything that
training changes is brought from the one that went on for longest. Then metrics are those of all, and validation begins.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from . import _keras_count, _ops, collective
from ._keras_gradients import Optimizers, optimizers_of, override
from ._keras_state import assign_all, broadcast, means_of, tell_all, values_of, variables_of

# ---- a model ----


class Merging(NamedTuple):
    """How gradients are merged: what was given to `distributed`."""

    op: str  # "mean" or "sum"
    weight: Callable[[Any], Any] | None  # how much a batch counts
    strict: bool  # nobody has said it: what cannot be known is an error
    accumulate: int  # so many batches at once
    wire: str  # as what gradients travel from host to host


class Fitting:
    """One call of `fit`."""

    def __init__(self, keras: Any, model: Any, merging: Merging):
        import tensorflow as tf

        self._keras = keras
        self._model = model
        self._merging = merging
        self._in_step = False
        self._joined = False  # this epoch
        self._last_logs: Any = None
        self._last_test_logs: Any = None
        self._ended = False  # we have ended the epoch, by the flag that ends training …
        self._stop_wanted = False  # … which was this before
        self._metric_names: set[str] = set()
        with tf.init_scope():
            self._rows = tf.Variable(0.0, dtype=tf.float64, trainable=False, name="tfos_rows")
        self._optimizers = Optimizers(model, merging.op, merging.wire, merging.accumulate)
        self._restore = [
            override(model, "train_step", self._train_step(model.train_step)),
            override(model, "test_step", self._test_step(model.test_step)),
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

            how = self._merging
            with _behind(data):
                rows = rows_of(data)
                self._rows.assign_add(tf.cast(rows, tf.float64))
                weight = None if how.weight is None else how.weight(data)
                step = _keras_count.Step(self._keras, self._model, rows, how.op, weight, how.strict)
                with _keras_count.taking(step), self._optimizers.batch():
                    return original(data)

        return train_step

    def _test_step(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def test_step(data: Any) -> Any:
            with _behind(data):
                return original(data)

        return test_step

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
            _forget_length(getattr(self._model, "_eval_data_handler", None))
            made = original(force)
            test = made or self._model.test_function

            def test_function(iterator: Any) -> Any:
                with self.local():
                    try:
                        self._last_test_logs = test(iterator)
                    except (StopIteration, tf.errors.OutOfRangeError):
                        if hasattr(self._model, "stop_evaluating"):
                            self._model.stop_evaluating = True
                        elif self._last_test_logs is not None:
                            raise  # which is the end for tf_keras; without rows, it comes here once more
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
            before = values_of(variables)
            assign_all(variables, _sum_of_all(variables, before))
            try:
                result = {name: np.asarray(value) for name, value in original().items()}
                self._metric_names = set(result)
                return result
            finally:
                assign_all(variables, before)

        return get_metrics_result

    # ---- epochs ----

    def begin(self) -> None:
        """Every worker begins with what the first one has."""
        variables = self._state() + self._averaged() + self._kept()
        broadcast(variables)

    def begin_epoch(self) -> None:
        self._joined = False
        self._last_logs = None
        self._rows.assign(0.0)

    def finish_epoch(self) -> None:
        """Joins, and has the state of whoever was last. Nothing happens a second time in an epoch."""
        if self._joined:
            return
        self._joined = True
        self._optimizers.flush()
        last = collective.join()
        changed = self._state() + self._kept()
        broadcast(changed, root=last)
        means, rows = self._averaged(), float(self._rows)
        if means and collective.allreduce(rows, "sum") > 0:
            assign_all(means, collective.allreduce(values_of(means), "weighted_mean", rows))

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
        logs.update(means_of(said))
        # Who has had no rows has made up logs, and may have others than a step of the program's gives.
        names = next((names for rows, _, names in said if rows > 0), sorted(logs))
        for name in set(logs) - set(names):
            del logs[name]

    def agree_to_stop(self) -> None:
        """Behind the callbacks of the program: one that wants to stop stops all."""
        self._model.stop_training = bool(collective.allreduce(int(bool(self._model.stop_training)), "max"))

    # ---- variables ----

    def _state(self) -> list[Any]:
        optimizers = [variable for each in optimizers_of(self._model) for variable in variables_of(each)]
        return [*self._model.trainable_variables, *optimizers]

    def _averaged(self) -> list[Any]:
        return [each for each in self._model.non_trainable_weights if "float" in str(each.dtype)]

    def _kept(self) -> list[Any]:
        return [each for each in self._model.non_trainable_weights if "float" not in str(each.dtype)]


def _sum_of_all(variables: list[Any], values: list[Any]) -> list[Any]:
    """Counts and sums of all workers; a variable that says so is averaged."""
    kinds = ["mean" if "mean" in str(getattr(each, "aggregation", "")).lower() else "sum" for each in variables]
    sums = collective.allreduce([value for value, kind in zip(values, kinds) if kind == "sum"], "sum")
    means = collective.allreduce([value for value, kind in zip(values, kinds) if kind == "mean"], "mean")
    of = {"sum": iter(sums), "mean": iter(means)}
    return [next(of[kind]) for kind in kinds]


def _forget_length(handler: Any) -> None:
    """So that tf_keras does not cap validation at the length that it had before."""
    if hasattr(handler, "_infer_steps"):
        handler._inferred_steps = handler._infer_steps(handler._steps_per_epoch, handler._dataset)


def _behind(data: Any) -> Any:
    """Within this, everything waits for the data: at the end of a dataset a step begins, too, and what needs no row,
    such as the count of a metric, would be done."""
    import tensorflow as tf

    leaves = [leaf for leaf in tf.nest.flatten(data, expand_composites=True) if tf.is_tensor(leaf)]
    return tf.control_dependencies([] if tf.executing_eagerly() else leaves)


def rows_of(data: Any) -> Any:
    """The rows of a batch: the first dimension of the first tensor in x."""
    import tensorflow as tf

    x = data[0] if isinstance(data, (tuple, list)) else data
    leaves = [leaf for leaf in tf.nest.flatten(x) if leaf is not None]
    return tf.shape(leaves[0])[0]


# ---- arguments ----


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
