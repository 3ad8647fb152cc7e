"""What goes into an exported model and what comes out: tensors with names that do not change from process to process.

A name is the user's: the key of a dict, or that of a layer. Names that Keras makes up count the layers of a process
(`input_layer_3`, `dense_7`); tensors of such layers are called by what they are, and by their position where there are
several: `input`, `input_0`, `output_1`.
"""

import keyword
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# Names in the signatures that are not for inputs and labels.
RESERVED = ("learning_rate",)

_SPARSE_LABELS = ("sparse_categorical_crossentropy", "sparsecategoricalcrossentropy")


class Port(NamedTuple):
    """A tensor of a signature."""

    name: str  # the user's
    key: str  # in the signature, where names are those of arguments
    spec: Any  # tf.TensorSpec

    def described(self) -> dict[str, Any]:
        return {"name": self.name, "key": self.key, "dtype": self.spec.dtype.name, "shape": list(self.spec.shape)}


class Side(NamedTuple):
    """Tensors that go together: all inputs, labels, sample weights or outputs. `form` is how Keras wants them."""

    form: Any
    ports: list[Port]

    def of(self, given: dict[str, Any]) -> Any:
        import tensorflow as tf

        return None if self.form is None else tf.nest.pack_sequence_as(self.form, [given[p.key] for p in self.ports])

    def specs(self) -> Any:
        return self.of({port.key: port.spec for port in self.ports})


class Ports(NamedTuple):
    """What a step is given."""

    inputs: Side
    labels: Side
    weights: Side

    def all(self) -> list[Port]:
        return [port for side in self for port in side.ports]

    def data(self, given: dict[str, Any]) -> tuple[Any, ...]:
        """The batch, as `train_step` wants it."""
        parts = [side.of(given) for side in self]
        while parts[-1] is None:
            parts.pop()
        return tuple(parts)

    def batch_size(self) -> int | None:
        """How many rows a batch must have, if the model says so."""
        return self.inputs.ports[0].spec.shape[0]


def ports_of(model: Any, batch: Any, sample_weight: bool, renamed: dict[str, str]) -> Ports:
    """Of a compiled model; of `batch`, (x, y, sample_weight) or what looks like them, where the model does not know."""
    x, y, w = [_specs_of(each) for each in _split(batch)]
    form = input_form(model)
    if form is None and x is None:
        raise ValueError(
            f"{type(model).__name__} does not say what it is given, as models of keras.Input do: give export() a "
            "batch=(x, y), of arrays, of tf.TensorSpec, or a tf.data.Dataset"
        )
    names = _names_of(form, "input") if form is not None else _given_names(x, "input")
    inputs = _side(form if form is not None else x, names, renamed)
    if y is None and batch is None and getattr(model, "loss", None) is not None:
        labels = _labels_of(model, renamed)
    else:
        labels = _side(y, _label_names(model, y), renamed)
    if w is None and sample_weight:
        import tensorflow as tf

        w = tf.TensorSpec([inputs.ports[0].spec.shape[0]], tf.float32)
    weights = _side(w, _given_names(w, "sample_weight"), renamed)
    found = Ports(inputs, labels, weights)
    _check(found)
    return found


def input_form(model: Any) -> Any:
    """The symbolic inputs of a functional or sequential model."""
    for name in ("_inputs_struct", "_nested_inputs"):
        if getattr(model, name, None) is not None:
            return getattr(model, name)
    found = getattr(model, "inputs", None)
    return (found[0] if len(found) == 1 else found) if found else None


def output_form(model: Any) -> Any:
    for name in ("_outputs_struct", "_nested_outputs"):
        if getattr(model, name, None) is not None:
            return getattr(model, name)
    found = getattr(model, "outputs", None)
    return (found[0] if len(found) == 1 else found) if found else None


def outputs_of(model: Any, values: Any, renamed: dict[str, str]) -> Side:
    """What a model has answered."""
    form = output_form(model)
    names = _names_of(form, "output") if form is not None else _given_names(values, "output")
    return _side(values, names, renamed)


# ---- the batch of the caller ----


def _split(batch: Any) -> tuple[Any, Any, Any]:
    if batch is None:
        return None, None, None
    parts = getattr(batch, "element_spec", batch)
    if not isinstance(parts, tuple) or not 1 <= len(parts) <= 3:
        raise TypeError(
            "batch is a tuple (x,), (x, y) or (x, y, sample_weight) of arrays or tf.TensorSpec, or a tf.data.Dataset "
            f"of such, found {type(batch).__name__}"
        )
    return (*parts, None, None)[:3]  # type: ignore[return-value]


def _specs_of(part: Any) -> Any:
    import tensorflow as tf

    return None if part is None else tf.nest.map_structure(_spec_of, part)


def _spec_of(value: Any) -> Any:
    """Of so many rows as there may be: those of an array say nothing about other batches."""
    import tensorflow as tf

    if isinstance(value, tf.TensorSpec):
        return value
    if isinstance(value, (tf.TypeSpec, tf.RaggedTensor, tf.SparseTensor)):
        raise ValueError(f"expected dense tensors, found {value}: {_DENSE}")
    array = value if tf.is_tensor(value) else np.asarray(value)
    is_text = isinstance(array, np.ndarray) and array.dtype.kind in "OSU"
    dtype = tf.string if is_text else tf.as_dtype(array.dtype)
    return tf.TensorSpec([None, *array.shape[1:]], tf.float32 if dtype == tf.float64 else dtype)  # as fit does


_DENSE = "columns are fed as dense tensors, so let the model make what it needs of them in its first layer"


# ---- names ----


def _made_up(layer: Any) -> bool:
    """Whether the name of a layer was made by Keras: that of its class, with a number."""
    kind = type(layer).__name__
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", kind).lower()
    if kind == "InputLayer" and re.fullmatch(r"input_\d+|.*_input|keras_tensor.*", layer.name):
        return type(layer).__module__.startswith("tf_keras") or layer.name.startswith("keras_tensor")
    return re.fullmatch(rf"({snake}|{kind.lower()})(_\d+)?", layer.name) is not None


def _names_of(form: Any, kind: str) -> list[str]:
    """Of symbolic tensors."""
    import tensorflow as tf

    if isinstance(form, dict) and not any(isinstance(each, (dict, list, tuple)) for each in form.values()):
        return sorted(form)
    layers = [tensor._keras_history[0] for tensor in tf.nest.flatten(form)]
    unclear = len({layer.name for layer in layers}) < len(layers)  # one layer with several outputs
    return [
        _numbered(kind, at, len(layers)) if unclear or _made_up(layer) else layer.name
        for at, layer in enumerate(layers)
    ]


def _given_names(form: Any, kind: str) -> list[str]:
    import tensorflow as tf

    if isinstance(form, dict) and not any(isinstance(each, (dict, list, tuple)) for each in form.values()):
        return [f"sample_weight_{key}" if kind == "sample_weight" else str(key) for key in sorted(form)]
    count = len(tf.nest.flatten(form))
    return [_numbered(kind, at, count) for at in range(count)]


def _numbered(kind: str, at: int, count: int) -> str:
    return kind if count == 1 else f"{kind}_{at}"


def _key_of(name: str) -> str:
    """A name as signatures may have it, whose names are those of arguments in Python."""
    key = re.sub(r"\W", "_", name, flags=re.ASCII)
    key = f"_{key}" if key[0].isdigit() else key
    return f"{key}_" if keyword.iskeyword(key) else key


def _side(form: Any, names: Sequence[str], renamed: dict[str, str]) -> Side:
    import tensorflow as tf

    if form is None:
        return Side(None, [])
    ports = []
    for name, tensor in zip(names, tf.nest.flatten(form), strict=True):
        if getattr(tensor, "sparse", False) or getattr(tensor, "ragged", False):
            raise ValueError(f"{name} is sparse or ragged: {_DENSE}")
        name = renamed.get(name, name)
        key = _key_of(name)
        ports.append(Port(name, key, tf.TensorSpec(tensor.shape, tensor.dtype, key)))
    return Side(tf.nest.map_structure(lambda _: 0, form), ports)


def _check(ports: Ports) -> None:
    seen = {key: "the rate of learning" for key in RESERVED}
    for side, what in zip(ports, ("an input", "a label", "a sample weight")):
        for port in side.ports:
            if port.key in seen:
                raise ValueError(
                    f"{what} is called {port.name!r}, and so is {seen[port.key]}: give one of them another name, "
                    f"names={{{port.name!r}: …}}, or name the layers apart"
                )
            seen[port.key] = what


def check_renamed(renamed: dict[str, str], ports: list[Port]) -> None:
    """Raises if a name was to be changed that there is not."""
    have = {port.name for port in ports}
    unknown = [name for name, new in renamed.items() if new not in have]
    if unknown:
        raise ValueError(
            f"names= says how {unknown[0]!r} is to be called, which there is not; there are {sorted(have)}"
        )


# ---- labels ----


def _label_names(model: Any, y: Any) -> list[str]:
    import tensorflow as tf

    count = len(tf.nest.flatten(y))
    form = output_form(model)
    if form is not None and not isinstance(y, dict) and count == len(tf.nest.flatten(form)) > 1:
        return [name.replace("output_", "label_") for name in _names_of(form, "output")]
    return _given_names(y, "label")


def _labels_of(model: Any, renamed: dict[str, str]) -> Side:
    """As the losses of Keras want them: like the outputs, or a number of a class for each."""
    import tensorflow as tf

    form = output_form(model)
    if form is None:
        raise ValueError(
            f"{type(model).__name__} does not say what it gives, so labels are not known: give export() a batch=(x, y)"
        )
    outputs = tf.nest.flatten(form)
    names = _names_of(form, "output")
    losses = _losses_for(model.loss, names, [tensor._keras_history[0].name for tensor in outputs])
    specs = [_label_spec(name, loss, tensor) for name, loss, tensor in zip(names, losses, outputs)]
    if None in specs:
        raise ValueError(
            f"the output {names[specs.index(None)]} has no loss, and what labels look like is not known: give export() "
            "a batch=(x, y) as fit has it"
        )
    y = tf.nest.pack_sequence_as(form, specs)
    called = ["label"] if len(names) == 1 and not isinstance(form, dict) else _label_names(model, y)
    return _side(y, called, renamed)


def _losses_for(loss: Any, *names: list[str]) -> list[Any]:
    import tensorflow as tf

    if isinstance(loss, dict):
        return [loss.get(first, loss.get(second)) for first, second in zip(*names)]
    if isinstance(loss, (list, tuple)):
        return list(tf.nest.flatten(loss))
    return [loss] * len(names[0])


def _label_spec(name: str, loss: Any, output: Any) -> Any:
    import tensorflow as tf

    if loss is None:
        return None
    called = loss if isinstance(loss, str) else getattr(loss, "__name__", None) or type(loss).__name__
    module = "keras" if isinstance(loss, str) else getattr(loss, "__module__", type(loss).__module__)
    if module.partition(".")[0] not in ("keras", "tf_keras"):
        raise ValueError(
            f"what labels the loss {called!r} of {name} is given is not known: give export() a batch=(x, y) that shows "
            "it"
        )
    if called.lower() in _SPARSE_LABELS:
        return tf.TensorSpec(output.shape[:-1], tf.int64)
    return tf.TensorSpec(output.shape, tf.float32)
