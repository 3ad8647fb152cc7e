"""What the workers of a cluster compute together, on NumPy arrays and on tensors.

    from tensorflowonspark import collective

    mean = collective.allreduce(loss)              # of all workers, the same bits on each
    total = collective.allreduce(count, op="sum")
    weights = collective.broadcast(weights)        # of worker 0
    names = collective.allgather(rows)             # one worker's behind the other's

Every worker makes the same calls in the same order; where they do not, all of them get an error that names two and says
what each wanted. The first call waits until every worker has come. Values may be numbers, NumPy arrays, tensors, or
lists, tuples and dicts of them, which go through as one call; what comes back has the form of what was given. Tensors
may be in a `tf.function`, where calls keep their order, and have gradients.

A process that is not on a node of a cluster is a group of one.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from . import _native, _ops

__all__ = ["allgather", "allreduce", "barrier", "broadcast", "join", "local_rank", "local_size", "rank", "shutdown"]
__all__ += ["size", "token"]

T = TypeVar("T")

_REDUCTIONS = {"sum": "sum", "mean": "mean", "weighted_mean": "weighted mean", "min": "min", "max": "max"}
_WIDER = dict.fromkeys(("bool", "int8", "uint8", "int16", "uint16"), np.int32) | {"uint32": np.int64}


def rank() -> int:
    """The number of this worker: 0 is the chief, or the first worker where there is none."""
    return _ops.group().rank


def size() -> int:
    """How many workers there are."""
    return _ops.group().size


def local_rank() -> int:
    """The number of this worker among those of its machine."""
    return _ops.group().local_rank


def local_size() -> int:
    """How many workers there are on this machine."""
    return _ops.group().local_size


def allreduce(value: T, op: str = "mean", weight: Any = 1.0, wire: str = "float32") -> T:
    """The sum, mean, weighted_mean, min or max of what all workers have, element by element.

    weight   how much this worker counts, as a rule its rows: a weighted_mean is Σ weight · value / Σ weight. What a
             worker of weight 0 has is not read, whatever the op
    wire     "bfloat16" or "float16": sums and means of float32 travel from host to host as these, in half the bytes and
             less exact, and come out as the same bits on all workers all the same
    """
    if op not in _REDUCTIONS:
        raise ValueError(f"op is one of {', '.join(_REDUCTIONS)}, found {op!r}")
    return _call(value, _REDUCTIONS[op], weight, wire=_ops.check_wire(wire))


def broadcast(value: T, root: int = 0) -> T:
    """What the worker `root` has."""
    return _call(value, "broadcast", root=root)


def allgather(value: T) -> T:
    """What all workers have, one behind the other along the first dimension, which may differ between them."""
    return _call(value, "gather")


def barrier() -> None:
    """Waits until every worker has come here."""
    _ops.group().call([], 1.0, 0, "barrier", "float32")


def join() -> int:
    """For a worker whose data has ended: takes part in the calls of the others, without adding to them, until all have
    joined. Returns the rank of the one that did so last, whose state is the newest: to broadcast from."""
    return _ops.group().join()


def token() -> Any:
    """The variable by which TensorFlow keeps calls on tensors in their order. A module whose functions make calls must
    have it as an attribute when it is exported, as all variables that its functions use: `self.token = token()`. A
    process that loads such a module asks for it, too, before it does: this registers the ops with TensorFlow."""
    _ops.library()
    return _ops.token()


def shutdown() -> None:
    """Leaves the group. It is also left when the program ends. Another call comes together anew, when all do."""
    _ops.leave()


# ---- values ----


def _call(value: T, merge: str, weight: Any = 1.0, root: int = 0, wire: str = "float32") -> T:
    leaves: list[Any] = []
    rebuild = _flatten(value, leaves)
    if any(_is_tensor(leaf) for leaf in leaves) or _is_tensor(weight):
        return rebuild(iter(_call_tensors(leaves, merge, weight, root, wire)))
    return rebuild(iter(_call_arrays(leaves, merge, float(weight), root, wire)))


def _flatten(value: Any, leaves: list[Any]) -> Callable[[Any], Any]:
    """Appends the leaves of a value; returns what makes a value of that form of new ones."""
    if isinstance(value, dict):
        parts = {key: _flatten(value[key], leaves) for key in sorted(value, key=str)}
        return lambda new: _in_order(value, {key: part(new) for key, part in parts.items()})
    if isinstance(value, (list, tuple)):
        items = [_flatten(item, leaves) for item in value]
        kind = type(value)
        if hasattr(value, "_fields"):
            return lambda new: kind(*[item(new) for item in items])
        return lambda new: kind([item(new) for item in items])
    leaves.append(value)
    return next


def _in_order(like: dict[Any, Any], values: dict[Any, Any]) -> dict[Any, Any]:
    return type(like)((key, values[key]) for key in like)


def _is_tensor(value: Any) -> bool:
    module = type(value).__module__
    return module.partition(".")[0] in ("tensorflow", "keras", "tf_keras") and hasattr(value, "dtype")


# ---- NumPy ----


def _call_arrays(leaves: list[Any], merge: str, weight: float, root: int, wire: str) -> list[Any]:
    parts, made = [], []
    for leaf in leaves:
        array = np.asarray(leaf)
        if "mean" in merge and isinstance(leaf, int):
            array = array.astype(np.float64)
        if merge in ("min", "max", "broadcast", "gather"):  # which cannot make them too large
            array = array.astype(_WIDER.get(array.dtype.name, array.dtype))
        element = array.dtype.name
        if element not in _native.ELEMENTS:
            raise TypeError(f"expected numbers of type {', '.join(_native.ELEMENTS)}, found {element}")
        array = np.asarray(array, order="C") if merge == "gather" else array.copy(order="C")
        made.append(array)
        raw = array.reshape(-1).view(np.uint8) if array.size else np.zeros(0, np.uint8)
        parts.append((merge, element, array.shape, raw, None if merge == "gather" else raw))
    _, _, gathered = _ops.group().call(parts, weight, root, None, wire)
    if merge == "gather":
        made = [
            np.frombuffer(data, array.dtype).reshape(sum(rows), *array.shape[1:])
            for array, (rows, data) in zip(made, gathered)
        ]
    return [_like(leaf, array) for leaf, array in zip(leaves, made)]


def _like(leaf: Any, array: np.ndarray) -> Any:
    """A number for a number, an array for an array."""
    if isinstance(leaf, (bool, int, float)) and not isinstance(leaf, np.generic):
        return bool(array) if isinstance(leaf, bool) else array.item()
    wanted = np.asarray(leaf).dtype
    array = array if array.dtype == wanted else array.astype(wanted)
    return array[()] if isinstance(leaf, np.generic) else array


# ---- tensors ----


def _call_tensors(leaves: list[Any], merge: str, weight: Any, root: int, wire: str) -> list[Any]:
    import tensorflow as tf

    _ops.group()  # outside of the op, where Ctrl-C and errors are those of Python
    tensors, merges, slots = [], [], []
    for leaf in leaves:
        if isinstance(leaf, tf.IndexedSlices):
            kinds = _kinds_of_slices(merge)
            tensors += [leaf.values, leaf.indices]
        else:
            kinds = [merge]
            tensors.append(tf.convert_to_tensor(leaf))
        slots.append(len(kinds))
        merges += kinds
    _, merged = _ops.merge(tensors, merges, weight, root, wire=wire)
    results, at = [], iter(merged)
    for leaf, count in zip(leaves, slots):
        if count == 2:
            results.append(tf.IndexedSlices(next(at), next(at), dense_shape=leaf.dense_shape))
        else:
            results.append(next(at))
    return results


def _kinds_of_slices(merge: str) -> list[str]:
    """Slices of a tensor are gathered: those of one index add up where they are used."""
    values = {"sum": "gather", "weighted mean": "weighted gather", "gather": "gather"}.get(merge)
    if values is None:
        raise TypeError(f"tf.IndexedSlices have a sum and a weighted_mean, and no {merge}")
    return [values, "gather"]
