"""Trainers of `tfos train` that are ended before the end: by signals, by others, at once; and what is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import numpy as np
import pytest

if find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow", allow_module_level=True)

import tensorflow as tf
from processes import wait_for

from tensorflowonspark import records
from test_cli import TFOS
from test_train import BATCH, ROWS, SECONDS, newest_step, place, start, train

__all__ = ["place"]  # a fixture


# ---- processes ----


def trainers_below(pid):
    """The processes of trainers, by the numbers of their workers, among those that `tfos train` has started."""
    found = {}
    for each in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{each}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if words[:2] == [b"tfos", b"trainer"] and pid in ancestors(int(each)):
                found[worker_of(each)] = int(each)
        except OSError:
            continue
    return found


def trainer_below(pid, number=0):
    return trainers_below(pid)[number]


def worker_of(pid):
    """The number of a trainer among the workers."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        variables = dict(each.split(b"=", 1) for each in file.read().split(b"\0") if b"=" in each)
    return json.loads(variables[b"TFOS_CONTEXT"])["node"]["task"]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        return sum(map(int, file.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def ancestors(pid):
    found = []
    while pid > 1:
        with open(f"/proc/{pid}/stat") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def is_idle(pid):
    before = cpu_seconds(pid)
    time.sleep(0.3)
    return cpu_seconds(pid) == before


def break_off(process):
    """Stops the second of two workers amid whatever it does, and has the first lose its patience with it."""
    first, second = (trainer_below(process.pid, number) for number in range(2))
    os.kill(second, signal.SIGSTOP)
    wait_for(lambda: is_idle(first), 60)
    os.kill(second, signal.SIGTERM)
    os.kill(first, signal.SIGTERM)
    os.kill(first, signal.SIGTERM)  # once more: at once
    wait_for(lambda: not os.path.exists(f"/proc/{first}"), 20)
    os.kill(second, signal.SIGCONT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 3 and "stopped by a signal behind step" in said


def write_one_and_many(place, folder):
    """Data of which the first of two workers gets a batch, and the second many; returns the options to do so."""
    os.makedirs(folder / "data")
    rows = np.load(place / "rows.npz")
    records.write(folder / "data" / "0.tfrecord.gz", {"x": rows["x"][:BATCH], "label": rows["y"][:BATCH]})
    many = {"x": np.tile(rows["x"], [5000, 1]), "label": np.tile(rows["y"], 5000)}
    records.write(folder / "data" / "1.tfrecord.gz", many)
    return ["--nodes", 2, "--shuffle", 0, "--model-dir", folder / "run"]


def start_until_one_waits(place, folder, options):
    process = start(place, "plain", folder / "data", *options, "--epochs", 99)
    wait_for((folder / "run" / "train").is_dir, 60)
    second = trainer_below(process.pid, 1)
    begun = cpu_seconds(second)
    wait_for(lambda: cpu_seconds(second) > begun + 0.5, 60)
    return process


# ---- what is left of their work ----


@pytest.mark.parametrize("ignored, number", [(False, "INT"), (False, "HUP"), (True, "TERM")])
def test_a_signal_makes_it_save_and_end(place, tmp_path, ignored, number):
    words = [TFOS, "train", "--model", place / "random", "--data", place / "data", "--python", sys.executable]
    words += ["--batch-size", BATCH, "--epochs", 100000, "--nodes", 2, "--model-dir", tmp_path / "run", "--seed", 9]
    words = [*(["env", "--ignore-signal=INT"] if ignored else []), *(str(each) for each in words)]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    events = tmp_path / "run" / "train"

    def written():
        return sum(os.path.getsize(events / each) for each in os.listdir(events)) if events.is_dir() else 0

    wait_for(lambda: written() > 30000, 60)
    if ignored:  # as nohup and background jobs of a shell ask
        process.send_signal(signal.SIGINT)
        before = written()
        wait_for(lambda: written() > before + 100000, 60)
    process.send_signal(getattr(signal, f"SIG{number}"))
    _, said = process.communicate(timeout=SECONDS)
    step = int(tf.train.latest_checkpoint(str(tmp_path / "run")).rpartition("-")[2])
    assert process.returncode == 130 and f"stopped; started again, training goes on from ckpt-{step}\n" in said
    assert step > 20
    out, said = train(
        place,
        "random",
        "data",
        "--nodes",
        2,
        "--seed",
        9,
        "--epochs",
        100000,
        "--steps",
        step + 3,
        "--model-dir",
        tmp_path / "run",
    )
    assert out["steps"] == step + 3 and f"goes on from ckpt-{step}:" in said


def test_an_epoch_that_was_ended_in_its_validation_is_validated_when_it_goes_on(place, tmp_path):
    random = np.random.default_rng(2)
    many = random.normal(size=[300_000, 8]).astype(np.float32)
    records.write(tmp_path / "many.tfrecord", {"x": many, "label": np.argmax(many[:, :3], axis=1)})
    options = ["--epochs", 1, "--model-dir", tmp_path / "run", "--batch-size", 1]
    words = [TFOS, "train", "--model", place / "plain", "--data", place / "data", "--python", sys.executable, *options]
    words += ["--validation", tmp_path / "many.tfrecord"]
    process = subprocess.Popen([str(each) for each in words], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    for line in process.stderr:
        if "epoch 1" in line:
            break
    wait_for(lambda: cpu_seconds(trainer_below(process.pid)) > 4, 60)  # in its validation, which takes much longer
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, said
    note = json.loads((tmp_path / "run" / f"ckpt-{ROWS}.json").read_text())
    assert note["epoch"] == 0 and note["batches"] == ROWS
    out, _ = train(place, "plain", "data", *options, "--validation", place / "data")
    assert out["epochs"] == 1 and out["rows"] == 0 and np.isfinite(out["values"]["loss"])
    assert np.isfinite(out["values"]["val_loss"])


def test_a_checkpoint_can_be_read_whenever_it_is_killed(place, tmp_path):
    run = tmp_path / "run"
    words = [
        TFOS,
        "train",
        "--model",
        place / "plain",
        "--data",
        place / "data",
        "--python",
        sys.executable,
        "--model-dir",
        run,
    ]
    words += ["--epochs", 100_000, "--save-steps", 1, "--keep", 1]
    seen = [0]
    for at in range(3):
        process = subprocess.Popen([str(each) for each in words], stderr=subprocess.DEVNULL, start_new_session=True)
        wait_for(lambda: newest_step(run) > seen[-1] + 20 + at, 60)
        os.kill(trainer_below(process.pid), signal.SIGKILL)
        process.wait(SECONDS)
        seen.append(newest_step(run))
        reader = tf.train.load_checkpoint(str(run))
        assert all(reader.get_tensor(name) is not None for name in reader.get_variable_to_shape_map())
    assert seen == sorted(seen)


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_trainer_that_others_stop_is_started_again(place, tmp_path, nodes):
    """With all that train with it: what they have learned together is in the checkpoint of the first."""
    run = tmp_path / "run"
    words = [TFOS, "train", "--model", place / "plain", "--data", place / "data", "--python", sys.executable, "--json"]
    words += [
        "--model-dir",
        run,
        "--epochs",
        100_000,
        "--steps",
        9000,
        "--restarts",
        1,
        "--no-resume",
        "--save-steps",
        500,
        "--nodes",
        nodes,
    ]
    process = subprocess.Popen([str(each) for each in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: newest_step(run) >= 500, 60)
    os.kill(trainer_below(process.pid, nodes - 1), signal.SIGTERM)
    out, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said
    assert "stopped by a signal behind step" in said and "exited with code 3" in said
    # What this training has saved is its own, also where that of others is not to be used.
    assert "goes on from ckpt-" in said and json.loads(out)["steps"] == 9000 and json.loads(out)["end"] == "steps"


def test_a_first_worker_without_rows_saves_what_the_others_have_learned(place, tmp_path):
    """It waits for them, without a word of theirs, until all stop."""
    run, options = tmp_path / "run", write_one_and_many(place, tmp_path)
    process = start_until_one_waits(place, tmp_path, options)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130, said
    step = newest_step(run)
    assert step > 30, said
    out, said = train(place, "plain", tmp_path / "data", *options, "--steps", step + 1)
    assert f"goes on from ckpt-{step}: epoch 1, step {step}" in said and out["rows"] == BATCH


def test_the_first_worker_saves_if_another_one_loses_its_patience(place, tmp_path):
    run = tmp_path / "run"
    process = start(place, "plain", "data", "--nodes", 3, "--model-dir", run, "--epochs", 100_000)
    wait_for((run / "train").is_dir, 60)
    first, second, third = (trainer_below(process.pid, number) for number in range(3))
    begun = cpu_seconds(first)
    wait_for(lambda: cpu_seconds(first) > begun + 0.3, 60)
    os.kill(third, signal.SIGSTOP)
    os.kill(second, signal.SIGTERM)
    time.sleep(0.3)  # so its patience is over that much earlier
    os.kill(first, signal.SIGTERM)
    wait_for(lambda: newest_step(run) > 0, 20)
    os.kill(third, signal.SIGCONT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 3 and "stopped by a signal behind step" in said


def test_a_checkpoint_that_could_not_be_written_is_not_promised(place, tmp_path):
    run = tmp_path / "run"
    process = start(place, "plain", "data", "--model-dir", run, "--epochs", 100_000, "-q")
    wait_for((run / "train").is_dir, 60)
    first = trainer_below(process.pid)
    begun = cpu_seconds(first)
    wait_for(lambda: cpu_seconds(first) > begun + 0.5, 60)
    shutil.rmtree(run)
    run.touch()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 130 and f"stopped; there is no checkpoint in {run} to go on from" in said


def test_a_join_that_is_broken_off_costs_nothing_else(place, tmp_path):
    """The first worker has one batch, and waits for the second with its many, which it hears no more of."""
    run, options = tmp_path / "run", write_one_and_many(place, tmp_path)
    process = start_until_one_waits(place, tmp_path, options)
    break_off(process)
    assert newest_step(run) == 1 and json.loads((run / "ckpt-1.json").read_text())["batches"] == 1
    out, said = train(place, "plain", tmp_path / "data", *options, "--steps", 5)
    assert "goes on from ckpt-1: epoch 1, step 1" in said and out["steps"] == 5


@pytest.mark.parametrize("trials", [1, pytest.param(8, marks=pytest.mark.long)])
def test_a_step_that_is_broken_off_was_not_taken(place, tmp_path, trials):
    """Nor if it was taken, and nobody knows whether all keep it."""
    run, last = tmp_path / "run", 0
    options = ["--nodes", 2, "--model-dir", run, "--on-nan", "skip"]
    for _ in range(trials):
        process = start(place, "plain", "data", *options, "--epochs", 100_000, "--save-steps", 7)
        wait_for(lambda past=last: newest_step(run) > past, 60)
        break_off(process)
        last = newest_step(run)
        note = json.loads((run / f"ckpt-{last}.json").read_text())
        assert note["epoch"] * 7 + note["batches"] == last  # 7 batches in an epoch of both
    out, said = train(place, "plain", "data", *options, "--epochs", 100_000, "--steps", last + 9)
    assert f"goes on from ckpt-{last}" in said and out["steps"] == last + 9 and np.isfinite(out["values"]["loss"])
