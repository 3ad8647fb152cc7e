"""keras.ReportProgress: what it says while a model is fitted, with each Keras that is there."""

import math

import numpy as np
import pytest

pytest.importorskip("tensorflow")
from tensorflowonspark import _progress  # noqa: E402
from tensorflowonspark import keras as together  # noqa: E402

ROWS, BATCH = 40, 8


@pytest.fixture(params=["keras", "tf_keras"])
def keras(request):
    return pytest.importorskip(request.param)


@pytest.fixture
def told():
    """What is told to the supervisor."""
    events = []
    _progress.connect(lambda **event: events.append(event))
    yield events
    _progress.connect(None)


def fit(keras, callback, **options):
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse", metrics=["mae"], steps_per_execution=options.pop("together", 1))
    x = np.arange(ROWS, dtype="float32").reshape(-1, 1) / ROWS
    options = {"epochs": 3, "batch_size": BATCH, "verbose": 0, "callbacks": [callback]} | options
    return model.fit(x, 2 * x, **options).history


def test_ends_of_epochs(keras, told):
    history = fit(keras, together.ReportProgress(every_seconds=1000, batch_size=BATCH), validation_split=0.2)
    assert [(each["epoch"], each["epochs"], each["step"], each["rows"]) for each in told] == [
        (1.0, 3.0, 4.0, 32.0),
        (2.0, 3.0, 8.0, 64.0),
        (3.0, 3.0, 12.0, 96.0),
    ]
    assert all(each["event"] == "progress" and each["epoch_end"] and not each["aloud"] for each in told)
    assert {name: [each["values"][name] for each in told] for name in history} == history
    assert set(history) == {"loss", "mae", "val_loss", "val_mae"}


def test_within_epochs(keras, told):
    fit(keras, together.ReportProgress(every_seconds=0, every_node=True), epochs=2)
    assert [(each["step"], each["epoch_end"]) for each in told] == [
        *((float(step), False) for step in range(1, 6)),
        (5.0, True),
        *((float(step), False) for step in range(6, 11)),
        (10.0, True),
    ]
    assert all(math.isfinite(each["values"]["loss"]) and each["aloud"] and "rows" not in each for each in told)


def test_several_steps_at_a_time(keras, told):
    fit(keras, together.ReportProgress(every_seconds=0), epochs=2, together=5)
    assert [(each["step"], each["epoch_end"]) for each in told] == [(5, False), (5, True), (10, False), (10, True)]


def test_it_is_not_asked_often(told, monkeypatch):
    """Time is looked at, and nothing else, for batches that are not reported."""
    now = 0.0
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now)
    callback = together.ReportProgress(every_seconds=5)
    callback.set_params({"epochs": 1})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    for batch in range(100):
        now += 0.25
        callback.on_train_batch_end(batch, {"loss": 1.0, "text": "none"})
    assert [each["step"] for each in told] == [20, 40, 60, 80, 100]
    assert told[0]["values"] == {"loss": 1.0}
    with pytest.raises(ValueError, match="every_seconds"):
        together.ReportProgress(every_seconds=-1)


def test_outside_of_a_cluster_nothing_happens(keras):
    assert len(fit(keras, together.ReportProgress(every_seconds=0))["loss"]) == 3


def test_with_training_together(keras, told):
    """The values are those of all workers, of which there is one here."""
    with together.distributed():
        history = fit(keras, together.ReportProgress(every_seconds=1000))
    assert [each["values"]["loss"] for each in told] == pytest.approx([float(loss) for loss in history["loss"]])
