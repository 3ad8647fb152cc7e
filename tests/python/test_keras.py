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
KERASES = ["keras", pytest.param("tf_keras", marks=pytest.mark.long)]

PROGRAM = """
sys.path.insert(0, {here!r})
import keras_cases
from tensorflowonspark import collective, keras as together
package = keras_cases.load({package!r})
found = {{name: keras_cases.worker(package, name, collective.rank(), together.distributed)
          for name in keras_cases.cases(package)}}
with open({path!r} + f".{{collective.rank()}}", "w") as file:
    json.dump(found, file)
"""


@pytest.fixture(scope="module", params=KERASES)
def trained(request, tmp_path_factory):
    """(what one process comes to, [what each worker does])."""
    folder = tmp_path_factory.mktemp(request.param)
    path = str(folder / "worker")
    alone = str(folder / "alone")
    command = [sys.executable, os.path.join(HERE, "keras_cases.py"), "reference", alone, request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        program = PROGRAM.format(here=HERE, package=request.param, path=path)
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


@pytest.mark.parametrize("name", keras_cases.NAMES)
def test_as_one_process(trained, name):
    alone, workers = trained
    if name not in alone:
        pytest.skip("this Keras has none")
    for each in workers:
        close(each[name]["weights"], alone[name]["weights"])
        close(each[name]["optimizer"], alone[name]["optimizer"])
        assert each[name]["weights"] == workers[0][name]["weights"], "not the same bits on all workers"
        assert each[name]["history"] == workers[0][name]["history"]
        if name != "two":
            assert set(each[name]["history"]) == set(alone[name]["history"])
            for key, values in alone[name]["history"].items():
                if name != "sum" or "loss" not in key:  # a sum over a batch depends on how large batches are
                    close(each[name]["history"][key], values, 1e-5)
