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
import keras_cases
from tensorflowonspark import collective, keras as together
train = lambda keras, name: keras_cases.worker(keras, name, collective.rank(), together.distributed)
found = keras_cases.all_of({package!r}, {names!r}, train)
with open({path!r} + f".{{collective.rank()}}", "w") as file:
    json.dump(found, file)
"""


def train(folder, package, names):
    """(what one process comes to, [what each worker does])."""
    path = str(folder / "worker")
    alone = str(folder / "alone")
    command = [sys.executable, os.path.join(HERE, "keras_cases.py"), alone, package, *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        program = PROGRAM.format(here=HERE, package=package, names=names, path=path)
        with FedCluster(folder, program, nodes=keras_cases.WORKERS) as cluster:
            cluster.wait(lambda: False, 280)
            assert cluster.failure is None, cluster.failure
        output = process.communicate()[0]
        assert process.returncode == 0, output
    results = [f"{path}.{rank}" for rank in range(keras_cases.WORKERS)]
    read = [json.loads(pathlib.Path(each).read_text()) for each in (alone, *results)]
    return read[0], read[1:]


def close(found, wanted, bound=1e-6):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        np.testing.assert_allclose(one, other, rtol=bound, atol=bound)


CASES = [
    pytest.param("keras", keras_cases.NAMES, id="keras"),
    pytest.param("keras", keras_cases.MORE, id="keras, more", marks=pytest.mark.long),
    pytest.param("tf_keras", keras_cases.NAMES + keras_cases.MORE, id="tf_keras", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("package", "names"), CASES)
def test_as_one_process(tmp_path, package, names):
    alone, workers = train(tmp_path, package, names)
    assert len(alone) >= len(names) - 2
    for name, wanted in alone.items():
        first = workers[0][name]
        for found in (each[name] for each in workers):
            close(found["weights"], wanted["weights"])
            close(found["optimizer"], wanted["optimizer"])
            assert found["weights"] == first["weights"], f"{name}: not the same bits on all workers"
            assert found["history"] == first["history"], name
        for key, values in wanted["history"].items():
            # A sum over a batch depends on how large batches are; so does what a step of a program's own says.
            if not (name == "sum" and "loss" in key) and name != "two":
                close(first["history"][key], values, 1e-5)
