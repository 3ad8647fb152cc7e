"""An exported model as a program in C has it: a graph and a session, tensors by the names of signatures, checkpoints by
those of `saver_def`."""

import numpy as np
import tensorflow as tf


class Session:
    def __init__(self, folder):
        self._graph = tf.Graph()
        with self._graph.as_default():
            self._session = tf.compat.v1.Session(graph=self._graph)
            self._meta = tf.compat.v1.saved_model.load(self._session, ["serve"], str(folder))
        self.signatures = set(self._meta.signature_def) - {"__saved_model_init_op"}

    def run(self, signature, **given):
        """{name: value} of the outputs."""
        return self.runner(signature)(**given)

    def runner(self, signature):
        """The same many times, looked up once."""
        found = self._meta.signature_def[signature]
        inputs = {key: tensor.name for key, tensor in found.inputs.items()}
        call = {key: tensor.name for key, tensor in found.outputs.items()}

        def run(**given):
            assert set(given) == set(inputs), (set(given), set(inputs))
            return self._session.run(call, {inputs[key]: value for key, value in given.items()})

        return run

    def train(self, batch, rate=-1.0, signature="train"):
        return self.run(signature, learning_rate=np.float32(rate), **batch)

    def save(self, prefix):
        saver = self._meta.saver_def
        self._session.run(saver.save_tensor_name, {saver.filename_tensor_name: str(prefix)})
        return str(prefix)

    def restore(self, prefix):
        saver = self._meta.saver_def
        self._session.run(saver.restore_op_name, {saver.filename_tensor_name: str(prefix)})

    def variables(self, folder):
        """{key: value}, as they are in a checkpoint."""
        reader = tf.train.load_checkpoint(self.save(folder / "look"))
        ends = "/.ATTRIBUTES/VARIABLE_VALUE"
        return {
            key.removesuffix(ends): reader.get_tensor(key) for key in reader.get_variable_to_shape_map() if ends in key
        }

    def close(self):
        self._session.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def part(variables, name):
    """Of {key: value} those of one part, in order."""
    return [variables[key] for key in sorted(variables) if key.startswith(name + "/")]
