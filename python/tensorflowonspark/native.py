"""Training without Python: a Keras model becomes a SavedModel that a C program trains.

    from tensorflowonspark import native

    native.export(model, "adam", "sparse_categorical_crossentropy", ["accuracy"], "exported")
    …                                                  # trained, into checkpoints
    native.load_weights(model, "checkpoints")

What is exported has steps of training and evaluation as signatures, and all variables that they use: weights, seeds,
and the state of the optimizer. A session of TensorFlow loads it, feeds batches, and saves and restores by the names
that `saver_def` has. The contract is in docs/design.md, "Trainable models"; `assets.extra/tfos.json` of each model says
what is particular to it.
"""

import json
import os
import tempfile
from collections.abc import Callable
from typing import Any

from . import __version__, _export_check, _export_weights, _keras_count, _keras_state, _ops
from ._export_graph import Functions, Variables, resources_of, variables_of
from ._export_model import compiled, keras_of, name_of
from ._export_ports import Ports, check_renamed, ports_of
from ._keras_fit import Merging
from ._trainer import Trainer

__all__ = ["Trainer", "export", "load_weights"]

CONTRACT = 1  # of tfos.json and the signatures; one more when programs that know this one cannot go on
DESCRIPTION = os.path.join("assets.extra", "tfos.json")
SERVING = "serving"


def export(
    model: Any,
    optimizer: Any = None,
    loss: Any = None,
    metrics: Any = None,
    path: Any = None,
    *,
    loss_weights: Any = None,
    weighted_metrics: Any = None,
    batch: Any = None,
    sample_weight: bool = False,
    names: dict[str, str] | None = None,
    distributed: bool = True,
    op: str | None = None,
    weight: Callable[[Any], Any] | None = None,
    wire: str = "float32",
    check: bool = True,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Writes a model of Keras 3 or tf_keras as a SavedModel that can be trained, and returns its description.

    optimizer, loss, metrics, loss_weights, weighted_metrics
                   as `compile` has them; what is None is taken from the compiled model
    path           a folder that is made, wherever TensorFlow can write
    batch          (x, y) or (x, y, sample_weight), of arrays or tf.TensorSpec, or a tf.data.Dataset of them: for models
                   that do not say what they are given, and losses of the caller's own. Arrays are also what is checked
    sample_weight  steps have an input for the weights of rows
    names          other names for inputs, labels and outputs: {"input": "image", "label": "digit"}
    distributed    there is a step of many workers, too, which merges gradients as `keras.distributed` does; op, weight
                   and wire are those of it
    check          what was written is loaded, takes a step, and must do what the model does
    overwrite      a folder that is there is replaced

    The model stays as it is: variables, and what it was compiled with.
    """
    if path is None:
        raise TypeError("export() needs a path: the folder that the model is written to")
    if op not in (None, "mean", "sum"):
        raise ValueError(f"op is 'mean' or 'sum', found {op!r}")
    _ops.check_wire(wire)
    keras_of(model)
    path, renamed = os.fspath(path), dict(names or {})
    if not path:
        raise ValueError("path: expected the folder to write, found an empty text")
    _refuse_folder(path, overwrite)
    more = {"loss_weights": loss_weights, "weighted_metrics": weighted_metrics}
    with compiled(model, optimizer, loss, metrics, **more), tempfile.TemporaryDirectory() as folder:
        ports = ports_of(model, batch, sample_weight, renamed)
        _keras_state.build_by(model, ports.data({port.key: port.spec for port in ports.all()}))
        _keras_state.build_optimizers(model)
        merging = _merging(model, op, weight, wire) if distributed else None
        functions = Functions(keras_of(model), model, ports, merging, renamed)
        _export_check.refuse_python(functions.traced)
        check_renamed(renamed, [*ports.all(), *functions.outputs.ports])
        variables = variables_of(model, functions.traced)
        description = _describe(model, functions, ports, variables, merging)
        _write(folder, model, functions, variables, description)
        if check:
            _export_check.compare(model, functions, variables, ports, folder, batch)
        _place(folder, path, overwrite)
    return description


def load_weights(model: Any, checkpoint: Any, optimizer: bool = False) -> None:
    """Gives a model the weights that training has come to.

    checkpoint   what a checkpoint is called ("checkpoints/ckpt-100"), or a folder with checkpoints, of which the newest
                 is taken, or a folder that `export` or the trainer has written
    optimizer    the state of the optimizer, too, which must be built:
                 `model.optimizer.build(model.trainable_variables)`

    Raises ValueError if it is of another model, and changes nothing then.
    """
    _export_weights.load(model, os.fspath(checkpoint), optimizer)


# ---- parts of an export ----


def _merging(model: Any, op: str | None, weight: Any, wire: str) -> Merging:
    strict = op is None and weight is None
    chosen = op or ("mean" if weight is not None else _keras_count.op_of(model))
    _ops.library()
    return Merging(chosen, weight, strict, 1, wire)


def _describe(
    model: Any, functions: Functions, ports: Ports, variables: Variables, merging: Merging | None
) -> dict[str, Any]:
    import tensorflow as tf

    optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    rate = getattr(optimizer, "_learning_rate", None)
    keras = keras_of(model)
    return {
        "contract": CONTRACT,
        "made_by": {"tfos": __version__, keras.__name__: keras.__version__, "tensorflow": tf.__version__},
        "model": model.name,
        "inputs": [port.described() for port in ports.inputs.ports],
        "labels": [port.described() for port in ports.labels.ports],
        "sample_weights": [port.described() for port in ports.weights.ports],
        "outputs": [port.described() for port in functions.outputs.ports],
        "batch_size": ports.batch_size(),
        "optimizer": {
            "name": type(optimizer).__name__,
            "schedule": type(rate).__name__ if callable(rate) and not hasattr(rate, "assign") else None,
            "averages": bool(getattr(optimizer, "use_ema", False)),
        },
        "metrics": {"length": functions.metrics_length(), "results": functions.result_shapes()},
        "logs": {name: logs._asdict() for name, logs in functions.logs.items()},
        "together": {"op": merging.op, "wire": merging.wire} if merging else None,
        "exact_resume": not _export_check.draws_unseen(functions.traced),
        "variables": _describe_variables(variables),
    }


def _describe_variables(variables: Variables) -> dict[str, Any]:
    return {
        part: [{"name": name_of(each), "dtype": each.dtype.name, "shape": list(each.shape)} for each in found.values()]
        for part, found in variables._asdict().items()
    }


def _write(folder: str, model: Any, functions: Functions, variables: Variables, description: dict[str, Any]) -> None:
    """The trainable model, and inside of it one that knows nothing of training."""
    import tensorflow as tf

    resources = resources_of(model)
    serving = {"serving_default": functions.traced["serving_default"]}
    # Gradients of steps are in them; nobody takes those of a step.
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=False)
    tf.saved_model.save(variables.module(resources), folder, signatures=functions.traced, options=options)
    module = variables.module(resources, list(serving.values()))
    tf.saved_model.save(module, os.path.join(folder, SERVING), signatures=serving)
    os.makedirs(os.path.join(folder, os.path.dirname(DESCRIPTION)), exist_ok=True)
    with open(os.path.join(folder, DESCRIPTION), "w", encoding="utf-8") as file:
        json.dump(description, file, indent=1)
        file.write("\n")


# ---- the folder ----


def _refuse_folder(path: str, overwrite: bool) -> None:
    import tensorflow as tf

    if not tf.io.gfile.exists(path) or (tf.io.gfile.isdir(path) and not tf.io.gfile.listdir(path)):
        return
    if not overwrite:
        raise FileExistsError(f"{path} is there already: give another path, or overwrite=True")
    if not tf.io.gfile.exists(os.path.join(path, "saved_model.pb")):
        raise FileExistsError(f"{path} is no SavedModel, and is not overwritten: remove it, or give another path")


def _place(folder: str, path: str, overwrite: bool) -> None:
    """Copies what was written and checked. saved_model.pb, without which it is no model, comes last."""
    import tensorflow as tf

    if overwrite and tf.io.gfile.exists(path):
        tf.io.gfile.rmtree(path)
    files = [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    for file in sorted(files, key=lambda each: (os.path.basename(each) == "saved_model.pb", -each.count(os.sep))):
        target = os.path.join(path, os.path.relpath(file, folder))
        tf.io.gfile.makedirs(os.path.dirname(target))
        tf.io.gfile.copy(file, target)
