"""Synchronous training of several workers, each a process on a node of a real cluster, with the real TensorFlow."""

import json
import os
import pathlib
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import keras_cases
from feed_tools import FedCluster

if find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow", allow_module_level=True)

HERE = os.path.dirname(os.path.abspath(__file__))

PROGRAM = """
sys.path.insert(0, {here!r})
import keras_cases, keras_parts
from tensorflowonspark import collective, keras as together
{body}
with open({path!r} + f".{{collective.rank()}}", "w") as file:
    json.dump(found, file)
"""

TRAIN = """
train = lambda keras, name: keras_cases.worker(keras, name, collective.rank(), together.distributed)
found = keras_cases.all_of({package!r}, {names!r}, train)
"""

PARTS = "found = keras_parts.run({package!r}, together, collective.rank(), {folder!r})"


NEAR, FAR = [], ["collective.shared=0"]  # workers share memory; or are as if on hosts of their own


def train(folder, settings, body, script, *arguments):
    """(what one process comes to, [what each worker does])."""
    path = str(folder / "worker")
    alone = str(folder / "alone")
    command = [sys.executable, os.path.join(HERE, script), alone, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        program = PROGRAM.format(here=HERE, body=body, path=path)
        with FedCluster(folder, program, nodes=keras_cases.WORKERS, settings=settings) as cluster:
            cluster.wait(lambda: False, 1200)
            assert cluster.failure is None, cluster.failure
        output = process.communicate()[0]
        assert process.returncode == 0, output
    results = [f"{path}.{rank}" for rank in range(keras_cases.WORKERS)]
    read = [json.loads(pathlib.Path(each).read_text()) for each in (alone, *results)]
    return read[0], read[1:]


def close(found, wanted, bound, name):
    assert len(found) == len(wanted), name
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=bound, atol=bound, err_msg=name)


CASES = [
    pytest.param("keras", keras_cases.NAMES, NEAR, id="keras"),
    pytest.param("keras", keras_cases.NAMES, FAR, id="keras, far", marks=pytest.mark.long),
    pytest.param("keras", keras_cases.MORE, FAR, id="keras, more", marks=pytest.mark.long),
    pytest.param("tf_keras", keras_cases.NAMES + keras_cases.MORE, NEAR, id="tf_keras", marks=pytest.mark.long),
]


# A loss that is not a mean over rows depends on how large batches are, and so do logs of it, which are means over rows;
# so does what a step of a program's own says.
OWN_MEANS = ("sum", "mask", "masking", "weighted", "outputs", "two", "accumulate steps")
HALVES = 5e-3  # the bound where sums are rounded to half precision, in whichever order


@pytest.mark.parametrize(("package", "names", "settings"), CASES)
def test_as_one_process(tmp_path, package, names, settings):
    body = TRAIN.format(package=package, names=names)
    alone, workers = train(tmp_path, settings, body, "keras_cases.py", package, *names)
    missing = set(names) - set(alone)
    assert missing <= set(keras_cases.ONLY_KERAS_3 if package == "tf_keras" else keras_cases.ONLY_NEWER), missing
    for name, wanted in alone.items():
        first, bound = workers[0][name], HALVES if name == "half" else 1e-6
        for found in (each[name] for each in workers):
            close(found["weights"], wanted["weights"], bound, name)
            close(found["optimizer"], wanted["optimizer"], bound, name)
            assert found["weights"] == first["weights"], f"{name}: not the same bits on all workers"
            assert found["history"] == first["history"], name
        for key, values in wanted["history"].items():
            if not ("loss" in key and any(word in name for word in OWN_MEANS)) and "two" not in name:
                close(first["history"][key], values, max(bound, 1e-5), name)


# ---- beside one call of fit ----


def leaves(value):
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


@pytest.mark.parametrize("package", ["keras", pytest.param("tf_keras", marks=pytest.mark.long)])
def test_parts(tmp_path, package):
    """Loops of a program's own, models that are compiled again, cloned and loaded, checkpoints, and whatever else is in
    keras_parts.py."""
    body = PARTS.format(package=package, folder=str(tmp_path))
    (tmp_path / "single").mkdir()
    alone, workers = train(tmp_path, FAR, body, "keras_parts.py", package, str(tmp_path / "single"))
    for name, wanted in alone.items():
        for found in (each[name] for each in workers):
            assert found == workers[0][name], f"{name}: not the same bits on all workers"
            np.testing.assert_allclose(leaves(found), leaves(wanted), rtol=2e-6, atol=2e-6, err_msg=name)
    for saved in ("merging.keras", "1.keras"):
        assert "ends well" in load_without_us(package, tmp_path / saved)


def load_without_us(package, path):
    """Loads and trains a model where this package cannot be imported."""
    program = f"""
import sys
sys.modules["tensorflowonspark"] = None
import numpy as np, {package} as keras
model = keras.models.load_model({str(path)!r})
model.fit(np.zeros((4, {keras_cases.FEATURES}), "float32"), np.zeros(4, "int64"), verbose=0)
print("ends well")
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    return found.stdout + found.stderr
