"""What a program says of its progress: `ctx.report` and the Keras callback `ReportProgress`.

A report goes to the node's supervisor, which keeps it in the history of the program and passes the newest on, as often
as node.report_ms allows. Outside of a cluster nobody listens, and nothing happens.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from ._callback import Callback

_tell: Callable[..., None] | None = None  # to the supervisor


def connect(tell: Callable[..., None] | None) -> None:
    """From now on reports are told by this; None: to nobody."""
    global _tell
    _tell = tell


def report(metrics: Mapping[str, Any], **place: Any) -> None:
    """Tells of metrics and of where the program is: epoch, epochs, step, steps, rows, epoch_end, aloud."""
    if _tell is not None:
        told = {name: _number(name, value) if name in _COUNTS else value for name, value in place.items()}
        values = {name: _number(name, value) for name, value in metrics.items()}
        _tell(event="progress", values=values, **{name: value for name, value in told.items() if value is not None})


_COUNTS = ("epoch", "epochs", "step", "steps", "rows")


def _number(name: str, value: Any) -> float | str | None:
    """As JSON has it: what is not finite is a text."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"a report has numbers; {name} is {value!r}") from None
    return number if math.isfinite(number) else str(number)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


class ReportEpochs(Callback):
    """Reports how epochs end. It has nothing to do at the end of a batch, for which Keras would have to wait."""

    _supports_tf_logs = True  # tf_keras: logs need not be made numbers for every batch
    batch_size: int | None = None
    every_node = False
    _batches: int | None = None  # since the beginning, if they are counted

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._report(epoch, logs, True)

    def _report(self, epoch: int, logs: Any, epoch_end: bool) -> None:
        step = _steps_of(self.model, self._batches)
        report(
            {name: value for name, value in (logs or {}).items() if _is_number(value)},
            epoch=epoch + 1,
            epochs=(self.params or {}).get("epochs"),
            step=step,
            rows=step * self.batch_size if self.batch_size and step is not None else None,
            epoch_end=epoch_end,
            aloud=self.every_node,
        )


class ReportProgress(ReportEpochs):
    """A callback for `fit` of Keras 3 and tf_keras: reports loss, metrics, epoch and step to the driver.

    every_seconds   how often within an epoch; the end of an epoch is always reported
    batch_size      rows of a batch, to report rows per second; not needed where Spark feeds the program
    every_node      a line on the driver for the reports of this node also if it is not the chief
    """

    def __init__(self, every_seconds: float = 5.0, batch_size: int | None = None, every_node: bool = False):
        if not every_seconds >= 0:
            raise ValueError(f"every_seconds is a number of seconds, found {every_seconds!r}")
        self.every_seconds = every_seconds
        self.batch_size = batch_size
        self.every_node = every_node
        self._batches = 0
        self._epoch = 0
        self._reported = -math.inf

    def on_train_begin(self, logs: Any = None) -> None:
        self._reported = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._batches = (self._batches or 0) + 1
        if time.monotonic() - self._reported >= self.every_seconds:
            self._report(self._epoch, logs, False)

    def _report(self, epoch: int, logs: Any, epoch_end: bool) -> None:
        self._reported = time.monotonic()
        super()._report(epoch, logs, epoch_end)


def _steps_of(model: Any, batches: int | None) -> int | None:
    """Steps since the beginning, as the optimizer counts them: which batches Keras tells of with steps_per_execution
    differs between its versions."""
    counted = getattr(getattr(model, "optimizer", None), "iterations", None)
    return batches if counted is None else int(counted.numpy())
