"""A run is continued from its folder alone."""

from __future__ import annotations

import json

import pytest

from spml.config import from_dict, read_yaml
from spml.engine import Interrupted
from spml.engine.loop import Trainer
from spml.engine.resume import save_training
from spml.errors import InputError
from spml.runs.train import run_training
from tests.runs.test_closed_form_runs import make_features


def test_a_folder_that_was_moved_is_continued_where_it_lies(tmp_path, monkeypatch):
    settings = {
        "data": {"path": str(make_features(tmp_path / "x.npz")), "unlisted": "negative", "observe": "single"},
        "method": "an",
        "epochs": 3,
        "threads": 1,
    }
    whole = run_training(from_dict({**settings, "output": str(tmp_path / "whole")}))
    real = Trainer._end_epoch

    def stop_after_the_first(self, metrics):
        real(self, metrics)
        save_training(self)
        raise Interrupted("stopped")

    monkeypatch.setattr(Trainer, "_end_epoch", stop_after_the_first)
    with pytest.raises(Interrupted):
        run_training(from_dict({**settings, "output": str(tmp_path / "first")}))
    monkeypatch.setattr(Trainer, "_end_epoch", real)
    moved = (tmp_path / "first").rename(tmp_path / "moved")
    assert run_training(from_dict({"output": str(moved)}), resume=True) == moved
    assert not (tmp_path / "first").exists()
    weights = [json.loads((run / "model.json").read_text())["weights_sha256"] for run in (whole, moved)]
    assert weights[0] == weights[1]


def test_the_configuration_names_the_folder_and_a_run_never_starts_from_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = {"path": str(make_features(tmp_path / "x.npz")), "unlisted": "negative", "observe": "single"}
    settings = {"data": data, "method": "an", "epochs": 1, "threads": 1}
    folder = run_training(from_dict(settings))
    assert read_yaml(folder / "config.yaml").output == str(folder) == "runs/x-an"
    folder = folder.rename("runs/x-an-continued")
    with pytest.raises(InputError, match="can't be both the run to start from"):
        run_training(from_dict({**settings, "init_from": str(folder)}), overwrite=True)
    assert (folder / "model.safetensors").is_file()
