"""`spml audit sample`: random samples with held-out scores, and a table for their labels."""

from __future__ import annotations

import json

import numpy as np
import pytest

import spml
from spml.audit.sheets import draw_sample
from spml.cli.main import main
from spml.common.errors import InputError
from spml.common.files import sha256_file
from spml.runs.audits.sample import read_common_scores, sample_for_audit, scores_of_sample
from spml.runs.folder.held_out import HeldOut, read_held_out, write_held_out
from tests.helpers.audits import CLASSES
from tests.helpers.commands import execute, fails
from tests.helpers.records import read_rows


@pytest.fixture
def runs(folder):
    return {name: spml.load(folder / name) for name in ("ridge", "lda")}


# -- scores that runs have in common ---------------------------------------------------------------------


@pytest.mark.long
def test_common_scores_are_of_the_same_samples_and_classes(runs, folder, tmp_path):
    ridge = read_held_out(folder / "ridge", CLASSES)
    other = read_held_out(folder / "lda", CLASSES[::-1])
    common = read_common_scores(runs)
    assert (common.ids, common.classes) == (ridge.ids, CLASSES)
    assert list(common.scores) == ["ridge", "lda"]
    assert (common.scores["ridge"] == ridge.scores).all()
    assert (common.scores["lda"] == other.scores.array[:, ::-1]).all()
    assert (common.labels == ridge.labels.to_ternary()).all()
    # Some samples of the other run, in another order.
    rows = np.array([30, 7, 50, 8])
    part = HeldOut(tuple(other.ids[row] for row in rows), other.scores.take(rows), other.labels.take(rows))
    write_held_out(tmp_path, part, CLASSES[::-1])
    runs["lda"].folder = tmp_path
    common = read_common_scores(runs)
    kept = [7, 8, 30, 50]
    assert common.ids == tuple(ridge.ids[row] for row in kept)
    assert (common.scores["ridge"] == ridge.scores.array[kept]).all()
    assert (common.scores["lda"] == other.scores.array[kept][:, ::-1]).all()
    assert (common.labels == ridge.labels.to_ternary()[kept]).all()


def test_scores_of_a_sample_are_the_mean_of_the_runs_in_its_order(runs):
    common = read_common_scores(runs)
    ids, classes = [common.ids[row] for row in (9, 2, 30)], ("c", "a", "d", "b")
    scores = scores_of_sample(runs, ids, classes)
    mean = (common.scores["ridge"] + common.scores["lda"])[[9, 2, 30]][:, [2, 0, 3, 1]] / 2
    np.testing.assert_allclose(scores, mean, rtol=1e-6)
    with pytest.raises(
        InputError, match=r"ridge: has other classes than the sample, such as 'e'\. The run was"
    ):
        scores_of_sample(runs, ids, (*classes, "e"))
    with pytest.raises(InputError, match="ridge: has no held-out scores of 'x', so the run is not the one"):
        scores_of_sample(runs, [*ids, "x"], classes)


# -- the sample ------------------------------------------------------------------------------------------


def test_the_sample_is_drawn_from_held_out_samples(runs):
    common = read_common_scores(runs)
    sample = sample_for_audit(runs, rows=30, seed=5)
    rows = draw_sample(60, 30, 5)
    assert sample.ids == tuple(common.ids[row] for row in rows)
    known = [tuple(np.array(CLASSES)[common.labels[row] == 1]) for row in rows]
    assert sample.known == tuple(known)
    assert all(len(labels) == 1 for labels in known)
    assert (sample.available, sample.classes) == (60, CLASSES)


def test_the_command_writes_the_table_and_says_what_it_is_worth(folder, tmp_path, capsys):
    sheet = tmp_path / "s.csv"
    before = sha256_file(folder / "ridge" / "held_out.safetensors")
    execute("audit sample", folder / "ridge", "--rows 25 --seed 2 --output", sheet)
    said = capsys.readouterr().out
    rows = read_rows(sheet)
    held_out = read_held_out(folder / "ridge", CLASSES)
    known = {
        name: "|".join(np.array(CLASSES)[row == 1])
        for name, row in zip(held_out.ids, held_out.labels.to_ternary(), strict=True)
    }
    assert len({row["file"] for row in rows}) == 25
    assert all(row == {"file": row["file"], "labels": known[row["file"]], "complete": ""} for row in rows)
    about = json.loads((tmp_path / "s.json").read_text())
    assert about["runs"] == [str(folder / "ridge")]  # absolute, for any working folder
    assert about["data"]["path"] == str(folder / "features.npz")
    assert [about[key] for key in ("rows", "available", "seed")] == [25, 60, 2]
    assert (tmp_path / "s.classes.txt").read_text() == "a\nb\nc\nd\n"
    for text in (
        f"{sheet}: 25 samples, drawn at random (seed 2) from 60 samples with held-out scores",
        "What such samples are worth was measured on data sets",
        f"spml audit use {sheet} {folder / 'ridge'}",
    ):
        assert text in said, text
    assert sha256_file(folder / "ridge" / "held_out.safetensors") == before


def test_samples_and_labels_of_data_that_is_named(folder, tmp_path, capsys):
    """The first 40 validation samples, with a further label that has become known since."""
    held_out = read_held_out(folder / "ridge", CLASSES)
    labels = held_out.labels.to_ternary()[:40].astype(float)
    labels[labels == 0] = np.nan
    labels[:, 1] = 1
    data = tmp_path / "known.npz"
    more = ("new", *held_out.ids[:40])
    matrix = np.vstack([np.ones(4), labels])[:, ::-1]
    np.savez(data, X=np.ones((41, 10)), Y=matrix, names=np.array(more), classes=np.array(list("dcba")))
    sheet = tmp_path / "s.csv"
    execute("audit sample", folder / "ridge", data, "--rows 40 --output", sheet)
    assert "from 40 samples with held-out scores" in capsys.readouterr().out
    rows = read_rows(sheet)
    assert {row["file"] for row in rows} == set(held_out.ids[:40])
    assert all("b" in row["labels"].split("|") for row in rows)
    assert json.loads((tmp_path / "s.json").read_text())["data"]["path"] == str(data)


# -- what people get wrong -------------------------------------------------------------------------------


def test_what_can_not_be_drawn(folder, tmp_path, capsys):
    ridge, output = folder / "ridge", ["--output", tmp_path / "s.csv"]

    def refused(*arguments):
        said = fails(capsys, "audit sample", *arguments, *output)
        assert not any(tmp_path.glob("s.*"))
        return said

    assert "61 samples can't be drawn from 60: draw fewer (`rows`)" in refused(ridge, "--rows", "61")
    assert "5 samples are too few to estimate anything" in refused(ridge, "--rows", "5")
    assert "is named twice" in refused(ridge, ridge, "--rows", "20")
    assert "no such file" in refused(ridge, tmp_path / "none.npz", "--rows", "20").lower()
    assert "contains no trained model" in refused(tmp_path)
    assert "name the data after the runs" in refused(ridge, "--rows", "20", "--data.unlisted", "negative")
    other = tmp_path / "other.npz"
    known = np.array([0, 1])
    np.savez(other, X=np.ones((2, 10)), Y=known, names=["x", "y"], classes=np.array(["a", "b"]))
    said = refused(ridge, other, "--rows", "20")
    assert "has none of the 60 samples" in said
    assert "where this data has 'x'" in said
    np.savez(other, X=np.ones((2, 10)), Y=known, names=["x", "y"], classes=np.array(["a", "e"]))
    assert "has the class 'e', which the model" in refused(ridge, other, "--rows", "20")


def test_a_table_that_exists_is_not_replaced(folder, tmp_path, capsys):
    sheet = tmp_path / "s.csv"
    command = ["audit", "sample", str(folder / "ridge"), "--rows", "20", "--output", str(sheet)]
    main(command)
    sheet.write_text("labels of an hour")
    assert "already exists. Replace it" in fails(capsys, *command)
    assert sheet.read_text() == "labels of an hour"
    execute(*command, "--overwrite")
    assert len(read_rows(sheet)) == 20


def test_a_run_of_which_all_labels_are_known_needs_no_audit(folder, tmp_path, capsys):
    run = tmp_path / "full"
    full = ["--data.unlisted", "negative", "--head", "ridge", "--threads", "1", "--output", str(run)]
    execute("train", folder / "features.npz", *full)
    assert "all labels of all 60 samples are known already" in fails(capsys, "audit sample", run, "--rows 20")


def test_runs_without_common_samples_or_classes(folder, tmp_path, capsys, runs):
    ridge, lda = (folder / name for name in ("ridge", "lda"))
    held_out = read_held_out(lda, CLASSES[::-1])
    renamed = held_out._replace(ids=tuple(f"new {name}" for name in held_out.ids))
    write_held_out(lda, renamed, CLASSES[::-1])
    try:
        said = fails(capsys, "audit sample", ridge, lda, "--rows 20 --output", tmp_path / "s.csv")
        assert "no sample has held-out scores of both this run and" in said
        (lda / "held_out.safetensors").unlink()
        said = fails(capsys, "audit sample", lda, "--rows 20 --output", tmp_path / "s.csv")
        assert "held_out.safetensors: is missing" in said
    finally:
        write_held_out(lda, held_out, CLASSES[::-1])
