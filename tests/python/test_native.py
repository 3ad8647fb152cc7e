"""Models that are exported to be trained without Python: loaded as a program in C does it, and compared with Keras."""

import importlib
import json
import os
import shutil
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow", allow_module_level=True)

import tensorflow as tf

import native_cases
from native_tools import Session, part
from tensorflowonspark import native

BOUND = 1e-6


def load(package):
    keras = importlib.import_module(package)
    keras.utils.set_random_seed(7)  # weights are the same in every run
    return keras


def compile_as(keras, model, options):
    options = {key: value for key, value in options.items() if value is not None}
    optimizer = options.pop("optimizer")
    plain = {"jit_compile": False} if keras.__name__ == "tf_keras" else {}
    model.compile(optimizer() if callable(optimizer) else optimizer, **options, **plain)


def state_of(model):
    variables = model.optimizer.variables
    return [np.asarray(each) for each in (variables() if callable(variables) else variables)]


def all_of(model):
    metrics = [variable for metric in model.metrics for variable in metric.variables]
    return [*(np.asarray(each) for each in (*model.variables, *metrics)), *state_of(model)]


def close(found, wanted, bound=BOUND):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, np.asarray(other), rtol=bound, atol=bound)


def train_in_keras(model, case, batches):
    losses = []
    for batch in batches:
        if hasattr(model, "reset_metrics"):
            model.reset_metrics()
        x, y, weight = (*case.data(batch), None)[:3]
        logs = model.train_on_batch(x, y, sample_weight=weight, return_dict=True)
        losses.append(float(logs.get("loss", next(iter(logs.values())))))
    return losses


def evaluate_in_keras(model, case, batches):
    """Batches differ in size, and are evaluated one by one; Keras lets losses of several outputs count alike then."""
    whole = {key: np.concatenate([batch[key] for batch in batches]) for key in batches[0]}

    def dataset(batches):
        like = case.data(batches[0])
        specs = tf.nest.map_structure(lambda each: tf.TensorSpec([None, *each.shape[1:]], each.dtype), tuples(like))
        data = tf.data.Dataset.from_generator(lambda: map(tuples, map(case.data, batches)), output_signature=specs)
        return data.apply(tf.data.experimental.assert_cardinality(len(batches)))

    each = model.evaluate(dataset(batches), return_dict=True, verbose=0)
    if not any(key.endswith("_loss") for key in each):
        return each
    found = model.evaluate(dataset([whole]), return_dict=True, verbose=0)
    return found | {key: value for key, value in each.items() if not key.endswith("_loss")}


def tuples(value):
    return tuple(map(tuples, value)) if isinstance(value, (list, tuple)) else value


def evaluate(session, batches):
    return session.run("results", metrics=sum(session.run("evaluate", **batch)["metrics"] for batch in batches))


# ---- as Keras does ----

PACKAGES = ["keras", pytest.param("tf_keras", marks=pytest.mark.long)]
OPTIMIZERS = [*native_cases.DAILY, *(pytest.param(name, marks=pytest.mark.long) for name in native_cases.REST)]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(tmp_path, package, name):
    keras = load(package)
    made = native_cases.optimizers(keras)
    if name not in made:
        pytest.skip(f"{package} {keras.__version__} has no such optimizer, or it is refused")
    case = native_cases.Case(native_cases.dense, optimizer=made[name], loss=native_cases.logits(keras))
    model, batches = case.make(keras), case.batches()
    options = {"check": False, "distributed": name == "scale"}
    native.export(model, made[name](), case.compiled["loss"], path=tmp_path / "model", **options)
    with Session(tmp_path / "model") as session:
        steps = [session.train(batch) for batch in batches]
        found = session.variables(tmp_path)
        compile_as(keras, model, case.compiled)
        losses = train_in_keras(model, case, batches)
        close([step["loss"] for step in steps], losses)
        close(part(found, "weights"), model.weights)
        close(part(found, "optimizer"), state_of(model))
        assert steps[-1]["iterations"] == int(np.asarray(model.optimizer.iterations))
        session.run("finalize")
        model.optimizer.finalize_variable_values(model.trainable_variables)
        close(part(session.variables(tmp_path), "weights"), model.weights)


LONG = ("dense", "masks", "half precision", "sample weights", "several, in dicts", "strings")
MODELS = ["moving statistics and seeds", "several, in lists", "own class", "curves"]
MODELS += [pytest.param(name, marks=pytest.mark.long) for name in LONG]


@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.parametrize("name", MODELS)
def test_model(tmp_path, package, name):
    """Steps, sums of metrics, predictions: what Keras does with the same batches."""
    keras = load(package)
    case = native_cases.models(keras)[name]
    model, batches = case.make(keras), case.batches()
    options = dict(case.compiled) | {"optimizer": case.compiled["optimizer"]()}
    seen = native.export(model, path=tmp_path / "model", **options, **case.options)
    bound = 5e-3 if name == "half precision" else BOUND
    exact = seen["exact_resume"]
    with Session(tmp_path / "model") as session:
        steps = [session.train(batch) for batch in batches]
        found = session.variables(tmp_path)
        compile_as(keras, model, case.compiled)
        losses = train_in_keras(model, case, batches)
        if exact:
            close([step["loss"] for step in steps], losses, bound)
            close(part(found, "weights"), model.weights, bound)
            close(part(found, "optimizer"), state_of(model), max(bound, 1e-6))
        else:
            native.load_weights(model, session.save(tmp_path / "now"))
        results = evaluate(session, batches)
        wanted = evaluate_in_keras(model, case, batches)
        for key, value in wanted.items():
            np.testing.assert_allclose(results[key], value, rtol=max(bound, 1e-5), atol=1e-6, err_msg=key)
        inputs = {port["key"]: batches[0][port["name"]] for port in seen["inputs"]}
        predicted = session.run("serving_default", **inputs)
        answer = model(case.data(batches[0])[0], training=False)
        close([predicted[port["key"]] for port in seen["outputs"]], tf.nest.flatten(answer), max(bound, 1e-5))


@pytest.mark.parametrize("package", PACKAGES)
def test_step_of_the_program(tmp_path, package):
    """Two optimizers, a compile and a train_step of its own: all as the model was compiled."""
    keras = load(package)
    case = native_cases.Case(native_cases.own_step)
    model, batches = case.make(keras), case.batches()
    example = case.data(batches[0])
    seen = native.export(model, path=tmp_path / "model", batch=example)
    assert seen["logs"]["train"] == {"metrics": [], "means": ["own_loss"]}
    assert seen["logs"]["evaluate"]["metrics"] == ["loss"]
    with Session(tmp_path / "model") as session:
        together = [session.train(batch, signature="train_together") for batch in batches]  # of a group of one
        session.restore(os.path.join(tmp_path, "model", "variables", "variables"))
        steps = [session.train(batch) for batch in batches]
        found = part(session.variables(tmp_path), "weights")
        losses = train_in_keras(model, case, batches)
        close([step["log_own_loss"] for step in steps], losses)
        close([step["log_own_loss"] for step in together], losses)
        close(found, model.weights)


@pytest.mark.parametrize("package", PACKAGES)
def test_as_it_was_compiled(tmp_path, package):
    """Without arguments, a model that was trained already goes on from where it is, and stays as it is."""
    keras = load(package)
    case = native_cases.models(keras)["moving statistics and seeds"]
    model, batches = case.make(keras), case.batches()
    compile_as(keras, model, case.compiled)
    train_in_keras(model, case, batches[:2])
    before, values = dict(vars(model)), all_of(model)
    seen = native.export(model, path=tmp_path / "model")
    other = native.export(model, "sgd", path=tmp_path / "other", check=False, distributed=False)
    assert {key: id(value) for key, value in vars(model).items()} == {key: id(value) for key, value in before.items()}
    close(all_of(model), values, 0)
    assert [other["optimizer"]["name"], other["metrics"]] == ["SGD", seen["metrics"]]  # and all else as compiled
    exact = seen["exact_resume"]
    with Session(tmp_path / "model") as session:
        assert session.run("status")["iterations"] == 2
        for batch in batches[2:]:
            session.train(batch)
        train_in_keras(model, case, batches[2:])
        found = session.variables(tmp_path)
        if exact:
            close(part(found, "weights"), model.weights)
            close(part(found, "optimizer"), state_of(model))


# ---- state ----


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(folder, description, model, case)."""
    keras = load("keras")
    case = native_cases.models(keras)["moving statistics and seeds"]
    model = case.make(keras)
    folder = tmp_path_factory.mktemp("exported")
    options = dict(case.compiled) | {"optimizer": keras.optimizers.Adam(0.01)}
    return folder / "model", native.export(model, path=folder / "model", **options, check=False), model, case


def test_resume_is_exact(tmp_path, exported):
    """Checkpoints of a session, by the tensors that saver_def names; in another session, to the bit."""
    folder, _, _, case = exported
    batches = case.batches()
    with Session(folder) as session:
        first = session.variables(tmp_path)
        for batch in batches[:2]:
            session.train(batch)
        middle = session.save(tmp_path / "ckpt-2")
        losses = [session.train(batch)["loss"] for batch in batches[2:]]
        wanted = session.variables(tmp_path)
        session.restore(os.path.join(folder, "variables", "variables"))  # the state that was exported: from the start
        assert session.run("status")["iterations"] == 0
        for key, value in session.variables(tmp_path).items():
            np.testing.assert_array_equal(value, first[key], err_msg=key)
    with Session(folder) as session:
        session.restore(middle)
        assert session.run("status")["iterations"] == 2
        assert [session.train(batch)["loss"] for batch in batches[2:]] == losses
        found = session.variables(tmp_path)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def test_checkpoint_of_another_export(tmp_path, exported):
    """The same model, made anew: Keras gives its layers other names. Here for one worker alone."""
    folder, seen, _, case = exported
    keras = load("keras")
    options = case.compiled | {"optimizer": keras.optimizers.Adam(0.01)}
    other = native.export(case.make(keras), path=tmp_path / "other", **options, distributed=False, check=False)
    assert seen["variables"]["weights"][0]["name"] != other["variables"]["weights"][0]["name"]
    with Session(folder) as session:
        session.train(case.batches()[0])
        prefix, wanted = session.save(tmp_path / "ckpt-1"), session.variables(tmp_path)
    with Session(tmp_path / "other") as session:
        assert not {"train_together", "synchronize"} & session.signatures
        session.restore(prefix)
        found = session.variables(tmp_path)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        np.testing.assert_array_equal(found[key], value, err_msg=key)


def test_learning_rate(tmp_path, exported):
    folder, _, _, case = exported
    [batch] = case.batches([4])
    with Session(folder) as session:
        assert session.run("status")["learning_rate"] == np.float32(0.01)
        before = part(session.variables(tmp_path), "weights")
        assert session.train(batch, rate=0.0)["learning_rate"] == 0.0
        weights = part(session.variables(tmp_path), "weights")
        np.testing.assert_array_equal(weights[0], before[0])
        for rate in (-1.0, np.nan):
            assert session.train(batch, rate=rate)["learning_rate"] == np.float32(0.01)
        assert session.train(batch, rate=0.5)["learning_rate"] == np.float32(0.5)
        assert session.run("status")["learning_rate"] == np.float32(0.01)


def test_weights_come_back(tmp_path, exported):
    folder, _, _, case = exported
    keras = load("keras")
    batches = case.batches()
    with Session(folder) as session:
        for batch in batches[:2]:
            session.train(batch)
        prefix = session.save(tmp_path / "ckpt-2")
        session.train(batches[2])
        found = session.variables(tmp_path)
    tf.compat.v1.train.update_checkpoint_state(str(tmp_path), prefix)
    model = case.make(keras)
    compile_as(keras, model, case.compiled)
    model.optimizer.build(model.trainable_variables)
    native.load_weights(model, tmp_path, optimizer=True)
    assert int(np.asarray(model.optimizer.iterations)) == 2
    for layer in model.layers:
        if hasattr(layer, "seed_generator") and hasattr(layer.seed_generator, "state"):
            layer.seed_generator.state.assign(tf.train.load_checkpoint(prefix).get_tensor(_seed_key(prefix)))
    train_in_keras(model, case, batches[2:])
    close(part(found, "weights"), model.weights)
    close(part(found, "optimizer"), state_of(model))
    fresh = case.make(keras)
    native.load_weights(fresh, folder)  # what was exported
    np.testing.assert_array_equal(
        fresh.weights[0], tf.train.load_checkpoint(_variables(folder)).get_tensor(_first(folder))
    )


def _variables(folder):
    return os.path.join(folder, "variables", "variables")


def _first(folder):
    return min(name for name, _ in tf.train.list_variables(_variables(folder)) if name.startswith("weights/0000"))


def _seed_key(prefix):
    return next(name for name, _ in tf.train.list_variables(prefix) if name.startswith("state/"))


def test_checkpoint_of_another_model(tmp_path, exported):
    folder, _, _, case = exported
    keras = load("keras")
    other = native_cases.dense(keras)
    before = [np.asarray(each) for each in other.weights]
    with pytest.raises(ValueError, match=r"kernel of the model is \[7, 3\], and .*beta in its place \[7\]"):
        native.load_weights(other, folder)
    inner = [keras.layers.Dense(7, use_bias=False), keras.layers.BatchNormalization()]
    with pytest.raises(ValueError, match=r"it has 7 variables and the model 5; the model has no .*kernel"):
        native.load_weights(keras.Sequential([keras.layers.Input((5,)), *inner]), folder)
    wide = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(7), keras.layers.BatchNormalization()])
    with pytest.raises(ValueError, match=r"kernel of the model is \[3, 7\], and .*kernel in its place \[5, 7\]"):
        native.load_weights(wide, folder)
    with pytest.raises(ValueError, match="has no optimizer to load the state of"):
        native.load_weights(case.make(keras), folder, optimizer=True)
    compile_as(keras, clone := case.make(keras), case.compiled | {"optimizer": "sgd"})
    with pytest.raises(ValueError, match="has no variables yet"):
        native.load_weights(clone, folder, optimizer=True)
    clone.optimizer.build(clone.trainable_variables)
    with pytest.raises(
        ValueError, match="another optimizer: it has 12 variables and its optimizer 2; its optimizer has no adam"
    ):
        native.load_weights(clone, folder, optimizer=True)
    with pytest.raises(FileNotFoundError, match="there is no checkpoint at"):
        native.load_weights(other, tmp_path / "nothing")
    tf.train.Checkpoint(x=tf.Variable(1.0)).write(str(tmp_path / "strange"))
    with pytest.raises(ValueError, match=r"has no weights of a model that native.export has written"):
        native.load_weights(other, tmp_path / "strange")
    close(other.weights, before, 0)


def test_serving_with_trained_weights(tmp_path, exported):
    """The model in `serving` knows nothing of training, and takes a checkpoint of training for its variables."""
    folder, seen, _, case = exported
    batches = case.batches()
    copy = tmp_path / "served"
    shutil.copytree(folder / "serving", copy)
    shutil.rmtree(copy / "variables")
    with Session(folder) as session:
        for batch in batches:
            session.train(batch)
        wanted = session.run("serving_default", input=batches[0]["input"])["output"]
        (copy / "variables").mkdir()
        session.save(copy / "variables" / "variables")
    loaded = tf.saved_model.load(str(copy))
    np.testing.assert_array_equal(
        loaded.signatures["serving_default"](input=tf.constant(batches[0]["input"]))["output"], wanted
    )
    with Session(copy) as session:
        assert session.signatures == {"serving_default"}
        np.testing.assert_array_equal(session.run("serving_default", input=batches[0]["input"])["output"], wanted)
    with open(folder / "assets.extra" / "tfos.json") as file:
        assert json.load(file) == seen


# ---- names ----


def test_names(tmp_path, exported):
    _, seen, _, _ = exported
    assert [[port["name"] for port in seen[side]] for side in ("inputs", "labels", "outputs")] == [
        ["input"],
        ["label"],
        ["output"],
    ]
    keras = load("keras")
    model = native_cases.people(keras)
    loss = {"kind": native_cases.logits(keras), "age": "mse"}
    names = {"kind": "class", "face": "pixels of a face"}
    seen = native.export(model, "adam", loss, path=tmp_path / "model", names=names, check=False, distributed=False)
    assert [port["name"] for port in seen["inputs"]] == ["pixels of a face", "name"]
    assert [port["key"] for port in seen["inputs"]] == ["pixels_of_a_face", "name"]
    assert [port["name"] for port in seen["labels"]] == [port["name"] for port in seen["outputs"]] == ["class", "age"]
    with pytest.raises(ValueError, match="a label is called 'face', and so is an input"):
        native.export(model, "adam", loss, path=tmp_path / "again", names={"age": "face"})
    with pytest.raises(ValueError, match="names= says how 'size' is to be called, which there is not"):
        native.export(model, "adam", loss, path=tmp_path / "again", names={"size": "sizes"}, distributed=False)
    assert not (tmp_path / "again").exists()


# ---- many workers ----

TOGETHER = """
sys.path.insert(0, {here!r})
import pathlib
import numpy as np
import native_cases
from tensorflowonspark import collective
import tensorflow as tf
from native_tools import Session, part

collective.token()
rank = collective.rank()
folder = pathlib.Path({folder!r})
found = {{}}
for name, kind in {kinds!r}.items():
    mine = native_cases.batches(kind, {rows!r}[rank], rank)
    mine_folder = folder / f"{{name}}.{{rank}}"
    mine_folder.mkdir()
    with Session(folder / name) as session:
        if rank == 1:
            session.train(mine[0])  # something else than what the first has
        session.run("synchronize", source=float(rank == 0), rows=float(rank == 0))
        steps = [session.train(batch, signature="train_together") for batch in mine]
        alone = part(session.variables(mine_folder), "weights")
        last = collective.join()
        rows = float(sum(step["rows"] for step in steps))
        session.run("synchronize", source=float(rank == last), rows=rows)
        after = session.variables(mine_folder)
        values = {{key: [each.tolist() for each in part(after, key)] for key in ("weights", "optimizer")}}
        found[name] = values | {{"last": last, "rows": rows, "alone": [each.tolist() for each in alone]}}
with open(folder / f"result.{{rank}}", "w") as file:
    json.dump(found, file)
"""

ROWS_OF = [[4, 2], [3, 5, 1]]


def test_together(tmp_path):
    """Two workers, of which one has fewer batches: as one process that has the batches of both."""
    from feed_tools import FedCluster

    keras = load("keras")
    names = ["masks", "moving statistics and seeds"]
    models, kinds = {}, {}
    for name in names:
        case = native_cases.models(keras)[name]
        models[name], kinds[name] = case.make(keras), case.kind
        options = case.compiled | {"optimizer": case.compiled["optimizer"]()}
        native.export(models[name], path=tmp_path / name, **options, check=False)
    here = os.path.dirname(os.path.abspath(__file__))
    program = TOGETHER.format(here=here, folder=str(tmp_path), kinds=kinds, rows=ROWS_OF)
    with FedCluster(tmp_path, program, nodes=2) as cluster:
        cluster.wait(lambda: False, 200)
        assert cluster.failure is None, cluster.failure
    first, second = (json.loads((tmp_path / f"result.{rank}").read_text()) for rank in range(2))
    for name in names:
        for key in ("weights", "optimizer"):
            assert first[name][key] == second[name][key], f"{name}: not the same bits"
        assert first[name]["last"] == 1
    case, model = native_cases.models(keras)[names[0]], models[names[0]]
    compile_as(keras, model, case.compiled)
    each = [case.batches(rows, seed=rank) for rank, rows in enumerate(ROWS_OF)]
    both = [[one[step] for one in each if step < len(one)] for step in range(3)]
    joined = [{key: np.concatenate([one[key] for one in step]) for key in step[0]} for step in both]
    train_in_keras(model, case, joined)
    close(first[names[0]]["weights"], model.weights)
    close(first[names[0]]["optimizer"], state_of(model))
    found = [each[names[1]] for each in (first, second)]
    mean = np.average([np.array(each["alone"][3]) for each in found], axis=0, weights=[each["rows"] for each in found])
    close([found[0]["weights"][3]], [mean])


# ---- what is refused ----


def _with_python(keras):
    layers = keras.layers

    class Python(layers.Layer):
        def call(self, x):
            return tf.ensure_shape(tf.numpy_function(lambda a: a * 2, [x], tf.float32), x.shape)

    model = keras.Sequential([Python(), layers.Dense(1)])
    model(np.zeros((1, 2), "float32"))
    return model


def _counting(keras):
    """A layer that does something else each time that it is traced."""

    class Counting(keras.layers.Layer):
        count = 0

        def call(self, x):
            Counting.count += 1
            return x * float(Counting.count)

    return keras.Sequential([keras.layers.Input((2,)), Counting(), keras.layers.Dense(1)])


def _largest(keras):
    class Largest(keras.metrics.Metric):
        def __init__(self):
            super().__init__(name="largest")
            self.most = self.add_weight(name="most", shape=(), initializer="zeros")

        def update_state(self, y_true, y_pred, sample_weight=None):
            self.most.assign(tf.maximum(self.most, tf.reduce_max(y_true)))

        def result(self):
            return self.most

    return Largest()


def _one(keras):
    return keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])


def _fails_in_a_graph(keras):
    class Eager(keras.Model):
        def train_step(self, data):
            return {"loss": float(np.sum(data[0].numpy()))}

    x = keras.layers.Input((2,))
    return Eager(x, keras.layers.Dense(1)(x))


BATCH = (np.ones((4, 2), "float32"), np.ones((4, 1), "float32"))

REFUSED = {
    "python": (_with_python, {"batch": BATCH}, "numpy_function, and there is no Python where the model is trained"),
    "traced anew": (_counting, {}, "does not do what the model does: the loss of a step is"),
    "no sum": (_one, {"metrics": [_largest]}, "the metric 'largest' does not add up over batches"),
    "own loss": (_one, {"loss": lambda y, p: tf.square(y - p)}, "what labels the loss '<lambda>' of output is given"),
    "no batch": (native_cases.own, {}, "Own does not say what it is given"),
    "not built": (
        lambda keras: keras.Sequential([keras.layers.Dense(1)]),
        {},
        "has no variables yet: call it on a batch",
    ),
    "batch": (_one, {"batch": BATCH[0]}, "batch is a tuple"),
    "no optimizer": (_one, {"optimizer": None}, "there is no optimizer: compile the model"),
    "wire": (_one, {"wire": "int8"}, "wire is 'float32'"),
    "op": (_one, {"op": "median"}, "op is 'mean' or 'sum'"),
    "eager": (_fails_in_a_graph, {"distributed": False}, "train_step of Eager cannot become a graph"),
    "whole batch": (
        _one,
        {"loss": lambda y, p: tf.reduce_mean(p), "batch": BATCH},
        "a loss gives one number for the whole.*distributed=False",
    ),
}


def test_a_batch_says_what_the_model_does_not(tmp_path):
    """Types as fit takes them, and sizes that a model needs."""
    import tensorflow as tf

    keras = load("keras")
    small = keras.Sequential([keras.Input([3]), keras.layers.Dense(1)])
    x, y = np.random.default_rng(1).random((12, 3)), np.arange(12).reshape(12, 1)

    def own(wanted, found):
        return keras.ops.mean(keras.ops.square(keras.ops.cast(wanted, "float32") - found), -1)

    for given, dtype in (((x, y), "int64"), ((tf.constant(x), tf.constant(y, tf.float64)), "float32")):
        said = native.export(small, "sgd", own, path=tmp_path / "small", batch=given, overwrite=True)
        assert [each["dtype"] for each in (*said["inputs"], *said["labels"])] == ["float32", dtype]
    layers = [keras.layers.Conv2D(2, 5), keras.layers.MaxPooling2D(4), keras.layers.GlobalAveragePooling2D()]
    wide = keras.Sequential([keras.Input([None, None, 1]), *layers, keras.layers.Dense(1)])
    with pytest.raises(ValueError, match=r"made-up ones, with 2 for each size that is open; the model failed.*batch="):
        native.export(wide, "sgd", "mse", path=tmp_path / "wide")
    specs = tf.TensorSpec([None, 9, 8, 1]), tf.TensorSpec([None, 1])
    for given in (specs, (np.zeros([5, 9, 8, 1]), np.zeros([5, 1]))):
        said = native.export(wide, "sgd", "mse", path=tmp_path / "wide", batch=given, overwrite=True)
        assert said["inputs"][0]["shape"] == [None, None, None, 1]
    with pytest.raises(ValueError, match="expected the folder to write"):
        native.export(small, "sgd", "mse", path="")


@pytest.mark.parametrize("name", REFUSED)
def test_refused(tmp_path, name):
    keras = load("keras")
    make, options, message = REFUSED[name]
    options = {"optimizer": "sgd", "loss": "mse", "path": tmp_path / "model"} | options
    if "metrics" in options:
        options["metrics"] = [each(keras) for each in options["metrics"]]
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        native.export(make(keras), **options)
    assert not (tmp_path / "model").exists()


def test_refused_things(tmp_path):
    keras = load("keras")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(FileExistsError, match="give another path, or overwrite=True"):
        native.export(_one(keras), "sgd", "mse", path=tmp_path / "there")
    with pytest.raises(FileExistsError, match="is no SavedModel, and is not overwritten"):
        native.export(_one(keras), "sgd", "mse", path=tmp_path / "there", overwrite=True)
    assert (tmp_path / "there" / "file").exists()
    with pytest.raises(TypeError, match="needs a path"):
        native.export(_one(keras), "sgd", "mse")
    with pytest.raises(TypeError, match="expected a model of Keras, found dict"):
        native.export({}, "sgd", "mse", path=tmp_path / "model")
