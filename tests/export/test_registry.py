"""Exporters are found by name, and outputs are written completely or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spml.common.errors import InputError, SpmlError
from spml.export import (
    Files,
    check_export,
    exporters,
    find_exporter,
    register_exporter,
    registry,
    write_export,
)
from spml.export.graph import check_outputs
from spml.runs.run import exportable


@pytest.fixture
def plain(monkeypatch):
    """A format whose files are known."""
    exporters()  # imports the modules of the formats
    monkeypatch.setattr(registry._REGISTRY, "entries", dict(registry._REGISTRY.entries))

    @register_exporter("plain", "a plain file", output="model.plain")
    def make(model):
        return Files({"": f"{len(model.classes)}".encode()}, ("made",))

    @register_exporter("many", "a plain folder", output="many", files=("a.txt", "b.txt", "old.txt"))
    def make_many(model):
        return Files({"a.txt": b"a", "b.txt": b"b"})


def test_the_formats():
    assert list(exporters()) == ["onnx", "safetensors-hf", "torch-export"]
    assert [find_exporter(name).suffix for name in exporters()] == [".onnx", "", ".pt2"]


def test_a_name_is_registered_once(plain):
    with pytest.raises(ValueError, match=r"exporter 'plain' is already registered by tests\."):
        register_exporter("plain", "a file", output="x")(find_exporter("onnx").make)


def test_files_are_written_with_their_notes(ridge, plain, tmp_path, caplog):
    caplog.set_level("INFO", "spml")
    model = exportable(ridge)
    path = write_export(model, "plain", tmp_path / "x.plain")
    assert (path.read_text(), caplog.messages) == ("10", ["made"])
    path.write_text("of an earlier export")
    write_export(model, "plain", path, overwrite=True)
    assert path.read_text() == "10"
    folder = write_export(model, "many", tmp_path / "new" / "folder")
    assert [file.read_text() for file in sorted(folder.iterdir())] == ["a", "b"]
    (folder / "old.txt").write_text("of an earlier export")
    (folder / "mine.txt").write_text("of the user")
    write_export(model, "many", folder, overwrite=True)
    assert sorted(file.name for file in folder.iterdir()) == ["a.txt", "b.txt", "mine.txt"]


def test_the_default_is_in_the_folder_of_the_run(ridge, plain):
    _, output = check_export(ridge.folder, "plain")
    assert output == ridge.folder / "export" / "model.plain"


@pytest.mark.parametrize(
    ("form", "output", "words"),
    [
        ("onxx", "x.onnx", "unknown format 'onxx'. Did you mean onnx?"),
        ("plain", "x.onnx", "x.onnx: a plain file needs a name that ends in .plain."),
        ("plain", "missing/x.plain", "missing: no such folder. Make it, or name another `output`."),
        ("plain", "folder.plain", "folder.plain: is a folder; `output` must name a file."),
        ("plain", "there.plain",
         "there.plain: already exists. Replace it (`overwrite`), or name another `output`."),
        ("many", "there.plain", "there.plain: is a file; `output` must name a folder."),
        ("many", "folder.plain",
         "folder.plain: already exists. Replace it (`overwrite`), or name another `output`."),
    ],
)  # fmt: skip
def test_what_does_not_suit_is_refused(form, output, words, plain, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("there.plain").write_text("mine")
    Path("folder.plain").mkdir()
    Path("folder.plain/mine").touch()
    with pytest.raises(InputError) as caught:
        check_export(tmp_path, form, Path(output))
    assert str(caught.value) == words
    assert Path("there.plain").read_text() == "mine"


def test_a_run_is_not_written_over(ridge, plain):
    with pytest.raises(InputError, match="holds a run, which would be replaced"):
        check_export(ridge.folder, "many", ridge.folder, overwrite=True)


def test_a_check_leaves_nothing_behind(plain, tmp_path):
    check_export(tmp_path, "plain")
    check_export(tmp_path, "many", tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", ["logits", "scores", "probabilities", "labels", "nan"])
def test_every_output_is_checked(change, ridge):
    model = exportable(ridge)

    def compute(inputs):
        outputs = {name: values.copy() for name, values in model.predict(inputs).items()}
        if change == "labels":
            outputs["labels"] = ~outputs["labels"]
        elif change == "nan":
            outputs["scores"][0, 0] = np.nan
        else:
            outputs[change] = outputs[change] + 2e-4 * np.maximum(1, np.abs(outputs[change]))
        return outputs

    assert "in a test on random samples" in check_outputs(model, model.predict, "a test")
    with pytest.raises(SpmlError, match="so nothing was written"):
        check_outputs(model, compute, "a test")
