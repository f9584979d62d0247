"""A run keeps the wanted names of classes, and applies them to the data that it is given."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import spml
from spml.runs.folder.layout import read_config
from tests.helpers.commands import execute, fails
from tests.helpers.features import HIDE, arrays_of, copy_features, train_hidden
from tests.helpers.records import read_rows

NAMES = "given,wanted\na,Apple\nd,Apple\nc,\n"
WANTED = {"a": "Apple", "d": "Apple", "c": ""}


@pytest.fixture(scope="module")
def run(features, tmp_path_factory):
    """A run on features with the classes a, b, c, d, whose file of names has gone since."""
    folder = tmp_path_factory.mktemp("renamed")
    path = shutil.copy(features, folder / "x.npz")
    (folder / "n.csv").write_text(NAMES)
    options = "--head ridge --mean_labels 1.2 --data.rename", folder / "n.csv"
    run = train_hidden(path, folder / "run", *options)
    (folder / "n.csv").unlink()
    return run


@pytest.mark.long
def test_the_folder_holds_the_names(run):
    assert (run / "names.csv").read_text() == NAMES
    moved = run.rename(run.with_name("moved"))
    assert read_config(moved).data.rename == WANTED
    moved.rename(run)
    assert spml.load(run).classes == ("Apple", "b")


def test_the_data_that_a_run_is_given_is_renamed(run, tmp_path):
    loaded, dirty = spml.load(run), str(run.with_name("x.npz"))
    arrays = arrays_of(dirty)
    truth = arrays["Y"]
    labels = np.stack([truth[:, 0] | truth[:, 3], truth[:, 1]], 1)
    clean = copy_features(dirty, tmp_path / "clean.npz", Y=labels, classes=["Apple", "b"])
    expected = loaded.evaluate(clean, unlisted="negative")
    found = loaded.evaluate(dirty, unlisted="negative")
    assert found["mAP"] == expected["mAP"] > 0.5
    assert found["notes"][:2] == [
        "data.rename: 2 class names changed: 'a' is 'Apple', 'd' is 'Apple'; 3 classes became 2.",
        f"data.rename: 1 class left out with {truth[:, 2].sum()} labels: 'c'.",
    ]
    in_memory = loaded.evaluate(arrays["X"][220:], truth[220:], classes=list("abcd"), unlisted="negative")
    assert in_memory["mAP"] == pytest.approx(expected["mAP"])
    columns_of_run = loaded.evaluate(arrays["X"][220:], labels[220:], unlisted="negative")
    assert columns_of_run["mAP"] == pytest.approx(expected["mAP"])
    swapped = loaded.evaluate(dirty, unlisted="negative", rename={"a": "b", "b": "Apple", "d": "Apple"})
    assert swapped["mAP"] < expected["mAP"]


def test_thresholds_and_audits(run, tmp_path):
    dirty = str(run.with_name("x.npz"))
    execute("thresholds", run, dirty, "--mean_labels 1.2", *HIDE)
    assert [cut.name for cut in spml.load(run).thresholds.classes] == ["Apple", "b"]
    execute("audit", run, "--output", tmp_path / "audit")
    rows = read_rows(tmp_path / "audit" / "classes.csv")
    assert sorted(row["label"] for row in rows) == ["Apple", "b"]
    execute("audit sample", run, dirty, "--rows 30 --output", tmp_path / "sheet.csv")
    known = {row["labels"] for row in read_rows(tmp_path / "sheet.csv")}
    assert {"Apple", "b"} <= known <= {"Apple", "b", "Apple|b"}


def test_resuming_compares_the_names(run, tmp_path, capsys):
    execute("train --output", run, "--resume")
    options = "--head ridge --mean_labels 1.2 --threads 1 --resume --output"
    command = ["train", run.with_name("x.npz"), *HIDE, options, run]
    said = fails(capsys, *command)
    assert "these differ from its config.yaml: data.rename." in said
    (tmp_path / "again.csv").write_text(NAMES)
    execute(*command, "--data.rename", tmp_path / "again.csv")
