"""Thresholds of a run: decided at the end of training, kept, and used."""

from __future__ import annotations

import json
import math
import shutil

import numpy as np
import pytest
from scipy.special import expit

import spml
from spml.common.errors import InputError
from spml.decisions import (
    Target,
    calibration_error,
    decode_policy,
    f1_cuts,
    fit_calibration,
    fit_probabilities,
    priors_from_shares,
)
from spml.labels import ObservedLabels
from spml.runs.decide.policies import (
    decide_thresholds,
    evidence_from_audit,
    evidence_from_policy,
    evidence_from_shares,
    read_thresholds,
    write_thresholds,
)
from spml.runs.folder.held_out import HeldOut, read_held_out
from tests.helpers.commands import execute, fails
from tests.helpers.features import HIDE, arrays_of, copy_features, train_hidden

CLASSES = tuple("abcd")


def simulate(samples=300, seed=0):
    """Held-out scores with one known label each, and all labels."""
    rng = np.random.default_rng(seed)
    truth = rng.random((samples, 4)) < [0.5, 0.4, 0.3, 0.2]
    truth[np.arange(samples), rng.integers(0, 4, samples)] = True
    scores = (2.0 * truth + rng.normal(size=truth.shape)).astype(np.float32)
    index = [rng.choice(np.flatnonzero(row)) for row in truth]
    ids = tuple(f"{row}.png" for row in range(samples))
    return HeldOut(ids, scores, ObservedLabels.from_index(index, 4)), truth


@pytest.fixture(scope="module")
def stated(features, tmp_path_factory):
    """A run with stated K."""
    return train_hidden(features, tmp_path_factory.mktemp("runs") / "ridge", "--head ridge --mean_labels 1.9")


@pytest.fixture
def run(stated, tmp_path):
    return shutil.copytree(stated, tmp_path / "run")


# -- deciding --------------------------------------------------------------------------------------------


def test_a_policy_holds_cuts_and_what_they_stand_on():
    held_out, _ = simulate()
    policy = decide_thresholds(
        "abc", "sigmoid", CLASSES, held_out, evidence_from_shares(held_out, 2.0, "stated")
    )
    labels = held_out.labels.to_ternary()
    calibration, priors = fit_probabilities(held_out.scores, labels, priors_from_shares(labels.sum(0), 2.0))
    cuts = f1_cuts(held_out.scores, labels, priors, calibration)
    assert policy.logits == pytest.approx(cuts.thresholds)
    assert [cut.threshold for cut in policy.classes] == pytest.approx(expit(cuts.thresholds))
    assert [cut.precision for cut in policy.classes] == cuts.precision.tolist()
    assert [cut.recall for cut in policy.classes] == cuts.recall.tolist()
    assert [cut.support for cut in policy.classes] == cuts.support.tolist()
    assert [cut.known for cut in policy.classes] == labels.sum(0).tolist()
    np.testing.assert_array_equal(policy.priors.shares, priors.shares)
    np.testing.assert_array_equal(policy.calibrated(held_out.scores), calibration(held_out.scores))
    assert (policy.rows.count, policy.rows.source, policy.rows.audited) == (300, "held out", 0)
    assert any("uniform draw" in line for line in policy.warnings)


def test_without_k_there_are_thresholds_and_nothing_is_estimated(tmp_path):
    held_out, _ = simulate()
    policy = decide_thresholds(
        "abc", "sigmoid", CLASSES, held_out, evidence_from_shares(held_out, 1.5, "default")
    )
    assert policy.calibration is None
    cuts = f1_cuts(held_out.scores, held_out.labels, priors_from_shares(held_out.positives, 1.5))
    assert policy.logits == pytest.approx(cuts.thresholds)
    for cut in policy.classes:
        assert (cut.precision, cut.recall, cut.support, cut.share) == (None, None, None, None)
        assert cut.known
    (line,) = policy.warnings
    assert "is not known: thresholds are placed as for K = 1.5, and no precision" in line
    # An earlier picture, which states estimates, goes.
    (tmp_path / "thresholds.png").write_bytes(b"an earlier picture")
    write_thresholds(tmp_path, policy, held_out)
    assert not (tmp_path / "thresholds.png").exists()
    assert decode_policy((tmp_path / "thresholds.json").read_bytes()) == policy
    with pytest.raises(InputError, match="needs probabilities"):
        decide_thresholds(
            "abc", "sigmoid", CLASSES, held_out, evidence_from_shares(held_out, 2.0, "default"),
            Target("precision", 0.8, False),
        )  # fmt: skip


def test_an_audit_gives_k_with_its_interval_and_refines_probabilities():
    held_out, truth = simulate()
    evidence = evidence_from_audit(held_out, np.arange(60), held_out.scores[:60], truth[:60])
    policy = decide_thresholds("abc", "sigmoid", CLASSES, held_out, evidence)
    assert policy.mean_labels.source == "audit"
    assert policy.mean_labels.value == pytest.approx(truth[:60].sum(1).mean())
    assert policy.mean_labels.low < policy.mean_labels.value < policy.mean_labels.high
    assert policy.rows.audited == 60
    assert policy.gamma is not None
    unrefined = fit_calibration(held_out.scores, held_out.labels.to_ternary(), evidence.priors)
    assert not np.allclose(policy.calibrated(held_out.scores), unrefined(held_out.scores))
    again = decide_thresholds("abc", "sigmoid", CLASSES, held_out, evidence_from_policy(policy))
    assert again == policy


# -- files -----------------------------------------------------------------------------------------------


def test_a_class_that_is_never_predicted_and_many_classes_can_be_drawn(tmp_path):
    held_out, _ = simulate(40)
    scores = np.tile(held_out.scores, (1, 5))
    labels = ObservedLabels.from_index(held_out.labels.index, 20)
    many = HeldOut(held_out.ids, scores, labels)
    names = [f"a rather long name of class {k} $x$" for k in range(20)]
    policy = decide_thresholds("abc", "sigmoid", names, many, evidence_from_shares(many, 2.0, "stated"))
    assert policy.logits[4:] == (math.inf,) * 16
    write_thresholds(tmp_path, policy, many)
    assert (tmp_path / "thresholds.png").read_bytes().startswith(b"\x89PNG")
    assert read_thresholds(tmp_path / "thresholds.json", names, "abc") == policy


def test_thresholds_that_do_not_fit_are_refused(tmp_path):
    held_out, _ = simulate(40)
    policy = decide_thresholds(
        "abc", "sigmoid", CLASSES, held_out, evidence_from_shares(held_out, 2.0, "stated")
    )
    write_thresholds(tmp_path, policy, held_out)
    path = tmp_path / "thresholds.json"
    with pytest.raises(InputError, match=r"thresholds\.json: has thresholds of other classes"):
        read_thresholds(path, tuple("abdc"), "abc")
    with pytest.raises(InputError, match=r"thresholds\.json: was decided for another model"):
        read_thresholds(path, CLASSES, "abd")
    content = path.read_bytes()
    for damaged in (b"", b"[]", content[:200], b"\xff\xfe", b"[" * 100_000):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"thresholds\.json: damaged.*spml thresholds RUN"):
            read_thresholds(path, CLASSES, "abc")
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match=r"thresholds\.json: can't be read \(Is a directory\)\.$"):
        read_thresholds(path, CLASSES, "abc")
    path.rmdir()
    with pytest.raises(InputError, match=r"thresholds\.json: is missing.*thresholds=global"):
        read_thresholds(path, CLASSES, "abc")


# -- runs ------------------------------------------------------------------------------------------------


def test_training_decides_for_the_best_f1_of_each_class(stated):
    policy = spml.load(stated).thresholds
    held_out = read_held_out(stated, CLASSES)
    labels = held_out.labels.to_ternary()
    # Known labels of all samples count as they are; how many each hides follows from held-out samples.
    given = priors_from_shares(held_out.positives, 1.9)
    _, priors = fit_probabilities(held_out.scores, labels, given, held_out.positives, held_out.total)
    _, of_held_out = fit_probabilities(held_out.scores, labels, given)
    known, known_here = held_out.positives / held_out.total, labels.clip(0).mean(0)
    hidden = (of_held_out.shares - known_here) * known / known_here
    assert priors.shares == pytest.approx(known + hidden * (1.9 - known.sum()) / hidden.sum())
    expected = f1_cuts(held_out.scores, labels, priors)
    assert policy.logits == pytest.approx(expected.thresholds)
    assert (policy.mean_labels.value, policy.mean_labels.source) == (1.9, "stated")
    assert policy.calibration is not None
    assert json.loads((stated / "model.json").read_text())["thresholds"] == "thresholds.json"
    assert (stated / "thresholds.png").read_bytes().startswith(b"\x89PNG")


def test_full_labels_say_what_k_is(features, tmp_path):
    execute("train", features, "--data.unlisted negative --head ridge --threads 1 --output", tmp_path / "run")
    policy = spml.load(tmp_path / "run").thresholds
    truth = arrays_of(features, "val")["Y"]
    assert policy.mean_labels.source == "labels"
    assert policy.mean_labels.value == pytest.approx(truth.sum(1).mean())
    assert [cut.support for cut in policy.classes] == pytest.approx(truth.sum(0))


def test_decisions_use_the_thresholds_of_the_run(run):
    loaded = spml.load(run)
    cuts = loaded.thresholds.logits
    assert loaded.decision().threshold == cuts
    assert loaded.decision(top1_fallback=True).threshold == cuts
    assert loaded.decision(top_k=2).threshold is None
    assert loaded.decision(thresholds="global").threshold == loaded.global_logit
    assert loaded.decision(thresholds="0.5").threshold == loaded.decision(threshold=0.5).threshold == 0.0
    assert loaded.decision(thresholds=run / "thresholds.json", top_k=2).threshold == cuts
    assert loaded.decision(mean_labels=1.0).threshold > loaded.global_logit
    for pair in ({"threshold": 0.5}, {"mean_labels": 2.0}):
        with pytest.raises(InputError, match="or thresholds, not both"):
            loaded.decision(**pair, thresholds="global")
    with pytest.raises(InputError, match="must be between 0 and 1"):
        loaded.decision(thresholds="7")
    with pytest.raises(InputError, match=r"nothing\.json: is missing"):
        loaded.decision(thresholds="nothing.json")


def test_predict_and_evaluate_use_them(run, features, capsys, tmp_path):
    loaded = spml.load(run)
    truth = arrays_of(features, "test")["Y"] == 1
    test = copy_features(features, tmp_path / "test.npz", "test", Y=None, classes=None)
    scores = loaded.predict(test).scores
    cuts = 1 / (1 + np.exp(-np.asarray(loaded.thresholds.logits)))
    for options, expected in (([], scores >= cuts), (["--thresholds", "0.25"], scores >= 0.25)):
        output = tmp_path / "predicted.jsonl"
        execute("predict", run, test, "--output", output, "--overwrite", *options)
        labels = [json.loads(line)["labels"] for line in output.read_text().splitlines()]
        assert [[name in row for name in CLASSES] for row in labels] == expected.tolist()
        report = tmp_path / "report.json"
        execute("evaluate", run, features, *HIDE[:2], "--output", report, *options)
        hits = (expected & truth).sum()
        micro = json.loads(report.read_text())["thresholded"]["micro"]
        assert micro["precision"] == pytest.approx(hits / expected.sum())
        assert micro["recall"] == pytest.approx(hits / truth.sum())
    found = loaded.evaluate(features, unlisted="negative")
    assert found["threshold"] == dict(zip(CLASSES, loaded.thresholds.logits, strict=True))


def test_without_its_file_a_run_has_one_threshold_and_no_probabilities(run):
    (run / "thresholds.json").unlink()
    with pytest.raises(InputError, match=r"is missing. Copy it .*thresholds=global"):
        spml.load(run).decision()
    loaded = spml.load(run)
    assert loaded.decision(thresholds="global").threshold == loaded.global_logit
    assert loaded.calibration is None


# -- probabilities ---------------------------------------------------------------------------------------


def test_predictions_have_probabilities_where_k_is_known(run, features, tmp_path):
    new = tmp_path / "new.npz"
    np.savez(new, X=arrays_of(features)["X"][:5])
    loaded = spml.load(run)
    found = loaded.predict(new)
    knots = loaded.thresholds.calibration
    logits = np.log(found.scores / (1 - found.scores.astype(np.float64)))
    expected = np.interp(logits, knots.logits, knots.probabilities)
    np.testing.assert_allclose(found.probabilities, expected, atol=1e-5)
    execute("predict", run, new, "--output", tmp_path / "p.csv")
    header, first = (tmp_path / "p.csv").read_text().splitlines()[:2]
    assert header.split(",")[6:] == [f"probability of {name}" for name in CLASSES]
    assert [float(cell) for cell in first.split(",")[6:]] == pytest.approx(found.probabilities[0], rel=1e-5)
    assert loaded.predict(new, thresholds="global").probabilities is not None
    loaded.set_thresholds(mean_labels=1.2)
    assert loaded.predict(new).probabilities.sum() < found.probabilities.sum()
    (run / "thresholds.json").unlink()
    assert spml.load(run).predict(new, thresholds="global").probabilities is None


def test_evaluation_measures_the_calibration(run, features, capsys, tmp_path):
    loaded = spml.load(run)
    found = loaded.evaluate(features, unlisted="negative")["calibration"]
    test = arrays_of(features, "test")
    expected = calibration_error(loaded.predict(test["X"]).probabilities, test["Y"] == 1)
    assert found["error"] == pytest.approx(expected.error, abs=1e-6)
    assert [each["count"] for each in found["bins"]] == expected.counts.tolist()
    for each, mean in zip(found["bins"], expected.expected, strict=True):
        assert each.get("expected", math.nan) == pytest.approx(mean, nan_ok=True)
    folder = tmp_path / "evaluation"
    execute("evaluate", run, features, *HIDE[:2], "--output", folder)
    assert f"calibration error {100 * expected.error:.1f} % of the positives" in capsys.readouterr().out
    assert (folder / "reliability.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "comparison.json").read_text())["runs"][str(run)]["calibration"] == found
    (run / "thresholds.json").unlink()
    execute("evaluate", run, features, *HIDE[:2], "--output", folder, "--thresholds global")
    assert not (folder / "reliability.png").exists()


def test_training_without_k_states_nothing_and_says_how_to_learn_it(features, tmp_path, capsys):
    folder = train_hidden(features, tmp_path / "a run", "--head ridge")
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"`spml audit sample '{folder}'`" in last
    assert "Without K, no precision or probability is estimated, and no missing label is listed" in last
    assert not (folder / "thresholds.png").exists()
    content = json.loads((folder / "thresholds.json").read_text())
    assert content["mean_labels"]["source"] == "default"
    assert content["mean_labels"]["value"] == 1.5
    assert content["calibration"] is None
    run = spml.load(folder)
    assert run.predict(str(features)).probabilities is None
    assert "calibration" not in run.evaluate(features, unlisted="negative")
    assert run.summary["threshold"]["labels_per_sample"] == 1.5
    with pytest.raises(InputError, match="K is not known"):
        run.set_thresholds()


def test_a_k_below_the_known_labels_is_refused_with_both_numbers(features, tmp_path, capsys):
    both = "mean_labels=0.9 is below 1, the mean number of labels that are known of a sample"
    run = tmp_path / "run"
    train = ["train", features, *HIDE, "--head ridge --output", run]
    assert both in fails(capsys, *train, "--mean_labels 0.9")
    assert not run.exists()
    train_hidden(features, run, "--head ridge --mean_labels 1")
    for command in ("thresholds", "audit"):
        assert both in fails(capsys, command, run, "--mean_labels 0.9")
