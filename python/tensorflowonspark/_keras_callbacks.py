"""Callbacks of `tensorflowonspark.keras`. They belong to no Keras, and work with Keras 3 and tf_keras alike."""

import logging
import os
import re
from collections.abc import Callable
from typing import Any

from . import _check, _keras_state, collective
from ._callback import Callback
from ._keras_gradients import optimizers_of, override

_log = logging.getLogger("tensorflowonspark")


class BroadcastVariables(Callback):
    """All workers begin with the weights, and the state of the optimizer, of one of them: `root`. A model whose
    variables are made by its first batch gets them behind that. `distributed` does this by itself."""

    def __init__(self, root: int = 0):
        self._root = _check.count("root", root)
        self._done = False

    def on_train_begin(self, logs: Any = None) -> None:
        self._done = False
        if self.model.built:
            _keras_state.build_optimizers(self.model)
            self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if not self._done:
            self._broadcast()

    def _broadcast(self) -> None:
        self._done = True
        _keras_state.broadcast(_keras_state.variables_of_model(self.model), self._root)


class MetricAverage(Callback):
    """Logs at the end of an epoch are the mean of those of all workers, for the callbacks behind this one. In
    `distributed` they are better than that already: those of all rows."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if logs:
            values = {name: float(value) for name, value in logs.items() if _keras_state.is_number(value)}
            logs.update(_keras_state.means_of(_keras_state.tell_all((1.0, values))))


class CheckpointOnChief(Callback):
    """Saves weights, the state of optimizers, and where training is, on the chief; and goes on from there.

    path          a folder, wherever TensorFlow can write (tf.io.gfile)
    every_steps   also within epochs: after so many batches of the chief
    every_epochs  at the end of so many epochs
    keep          so many are kept, the newest

    `fit` begins with what the newest one has: the chief reads it, all others get it from there. An epoch that was over
    is not trained again; one that was not begins anew, with the weights that it had come to: rows behind which it was
    saved are trained on twice. `resumed` is None, or where the checkpoint was: (epoch, batches of that epoch).

    A checkpoint is TensorFlow's: `tf.train.Checkpoint(model=model, optimizer=model.optimizer)` restores it. It counts
    when it is named in the folder's file `checkpoint`, which is replaced as a whole when all else is written.
    """

    def __init__(self, path: Any, every_steps: int | None = None, every_epochs: int = 1, keep: int = 3):
        self._path = os.fspath(path)
        self._every_steps = None if every_steps is None else _check.count("every_steps", every_steps, 1)
        self._every_epochs = _check.count("every_epochs", every_epochs, 1)
        self._keep = _check.count("keep", keep, 1)
        self._restore: list[Callable[[], None]] = []
        self._epoch = self._step = 0  # the epoch that runs, and the batch of it that was saved last
        self.resumed: tuple[int, int] | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        import tensorflow as tf

        if not self.model.built:
            raise ValueError("the model has no variables yet to restore: build it before fit, or use distributed()")
        _keras_state.build_optimizers(self.model)
        optimizers = optimizers_of(self.model)
        named = {"optimizer" + (str(number) if number else ""): each for number, each in enumerate(optimizers)}
        self._at = {name: tf.Variable(0, trainable=False, dtype=tf.int64, name=name) for name in ("epoch", "step")}
        self._checkpoint = tf.train.Checkpoint(model=self.model, **named, **self._at)
        self._manager = tf.train.CheckpointManager(self._checkpoint, self._path, self._keep) if _is_chief() else None
        found = self._manager.latest_checkpoint if self._manager else None
        if self._manager:
            _sweep(self._path, self._manager.checkpoints)
            _read(self._checkpoint, found)
        self._take(found)

    def _take(self, found: str | None) -> None:
        """Gives what the chief has read to all, and tells Keras where to begin."""
        place = [int(found is not None), *(int(each) for each in self._at.values())]
        there, epoch, step = collective.broadcast(place)
        if not there:
            self.resumed = None
            return
        _keras_state.broadcast(_keras_state.variables_of_model(self.model))
        self.resumed = epoch, step
        if hasattr(self.model, "_maybe_load_initial_counters_from_ckpt"):
            begin = override(self.model, "_maybe_load_initial_counters_from_ckpt", lambda *unused: (epoch, 0))
        else:
            begin = override(self.model, "_initial_epoch", epoch)
        self._restore.append(begin)
        if _is_chief():
            _log.info("training goes on from %s: %s", found, _described(epoch, step))

    def _begun(self) -> None:
        """Keras has read where to begin: another fit of this model begins where it is told to."""
        while self._restore:
            self._restore.pop()()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._begun()
        self._epoch, self._step = epoch, 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._every_steps is not None and batch + 1 - self._step >= self._every_steps:
            self._step = batch + 1
            self._save(self._epoch, self._step)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if (epoch + 1) % self._every_epochs == 0 or self.model.stop_training or epoch + 1 == self.params.get("epochs"):
            self._save(epoch + 1, 0)

    def on_train_end(self, logs: Any = None) -> None:
        self._begun()

    def _save(self, epoch: int, step: int) -> None:
        if self._manager:
            self._at["epoch"].assign(epoch)
            self._at["step"].assign(step)
            self._manager.save()


def _is_chief() -> bool:
    return collective.rank() == 0


def _described(epoch: int, step: int) -> str:
    """Epochs as users count them, from 1."""
    if step == 0:
        return f"{epoch} epochs are over, and epoch {epoch + 1} is next"
    return f"{step} batches of epoch {epoch + 1} were trained on, and that epoch begins again"


def _read(checkpoint: Any, found: str | None) -> None:
    if found is None:
        return
    try:
        status = checkpoint.restore(found)
        status.assert_existing_objects_matched()
    except (AssertionError, ValueError) as error:
        raise ValueError(f"{found} is of another model, or of another optimizer: {error}") from error
    status.expect_partial()


def _sweep(path: str, kept: list[str]) -> None:
    """Removes what a chief that was killed has left half-written."""
    import tensorflow as tf

    if not tf.io.gfile.isdir(path):
        return
    names = {os.path.basename(each) for each in kept}
    for name in tf.io.gfile.listdir(path):
        of = re.match(r"(ckpt-\d+)[._]", name)
        if of and of[1] not in names:
            whole = os.path.join(path, name.rstrip("/"))
            (tf.io.gfile.rmtree if tf.io.gfile.isdir(whole) else tf.io.gfile.remove)(whole)
