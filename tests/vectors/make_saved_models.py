"""Makes tests/vectors/tensorflow/saved_model: models of every kind that TensorFlow exports, without their variables,
and beside each what TensorFlow itself says of it.

Run it in .venv: python tests/vectors/make_saved_models.py [NAME…]. Names that Keras makes up differ from run to run.
"""

import json
import os
import shutil
import sys
import tempfile

import keras
import tensorflow as tf
import tf_keras
from tensorflow.core.protobuf import saved_model_pb2

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensorflow", "saved_model")
INITS = "__saved_model_"


class Many(tf.Module):
    """Several signatures, with tensors of many types and shapes."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable([[1.0], [2.0]])

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, "x"), tf.TensorSpec([], tf.bool, "flag")])
    def predict(self, x, flag):
        return {"y": tf.matmul(x, self.weights), "flag": flag}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 28, 28, 3], tf.uint8, "image"),
            tf.TensorSpec(None, tf.string, "text"),
            tf.TensorSpec([3, None], tf.float16, "half"),
            tf.TensorSpec([None], tf.int64, "input_2"),
            tf.TensorSpec([None], tf.int64, "input_10"),
        ]
    )
    def types(self, image, text, half, input_2, input_10):
        return {f"output_{i}": tensor for i, tensor in enumerate([image, text, half, input_2, input_10] * 3)}


def of(*specs):
    """A function of a signature, whose inputs are called a, b, …."""
    named = [tf.TensorSpec(shape, dtype, name) for (shape, dtype), name in zip(specs, "abcdefghijklmn")]
    return lambda function: tf.function(function, input_signature=named)


NUMBERS = ["uint8", "int8", "uint16", "int16", "int32", "int64", "uint32", "uint64", "float16", "bfloat16", "float32"]


class Plain(tf.Module):
    """Without variables, so that the one file is the whole model: what becomes of values there and back."""

    @of(*(([None], tf.as_dtype(name)) for name in NUMBERS))
    def numbers(self, *tensors):
        return {name: tensor + tf.constant(1, tensor.dtype) for name, tensor in zip(NUMBERS, tensors)}

    @of(([None], tf.bool), ([None], tf.string), ([None, 2], tf.string))
    def texts(self, a, b, c):
        return {
            "not_a": tf.logical_not(a),
            "upper": tf.strings.upper(b),
            "joined": tf.strings.reduce_join(c, axis=1),
            "both": tf.stack([b, b], axis=1),
        }

    @of(([None, 2, 3], tf.float32))
    def shapes(self, a):
        wide = a[:, :, :, None] * [1.0, 2.0]
        return {"sum": tf.reduce_sum(a, [1, 2]), "rows": tf.reduce_sum(a, 2), "same": a, "wide": wide}

    @of(([None, None], tf.int64), ([None, None], tf.string))
    def ragged(self, a, b):
        return {"sum": tf.reduce_sum(a, 1), "wide": a, "text": tf.strings.reduce_join(b, axis=1, separator="|")}

    @of(([None, None, 2], tf.float32))
    def lists(self, a):
        return {"sum": tf.reduce_sum(a, [1, 2]), "same": a}

    @of(([3, 2], tf.float32))
    def three(self, a):
        return {"sum": tf.reduce_sum(a, 1)}

    @of(([None, 2], tf.float32))
    def wrong(self, a):
        shorter = a[1:]
        shorter.set_shape([None, 2])
        return {"shorter": shorter}

    @of(([None, 2], tf.float32))
    def checked(self, a):
        with tf.control_dependencies([tf.debugging.assert_less(a, 100.0, "too large for me")]):
            return {"same": tf.identity(a)}

    @of((None, tf.float32))
    def any_rank(self, a):
        return {"same": tf.identity(a), "total": tf.reduce_sum(a)}

    @of(([None, 4], tf.uint8))
    def bytes_in(self, a):
        return {"sum": tf.reduce_sum(tf.cast(a, tf.int32), 1)}

    @of(([None, None, 2], tf.float16), ([None], tf.bfloat16))
    def halves(self, a, b):
        return {"same": tf.identity(a), "b": tf.identity(b)}


def plain(folder):
    module = Plain()
    names = [name for name in vars(Plain) if not name.startswith("_")]
    tf.saved_model.save(module, folder, signatures={name: getattr(module, name) for name in names})


class Sparse(tf.Module):
    @tf.function(input_signature=[tf.SparseTensorSpec([None, 5], tf.float32)])
    def predict(self, x):
        return {"sum": tf.sparse.reduce_sum(x, axis=1)}


class Ragged(tf.Module):
    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.float32)])
    def predict(self, x):
        return {"sum": tf.reduce_sum(x, axis=1)}


class PyFunc(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, "x")])
    def predict(self, x):
        return {"y": tf.py_function(lambda value: value + 1, [x], tf.float32)}


def many(folder):
    module = Many()
    tf.saved_model.save(module, folder, signatures={"serving_default": module.predict, "types": module.types})


def sparse(folder):
    module = Sparse()
    tf.saved_model.save(module, folder, signatures=module.predict)


def ragged(folder):
    module = Ragged()
    tf.saved_model.save(module, folder, signatures=module.predict)


def py_func(folder):
    module = PyFunc()
    tf.saved_model.save(module, folder, signatures=module.predict)


def no_signature(folder):
    tf.saved_model.save(tf.Module(), folder)


def keras_3(folder):
    image = keras.Input([4], name="image")
    model = keras.Model(image, keras.layers.Dense(2, name="digit")(image))
    model.export(folder, verbose=False)


def layers(folder):
    """Outputs that are called output_0, …, of layers whose names are in the graph with numbers behind them: x_1 is the
    scope of the layer x, and x_1_2 that of x_1. The layer y_1 makes no output."""
    image = keras.Input([4], name="image")
    shared = keras.layers.Dense(2, name="shared")
    y = keras.layers.Dense(3, "relu", name="y")(image)
    outputs = [
        keras.layers.Dense(2, "softmax", name="digit")(keras.layers.Dense(3, name="y_1")(y)),
        y,
        keras.layers.Dense(2, name="x_1")(image),
        keras.layers.Dense(2, name="x")(image),
        shared(image),
        shared(keras.layers.Rescaling(2.0)(image)),
        keras.Sequential([keras.Input([3]), keras.layers.Dense(2, name="last")], name="head")(y),
        keras.layers.Flatten(name="flat")(image),
        image,
    ]
    keras.Model(image, outputs).export(folder, verbose=False)


def layers_tf_keras(folder):
    """The same where scopes have the names of layers."""
    image = tf_keras.Input([4], name="image")
    hidden = tf_keras.layers.Dense(3, name="dense")(image)
    outputs = [
        tf_keras.layers.Dense(2, name="other")(hidden),
        tf_keras.layers.Dense(1, "sigmoid", name="dense_1")(hidden),
        tf_keras.layers.Dropout(0.5, name="drop")(hidden),
    ]
    tf_keras.Model(image, outputs).export(folder)


def old_style(folder):
    """Of TensorFlow 1, with two graphs and an op that is run at the start."""
    v1 = tf.compat.v1
    graph = v1.Graph()
    with graph.as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        weights = v1.get_variable("w", initializer=tf.ones([3, 1]))
        y = tf.matmul(x, weights, name="y")
        table = v1.lookup.StaticVocabularyTable(
            v1.lookup.KeyValueTensorInitializer(["a"], tf.constant([0], tf.int64)), num_oov_buckets=1
        )
        label = table.lookup(v1.placeholder(tf.string, [None], "word"))
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        describe = v1.saved_model.utils.build_tensor_info
        predict = v1.saved_model.build_signature_def(
            {"x": describe(x)}, {"y": describe(y), "label": describe(label)}, "tensorflow/serving/predict"
        )
        builder = v1.saved_model.Builder(folder)
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": predict}, main_op=v1.tables_initializer()
        )
        builder.add_meta_graph(["serve", "gpu"], {"on_gpu": predict})
        builder.save()


def tensors(found):
    def describe(info):
        shape = None if info.tensor_shape.unknown_rank else [dim.size for dim in info.tensor_shape.dim]
        form = {"name": "dense", "coo_sparse": "sparse", "composite_tensor": "composite"}[info.WhichOneof("encoding")]
        return {"tensor": info.name, "form": form, "dtype": tf.as_dtype(info.dtype).name, "shape": shape}

    return {name: describe(info) for name, info in found.items()}


def ops_of(graph):
    functions = {function.signature.name for function in graph.library.function}
    nodes = [node.op for node in graph.node]
    nodes += [node.op for function in graph.library.function for node in function.node_def]
    return sorted(set(nodes) - functions)


def expected(path):
    model = saved_model_pb2.SavedModel()
    with open(path, "rb") as file:
        model.ParseFromString(file.read())
    graphs = []
    for graph in model.meta_graphs:
        signatures = {
            name: {"method": each.method_name, "inputs": tensors(each.inputs), "outputs": tensors(each.outputs)}
            for name, each in graph.signature_def.items()
            if not name.startswith(INITS)
        }
        saver = graph.saver_def
        graphs.append(
            {
                "tags": list(graph.meta_info_def.tags),
                "version": graph.meta_info_def.tensorflow_version,
                "signatures": signatures,
                "ops": ops_of(graph.graph_def),
                "saver": [saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name],
            }
        )
    return {"graphs": graphs}


def main():
    wanted = sys.argv[1:]
    for make in (many, plain, sparse, ragged, py_func, no_signature, keras_3, layers, layers_tf_keras, old_style):
        if wanted and make.__name__ not in wanted:
            continue
        kept = os.path.join(HERE, make.__name__)
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(kept)
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "model")
            make(folder)
            shutil.copy(os.path.join(folder, "saved_model.pb"), kept)
        with open(os.path.join(kept, "expected.json"), "w", encoding="utf-8") as file:
            json.dump(expected(os.path.join(kept, "saved_model.pb")), file, indent=1, sort_keys=True)
            file.write("\n")


if __name__ == "__main__":
    main()
