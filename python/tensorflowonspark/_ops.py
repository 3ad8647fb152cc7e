"""The ops in C (src/tensorflow/ops.h) as functions: loading them, and calls of all workers on tensors."""

import functools
import os
from collections.abc import Sequence
from typing import Any

from . import _native

LIBRARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libtfos_ops.so")

_GATHERED = ("gather", "weighted gather")


@functools.cache
def library() -> Any:
    """The ops, registered with TensorFlow."""
    import tensorflow as tf

    if not os.path.isfile(LIBRARY):
        raise RuntimeError(f"{LIBRARY} is missing: install a wheel of tfos that has it")
    loaded = tf.load_op_library(LIBRARY)
    if not hasattr(loaded, "tfos_feed_next"):
        raise RuntimeError(f"{LIBRARY} did not register its ops with TensorFlow {tf.__version__}; stderr says why")
    tf.RegisterGradient("TfosMerge")(_gradient)
    tf.RegisterGradient("TfosMergeRows")(_gradient)
    return loaded


@functools.cache
def token() -> Any:
    """The variable whose handle keeps calls in their order, also across functions. Made when it is first needed: before
    that a program may still say how many threads TensorFlow is to have."""
    import tensorflow as tf

    with tf.init_scope(), tf.device("CPU"):
        return tf.Variable(0, trainable=False, name="tfos_token", dtype=tf.int32)


def merge(
    tensors: Sequence[Any],
    merges: Sequence[str],
    weight: Any = 1.0,
    root: int = 0,
    about: str = "",
    wire: str = "float32",
) -> tuple[Any, list[Any]]:
    """One call of all workers: (the weight of all, what became of each tensor). `weight` is a number or a scalar."""
    import tensorflow as tf

    ops = library()
    gathers = any(each in _GATHERED for each in merges)
    op = ops.tfos_merge_rows if gathers else ops.tfos_merge
    with tf.device("CPU"):
        weights, merged = op(
            token=token().handle,
            weight=tf.cast(weight, tf.float64),
            tensors=list(tensors),
            merges=[_native.MERGES.index(each) for each in merges],
            root=root,
            about=about,
            wire=_native.ELEMENTS.index(check_wire(wire)),
        )
    for tensor, result, each in zip(tensors, merged, merges) if gathers else ():
        if each not in _GATHERED:
            result.set_shape(tensor.shape)  # what a function of shapes in C cannot know
    return weights, list(merged)


def check_wire(wire: str) -> str:
    """What sums may travel as from host to host."""
    if wire not in ("float32", "float16", "bfloat16"):
        raise ValueError(f"wire is 'float32', 'float16' or 'bfloat16', found {wire!r}")
    return wire


def _gradient(op: Any, *gradients: Any) -> list[Any]:
    """What a worker has enters the result of every worker: the gradients of all add up, scaled as the tensors were."""
    import tensorflow as tf

    merges = [_native.MERGES[number] for number in op.get_attr("merges")]
    for each in merges:
        if each in ("min", "max", "weighted gather"):
            raise LookupError(f"there is no gradient through the {each} of all workers")
    weight, tensors, rank = op.inputs[1], op.inputs[2:], group().rank
    outer = [tf.zeros_like(out) if each is None else each for out, each in zip(op.outputs[1:], gradients[1:])]
    rows = [tf.shape(tensor)[:1] for tensor, each in zip(tensors, merges) if each == "gather"]
    counts = [tf.cast(weight != 0, tf.float64)]
    about = op.get_attr("about").decode() + " (gradient)"
    kinds = ["sum"] * (len(outer) + 1) + ["gather"] * len(rows)
    wire = _native.ELEMENTS[op.get_attr("wire")]
    _, merged = merge([*outer, *counts, *rows], kinds, 1.0, about=about, wire=wire)
    contributors, all_rows = merged[len(outer)], iter(merged[len(outer) + 1 :])
    inner = []
    for each, gradient in zip(merges, merged):
        if each == "mean":
            gradient /= tf.cast(contributors, gradient.dtype)
        elif each == "weighted mean":
            gradient *= tf.cast(weight / op.outputs[0], gradient.dtype)
        elif each == "broadcast" and rank != op.get_attr("root"):
            gradient = tf.zeros_like(gradient)
        elif each == "gather":
            taken = next(all_rows)
            begin = tf.reduce_sum(taken[:rank])
            gradient = gradient[begin : begin + taken[rank]]
        inner.append(gradient)
    return [None, None, *inner]


# ---- the group ----

_group: _native.Group | None = None


def group() -> _native.Group:
    """The workers of this cluster, as this one sees them; waits for them at the first call. It is left at exit."""
    global _group
    if _group is None:
        import atexit

        _group = _native.Group()
        atexit.register(leave)
    return _group


def leave() -> None:
    """Leaves the group, if there is one; the others can make no calls without this worker."""
    global _group
    if _group is not None:
        _group.close()
        _group = None
