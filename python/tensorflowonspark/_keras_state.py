"""What workers tell each other between steps: values of variables, and small things as JSON."""

import json
from typing import Any

import numpy as np

from . import collective
from ._keras_gradients import optimizers_of


def variables_of_model(model: Any) -> list[Any]:
    """Weights, and the state of optimizers."""
    return [*model.weights, *(variable for each in optimizers_of(model) for variable in variables_of(each))]


def variables_of(optimizer: Any) -> list[Any]:
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def build_optimizers(model: Any) -> None:
    """Makes the variables of optimizers, which would be made by the first step."""
    for optimizer in optimizers_of(model):
        inner = getattr(optimizer, "inner_optimizer", optimizer)  # in tf_keras, only that one knows
        if hasattr(optimizer, "build") and not getattr(optimizer, "built", getattr(inner, "_built", False)):
            optimizer.build(model.trainable_variables)


def build(model: Any, data: list[Any]) -> None:
    """Makes the variables of a model, its metrics and its optimizer, so that all workers can begin with the same."""
    batch = _spec_of(data)
    if batch is not None:
        build_by(model, batch)
    if not model.built:
        raise ValueError(
            "the model has no variables yet, and its data does not show their shapes: build it before fit, for example "
            "by calling it on a batch"
        )
    build_optimizers(model)


def build_by(model: Any, batch: Any) -> None:
    """Makes the variables of a model and its metrics, as a batch like this would."""
    if hasattr(model, "_symbolic_build"):
        model._symbolic_build(data_batch=batch)
    else:
        _trace(model, batch)


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


def broadcast(variables: list[Any], root: int = 0) -> None:
    """Variables have the values that they have on one worker."""
    assign_all(variables, collective.broadcast(values_of(variables), root))


def values_of(variables: list[Any]) -> list[Any]:
    return [np.asarray(each) for each in variables]


def assign_all(variables: list[Any], values: list[Any]) -> None:
    for variable, value in zip(variables, values):
        variable.assign(value)


def is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "fiub"


def tell_all(what: Any) -> list[Any]:
    """What each worker says, as far as JSON can say it."""
    mine = np.frombuffer(json.dumps(what, sort_keys=True, default=str).encode(), np.uint8).astype(np.int32)
    codes, lengths = collective.allgather([mine, np.array([len(mine)], np.int32)])
    ends = np.cumsum(lengths)
    return [json.loads(codes[end - length : end].astype(np.uint8).tobytes()) for end, length in zip(ends, lengths)]


def means_of(said: list[Any]) -> dict[str, float]:
    """Of (rows, values, …) of each worker the mean of each value over the rows of those that have it."""
    means = {}
    for name in sorted({name for _, values, *_ in said for name in values}):
        of = [(rows, values[name]) for rows, values, *_ in said if name in values and rows > 0]
        if of:
            means[name] = sum(rows * value for rows, value in of) / sum(rows for rows, _ in of)
    return means
