"""What surrounds a command: variables, limits of memory, names that are not UTF-8, and other processes."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading

import pytest

import spml
from spml.audit import sheets
from spml.common.errors import InputError
from spml.export import registry
from tests.helpers.commands import execute, fails
from tests.helpers.features import train_hidden


@pytest.fixture(scope="module")
def run(features, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return train_hidden(shutil.copy(features, folder / "x.npz"), folder / "run", "--head ridge")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
def test_a_folder_whose_name_is_not_utf8_is_to_be_renamed(run, tmp_path, capsys):
    other = tmp_path / os.fsdecode(b"run-\xff")
    shutil.copytree(run, other)
    assert "its name is not UTF-8, so its weights can't be read. Rename" in fails(
        capsys, "predict", other, run.parent / "x.npz"
    )


@pytest.mark.parametrize("folder", [None, 3])
def test_what_is_no_folder_is_not_loaded(folder):
    with pytest.raises(InputError, match=f"load needs the folder of a run, as text or a path, got {folder}"):
        spml.load(folder)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [("threshold", "a", "a number"), ("mean_labels", "a", "a number"), ("top_k", "a", "a whole number")],
)
def test_a_decision_of_a_wrong_type_is_refused(run, name, value, expected):
    with pytest.raises(InputError, match=f"{name} must be {expected}, got 'a'"):
        spml.load(run).decision(**{name: value})


def at_once(command):
    """Run a command twice at the same time; the messages of those that were refused."""
    refused = []

    def one():
        try:
            command()
        except InputError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


def test_of_two_exports_into_one_new_file_one_is_refused(run, tmp_path, monkeypatch):
    both, real = threading.Barrier(2, timeout=60), registry.only_writer

    def wait(path):
        both.wait()  # both have been checked, and made what they write
        return real(path)

    monkeypatch.setattr(registry, "only_writer", wait)
    loaded = spml.load(run)
    made = registry.Files({"": json.dumps({"a": 1}).encode()}, ())
    exporter = registry.find_exporter("onnx")
    monkeypatch.setattr(registry, "find_exporter", lambda form: exporter._replace(make=lambda *_: made))
    refused = at_once(lambda: loaded.export(tmp_path / "model.onnx"))
    assert len(refused) == 1
    assert any(words in refused[0] for words in ("already exists", "writing to it"))


def test_of_two_samples_into_one_new_table_one_is_refused(run, tmp_path, monkeypatch):
    both, real = threading.Barrier(2, timeout=60), sheets.check_sheet
    seen = threading.local()

    def wait(path, *, overwrite):
        real(path, overwrite=overwrite)
        if not getattr(seen, "once", False):
            seen.once = True
            both.wait()

    monkeypatch.setattr(sheets, "check_sheet", wait)
    options = "--rows 20 --output", tmp_path / "s.csv"

    def draw():
        try:
            execute("audit sample", run, *options)
        except SystemExit as error:
            raise InputError("refused") from error

    assert at_once(draw) == ["refused"]


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are bytes on Linux")
def test_an_output_whose_name_is_not_utf8_is_refused(run, tmp_path, capsys):
    output = tmp_path / os.fsdecode(b"run-\xff")
    said = fails(capsys, "train", run.parent / "x.npz", "--head ridge --output", output)
    assert "its name is not UTF-8. Name another `output`." in said
    assert list(tmp_path.iterdir()) == []
