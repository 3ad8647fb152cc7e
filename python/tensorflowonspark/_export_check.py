"""Whether what was exported can be run without Python, and does what the model does."""

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._export_graph import Functions, Variables
from ._export_model import loss_trackers, metric_variables, unchanged, value_of
from ._export_ports import Port, Ports
from ._keras_count import layers_of

_log = logging.getLogger("tensorflowonspark")

_PYTHON_OPS = ("PyFunc", "PyFuncStateless", "EagerPyFunc", "NumpyFunction")
_ROWS = (4, 3)
_OPEN = 2  # for sizes that nobody knows


def _ops_of(function: Any) -> list[Any]:
    """(type, name) of all ops of a function, and of those that it calls."""
    definition = function.graph.as_graph_def()
    inner = [node for each in definition.library.function for node in each.node_def]
    return [(node.op, node.name) for node in (*definition.node, *inner)]


def refuse_python(traced: dict[str, Any]) -> None:
    """Raises where a graph calls back into this process."""
    for signature, function in traced.items():
        for kind, name in _ops_of(function):
            if kind in _PYTHON_OPS:
                raise ValueError(
                    f"{signature!r} calls Python: the op {name} is a {kind}, of tf.py_function or tf.numpy_function, "
                    "and there is no Python where the model is trained; compute it with ops of TensorFlow, or before "
                    "rows are fed"
                )


def draws_unseen(traced: dict[str, Any]) -> bool:
    """Whether training draws random numbers from a state that is in no variable: it cannot be compared, or resumed to
    the bit."""
    kinds = {kind for kind, _ in _ops_of(traced["train"])}
    return bool(kinds & {"RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal", "Multinomial"})


# ---- a batch ----


def _made_up(port: Port, said: Any, rows: int, random: np.random.Generator) -> Any:
    """Values that nothing objects to, as a rule: they are numbers of words and classes, probabilities, pixels. Sizes
    that the model leaves open are those that the caller has said, or small."""
    dtype = port.spec.dtype
    open_sizes = [None] * len(port.spec.shape) if said is None else said.shape
    any_size = [rows, *(size or _OPEN for size in open_sizes[1:])]
    shape = [size or other for size, other in zip(port.spec.shape, any_size)]
    if dtype.name == "string":
        return random.choice([b"a", b"b"], shape).astype(object)
    if dtype.is_floating:
        return random.uniform(0.1, 0.9, shape).astype(dtype.as_numpy_dtype)
    return random.integers(0, 2, shape).astype(dtype.as_numpy_dtype)


def _batches(ports: Ports, given: Any) -> list[dict[str, Any]]:
    """Two batches of different sizes: made up, or of the rows that the caller has given."""
    import tensorflow as tf

    random = np.random.default_rng(0)
    values = tf.nest.flatten(given) if isinstance(given, tuple) else []
    values = [each for each in values if each is not None]
    specs = values if len(values) == len(ports.all()) else [None] * len(ports.all())
    said = [each if isinstance(each, tf.TensorSpec) and each.shape.rank is not None else None for each in specs]
    made = [
        {port.key: _made_up(port, spec, rows, random) for port, spec in zip(ports.all(), said)} for rows in _ROWS
    ]
    if values and not any(isinstance(each, tf.TypeSpec) for each in values) and len(values) == len(ports.all()):
        whole = {port.key: np.asarray(each) for port, each in zip(ports.all(), values)}
        whole = {port.key: whole[port.key].astype(port.spec.dtype.as_numpy_dtype) for port in ports.all()}
        made = [whole, {key: value[: max(1, len(value) // 2)] for key, value in whole.items()}]
    return [{key: tf.constant(value) for key, value in batch.items()} for batch in made]


# ---- comparing ----


def compare(model: Any, functions: Functions, variables: Variables, ports: Ports, folder: str, given: Any) -> None:
    """Loads what was written, and does with it what Keras does with the model: a step, and sums of metrics."""
    import tensorflow as tf

    batches = _batches(ports, given)
    every = [each for part in variables for each in part.values()]
    bound = 1e-2 if any("16" in str(getattr(each, "compute_dtype", "")) for each in layers_of(model)) else 1e-4
    with _quiet():
        loaded = tf.saved_model.load(folder)
    with unchanged(every), _explained():
        _compare_sums(model, ports, loaded.signatures["evaluate"], batches)
    if draws_unseen(functions.traced):
        _log.warning("the model draws random numbers that no variable accounts for: a step of it was not compared")
        return
    with unchanged(every):
        wanted_loss = _train(model, ports, batches[0])
        wanted = {key: np.asarray(each) for key, each in variables.weights.items()}
    found = loaded.signatures["train"](learning_rate=tf.constant(-1.0), **batches[0])
    _expect("the loss of a step", wanted_loss, found["loss"], bound)
    for key, value in wanted.items():
        _expect(f"the weight {key[5:]} behind a step", value, loaded.weights[key], bound)


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Rows that are made up need not be such as the model takes: images of two pixels, say."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        reason = error.message.partition("\n")[0]
        raise ValueError(
            "what was exported is tried on rows of the batch that was given, or else on made-up ones, with "
            f"{_OPEN} for each size that is open; the model failed on them: {reason}. Give "
            "batch=(x, y) of arrays, or of tf.TensorSpec with sizes that the model takes; check=False leaves it out"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """TensorFlow warns that gradients of the model cannot be taken; they are in it."""
    logger = logging.getLogger("absl")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _train(model: Any, ports: Ports, batch: dict[str, Any]) -> Any:
    x, y, weight = (*ports.data(batch), None, None)[:3]
    model.reset_metrics()
    logs = model.train_on_batch(x, y, sample_weight=weight, return_dict=True)
    return logs.get("loss", next(iter(logs.values())))


def _expect(what: str, wanted: Any, found: Any, bound: float) -> None:
    wanted, found = np.asarray(wanted, np.float64), np.asarray(found, np.float64)
    if not np.allclose(found, wanted, rtol=bound, atol=bound, equal_nan=True):
        at = np.unravel_index(np.argmax(np.abs(found - wanted)), wanted.shape)
        raise RuntimeError(
            f"what was exported does not do what the model does: {what} is {found[at]:.7g}, and {wanted[at]:.7g} in "
            "Keras. Something in the model depends on what is not in its graph; check=False exports it all the same"
        )


def _compare_sums(model: Any, ports: Ports, evaluate: Any, batches: list[Any]) -> None:
    """Metrics of two batches, each alone and added up, and one behind the other in Keras."""
    import tensorflow as tf

    sums = sum(evaluate(**batch)["metrics"].numpy() for batch in batches)
    step = tf.function(lambda **given: model.test_step(ports.data(given)), reduce_retracing=True)
    model.reset_metrics()
    for batch in batches:
        step(**batch)
    losses = [value_of(each) for tracker in loss_trackers(model) for each in tracker.variables]
    variables = metric_variables(model)
    ends = np.cumsum([variable.shape.num_elements() for variable in variables])
    for variable, part in zip(variables, np.split(sums, ends[:-1])):
        value = np.ravel(variable)
        if not any(variable is each for each in losses) and not np.allclose(part, value, rtol=1e-3, atol=1e-4):
            raise ValueError(
                f"the metric {_owner_of(model, variable)!r} does not add up over batches: its variable {variable.name} "
                f"is {value[:4]} behind two of them, and their sum is {part[:4]}. Batches of many workers can be told "
                "as sums alone: leave the metric out, and compute it from predictions"
            )


def _owner_of(model: Any, variable: Any) -> str:
    """The metric of a variable, which may be one of several that Keras has put into one."""
    every = [each for metric in model.metrics for each in (*getattr(metric, "metrics", ()), metric)]
    return next(each.name for each in every if any(value_of(one) is variable for one in each.variables))
