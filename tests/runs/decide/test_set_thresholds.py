"""Thresholds decided again: other targets, other data, K from an audit."""

from __future__ import annotations

import csv
import json
import shutil

import numpy as np
import pytest

import spml
from spml.common.errors import InputError
from spml.decisions import (
    f1_cuts,
    fit_calibration,
    fit_probabilities,
    label_cuts,
    precision_cuts,
    priors_from_audit,
    priors_from_shares,
    recall_cuts,
    refine_calibration,
)
from spml.runs.folder.held_out import read_held_out
from tests.helpers import write_image
from tests.helpers.commands import execute, fails
from tests.helpers.features import arrays_of, copy_features, logits_of, train_hidden

CLASSES = tuple("abcd")


@pytest.fixture
def runs(ridge_run, auto_run, tmp_path):
    """Copies of runs without a stated K."""
    for run in (ridge_run, auto_run):
        shutil.copytree(run, tmp_path / "runs" / run.name)
    return tmp_path / "runs"


def truth_of(features, names):
    return arrays_of(features)["Y"][np.asarray(names, int)] == 1


def write_sheet(path, features, names, **changed):
    """A filled-in table of `spml audit sample`."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["file", "labels", "complete"])
        for name, row in zip(names, truth_of(features, names), strict=True):
            labels = "|".join(np.asarray(CLASSES)[row])
            writer.writerow([name, changed.get("labels", labels), changed.get("complete", "yes")])
    return path


# -- targets and K ---------------------------------------------------------------------------------------


def test_k_must_be_known(runs, capsys):
    before = (runs / "ridge" / "thresholds.json").read_bytes()
    said = fails(capsys, "thresholds", runs / "ridge")
    assert "state it (mean_labels=K), or label 50 or more random samples in full (spml audit sample)" in said
    assert "(audit=FILE)" in said
    assert (runs / "ridge" / "thresholds.json").read_bytes() == before


def test_each_target_is_decided_on_the_held_out_scores(runs):
    run = spml.load(runs / "ridge")
    kept = read_held_out(run.folder, CLASSES)
    labels = kept.labels.to_ternary()
    given = priors_from_shares(kept.positives, 1.9)
    p, priors = fit_probabilities(kept.scores, labels, given, kept.positives)
    arguments = kept.scores, labels, priors
    for settings, cuts in (
        ({}, f1_cuts(*arguments)),
        ({"target": "labels"}, label_cuts(*arguments, 1.9)),
        ({"target": "recall=0.7"}, recall_cuts(*arguments, 0.7, per_class=False)),
        ({"target": "recall=0.7", "per_class": True}, recall_cuts(*arguments, 0.7, per_class=True)),
        ({"target": "precision=0.9"}, precision_cuts(*arguments, p, 0.9, per_class=False)),
    ):
        policy = run.set_thresholds(mean_labels=1.9, **settings)
        assert policy.logits == pytest.approx(cuts.thresholds)
        assert run.decision().threshold == policy.logits
        assert spml.load(run.folder).thresholds == policy
    assert (policy.mean_labels.value, policy.mean_labels.source) == (1.9, "stated")
    # K is known from now on.
    again = run.set_thresholds(target="labels")
    assert again.mean_labels == policy.mean_labels
    assert again.calibration == policy.calibration
    with pytest.raises(InputError, match=r"a precision of 0\.99 is not reached"):
        run.set_thresholds(target="precision=0.99", mean_labels=1.0)
    assert spml.load(run.folder).thresholds == again


@pytest.mark.long
def test_k_of_training_is_remembered(features, tmp_path):
    train_hidden(features, tmp_path / "run", "--head ridge --mean_labels 1.7")
    (tmp_path / "run" / "thresholds.json").write_text("damaged")
    policy = spml.load(tmp_path / "run").set_thresholds()
    assert (policy.mean_labels.value, policy.mean_labels.source) == (1.7, "stated")


def test_the_table_and_the_warnings_are_printed(runs, capsys):
    execute("thresholds", runs / "ridge", "--mean_labels 1.9 --target recall=0.8")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "target recall=0.8; K = 1.9 labels per sample (stated)"
    assert lines[1] == "decided on 60 samples (held out)"
    assert lines[2].split() == ["class", "threshold", "precision", "recall", "positives", "known"]
    policy = spml.load(runs / "ridge").thresholds
    cut = max(policy.classes, key=lambda cut: cut.support)
    assert lines[3].split()[:2] == [cut.name, f"{cut.threshold:.3g}"]
    warned = [line.removeprefix("warning: ") for line in lines if line.startswith("warning")]
    assert warned == [*policy.warnings]
    assert any("uniform draw" in line for line in policy.warnings)
    assert any("Only 60 samples" in line for line in policy.warnings)


def test_settings_that_contradict_each_other_are_refused(runs, features, capsys):
    run = runs / "ridge"
    said = fails(capsys, "thresholds", run, "--mean_labels 2 --audit x.csv")
    assert "pass `audit` or `mean_labels`, not both" in said
    assert "`target` must be f1" in fails(capsys, "thresholds", run, "--target f3")
    assert "between 0 and the 4 classes" in fails(capsys, "thresholds", run, "--mean_labels 9")
    assert "named twice" in fails(capsys, "thresholds", run, features, "--data.path x.npz")


def test_a_run_without_held_out_scores_needs_data(runs, features, tmp_path, capsys):
    run = runs / "ridge"
    (run / "held_out.safetensors").unlink()
    said = fails(capsys, "thresholds", run, "--mean_labels 2.5")
    assert "held_out.safetensors: is missing" in said
    new = copy_features(features, tmp_path / "new.npz", "test")
    execute("thresholds", run, new, "--mean_labels 2.5")
    assert spml.load(run).thresholds.rows.count == 80


# -- data ------------------------------------------------------------------------------------------------


def test_other_samples_are_scored_by_the_model(runs, features, tmp_path):
    test, order = arrays_of(features, "test"), [2, 0, 3, 1]  # of the classes
    truth, classes = test["Y"], np.asarray(CLASSES)[order]
    path = copy_features(features, tmp_path / "new.npz", "test", Y=truth[:, order], classes=classes)
    run = spml.load(runs / "ridge")
    policy = run.set_thresholds(path, unlisted="negative")
    assert (policy.mean_labels.value, policy.mean_labels.source) == (truth.sum(1).mean(), "labels")
    assert (policy.rows.count, policy.rows.source) == (80, str(path))
    scores = logits_of(run.folder, test["X"])
    ternary = np.where(truth == 1, 1, -1).astype(np.int8)
    cuts = f1_cuts(scores, ternary, priors_from_shares(truth.sum(0), truth.sum(1).mean(), "labels"))
    assert policy.logits == pytest.approx(cuts.thresholds, abs=1e-5)
    # The data of training means the scores that were kept of it.
    with pytest.raises(InputError, match="mean_labels=K"):
        spml.load(shutil.copytree(runs / "auto", tmp_path / "other")).set_thresholds(features)
    assert run.set_thresholds(features, mean_labels=2.0).rows.source == "held out"


# -- audits ----------------------------------------------------------------------------------------------


def test_an_audit_of_kept_samples_gives_k_and_probabilities(runs, features, tmp_path, capsys):
    run = runs / "auto"
    kept = read_held_out(run, CLASSES)
    rows = np.random.default_rng(0).permutation(len(kept.ids))[:50]
    names = [kept.ids[row] for row in rows]
    sheet = write_sheet(tmp_path / "sample.csv", features, names)
    execute("thresholds", run, "--audit", sheet)
    policy, truth = spml.load(run).thresholds, truth_of(features, names)
    labels = kept.labels.to_ternary()
    known = labels[rows] == 1
    priors = priors_from_audit(kept.positives, truth, known=known, samples=kept.total)
    assert policy.mean_labels.source == "audit"
    # One label of each is known, so the rest is what the audit has found.
    assert policy.mean_labels.value == pytest.approx(1 + (truth & ~known).sum(1).mean())
    assert policy.gamma == priors.gamma
    assert policy.rows.audited == 50
    assert policy.logits == pytest.approx(f1_cuts(kept.scores, labels, priors).thresholds)
    refined = refine_calibration(fit_calibration(kept.scores, labels, priors), kept.scores.array[rows], truth)
    assert policy.calibrated(kept.scores) == pytest.approx(refined(kept.scores))
    out = capsys.readouterr().out
    assert (
        f"K = {policy.mean_labels.value:.3g} labels per sample (from 50 audited samples, 95 % interval" in out
    )
    assert "uniform draw among its labels" not in out
    # Another target keeps what the audit told.
    execute("thresholds", run, "--target recall=0.8")
    assert spml.load(run).thresholds.mean_labels == policy.mean_labels
    assert spml.load(run).thresholds.calibration == policy.calibration


def test_other_samples_of_an_audit_are_predicted(runs, features, tmp_path):
    run = spml.load(runs / "ridge")
    kept = read_held_out(run.folder, CLASSES)
    val, test = arrays_of(features, "val"), arrays_of(features, "test")
    matrix, truth = (np.concatenate([test[name][:40], val[name][:5]]) for name in ("X", "Y"))
    np.savez(tmp_path / "audit.npz", X=matrix, Y=truth, classes=np.array(CLASSES))
    policy = run.set_thresholds(audit=tmp_path / "audit.npz")
    assert policy.mean_labels.value == truth.sum(1).mean()
    scores = logits_of(run.folder, matrix)
    labels = kept.labels.to_ternary()
    calibration = fit_calibration(
        kept.scores, labels, priors_from_audit(kept.positives, truth == 1, samples=kept.total)
    )
    refined = refine_calibration(calibration, scores, truth == 1)
    assert policy.calibrated(kept.scores) == pytest.approx(refined(kept.scores), abs=1e-4)


def test_what_the_model_has_learned_from_is_refused(runs, features, tmp_path, capsys):
    arrays = arrays_of(features)
    training = np.flatnonzero(arrays["split"] == "train")
    sheet = write_sheet(tmp_path / "sheet.csv", features, training[:30])
    said = fails(capsys, "thresholds", runs / "ridge", "--audit", sheet)
    assert "has learned from '0' and has kept no other score of it" in said
    assert "spml audit sample" in said
    # Equal features are found, although row 0 of this file is another row there.
    more, rows = tmp_path / "audit.npz", training[30:60]
    np.savez(more, X=arrays["X"][rows], Y=arrays["Y"][rows], classes=np.array(CLASSES))
    assert "has learned from '0'" in fails(capsys, "thresholds", runs / "ridge", "--audit", more)
    # The auto head has scores of training samples that it was not fitted to.
    execute("thresholds", runs / "auto", "--audit", sheet)
    assert spml.load(runs / "auto").thresholds.rows.audited == 30


def test_an_audit_that_is_not_complete_is_refused(runs, features, tmp_path, capsys):
    names, partial = list(range(60)), np.where(arrays_of(features)["Y"] == 1, 1, -1)
    partial[7, 2] = 0
    path, other = tmp_path / "sheet.csv", tmp_path / "other.npz"
    for audit, message in (
        (write_sheet(path, features, names, complete=""), "sheet.csv: row 2: '0' is not complete"),
        (write_sheet(tmp_path / "no.csv", features, names, complete="no"), "row 2: '0' is not complete"),
        (
            write_sheet(tmp_path / "few.csv", features, names[:19]),
            "few.csv: has 19 samples, but an audit needs at least 20",
        ),
        (write_sheet(tmp_path / "e.csv", features, names, labels="a|e"), "row 2: 'e' is not a class"),
        (copy_features(features, other, Y=partial), "1 sample is not labelled in full, such as '7'"),
        (
            copy_features(features, tmp_path / "e.npz", classes=list("abce")),
            "has the class 'e', which the model",
        ),
        (tmp_path / "nothing.csv", "no such file"),
    ):
        assert message in fails(capsys, "thresholds", runs / "auto", "--audit", audit)


def test_audited_images_are_found_by_their_file(tmp_path, capsys):
    """In a table elsewhere, with other names for the same files; others are predicted."""
    photos = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for k in range(70):
        write_image(photos / "abc"[k % 3] / f"{k}.png")
    options = "--epochs 1 --threads 1 --data.workers 0 --model.backbone small_cnn --data.size 16"
    execute("train", photos, options, "--output", tmp_path / "run")
    kept = read_held_out(tmp_path / "run", tuple("abc"))
    files = [photos / name for name in kept.ids]
    new = [write_image(tmp_path / "new" / f"{k}.png") for k in range(30)]
    path = tmp_path / "audit.csv"
    lines = [f"{file.relative_to(tmp_path)},{'abc'[rng.integers(3)]}" for file in [*files, *new]]
    path.write_text("file,label\n" + "\n".join(lines) + "\n")
    execute("thresholds", tmp_path / "run", "--audit", path, "--workers 0")
    policy = spml.load(tmp_path / "run").thresholds
    assert policy.rows.audited == len(kept.ids) + 30
    assert policy.mean_labels.value == 1.0
    with path.open("a") as stream:
        learned = sorted(kept.learned)[0]
        stream.write(f"photos/{learned},a\n")
    said = fails(capsys, "thresholds", tmp_path / "run", "--audit", path)
    assert f"has learned from 'photos/{learned}'" in said
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("file,labels,complete\n" + "".join(f"gone{k}.png,a,yes\n" for k in range(20)))
    assert "there is no file" in fails(capsys, "thresholds", tmp_path / "run", "--audit", sheet)
    assert json.loads((tmp_path / "run" / "thresholds.json").read_text())["rows"]["audited"] == len(lines)


@pytest.mark.parametrize("name", ["ridge", "auto"])
def test_data_of_the_training_with_other_labels(name, runs, features, tmp_path):
    """Labels as they were before a review: samples of the training have held-out scores or are left out."""
    run = spml.load(runs / name)
    kept = read_held_out(run.folder, CLASSES)
    arrays = arrays_of(features)
    other = np.where(np.arange(4) == arrays["Y"].argmax(1)[:, None], 1, 0)
    before = copy_features(features, tmp_path / "before.npz", Y=other)
    policy = run.set_thresholds(before, mean_labels=1.9)
    scores = logits_of(run.folder, arrays["X"])
    scores[np.asarray(kept.ids, int)] = kept.scores
    used = np.ones(len(scores), bool)
    used[np.asarray(sorted(kept.learned), int)] = False
    assert policy.rows.count == used.sum()
    assert bool(kept.learned) == (name == "ridge")
    given = priors_from_shares(other.sum(0), 1.9)  # of all samples, those left out as well
    labels = other[used].astype(np.int8)
    _, priors = fit_probabilities(scores[used], labels, given, other.sum(0))
    cuts = f1_cuts(scores[used], labels, priors)
    assert policy.logits == pytest.approx(cuts.thresholds, abs=1e-5)


def test_data_that_the_model_has_learned_from_is_refused(runs, features, tmp_path):
    learned = copy_features(features, tmp_path / "learned.npz", "train")
    with pytest.raises(InputError, match="has learned from all samples"):
        spml.load(runs / "ridge").set_thresholds(learned, mean_labels=2.0)
