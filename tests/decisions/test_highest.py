"""Decisions on the highest scores of each sample equal those on all scores where nothing was left out."""

import numpy as np
import pytest

from spml.decisions import (
    Decision,
    Target,
    decide_cuts,
    fit_calibration,
    priors_from_shares,
)
from spml.labels import ObservedLabels
from spml.scores import InMemory
from tests.decisions.simulated import make_world, some_labels

TARGETS = [
    Target("f1"),
    Target("labels", per_class=False),
    Target("recall", 0.7, per_class=False),
    Target("recall", 0.7, per_class=True),
    Target("precision", 0.5, per_class=False),
    Target("precision", 0.5, per_class=True),
]


def highest(scores, labels, k):
    return InMemory(scores).highest(k, labels.entries(1))


@pytest.fixture(scope="module")
def world():
    drawn = make_world(0, samples=1500, classes=60)
    scores = np.round(drawn.scores, 3).astype(np.float32)
    return scores, drawn.observed, priors_from_shares((drawn.observed == 1).sum(0), drawn.mean_labels)


def test_probabilities_are_the_same_where_nothing_was_left_out(world):
    scores, observed, priors = world
    labels = ObservedLabels.from_ternary(observed)
    dense = fit_calibration(scores, observed, priors)
    top = fit_calibration(highest(scores, labels, 60), labels, priors)
    assert np.allclose(dense(scores), top(scores), rtol=0, atol=1e-12)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.describe())
def test_thresholds_are_the_same_where_nothing_was_left_out(world, target):
    scores, observed, priors = world
    labels = ObservedLabels.from_ternary(observed)
    calibration = fit_calibration(scores, observed, priors)
    dense = decide_cuts(target, scores, observed, priors, calibration)
    top = decide_cuts(target, highest(scores, labels, 60), labels, priors, calibration)
    assert np.isfinite(dense.thresholds).any()
    for expected, found in zip(dense, top, strict=True):
        assert np.allclose(expected, found, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("labels_of", ["single", "several"])
def test_thresholds_of_classes_whose_scores_are_mostly_kept_are_close(world, labels_of):
    scores, observed, priors = world
    if labels_of == "several":
        observed = some_labels(np.random.default_rng(0), scores.shape)
        priors = priors_from_shares((observed == 1).sum(0), 16.0)
    labels = ObservedLabels.from_ternary(observed)
    kept = highest(scores, labels, 20)
    dense = decide_cuts(Target("f1"), scores, observed, priors, None)
    top = decide_cuts(Target("f1"), kept, labels, priors, None)
    if labels_of == "single":
        # Known positives and predictions are nearly all among the 20 highest of 60 scores.
        assert np.mean(np.abs(dense.thresholds - top.thresholds) < 0.05) >= 0.7
    # What was left out is never predicted: recall is never larger for it.
    lowest = np.full(scores.shape[1], np.inf)
    np.minimum.at(lowest, kept.columns[kept.in_order], kept.scores[kept.in_order])
    predicted = np.isfinite(top.thresholds)
    assert predicted.any()
    assert (top.thresholds[predicted] >= lowest[predicted] - 1).all()


def test_a_threshold_below_which_nothing_was_kept_is_the_lowest_kept_score():
    scores = np.array([[3, 2, 0], [2.5, 1, 0], [1, 2, 0], [0.5, 1, 0]], np.float32)
    labels = ObservedLabels.from_index([0, 0, 1, 1], 3)
    kept = highest(scores, labels, 1)
    priors = priors_from_shares(np.array([2, 2, 0]), 1.0)
    cuts = decide_cuts(Target("labels", per_class=False), kept, labels, priors, None)
    assert cuts.thresholds.tolist() == [1.0, 1.0, np.inf]


def test_a_known_positive_that_is_not_among_the_highest_is_in_the_lowest_bin(world):
    scores, observed, priors = world
    labels = ObservedLabels.from_ternary(observed)
    dense, top = (fit_calibration(s, labels, priors) for s in (scores, highest(scores, labels, 20)))
    known = scores[observed == 1]
    assert np.abs(dense(known) - top(known)).mean() < 0.02
    # K labels per sample are expected, those that were left out included.
    kept = highest(scores, labels, 20)
    total = top(kept.scores[kept.in_order]).sum() + top.probabilities[0] * kept.pairs.left_out.sum()
    assert total / len(scores) == pytest.approx(priors.mean_labels, rel=0.05)


@pytest.mark.parametrize("classes", [7, 5000])
@pytest.mark.parametrize("never", [(), (2, 5)])
@pytest.mark.parametrize("k", [0, 1, 3, 100])
@pytest.mark.parametrize("threshold", [None, 1.0, "classes"])
def test_chosen_labels_are_those_of_the_decision(classes, never, k, threshold):
    rng = np.random.default_rng(k)
    scores = np.round(rng.normal(size=(9, classes)), 1).astype(np.float32)  # with many ties
    if threshold is None and not k:
        return
    cut = tuple(rng.normal(1, 0.5, classes).tolist()) if threshold == "classes" else threshold
    decision = Decision(cut, k, k == 3, never)
    rows, columns = decision.choose(scores)
    order = np.argsort(-scores, axis=1, kind="stable")
    marks = np.take_along_axis(decision(scores), order, axis=1)
    expected = [ranked[chosen].tolist() for ranked, chosen in zip(order, marks, strict=True)]
    assert [columns[rows == row].tolist() for row in range(len(scores))] == expected
