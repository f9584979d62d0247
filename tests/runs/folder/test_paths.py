"""A run finds its training data from whatever folder it is used, and says so where that is gone."""

from __future__ import annotations

import numpy as np
import pytest

import spml
from tests.helpers.commands import execute


def test_relative_paths_are_found_from_elsewhere(tmp_path, monkeypatch, capsys):
    start, elsewhere = tmp_path / "start", tmp_path / "elsewhere"
    start.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(start)
    rows = np.arange(60)
    matrix = np.eye(3, dtype=np.float32)[rows % 3] + np.random.default_rng(0).normal(0, 0.1, (60, 3))
    np.savez("x.npz", X=matrix.astype(np.float32), Y=rows % 3, classes=np.array(["a", "b", "c"]))
    spml.train("x.npz", model={"head": "ridge"}, output="runs/one", threads=1, quiet=True, mean_labels=1.5)
    assert spml.load("runs/one").config.data.path == "x.npz"
    monkeypatch.chdir(elsewhere)
    run = spml.load(start / "runs" / "one")
    assert run.config.data.path == str(start / "x.npz")
    execute("audit", run.folder, "--output audit")
    (start / "x.npz").rename(elsewhere / "y.npz")
    with pytest.raises(SystemExit) as end:
        execute("audit", run.folder, "--output another")
    assert end.value.code == 2
    assert "one: the data that it has learned from, 'x.npz', is not there. Name" in capsys.readouterr().err
    execute("audit", run.folder, "y.npz --output another")
