"""`spml audit use`: what fully labelled samples tell about data and runs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import spml
from spml.audit.selection import select_by_audit
from spml.decisions import (
    Target,
    f1_cuts,
    fit_calibration,
    mean_labels_interval,
    priors_from_audit,
    priors_from_shares,
    refine_calibration,
)
from spml.runs.audits.use import use_audit
from spml.runs.folder.held_out import read_held_out, write_held_out
from spml.runs.folder.layout import clear
from tests.helpers.audits import CLASSES, fill_in
from tests.helpers.commands import execute, fails
from tests.helpers.records import read_rows


@pytest.fixture
def runs(folder, tmp_path):
    """Copies of the runs, with known K and without."""
    for name in ("ridge", "lda", "unknown"):
        shutil.copytree(folder / name, tmp_path / name)
    return {name: spml.load(tmp_path / name) for name in ("ridge", "lda", "unknown")}


@pytest.fixture
def truth(folder):
    """All labels of each sample by its name."""
    with np.load(folder / "features.npz") as stored:
        return {str(row): stored["Y"][row] == 1 for row in range(len(stored["Y"]))}


def names_of(truth):
    """Names of the labels of each sample."""
    return {name: np.array(CLASSES)[row] for name, row in truth.items()}


@pytest.fixture
def sheet(runs, truth, tmp_path, capsys):
    """A table of 40 samples, filled in."""
    path = tmp_path / "sample.csv"
    execute("audit sample", runs["ridge"].folder, "--rows 40 --output", path)
    fill_in(path, names_of(truth))
    capsys.readouterr()
    return path


def audited(sheet, run, truth):
    """Rows of a run's held-out samples that a table names, and their labels in the order of the run."""
    held_out = read_held_out(run.folder, run.classes)
    names = [row["file"] for row in read_rows(sheet)]
    columns = [CLASSES.index(name) for name in run.classes]
    rows = np.array([held_out.ids.index(name) for name in names])
    return held_out, rows, np.stack([truth[name] for name in names])[:, columns]


def test_k_priors_thresholds_and_probabilities_follow_from_the_labels(runs, sheet, truth):
    used = use_audit(sheet, runs)
    for name, run in runs.items():
        held_out, rows, labels = audited(sheet, run, truth)
        observed = held_out.labels.to_ternary()
        priors = priors_from_audit(
            held_out.positives, labels, known=observed[rows] == 1, samples=held_out.total
        )
        fitted = fit_calibration(held_out.scores, observed, priors)
        calibration = refine_calibration(fitted, held_out.scores.array[rows], labels)
        policy = used.thresholds[name]
        assert policy.names == run.classes
        assert policy.target == Target()
        assert policy.logits == pytest.approx(f1_cuts(held_out.scores, observed, priors).thresholds)
        assert policy.calibrated(held_out.scores) == pytest.approx(calibration(held_out.scores))
        assert policy.mean_labels.source == "audit"
        assert policy.rows.audited == 40
    held_out, rows, labels = audited(sheet, runs["ridge"], truth)
    known = held_out.labels.to_ternary()[rows] == 1
    least = held_out.positives.sum() / held_out.total
    assert used.samples == 40
    assert used.mean_labels == mean_labels_interval(labels, known=known, least=least)
    assert used.mean_labels.value == pytest.approx(least + (labels & ~known).sum(1).mean())
    assert used.contradicted == 0


def test_the_classes_whose_share_moved_most_come_first(runs, sheet, truth):
    used = use_audit(sheet, {"ridge": runs["ridge"]})
    held_out, rows, labels = audited(sheet, runs["ridge"], truth)
    known, total = held_out.labels.to_ternary()[rows] == 1, held_out.total
    priors = priors_from_audit(held_out.positives, labels, known=known, samples=total)
    before = priors_from_shares(held_out.positives, priors.mean_labels, samples=total).shares
    expected = sorted(
        zip(CLASSES, before, priors.shares, strict=True), key=lambda moved: -abs(moved[1] - moved[2])
    )
    assert [tuple(moved) for moved in used.moved] == [pytest.approx(moved) for moved in expected]
    assert used.gamma == priors.gamma
    assert [moved.name for moved in used.preferred] == [name for name, a, b in expected if a > b]
    assert used.selection is None


def test_runs_are_compared_on_samples_that_all_have_scores_of(runs, sheet, truth):
    pair = {name: runs[name] for name in ("ridge", "lda")}
    used = use_audit(sheet, pair, draws=60, seed=3)
    held_out, rows, labels = audited(sheet, runs["ridge"], truth)
    other = read_held_out(runs["lda"].folder, runs["lda"].classes)
    scores = {"ridge": held_out.scores.array, "lda": other.scores.array[:, ::-1]}
    observed = held_out.labels.to_ternary()
    in_audit = {name: values[rows] for name, values in scores.items()}
    expected = select_by_audit(scores, observed, labels.sum(1).mean(), in_audit, labels, draws=60, seed=3)
    assert used.selection == expected


def test_kinds_of_held_out_scores_that_differ_are_named(runs, sheet):
    pair = {name: runs[name] for name in ("ridge", "lda")}
    assert not any("left out a part" in line for line in use_audit(sheet, pair, draws=60).selection.warnings)
    pair["lda"].summary["data"]["samples"]["val"] = 1  # as of a run that has scored training samples, too
    (*_, last) = use_audit(sheet, pair, draws=60).selection.warnings
    assert last.startswith("Scores of lda are by models that each left out a part of the samples")


def test_the_command_writes_thresholds_and_what_it_learned(runs, sheet, truth, tmp_path, capsys):
    used = use_audit(sheet, {name: runs[name] for name in ("ridge", "lda")})
    execute("audit use", sheet, tmp_path / "ridge", tmp_path / "lda")
    said = capsys.readouterr().out
    k, low, high = used.mean_labels
    assert f"K {k:.2f} labels per sample (95 % interval {low:.2f} to {high:.2f})" in said
    assert "SP-score and audit" in said
    assert "warning: frequent classes" not in said or used.looks_biased
    for name in ("ridge", "lda"):
        told = json.loads((tmp_path / name / "audited.json").read_text())
        assert told["mean_labels"] == {"value": k, "low": low, "high": high}
        assert told["samples"] == 40
        assert told["selection"]["by_audit"] == str(tmp_path / used.selection.by_audit)
        assert told["classes"][0] == used.moved[0]._asdict()
        run = spml.load(tmp_path / name)
        assert run.thresholds == used.thresholds[name]
        assert run.decision().threshold == used.thresholds[name].logits
    # Training again leaves nothing behind that an audit told about the former model.
    clear(tmp_path / "ridge")
    assert not (tmp_path / "ridge" / "audited.json").exists()


def test_a_stated_target(runs, sheet, tmp_path, capsys):
    execute("audit use", sheet, tmp_path / "ridge", "--target recall=0.7 --per_class")
    assert "recall=0.7, per class" in capsys.readouterr().out
    assert spml.load(tmp_path / "ridge").thresholds.target == Target("recall", 0.7, True)
    # The next audit keeps the target of the run.
    execute("audit use", sheet, tmp_path / "ridge")
    assert spml.load(tmp_path / "ridge").thresholds.target == Target("recall", 0.7, True)


def test_preferred_classes_are_named_in_a_warning(tmp_path, capsys):
    """Class a is known wherever it is there; the others only without it."""
    generator = np.random.default_rng(0)
    truth = (generator.random((400, 4)) < [0.6, 0.5, 0.5, 0.4]).astype(np.uint8)
    truth[np.arange(400), generator.integers(0, 4, 400)] = 1
    matrix = truth @ generator.normal(size=(4, 10)) + 0.3 * generator.normal(size=(400, 10))
    data = tmp_path / "biased.npz"
    split = np.array(["train"] * 200 + ["val"] * 200)
    shown = truth.argmax(1)
    np.savez(data, X=matrix, Y=shown, classes=np.array(list(CLASSES)), split=split)
    run, sheet = tmp_path / "biased", tmp_path / "s.csv"
    execute("train", data, "--head ridge --threads 1 --output", run)
    execute("audit sample", run, "--rows 150 --output", sheet)
    fill_in(sheet, names_of({str(row): labels == 1 for row, labels in enumerate(truth)}))
    capsys.readouterr()
    execute("audit use", sheet, run)
    said = capsys.readouterr().out
    assert "warning: frequent classes seem to have been preferred as known labels: a" in said
    told = json.loads((run / "audited.json").read_text())
    assert told["looks_biased"]
    assert told["gamma"] <= 0.7


# -- what people get wrong -------------------------------------------------------------------------------


def test_nothing_changes_where_the_table_is_refused(runs, sheet, truth, tmp_path, capsys):
    ridge, lda = tmp_path / "ridge", tmp_path / "lda"
    before = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}

    def refused(*arguments):
        said = fails(capsys, "audit use", *arguments)
        after = {path: path.read_bytes() for path in sorted(tmp_path.rglob("*")) if path.is_file()}
        assert {path: after[path] for path in before} == before
        assert not any(path.name == "audited.json" for path in after)
        return said

    incomplete = tmp_path / "incomplete.csv"
    lines = sheet.read_text().splitlines()
    incomplete.write_text("\n".join([*lines[:-3], *(line.removesuffix("yes") for line in lines[-3:])]))
    before[incomplete] = incomplete.read_bytes()
    said = refused(incomplete, ridge)
    assert "incomplete.csv: row 39: " in said
    assert "is not complete; 3 of 40 rows are not" in said
    assert "none.csv" in refused(tmp_path / "none.csv", ridge)
    assert "is named twice" in refused(sheet, ridge, ridge)
    assert "--draws must be at least 50" in refused(sheet, ridge, "--draws", "10")
    assert "--per_class belongs to --target" in refused(sheet, ridge, "--per_class")
    assert "`target` must be f1, labels" in refused(sheet, ridge, "--target", "f2")
    assert "contains no trained model" in refused(sheet, tmp_path)
    few = tmp_path / "few.csv"
    few.write_text("".join(sheet.read_text().splitlines(keepends=True)[:20]))
    before[few] = few.read_bytes()
    assert "an audit needs at least 20" in refused(few, ridge)
    # A sample that the run was trained on, and one that does not exist.
    strange = tmp_path / "strange.csv"
    strange.write_text(sheet.read_text() + "3,a,yes\n")
    before[strange] = strange.read_bytes()
    said = refused(strange, ridge, lda)
    assert f"the model in {ridge} has learned from '3' and has kept no other score of it" in said
    strange.write_text(sheet.read_text() + "new.jpg,a,yes\n")
    before[strange] = strange.read_bytes()
    assert "has kept no score of 'new.jpg', and there is no file" in refused(strange, ridge)


def test_a_table_of_another_run_is_refused(runs, sheet, tmp_path, capsys):
    """The second run has held-out scores of fewer samples than the table names."""
    lda = runs["lda"]
    held_out = read_held_out(lda.folder, lda.classes)
    named = {row["file"] for row in read_rows(sheet)}
    kept = np.array([row for row, name in enumerate(held_out.ids) if name not in named])
    part = held_out._replace(
        ids=tuple(held_out.ids[row] for row in kept),
        scores=held_out.scores.take(kept),
        labels=held_out.labels.take(kept),
        learned={*held_out.learned} | named,
    )
    write_held_out(lda.folder, part, lda.classes)
    said = fails(capsys, "audit use", sheet, tmp_path / "ridge", tmp_path / "lda")
    assert f"the model in {tmp_path / 'lda'} has learned from" in said
    assert not (tmp_path / "ridge" / "audited.json").exists()


def test_labels_that_contradict_known_ones_are_counted(runs, sheet, truth, tmp_path, capsys):
    held_out = read_held_out(runs["ridge"].folder, CLASSES)
    known = dict(zip(held_out.ids, held_out.labels.to_ternary(), strict=True))
    wrong = [row["file"] for row in read_rows(sheet)][:2]
    fill_in(sheet, names_of({**truth, **{name: truth[name] & (known[name] != 1) for name in wrong}}))
    execute("audit use", sheet, tmp_path / "ridge")
    assert "note: 2 known labels are not in the table" in capsys.readouterr().out
