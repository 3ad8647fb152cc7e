"""What differs between versions of TensorFlow, for programs that are to run on several."""

import inspect
from typing import Any


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Saves a Keras model for serving; nodes other than the chief write to a local folder that nobody reads."""
    save_keras_model(model, export_dir if is_chief else "worker_model")


def save_keras_model(model: Any, folder: str) -> None:
    """Saves a model in the format of TensorFlow, as its Keras does it. That of tf_keras (Keras 2) can be loaded as a
    model again, and its signature has the names of the output layers; Keras 3 only exports."""
    if "save_format" in inspect.signature(model.save).parameters:
        model.save(folder, save_format="tf")
    else:
        model.export(folder)


def disable_auto_shard(options: Any) -> None:
    """Lets every worker see all elements of a dataset with these tf.data.Options."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    """Whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
