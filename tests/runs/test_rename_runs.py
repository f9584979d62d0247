"""A run keeps the wanted names of classes, and applies them to the data that it is given."""

from __future__ import annotations

import csv

import numpy as np
import pytest

import spml
from spml.cli.main import main
from spml.config import DataConfig
from spml.data import open_dataset
from spml.runs.folder.layout import read_config
from tests.helpers.commands import fails
from tests.helpers.features import make_features

NAMES = "given,wanted\na,Apple\nd,Apple\nc,\n"
WANTED = {"a": "Apple", "d": "Apple", "c": ""}
FULL = ("--data.unlisted", "negative")
SINGLE = ("--data.observe", "single", *FULL)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on features with the classes a, b, c, d, whose file of names has gone since."""
    folder = tmp_path_factory.mktemp("renamed")
    path = make_features(folder / "x.npz")
    (folder / "n.csv").write_text(NAMES)
    main(
        ["train", str(path), "--head", "ridge", "--data.rename", str(folder / "n.csv"),
         "--mean_labels", "1.2", *SINGLE, "--threads", "1", "--output", str(folder / "run")]
    )  # fmt: skip
    (folder / "n.csv").unlink()
    return folder / "run"


def test_the_folder_holds_the_names(run):
    assert (run / "names.csv").read_text() == NAMES
    moved = run.rename(run.with_name("moved"))
    assert read_config(moved).data.rename == WANTED
    moved.rename(run)
    assert spml.load(run).classes == ("Apple", "b")


def test_the_data_that_a_run_is_given_is_renamed(run, tmp_path):
    loaded, dirty = spml.load(run), str(run.with_name("x.npz"))
    arrays = dict(np.load(dirty))
    truth = arrays["Y"]
    clean = np.stack([truth[:, 0] | truth[:, 3], truth[:, 1]], 1)
    np.savez(tmp_path / "clean.npz", **{**arrays, "Y": clean, "classes": np.array(["Apple", "b"])})
    expected = loaded.evaluate(tmp_path / "clean.npz", unlisted="negative")
    found = loaded.evaluate(dirty, unlisted="negative")
    assert found["mAP"] == expected["mAP"] > 0.5
    assert found["notes"][:2] == [
        "data.rename: 2 class names changed: 'a' is 'Apple', 'd' is 'Apple'; 3 classes became 2.",
        f"data.rename: 1 class left out with {truth[:, 2].sum()} labels: 'c'.",
    ]
    in_memory = loaded.evaluate(arrays["X"][220:], truth[220:], classes=list("abcd"), unlisted="negative")
    assert in_memory["mAP"] == pytest.approx(expected["mAP"])
    columns_of_run = loaded.evaluate(arrays["X"][220:], clean[220:], unlisted="negative")
    assert columns_of_run["mAP"] == pytest.approx(expected["mAP"])
    swapped = loaded.evaluate(dirty, unlisted="negative", rename={"a": "b", "b": "Apple", "d": "Apple"})
    assert swapped["mAP"] < expected["mAP"]


def test_thresholds_and_audits(run, tmp_path):
    dirty = str(run.with_name("x.npz"))
    main(["thresholds", str(run), dirty, "--mean_labels", "1.2", *FULL, "--data.observe", "single"])
    assert [cut.name for cut in spml.load(run).thresholds.classes] == ["Apple", "b"]
    main(["audit", str(run), "--output", str(tmp_path / "audit")])
    rows = list(csv.DictReader((tmp_path / "audit" / "classes.csv").open()))
    assert sorted(row["label"] for row in rows) == ["Apple", "b"]
    main(["audit", "sample", str(run), dirty, "--rows", "30", "--output", str(tmp_path / "sheet.csv")])
    known = {row["labels"] for row in csv.DictReader((tmp_path / "sheet.csv").open())}
    assert {"Apple", "b"} <= known <= {"Apple", "b", "Apple|b"}


def test_resuming_compares_the_names(run, tmp_path, capsys):
    main(["train", "--output", str(run), "--resume"])
    command = ["train", str(run.with_name("x.npz")), "--head", "ridge", "--mean_labels", "1.2",
               "--threads", "1", *SINGLE, "--output", str(run), "--resume"]  # fmt: skip
    said = fails(capsys, *command)
    assert "these differ from its config.yaml: data.rename." in said
    (tmp_path / "again.csv").write_text(NAMES)
    main([*command, "--data.rename", str(tmp_path / "again.csv")])


def test_the_training_data_is_opened_as_in_training(run):
    data = open_dataset(DataConfig(**vars(read_config(run).data)))
    assert data.classes == ("Apple", "b")
