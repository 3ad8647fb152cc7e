"""The model of the caller, made ready to be exported, and left as it was.

A model cannot be copied in general: one of a class of its own has no description that makes it anew. So its own layers
are traced, with copies of its optimizers, and compiled anew where the caller wants another loss; afterwards all its
attributes are what they were.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _keras_state
from ._keras_gradients import optimizers_of

_log = logging.getLogger("tensorflowonspark")


@contextlib.contextmanager
def compiled(model: Any, optimizer: Any, loss: Any, metrics: Any, **more: Any) -> Iterator[None]:
    """Within this the model is compiled with these, and with what it was compiled with where they are None. Its
    optimizers are copies."""
    attributes = {name: (value, _copy(value)) for name, value in vars(model).items()}
    try:
        _compile(model, {"optimizer": optimizer, "loss": loss, "metrics": metrics, **more})
        yield
    finally:
        _restore(model, attributes)


def _copy(value: Any) -> Any:
    return value.copy() if type(value) in (list, dict, set) else None


def _restore(model: Any, attributes: dict[str, Any]) -> None:
    for name in set(vars(model)) - set(attributes):
        object.__delattr__(model, name)
    for name, (value, content) in attributes.items():
        if isinstance(content, list):
            value[:] = content
        elif content is not None:
            value.clear()
            value.update(content)
        object.__setattr__(model, name, value)


def _compile(model: Any, given: dict[str, Any]) -> None:
    if not model.built or not model.weights:
        raise ValueError(
            f"{type(model).__name__} has no variables yet: call it on a batch, or give its first layer the shape of "
            "its input, before it is exported"
        )
    if getattr(model, "optimizer", None) is None and given["optimizer"] is None:
        raise ValueError("there is no optimizer: compile the model, or give export() an optimizer and a loss")
    if getattr(model, "jit_compile", False) is True:
        _log.warning("jit_compile=True is left out of what is exported: sessions of TensorFlow compile nothing")
    if all(value is None for value in given.values()):
        _copy_optimizers(model)
        model.jit_compile = model.run_eagerly = False
        model.train_function = model.test_function = None  # made with the optimizers of the caller
        return
    known = _compiled_with(model)
    wanted = {name: known.get(name) if value is None else value for name, value in given.items()}
    wanted["optimizer"] = copy_of(model, keras_of(model).optimizers.get(wanted["optimizer"]))
    model.compile(**wanted, jit_compile=False, run_eagerly=False)


def _compiled_with(model: Any) -> dict[str, Any]:
    """What the caller has given to compile."""
    loss = getattr(model, "_compile_loss", None) or getattr(model, "compiled_loss", None)
    metrics = getattr(model, "_compile_metrics", None) or getattr(model, "compiled_metrics", None)
    return {
        "optimizer": getattr(model, "optimizer", None),
        "loss": getattr(loss, "_user_loss", getattr(loss, "_user_losses", None)),
        "loss_weights": getattr(loss, "_user_loss_weights", None),
        "metrics": getattr(metrics, "_user_metrics", None),
        "weighted_metrics": getattr(metrics, "_user_weighted_metrics", None),
    }


# ---- optimizers ----


def _copy_optimizers(model: Any) -> None:
    copies = {id(each): copy_of(model, each) for each in optimizers_of(model)}
    for name, value in list(vars(model).items()):
        if id(value) in copies:
            object.__setattr__(model, name, copies[id(value)])


def copy_of(model: Any, optimizer: Any) -> Any:
    """Another optimizer of the same kind and state."""
    if "legacy" in type(optimizer).__module__ or not hasattr(optimizer, "build"):
        raise ValueError(
            f"{type(optimizer).__name__} of {type(optimizer).__module__} is no optimizer of Keras 3 or of tf_keras "
            "2.11 and newer, which keep their state in variables that can be exported: use one of keras.optimizers"
        )
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if type(inner).__module__.startswith("tf_keras") and type(inner).__name__ == "Nadam":
        raise ValueError(
            f"{type(inner).__name__} of tf_keras counts its steps in Python, where a graph does not: use that of Keras "
            "3, or another optimizer"
        )
    try:
        made = type(optimizer).from_config(optimizer.get_config())
    except Exception as error:
        raise ValueError(
            f"the optimizer {type(optimizer).__name__} cannot be made anew from its get_config(), which is how it is "
            f"exported without being changed: {error}"
        ) from error
    if hasattr(made, "jit_compile"):
        made.jit_compile = False
    if getattr(optimizer, "built", getattr(inner, "_built", False)):
        made.build(getattr(inner, "_trainable_variables", None) or model.trainable_variables)
        _keras_state.assign_all(_keras_state.variables_of(made), _keras_state.variables_of(optimizer))
    return made


def keras_of(model: Any) -> Any:
    """The Keras that a model is of, which may be a class of the program's own."""
    for kind in type(model).__mro__:
        package = kind.__module__.partition(".")[0]
        if package in ("keras", "tf_keras"):
            return sys.modules[package]
    raise TypeError(f"expected a model of Keras, found {type(model).__name__}")


# ---- variables ----


def value_of(variable: Any) -> Any:
    """The variable of TensorFlow that one of Keras has."""
    for name in ("_variable", "_value", "value"):  # of tf_keras with mixed precision, of Keras 3
        inner = getattr(variable, name, None)
        if hasattr(inner, "handle"):
            return inner
    return variable


def name_of(variable: Any) -> str:
    return getattr(variable, "path", None) or variable.name.partition(":")[0]


def metric_variables(model: Any) -> list[Any]:
    found = [value_of(variable) for metric in model.metrics for variable in metric.variables]
    return list({id(each): each for each in found}.values())


def loss_trackers(model: Any) -> list[Any]:
    """The metrics in which Keras keeps the mean of the loss, and of that of each output."""
    losses = getattr(model, "_compile_loss", None) or getattr(model, "compiled_loss", None)
    found = [getattr(model, "_loss_tracker", None), *getattr(losses, "metrics", [])]
    known = {id(each) for each in model.metrics}
    return [each for each in found if id(each) in known]


@contextlib.contextmanager
def unchanged(variables: list[Any]) -> Iterator[None]:
    """Within this, variables may be changed; behind it, they have the values that they had."""
    before = [np.asarray(each) for each in variables]
    try:
        yield
    finally:
        _keras_state.assign_all(variables, before)
