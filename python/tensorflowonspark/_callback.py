"""What callbacks of ours are made of: no base class of any Keras, so that Keras 3 and tf_keras call them alike."""

from typing import Any


def _nothing(*args: Any, **options: Any) -> None:
    """What a callback does by default; Keras looks at the mark."""


_nothing._is_default = True  # type: ignore[attr-defined]


class Callback:
    """What Keras 3 and tf_keras expect of a callback."""

    model: Any = None
    params: Any = None

    on_train_begin = on_train_end = on_test_begin = on_test_end = on_predict_begin = on_predict_end = _nothing
    on_epoch_begin = on_epoch_end = on_batch_begin = on_batch_end = _nothing
    on_train_batch_begin = on_train_batch_end = on_test_batch_begin = on_test_batch_end = _nothing
    on_predict_batch_begin = on_predict_batch_end = _nothing

    def set_model(self, model: Any) -> None:
        self.model = model

    def set_params(self, params: Any) -> None:
        self.params = params

    def _implements_train_batch_hooks(self) -> bool:
        return type(self).on_train_batch_end is not _nothing

    def _implements_test_batch_hooks(self) -> bool:
        return False

    _implements_predict_batch_hooks = _implements_test_batch_hooks
