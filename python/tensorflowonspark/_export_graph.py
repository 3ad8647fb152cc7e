"""The functions of an exported model, one for each signature, and the object that has all their variables.

Steps are those of Keras, `train_step` and `test_step` of the model, so whatever these do is in the graph: masks,
weights of losses, regularizers, scales of losses, metrics. Metrics begin anew in each step; what is in their variables
behind it is what the batch adds to them, and sums of that are what `results` makes results of.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from . import _keras_count, _keras_state, _ops
from ._export_model import loss_trackers, metric_variables, name_of, value_of
from ._export_ports import Ports, Side, outputs_of
from ._keras_fit import Merging, rows_of
from ._keras_gradients import Optimizers, optimizers_of, override


class Logs(NamedTuple):
    """What is told of a step: names of results that it adds to, and of outputs that are means over the rows."""

    metrics: list[str]
    means: list[str]


class Functions:
    """Traces what a compiled and built model does. `merging` is None if it is to be trained by one worker alone."""

    def __init__(self, keras: Any, model: Any, ports: Ports, merging: Merging | None, renamed: dict[str, str]):
        self._keras = keras
        self._model = model
        self._ports = ports
        self._renamed = renamed
        self._metrics = metric_variables(model)
        self.logs: dict[str, Logs] = {}
        self.outputs = Side(None, [])
        self.traced = self._trace(merging)

    def _trace(self, merging: Merging | None) -> dict[str, Any]:
        """{signature: concrete function}."""
        import tensorflow as tf

        batch = {port.key: port.spec for port in self._ports.all()}
        inputs = {port.key: port.spec for port in self._ports.inputs.ports}
        rate = {"learning_rate": tf.TensorSpec([], tf.float32, "learning_rate")}
        sums = {"metrics": tf.TensorSpec([self.metrics_length()], tf.float64, "metrics")}
        made = {
            "serving_default": self._traced(self._predict, inputs),
            "train": self._traced(self._train, batch | rate),
            "evaluate": self._traced(self._evaluate, batch),
            "results": self._traced(self._results, sums),
            "status": self._traced(self._status, {}),
            "finalize": self._traced(self._finalize, {}),
        }
        if merging is not None:
            numbers = {name: tf.TensorSpec([], tf.float64, name) for name in ("source", "rows")}
            made["train_together"] = self._trace_together(merging, batch | rate)
            made["synchronize"] = self._traced(self._synchronize, numbers)
        return made

    def _traced(self, function: Callable[..., Any], specs: dict[str, Any]) -> Any:
        import tensorflow as tf

        autograph = self._keras.__name__ == "tf_keras"  # which converts steps of a program's own, as Keras 3 does not
        return tf.function(function, autograph=autograph).get_concrete_function(**specs)

    def metrics_length(self) -> int:
        return sum(each.shape.num_elements() for each in self._metrics)

    def result_shapes(self) -> dict[str, list[int]]:
        return {name: list(value.shape) for name, value in self.traced["results"].structured_outputs.items()}

    # ---- predictions ----

    def _predict(self, **given: Any) -> dict[str, Any]:
        import tensorflow as tf

        values = self._model(self._ports.inputs.of(given), training=False)
        self.outputs = outputs_of(self._model, values, self._renamed)
        return dict(zip((port.key for port in self.outputs.ports), tf.nest.flatten(values)))

    # ---- steps ----

    def _train(self, **given: Any) -> dict[str, Any]:
        rate = given.pop("learning_rate")
        data = self._ports.data(given)
        with _learning_at(self._model.optimizer, rate) as used:
            told = self._tell("train", data, self._model.train_step)
        return told | {"learning_rate": used, "iterations": self._iterations()}

    def _trace_together(self, merging: Merging, specs: dict[str, Any]) -> Any:
        optimizers = Optimizers(self._model, merging.op, merging.wire, accumulate=1)
        try:
            with _keras_count.listening(self._keras):
                return self._traced(lambda **given: self._train_together(merging, optimizers, given), specs)
        except ValueError as error:
            raise ValueError(f"{error}; or distributed=False, which leaves out the step of many workers") from error
        finally:
            optimizers.release()

    def _train_together(self, merging: Merging, optimizers: Optimizers, given: dict[str, Any]) -> dict[str, Any]:
        """The same, with the gradients of all workers."""
        data = self._ports.data(given)
        weight = None if merging.weight is None else merging.weight(data)
        step = _keras_count.Step(self._keras, self._model, rows_of(data), merging.op, weight, merging.strict)
        with _keras_count.taking(step), optimizers.batch():
            return self._train(**given)

    def _evaluate(self, **given: Any) -> dict[str, Any]:
        return self._tell("evaluate", self._ports.data(given), self._model.test_step)

    def _tell(self, signature: str, data: Any, take_step: Callable[[Any], Any]) -> dict[str, Any]:
        """Takes a step, and tells its loss and what it adds to metrics."""
        import tensorflow as tf

        self._model.reset_metrics()
        users = [_users_of(each) for each in self._metrics]
        try:
            logs = take_step(data)
        except (AttributeError, NotImplementedError, TypeError) as error:
            raise ValueError(
                f"{getattr(take_step, '__name__', 'a step')} of {type(self._model).__name__} cannot become a graph, in "
                f"which tensors have no values yet; write it so that fit runs it without run_eagerly: {error}"
            ) from error
        if not isinstance(logs, dict) or not logs:
            raise ValueError(
                f"the step of {type(self._model).__name__} for {signature!r} returns {type(logs).__name__}, and a dict "
                "with the loss was expected: let it return {'loss': …}"
            )
        changed = {id(each) for each, before in zip(self._metrics, users) if _writes(_users_of(each) - before)}
        metrics = self._names_of(changed)
        means = {name: value for name, value in logs.items() if name not in metrics and _is_scalar(value)}
        self.logs[signature] = Logs(metrics, list(means))
        loss = logs.get("loss", next(iter(logs.values())))
        told = {f"log_{name}": tf.cast(value, tf.float64) for name, value in means.items()}
        told |= {"loss": tf.cast(loss, tf.float32), "rows": tf.cast(rows_of(data), tf.int64)}
        return told | {"metrics": self._added(told["rows"])}

    def _names_of(self, changed: set[int]) -> list[str]:
        """Results of metrics whose variables were changed."""
        names = []
        for metric in self._model.metrics:
            if any(id(value_of(variable)) in changed for variable in metric.variables):
                result = metric.result()
                names += list(result) if isinstance(result, dict) else [metric.name]
        return names

    def _added(self, rows: Any) -> Any:
        """What metrics have in their variables, one behind the other. Losses of batches count for their rows: some
        versions of Keras let each count for one where the rows of a batch are not known when it is traced."""
        import tensorflow as tf

        values = {id(each): tf.cast(each.read_value(), tf.float64) for each in self._metrics}
        for tracker in loss_trackers(self._model):
            total, count = id(value_of(tracker.total)), id(value_of(tracker.count))
            by = tf.math.divide_no_nan(tf.cast(rows, tf.float64), values[count])
            values[total], values[count] = values[total] * by, values[count] * by
        parts = [tf.reshape(each, [-1]) for each in values.values()]
        return tf.concat(parts, 0) if parts else tf.zeros([0], tf.float64)

    def _results(self, metrics: Any) -> dict[str, Any]:
        """What metrics say when they have seen that."""
        import tensorflow as tf

        sizes = [each.shape.num_elements() for each in self._metrics]
        for variable, part in zip(self._metrics, tf.split(metrics, sizes) if sizes else ()):
            variable.assign(tf.cast(tf.reshape(part, variable.shape), variable.dtype))
        return {name: tf.cast(value, tf.float64) for name, value in self._model.get_metrics_result().items()}

    # ---- state ----

    def _iterations(self) -> Any:
        import tensorflow as tf

        return tf.cast(self._model.optimizer.iterations, tf.int64)

    def _status(self) -> dict[str, Any]:
        import tensorflow as tf

        with _learning_at(self._model.optimizer, tf.constant(-1.0)) as used:
            return {"iterations": self._iterations(), "learning_rate": used}

    def _finalize(self) -> dict[str, Any]:
        """What fit does at its end: an optimizer that averages weights puts the averages in their place."""
        for optimizer in optimizers_of(self._model):
            optimizer.finalize_variable_values(self._model.trainable_variables)
        return {"iterations": self._iterations()}

    def _synchronize(self, source: Any, rows: Any) -> dict[str, Any]:
        """What training changes becomes that of the worker whose `source` is 1, it being 0 on all others, and so do
        seeds: a worker with fewer batches has drawn fewer random numbers, and whoever goes on from a checkpoint has
        those of the worker that wrote it. Moving statistics become the mean of all, each worker counting for `rows`."""
        moving = [each for each in self._model.non_trainable_weights if "float" in str(each.dtype)]
        of_optimizers = [each for one in optimizers_of(self._model) for each in _keras_state.variables_of(one)]
        kept = [each for each in self._model.weights if not any(each is one for one in moving)]
        _merge_into([value_of(each) for each in (*kept, *self._seeds(), *of_optimizers)], "sum", source, "state")
        _merge_into([value_of(each) for each in moving], "weighted mean", rows, "moving statistics")
        return {"iterations": self._iterations()}


    def _seeds(self) -> list[Any]:
        """Whole numbers that layers keep and that are no weights."""
        known = {id(value_of(each)) for each in (*self._model.weights, *self._metrics)}
        others = [each for each in self._model.variables if id(value_of(each)) not in known]
        return [each for each in others if "int" in str(each.dtype)]


def _users_of(variable: Any) -> set[Any]:
    """Ops that a variable goes into, in the graph that is traced."""
    import tensorflow as tf

    return set(tf.compat.v1.get_default_graph().capture(variable.handle).consumers())


def _writes(ops: set[Any]) -> bool:
    return any(op.type != "ReadVariableOp" for op in ops)


def _is_scalar(value: Any) -> bool:
    return len(getattr(value, "shape", ())) == 0


def _merge_into(variables: list[Any], merge: str, weight: Any, about: str) -> None:
    """Variables become what workers have of them; stay what they are if no worker counts."""
    import tensorflow as tf

    if not variables:
        return
    tensors = [tf.cast(each.read_value(), _merged_as(each.dtype)) for each in variables]
    total, merged = _ops.merge(tensors, [merge] * len(tensors), weight, about=about)
    for variable, before, after in zip(variables, tensors, merged):
        variable.assign(tf.cast(tf.where(total > 0, after, before), variable.dtype))


def _merged_as(dtype: Any) -> Any:
    """A type that calls of all workers know."""
    import tensorflow as tf

    known = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64)
    return dtype if dtype in known else tf.int64


@contextlib.contextmanager
def _learning_at(optimizer: Any, given: Any) -> Iterator[Any]:
    """Within this the optimizer learns at the rate that is given, or at its own where that is below 0 or NaN."""
    import tensorflow as tf

    inner = getattr(optimizer, "inner_optimizer", optimizer)
    three = hasattr(inner, "_get_current_learning_rate")
    if not three:
        inner._compute_current_learning_rate()
    own = tf.cast(inner._get_current_learning_rate() if three else inner.learning_rate, tf.float32)
    used = tf.where(given >= 0, given, own)
    if three:
        restore = override(inner, "_get_current_learning_rate", lambda: used)
    else:
        restore = override(inner, "_learning_rate", used)
    try:
        yield used
    finally:
        restore()


# ---- variables ----


class Variables(NamedTuple):
    """All variables that the functions use, by where they belong. Keys begin with their number: names of layers differ
    from process to process, their order does not."""

    weights: dict[str, Any]
    state: dict[str, Any]  # what else layers have: seeds, …
    optimizer: dict[str, Any]
    metrics: dict[str, Any]

    def module(self, resources: list[Any], functions: list[Any] | None = None) -> Any:
        """What TensorFlow saves: has all variables, or those that these functions use. The token is always among all,
        so that checkpoints of one worker alone and of many are alike."""
        import tensorflow as tf

        module = tf.Module()
        used = {id(handle) for function in functions or () for handle, _ in function.graph.captures}
        for name, variables in self._asdict().items():
            if functions is None or name == "weights" or any(id(each.handle) in used for each in variables.values()):
                setattr(module, name, variables)
        module.resources = resources
        if functions is None:
            module.token = _ops.token()
        return module


def variables_of(model: Any, traced: dict[str, Any]) -> Variables:
    metrics = metric_variables(model)
    optimizers = [each for one in optimizers_of(model) for each in _keras_state.variables_of(one)]
    known = {id(value_of(each)) for each in (*model.weights, *optimizers, *metrics)}
    seen = [each for function in traced.values() for each in function.graph.variables]
    others = {id(value_of(each)): each for each in (*model.variables, *seen) if id(value_of(each)) not in known}
    parts = (model.weights, others.values(), optimizers, metrics)
    return Variables(*({_key(at, each): value_of(each) for at, each in enumerate(part)} for part in parts))


def _key(at: int, variable: Any) -> str:
    """Without the numbers that Keras puts behind names, so that checkpoints fit another export of the same model."""
    return f"{at:04d}-{re.sub(r'_[0-9]+(?=/|_|$)', '', name_of(variable))}"


def resources_of(model: Any) -> list[Any]:
    """Tables of words and the like, which TensorFlow fills when a model is loaded."""
    import tensorflow as tf

    kinds = (tf.saved_model.experimental.TrackableResource, tf.saved_model.Asset)
    return [each for each in tf.train.TrackableView(model).descendants() if isinstance(each, kinds)]
