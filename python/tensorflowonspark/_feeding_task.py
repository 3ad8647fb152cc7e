"""Feeding: what a Spark task does with its partition."""

import socket
import sys
from collections.abc import Iterator
from typing import Any

from . import _native


def feed_partition(index: int, rows: Iterator[Any], ticket: bytes) -> Iterator[Any]:
    """Feeds a partition, and yields the results while they come: there are none but with inference."""
    from pyspark import TaskContext

    context = TaskContext.get()
    pump = _native.Pump(
        ticket=ticket,
        partition=index,
        attempt=context.taskAttemptId() if context else 0,
        host=socket.gethostname(),
        rows=rows,
        check_end=_check_end,
    )
    try:
        for results in pump:
            yield from results
    finally:
        pump.close()


def _check_end() -> None:
    """To be called behind the last row. When Spark cannot go on with a partition, or is gone, PySpark's iterator ends
    as if there were no more rows. Only what Spark sends behind the last row tells the difference: its mark, or
    nothing. A function that has left rows unread has not come to that place, and is right."""
    frame: Any = sys._getframe()
    while frame is not None and not (frame.f_code.co_name == "main" and hasattr(frame.f_locals.get("infile"), "peek")):
        frame = frame.f_back
    if frame is not None and not frame.f_locals["infile"].peek(1):
        raise EOFError("Spark has not sent all rows of the partition; what made it stop is told by its executor")
