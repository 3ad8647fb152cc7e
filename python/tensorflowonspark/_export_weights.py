"""Weights of a checkpoint that a session has saved by the `saver_def` of an exported model, back in a Keras model."""

import os
import re
from typing import Any

from . import _keras_state
from ._export_model import name_of, value_of
from ._keras_gradients import optimizers_of

_KEY = re.compile(r"(weights|optimizer)/(\d{4,})-(.*)/\.ATTRIBUTES/VARIABLE_VALUE")


def load(model: Any, path: str, optimizer: bool) -> None:
    reader, prefix = _open(path)
    found = _found_in(reader)
    if not found["weights"]:
        raise ValueError(
            f"{prefix} has no weights of a model that native.export has written; tf.train.list_variables shows what it "
            "has"
        )
    pairs = _matched(reader, prefix, "weights", found["weights"], model.weights)
    if optimizer:
        pairs += _matched(reader, prefix, "optimizer", found["optimizer"], _state_of(model))
    for variable, key in pairs:
        variable.assign(reader.get_tensor(key))


def _open(path: str) -> Any:
    """(what reads it, its name) of a checkpoint, the newest of a folder, or that of a SavedModel."""
    import tensorflow as tf

    path = path.rstrip("/")
    inside = os.path.join(path, "variables", "variables")
    newest = tf.train.latest_checkpoint(path) if tf.io.gfile.isdir(path) else None
    prefix = newest or (inside if tf.io.gfile.exists(inside + ".index") else path)
    if not tf.io.gfile.exists(prefix + ".index"):
        raise FileNotFoundError(
            f"there is no checkpoint at {path}: expected {path}.index, or a folder with a file 'checkpoint' that names "
            "one, or a SavedModel"
        )
    return tf.train.load_checkpoint(prefix), prefix


def _found_in(reader: Any) -> dict[str, list[tuple[str, str]]]:
    """{part: [(name, key)]}, in the order of the model that was exported."""
    parts: dict[str, list[Any]] = {"weights": [], "optimizer": []}
    for key in reader.get_variable_to_shape_map():
        match = _KEY.fullmatch(key)
        if match:
            name = re.sub(r"\.(\.|S)", lambda escaped: {".": ".", "S": "/"}[escaped[1]], match[3])
            parts[match[1]].append((int(match[2]), name, key))
    return {part: [(name, key) for _, name, key in sorted(listed)] for part, listed in parts.items()}


def _state_of(model: Any) -> list[Any]:
    if getattr(model, "optimizer", None) is None:
        raise ValueError("the model has no optimizer to load the state of: compile it, or leave optimizer=True out")
    optimizers = optimizers_of(model)
    for each in optimizers:
        inner = getattr(each, "inner_optimizer", each)
        if not getattr(each, "built", getattr(inner, "_built", False)):
            raise ValueError(
                f"the optimizer {type(each).__name__} has no variables yet: "
                "model.optimizer.build(model.trainable_variables) makes them"
            )
    return [variable for each in optimizers for variable in _keras_state.variables_of(each)]


def _matched(reader: Any, prefix: str, part: str, found: list[tuple[str, str]], variables: list[Any]) -> list[Any]:
    """[(variable, key)], by their order; names of layers differ between processes."""
    what = "the model" if part == "weights" else "its optimizer"
    foreign = f"{prefix} is of another {'model' if part == 'weights' else 'optimizer'}"
    shapes = reader.get_variable_to_shape_map()
    for variable, (name, key) in zip(variables, found):
        if list(variable.shape) != shapes[key]:
            raise ValueError(
                f"{foreign}: {name_of(variable)} of {what} is {list(variable.shape)}, and {name} in its place "
                f"{shapes[key]}"
            )
    if len(variables) > len(found):
        raise ValueError(
            f"{foreign}: it has {len(found)} variables and {what} {len(variables)}; it has no "
            f"{name_of(variables[len(found)])}"
        )
    if len(variables) < len(found):
        raise ValueError(
            f"{foreign}: it has {len(found)} variables and {what} {len(variables)}; {what} has no "
            f"{found[len(variables)][0]}"
        )
    return [(value_of(variable), key) for variable, (_, key) in zip(variables, found)]
