"""Params and arguments of estimators and models, without a Spark application."""

import argparse
import pickle
import subprocess
import sys
import threading
import types

import pytest
from tensorflowonspark import TFCluster, pipeline
from tensorflowonspark.pipeline import Namespace, TFEstimator, TFModel

SPARK = TFCluster.InputMode.SPARK

# Param, default, and another value, as in release 2.2.5.
OF_ESTIMATOR = {
    "BatchSize": ("batch_size", 100, 7),
    "ClusterSize": ("cluster_size", 1, 3),
    "DriverPSNodes": ("driver_ps_nodes", False, True),
    "Epochs": ("epochs", 1, 5),
    "ExportDir": ("export_dir", None, "/export"),
    "GraceSecs": ("grace_secs", 30, 60),
    "InputMapping": ("input_mapping", {}, {"a": "x"}),
    "InputMode": ("input_mode", SPARK, 0),
    "MasterNode": ("master_node", "chief", "master"),
    "ModelDir": ("model_dir", None, "/model"),
    "NumPS": ("num_ps", 0, 2),
    "Protocol": ("protocol", "grpc", "rdma"),
    "Readers": ("readers", 1, 4),
    "Steps": ("steps", 1000, 9),
    "TFRecordDir": ("tfrecord_dir", None, "/records"),
    "Tensorboard": ("tensorboard", False, True),
}
OF_MODEL = {
    "BatchSize": ("batch_size", 100, 7),
    "ExportDir": ("export_dir", None, "/export"),
    "InputMapping": ("input_mapping", {}, {"a": "x"}),
    "ModelDir": ("model_dir", None, "/model"),
    "OutputMapping": ("output_mapping", {}, {"y": "prediction"}),
    "SignatureDefKey": ("signature_def_key", None, "serving_default"),
    "TagSet": ("tag_set", None, "serve"),
}
ADDED_TO_MODEL = {
    "KeepCols": ("keep_cols", [], ["id", "label"]),
    "OpLibraries": ("op_libraries", [], ["/lib/ops.so"]),
}
ADDED = {
    "FeedTimeout": ("feed_timeout", 600.0, 5.0),
    "ValidationCol": ("validation_col", None, "held_out"),
    **{name: OF_MODEL[name] for name in ("OutputMapping", "SignatureDefKey", "TagSet")},
}


def train(args, ctx):
    pass


def estimator(args=None):
    return TFEstimator(train, {} if args is None else args)


# ---- Namespace ----


@pytest.mark.parametrize("make", [dict, lambda found: argparse.Namespace(**found), Namespace])
def test_namespace_of_names(make):
    given = {"text": "foo", "number": 1, "list": [1, 2], "map": {"a": 1}}
    found = Namespace(make(given))
    assert (found.text, found.number, found.list, found.map) == ("foo", 1, [1, 2], {"a": 1})
    assert found == Namespace(given) == argparse.Namespace(**given)
    assert found != Namespace({"text": "bar"}) and found != 3
    assert list(found) == list(given) and "text" in found and "extra" not in found
    assert repr(found) == "Namespace(list=[1, 2], map={'a': 1}, number=1, text='foo')"
    assert found.argv is None


def test_namespace_of_words():
    words = ["--foo", "1", "--bar"]
    found = Namespace(words)
    assert found.argv == words and list(found) == words and repr(found) == repr(words)
    assert found == Namespace(list(words)) and found == words and found != Namespace(["--foo"])
    assert Namespace(found) == found


def test_namespace_of_something_else_is_refused():
    with pytest.raises(TypeError, match=r"a dict, what argparse returns, .*found 'abc' \(str\)"):
        Namespace("abc")


def test_nodes_read_arguments_without_pyspark():
    """They start in a tenth of a second, and PySpark alone takes longer."""
    pickled = pickle.dumps(estimator({"a": 1}).merge_args_params())
    look = f"import pickle, sys; print(pickle.loads({pickled!r}).a, 'pyspark' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", look], text=True) == "1 False\n"


# ---- params ----


@pytest.mark.parametrize("name", [*OF_ESTIMATOR, *ADDED])
def test_params_of_the_estimator(name):
    check_param(estimator(), name, *(OF_ESTIMATOR | ADDED)[name])


@pytest.mark.parametrize("name", [*OF_MODEL, *ADDED_TO_MODEL])
def test_params_of_the_model(name):
    check_param(TFModel({}), name, *(OF_MODEL | ADDED_TO_MODEL)[name])


def check_param(stage, name, param, default, other):
    get, put = getattr(stage, f"get{name}"), getattr(stage, f"set{name}")
    assert get() == default and not stage.isSet(param)
    assert put(other) is stage
    assert get() == other == getattr(stage.merge_args_params(), param)
    assert isinstance(stage, getattr(pipeline, f"Has{name}"))
    assert stage.explainParam(param).startswith(param + ": ")


@pytest.mark.parametrize("name", ["ExportDir", "MasterNode", "ModelDir", "SignatureDefKey", "TagSet", "ValidationCol"])
def test_nothing_can_be_set(name):
    stage = getattr(estimator(), f"set{name}")(None)
    assert getattr(stage, f"get{name}")() is None


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("BatchSize", "many", '"batch_size".*many'),
        ("ClusterSize", 1.5, '"cluster_size".*1.5'),
        ("Tensorboard", "yes", '"tensorboard".*[Bb]oolean'),
        ("ModelDir", 3, r'"model_dir".*a text; found 3 \(int\)'),
        ("InputMapping", ["a"], r'"input_mapping".*a dict of names by names.*found \[\'a\'\]'),
        ("InputMapping", {"a": 1}, r'"input_mapping".*a dict of names by names.*found \{\'a\': 1\}'),
        ("InputMode", 2, '"input_mode".*InputMode.TENSORFLOW or InputMode.SPARK; found 2'),
        ("FeedTimeout", "soon", '"feed_timeout".*soon'),
        ("KeepCols", "id", '"keep_cols".*id'),
        ("OpLibraries", [3], '"op_libraries".*3'),
    ],
)
def test_a_param_of_another_kind_is_refused(name, value, found):
    stage = TFModel({}) if name in ADDED_TO_MODEL else estimator()
    with pytest.raises(TypeError, match=found):
        getattr(stage, f"set{name}")(value)


@pytest.mark.parametrize(("given", "found"), [({"train_fn": 3}, "train_fn"), ({"export_fn": "x"}, "export_fn")])
def test_what_is_no_function_is_refused(given, found):
    with pytest.raises(TypeError, match=f"{found} is a function that is called as {found}"):
        TFEstimator(**({"train_fn": train, "tf_args": {}} | given))


# ---- arguments and params ----


def test_params_are_merged_into_a_copy_of_the_arguments():
    class Stage(pipeline.TFParams, pipeline.HasBatchSize, pipeline.HasSteps):
        def __init__(self, args):
            super().__init__()
            self.args = args

    arguments = Namespace({"a": 1, "b": 2})
    merged = Stage(arguments).setBatchSize(10).setSteps(100).merge_args_params()
    assert merged == Namespace({"a": 1, "b": 2, "batch_size": 10, "steps": 100})
    assert arguments == Namespace({"a": 1, "b": 2})


def test_params_go_before_arguments():
    """Their defaults, too, as programs know it: that is why those call setEpochs(args.epochs)."""
    merged = estimator(argparse.Namespace(epochs=3, steps=5, rate=0.1)).setSteps(7).merge_args_params()
    assert (merged.epochs, merged.steps, merged.rate) == (1, 7, 0.1)


def test_params_that_were_added_hide_no_argument():
    arguments = {"feed_timeout": "mine", "tag_set": "mine"}
    merged = estimator(arguments).merge_args_params()
    assert (merged.feed_timeout, merged.tag_set, merged.validation_col) == ("mine", "mine", None)
    assert estimator(arguments).setFeedTimeout(5).merge_args_params().feed_timeout == 5.0


def test_words_stay_beside_params():
    merged = estimator(["--epochs", "3"]).setEpochs(2).merge_args_params()
    assert (merged.argv, merged.epochs) == (["--epochs", "3"], 2)


def test_a_copy_has_params_of_its_own():
    first = estimator({"a": 1}).setEpochs(2)
    second = first.copy({first.batch_size: 5})
    second.setEpochs(3)
    assert (first.getEpochs(), first.getBatchSize()) == (2, 100)
    assert (second.getEpochs(), second.getBatchSize()) == (3, 5)
    assert second.train_fn is train and second.uid == first.uid


# ---- fits, without a cluster ----


def fits_of(monkeypatch, stage, maps):
    """The iterator that CrossValidator uses; a fit returns the epochs that it was to have."""
    monkeypatch.setattr(TFEstimator, "_fit", lambda self, dataset: self.getEpochs())
    return stage.fitMultiple(None, maps)


def test_fits_come_one_after_the_other(monkeypatch):
    stage = estimator().setExportDir("/export")
    maps = [{stage.epochs: 2}, {stage.epochs: 3}]
    assert list(fits_of(monkeypatch, stage, maps)) == [(0, 2), (1, 3)]


def in_a_thread(function):
    found = []

    def work():
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


def test_threads_may_not_share_a_folder(monkeypatch):
    """One would look at its model while the other trains another one in its place."""
    stage = estimator().setExportDir("/export")
    fits = fits_of(monkeypatch, stage, [{stage.epochs: 2}, {stage.epochs: 3}])
    assert next(fits) == (0, 2)
    error = in_a_thread(lambda: next(fits))
    assert isinstance(error, ValueError)
    assert "param maps 0 and 1 would both be in /export" in str(error) and "set parallelism to 1" in str(error)


def test_threads_with_folders_of_their_own(monkeypatch):
    stage = estimator()
    fits = fits_of(monkeypatch, stage, [{stage.export_dir: "/a", stage.epochs: 2}, {stage.export_dir: "/b"}])
    assert next(fits) == (0, 2)
    assert in_a_thread(lambda: next(fits)) == (1, 1)


def test_models_of_one_fit_do_not_share_a_folder(monkeypatch):
    monkeypatch.setattr(TFEstimator, "_fit", lambda self, dataset: self.getExportDir())
    stage = estimator().setExportDir("/export")
    with pytest.raises(ValueError, match="would both be in /export.*an export_dir of its own"):
        stage.fit(None, [{stage.epochs: 2}, {stage.epochs: 3}])
    assert stage.fit(None, [{stage.export_dir: "/a"}, {stage.export_dir: "/b"}]) == ["/a", "/b"]
    assert stage.fit(None, {stage.export_dir: "/c"}) == "/c"


def test_the_model_hands_its_arguments_on(monkeypatch):
    calls = []
    stand_in = types.ModuleType("tensorflowonspark._model")
    stand_in.transform = lambda *given, **how: calls.append((*given, how)) or "predictions"
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    monkeypatch.setattr(sys.modules["tensorflowonspark"], "_model", stand_in, raising=False)
    model = TFModel({"a": 1}).setExportDir("/export").setOutputMapping({"y": "z"})
    assert model.transform("rows") == "predictions"
    [(rows, args, how)] = calls
    assert (rows, args.a, args.export_dir, args.output_mapping) == ("rows", 1, "/export", {"y": "z"})
    assert how == {"lenient": True}
    model.setInputMapping({"x": "image"}).transform("rows")
    assert calls[-1][-1] == {"lenient": False}


@pytest.mark.parametrize("args", [["--a"], Namespace(["--a"]), Namespace({"num_gpus": 0})])
def test_a_process_without_a_node(monkeypatch, args):
    monkeypatch.setattr(sys, "argv", ["test"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    pipeline.single_node_env(args)
    assert sys.argv == (["--a"] if "--a" in args else ["test"])
    assert pipeline.util.gpu_info.is_gpu_available() or pipeline.util.os.environ["CUDA_VISIBLE_DEVICES"] == ""
