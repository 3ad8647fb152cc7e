"""Places of `tfos train`: what would be lost with a model that is replaced, where it is written, and files of which
workers have different views."""

import os
import shutil
import subprocess

import pytest

from test_train import place, train

__all__ = ["place"]  # a fixture

# ---- the final export ----


@pytest.mark.parametrize(
    "options, said",
    [
        (["--export-dir", "{model}"], "model, {model}, is it or lies in it"),
        (["--export-dir", "old", "--model-dir", "old/run"], "model_dir, {here}/old/run, is it or lies in it"),
        (["--export-dir", "old", "--log-dir", "old"], "log_dir, {here}/old, is it or lies in it"),
        (["--export-dir", "old", "--log-dir", "old/logs"], "log_dir, {here}/old/logs, is it or lies in it"),
        (["--export-dir", "new", "--log-dir", "new/logs"], "log_dir, {here}/new/logs, is it or lies in it"),
        (["--export-dir", "old", "--data", "o*/*.tfrecord"], "a file of data, {here}/old/rows.tfrecord, is it"),
        (["--export-dir", "old", "--validation", "link"], "a file of validation, {here}/link/rows.tfrecord, is it"),
        (["--export-dir", "{model}/serving/x"], "export_dir: {model}/serving/x is {model}/serving or lies in it"),
    ],
)
def test_nothing_is_in_the_way_of_an_export(place, tmp_path, options, said):
    shutil.copytree(place / "plain" / "serving", tmp_path / "old")
    shutil.copy(place / "data" / "part-0.tfrecord", tmp_path / "old" / "rows.tfrecord")
    os.makedirs(tmp_path / "link")
    os.symlink(tmp_path / "old" / "rows.tfrecord", tmp_path / "link" / "rows.tfrecord")
    names = {"model": str(place / "plain"), "here": str(tmp_path)}
    _, text = train(place, "plain", "data", *(each.format(**names) for each in options), code=3, folder=tmp_path)
    assert said.format(**names) in text and os.path.exists(place / "plain" / "assets.extra" / "tfos.json")
    assert sorted(os.listdir(tmp_path)) == ["link", "old"]
    assert not os.path.exists(place / "plain" / "serving" / "x")


def test_an_export_in_a_folder_that_has_yet_to_be_made(place, tmp_path):
    train(place, "plain", "data", "--export-dir", f"{tmp_path}/new/deep/trained/")
    assert os.listdir(tmp_path / "new" / "deep") == ["trained"]


# ---- folders of data ----


@pytest.mark.parametrize(
    "options, said",
    [
        (["--data", "rows", "--model-dir", "rows/run"], "model_dir: {}/rows/run lies in {}/rows, where all files"),
        (["--data", "rows", "--export-dir", "rows/new/out"], "export_dir: {}/rows/new/out lies in {}/rows, where all"),
        (["--data", "ro*", "--log-dir", "rows/logs"], "log_dir: {}/rows/logs lies in {}/rows, where all files"),
        (["--data", "rows/*", "--model-dir", "rows/new"], "model_dir: {}/rows/new lies in {}/rows/new, where all"),
        (["--validation", "link", "--model-dir", "rows"], "model_dir: {}/rows lies in {}/link, where all files"),
    ],
)
def test_nothing_is_written_where_all_files_are_data(place, tmp_path, options, said):
    """A second training would read checkpoints as records."""
    shutil.copytree(place / "data", tmp_path / "rows")
    os.symlink("rows", tmp_path / "link")
    before = sorted(os.listdir(tmp_path / "rows"))
    _, text = train(place, "plain", "data", *options, code=3, folder=tmp_path)
    assert said.format(tmp_path, tmp_path) in text and "or name the files of" in text
    assert sorted(os.listdir(tmp_path / "rows")) == before


def test_what_is_not_read_may_lie_beside_data(place, tmp_path):
    shutil.copytree(place / "data", tmp_path / "rows")
    for options in (
        ["--data", "rows", "--model-dir", "rows/_run", "--export-dir", "rows/.models/out"],
        ["--data", "rows/*.tfrecord", "--model-dir", "rows/run"],
    ):
        train(place, "plain", "data", *options, "--model", f"file://{place}/plain", folder=tmp_path)
        again, _ = train(place, "plain", "data", *options, "--epochs", 2, folder=tmp_path)
        assert again["epochs"] == 2


# ---- files ----

# Whoever loads this with the environment of the second worker finds no last file in a folder.
OTHER_VIEW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>

FTSENT *fts_read(FTS *walk)
{
    const char *context = getenv("TFOS_CONTEXT");
    FTSENT *(*next)(FTS *) = (FTSENT * (*)(FTS *)) dlsym(RTLD_NEXT, "fts_read");
    FTSENT *entry = next(walk);
    int hides = entry && context && strstr(context, "\\"task\\":1") && !strcmp(entry->fts_name, "part-3.tfrecord");
    return hides ? next(walk) : entry;
}
"""


@pytest.mark.parametrize("kind", ["data", "validation"])
def test_workers_that_see_different_files_do_not_begin(place, tmp_path, kind):
    (tmp_path / "view.c").write_text(OTHER_VIEW)
    view = str(tmp_path / "view.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", view, tmp_path / "view.c", "-ldl"], check=True)
    names = {"data": "holes.tfrecord", "validation": "holes.tfrecord", kind: "data"}
    options = ["--nodes", 2, "--validation", place / names["validation"], "--export-dir", tmp_path / "out"]
    _, said = train(place, "plain", names["data"], *options, code=3, LD_PRELOAD=view)
    assert f"{kind}: workers see different files" in said and "worker 1 sees 3 of " in said
    assert not os.path.exists(tmp_path / "out")
