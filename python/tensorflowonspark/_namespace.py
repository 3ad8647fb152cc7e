"""The arguments of a program as it finds them on its node: in a file of its own, so that a node that unpickles them
need not import PySpark."""

import argparse
from collections.abc import Iterator
from typing import Any


class Namespace:
    """Arguments by name, made of a dict, of argparse's result or of another Namespace; or a list of words such as
    sys.argv, which is kept as it is under `argv`."""

    argv: list[str] | None = None

    def __init__(self, d: Any):
        if isinstance(d, list):
            self.argv = d
        elif isinstance(d, dict):
            self.__dict__.update(d)
        elif isinstance(d, (argparse.Namespace, Namespace)):
            self.__dict__.update(vars(d))
        else:
            raise TypeError(
                "arguments of a program are a dict, what argparse returns, a list of words such as sys.argv, or a "
                f"Namespace; found {d!r} ({type(d).__name__})"
            )

    def __iter__(self) -> Iterator[str]:
        """The words of argv, or the names."""
        return iter(self.argv or list(vars(self)))

    def __eq__(self, other: object) -> bool:
        if self.argv:
            return self.argv == (other.argv if isinstance(other, Namespace) else other)
        return vars(self) == vars(other) if hasattr(other, "__dict__") else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __repr__(self) -> str:
        if self.argv:
            return repr(self.argv)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in sorted(vars(self).items()))})"
