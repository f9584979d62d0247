"""`spml export`."""

from __future__ import annotations

import json

import pytest

from tests.helpers.commands import execute, fails
from tests.helpers.run_folders import save_run


def test_a_folder_is_written_and_replaced_only_if_told(tmp_path, capsys):
    run, output = save_run(tmp_path), tmp_path / "hub"
    command = ["export", run, "--format safetensors-hf --output", output]
    execute(*command)
    printed = capsys.readouterr()
    assert printed.out == f"{output}: written\n"
    assert "layout of a run, which spml.load reads" in printed.err
    assert json.loads((output / "config.json").read_text())["num_classes"] == 3
    assert "already exists" in fails(capsys, *command)
    execute(*command, "--overwrite")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--format onxx", "unknown format 'onxx'. Did you mean onnx?"),
        ("--variant int8", "unknown option --variant"),
        ("--output missing/model.onnx", "missing: no such folder"),
        ("--output model.bin", "an ONNX file needs a name that ends in .onnx"),
    ],
)
def test_options_that_do_not_suit(options, words, tmp_path, capsys):
    message = fails(capsys, "export", save_run(tmp_path), options)
    assert words in message
    assert message.count("\n") == 1
    assert not (tmp_path / "export" / "model.onnx").exists()


def test_a_run_that_is_missing_or_no_run(tmp_path, capsys):
    assert "no such folder" in fails(capsys, "export", tmp_path / "none")
    assert "contains no trained model" in fails(capsys, "export", tmp_path)
    assert not list(tmp_path.iterdir())
