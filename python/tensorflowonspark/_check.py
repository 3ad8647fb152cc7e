"""Arguments: one that is of another kind than expected is refused by its name, before anything is started."""

import math
import numbers
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

_EVER_S = 100 * 366 * 86_400  # as good as no limit, and small enough for every clock


def _found(value: Any) -> str:
    kind = type(value)
    return f"found {reprlib.repr(value)} ({kind.__module__}.{kind.__qualname__})".replace("(builtins.", "(")


def function(name: str, value: Any) -> None:
    if not callable(value):
        raise TypeError(f"{name} is a function that is called as {name}(args, ctx) on each node; {_found(value)}")


def count(name: str, value: Any, least: int = 0) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name} is a whole number; {_found(value)}")
    if value < least:
        raise ValueError(f"{name} cannot be {'negative' if least == 0 else f'less than {least}'}, found {value}")
    return int(value)


def seconds(name: str, value: Any, negative: bool = False) -> float:
    """A number of seconds; what is more than a century becomes that."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name} is a number of seconds; {_found(value)}")
    if math.isnan(value) or (value < 0 and not negative):
        raise ValueError(f"{name} is a number of seconds{'' if negative else ' that is not negative'}, found {value}")
    return min(float(value), _EVER_S)


def text(name: str, value: Any) -> str | None:
    """A text, or None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is a text, or None; {_found(value)}")
    return value


def mapping(name: str, value: Any) -> None:
    """A dict, or None."""
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{name} is a dict, or None; {_found(value)}")


def queues(names: Any) -> list[str]:
    """The names of queues."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"queues is a list of names; {_found(names)}")
    return list(names)


def queue(name: str, value: Any, known: Sequence[str]) -> None:
    """The name of a queue of the cluster, or of the validation rows that belong to one."""
    if not isinstance(value, str) or value.removesuffix(".validation") not in known:
        names = ", ".join(map(repr, known))
        raise ValueError(
            f"{name} is the name of a queue of the cluster, which has {names}; {_found(value)}. A queue of another "
            "name is made by queues=[…] of TFCluster.run."
        )
