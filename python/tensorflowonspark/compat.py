"""What differs between versions of TensorFlow, for programs that are to run on several."""

from typing import Any


def export_saved_model(model: Any, export_dir: str, is_chief: bool = False) -> None:
    """Saves a Keras model for serving; nodes other than the chief write to a local folder that nobody reads."""
    folder = export_dir if is_chief else "worker_model"
    if hasattr(model, "export"):
        model.export(folder)
    else:
        model.save(folder, save_format="tf")


def disable_auto_shard(options: Any) -> None:
    """Lets every worker see all elements of a dataset with these tf.data.Options."""
    import tensorflow as tf

    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF


def is_gpu_available() -> bool:
    """Whether TensorFlow sees a GPU."""
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))
