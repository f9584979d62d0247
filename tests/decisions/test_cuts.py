"""Thresholds per class: by hand, and against slow loops over all possible numbers of predictions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.decisions import (
    Calibration,
    RecallCurves,
    f1_cuts,
    global_threshold,
    hidden_probabilities,
    label_cuts,
    precision_cuts,
    recall_cuts,
)
from spml.decisions.priors import Priors, priors_from_shares
from tests.decisions.simulated import some_labels


def make_case(seed, samples=60, classes=5, levels=0):
    """Scores, with ties if `levels` is not 0, labels, and priors in which the last class has no positives."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(samples, classes))
    if levels:
        scores = np.round(scores * levels) / levels
    labels = some_labels(rng, scores.shape)
    labels[:, -1] = np.minimum(labels[:, -1], 0)
    return scores, labels, priors_from_shares((labels == 1).sum(0), 2.0)


CALIBRATION = Calibration(
    np.linspace(-3, 3, 7),
    np.asarray([0.02, 0.05, 0.2, 0.5, 0.7, 0.9, 0.97]),
    np.asarray([0.01, 0.03, 0.1, 0.3, 0.55, 0.8, 0.9]),
)


def slow_chances(scores, labels):
    """Probability that each label is there: 1 or 0 where it is known."""
    hidden = hidden_probabilities(scores, labels, CALIBRATION)
    return np.where(labels == 1, 1.0, np.where(labels == -1, 0.0, hidden))


class SlowCurves:
    """Recall as its formula says, with a loop over known positives."""

    def __init__(self, scores, labels, shares):
        self.support = [share * len(scores) for share in shares]
        self.ranks = [
            [int((scores[:, c] >= scores[i, c]).sum()) for i in range(len(scores)) if labels[i, c] == 1]
            for c in range(scores.shape[1])
        ]
        self.relative = [
            rank / self.support[c] for c, ranks in enumerate(self.ranks) for rank in ranks if self.support[c]
        ]

    def recall(self, c, number):
        own = sum(rank <= number for rank in self.ranks[c])
        pooled = sum(d <= number / self.support[c] for d in self.relative) / len(self.relative)
        return (own + 5 * pooled) / (len(self.ranks[c]) + 5)

    def f1(self, c, number):
        hits = min(self.support[c] * self.recall(c, number), number)
        return 2 * hits / (self.support[c] + number)


def possible(column):
    """Numbers of predictions that a threshold can give."""
    return sorted({int((column >= value).sum()) for value in column})


def check_midway(column, threshold):
    """The threshold lies midway between the lowest score above it and the highest below it."""
    above, below = column[column >= threshold], column[column < threshold]
    if len(below):
        assert threshold == pytest.approx((above.min() + below.max()) / 2)
    else:
        assert threshold <= above.min() - 1


def test_by_hand():
    scores = np.asarray([[4.0, 1], [3, 2], [2, 3], [1, 4]])
    labels = np.asarray([[1, 0], [1, 0], [0, 1], [0, 1]], np.int8)
    priors = priors_from_shares([2, 2], 1.5)  # 3 positives of each class are expected
    curves = RecallCurves(scores, labels, priors)
    # Ranks of the known positives are 1 and 2 in both classes, so R(1/3) = .5 and R(2/3) = 1.
    assert curves.recall(0, [1, 2, 3]).tolist() == [(1 + 2.5) / 7, 1, 1]
    # F1 of 1, 2, 3, 4 predictions: 2/4, 4/5, 6/6, 6/7.
    cuts = f1_cuts(scores, labels, priors)
    assert cuts.thresholds.tolist() == [1.5, 1.5]
    assert np.isnan([cuts.precision, cuts.recall]).all()  # without probabilities
    assert cuts.support.tolist() == [3, 3]
    cuts = recall_cuts(scores, labels, priors, 0.5, per_class=True)
    assert cuts.thresholds.tolist() == [3.5, 3.5]
    # Scores of the known positives: 4, 4, 3, 3.
    assert recall_cuts(scores, labels, priors, 0.5, per_class=False).thresholds.tolist() == [3.5, 3.5]
    assert recall_cuts(scores, labels, priors, 0.6, per_class=False).thresholds.tolist() == [2.5, 2.5]


def test_precision_and_recall_by_hand():
    scores = np.asarray([[4.0, 1], [3, 2], [2, 3], [1, 4]])
    priors = priors_from_shares([2, 2], 1.5)
    # Labels that are all known need no probabilities.
    labels = np.asarray([[1, -1], [1, 1], [-1, 1], [1, 1]], np.int8)
    curves = RecallCurves(
        scores, labels, priors, Calibration(np.zeros(1), np.asarray([0.3]), np.asarray([0.2]))
    )
    cuts = curves.at(np.asarray([1.5, 5.0]))
    assert cuts.precision[0] == pytest.approx(2 / 3)
    assert cuts.recall.tolist() == pytest.approx([2 / 3, 0])
    assert math.isnan(cuts.precision[1])
    # Of samples without a known label, chances are the calibrated probabilities.
    none = np.zeros((4, 2), np.int8)
    none[0, 0] = 1
    calibration = Calibration(np.asarray([1.0, 4]), np.asarray([0.0, 0.9]), np.asarray([0.0, 0.3]))
    curves = RecallCurves(scores, none, priors, calibration)
    cuts = curves.at(np.asarray([2.5, 0.0]))
    assert cuts.precision[0] == pytest.approx((1 + 0.6) / 2)
    assert cuts.recall.tolist() == pytest.approx([1.6 / 1.9, 1])
    # In one with a known label, those of hidden labels: here .3 for a score of 4.
    none[3, 0] = 1
    cuts = RecallCurves(scores, none, priors, calibration).at(np.asarray([0.0, 3.5]))
    assert cuts.precision[1] == pytest.approx(0.3)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("levels", [0, 2])
def test_no_other_cut_has_a_higher_expected_f1(seed, levels):
    scores, labels, priors = make_case(seed, levels=levels)
    slow = SlowCurves(scores, labels, priors.shares)
    cuts, chances = f1_cuts(scores, labels, priors, CALIBRATION), slow_chances(scores, labels)
    curves = RecallCurves(scores, labels, priors, CALIBRATION)
    assert curves.support == pytest.approx(slow.support)
    assert cuts.thresholds[4] == math.inf
    assert np.isnan([cuts.precision[4], cuts.recall[4]]).all()
    assert cuts.support[4] == 0
    for c in range(4):
        column, threshold = scores[:, c], cuts.thresholds[c]
        number = int((column >= threshold).sum())
        allowed = [n for n in possible(column) if n <= max(1, 4 * slow.support[c])]
        assert number in allowed
        assert slow.f1(c, number) == pytest.approx(max(slow.f1(c, n) for n in allowed))
        above = column >= threshold
        assert cuts.precision[c] == pytest.approx(chances[above, c].mean())
        assert cuts.recall[c] == pytest.approx(chances[above, c].sum() / chances[:, c].sum())
        assert 0.05 < cuts.precision[c] < 1
        numbers = range(1, len(scores) + 1)
        assert curves.recall(c, numbers) == pytest.approx([slow.recall(c, n) for n in numbers])
        thresholds, precision, recall = curves.of_class(c)
        assert thresholds.tolist() == np.unique(column).tolist()
        for value, *estimates in zip(thresholds, precision, recall, strict=True):
            reached = chances[column >= value, c]
            assert estimates == pytest.approx([reached.mean(), reached.sum() / chances[:, c].sum()])
        check_midway(column, threshold)


def test_at_most_four_times_the_expected_positives_are_predicted():
    scores = -np.arange(400.0)[:, None]
    labels = np.zeros((400, 1), np.int8)
    labels[45:65] = 1  # 12 positives are expected, and the known ones have ranks 46 to 65
    priors = priors_from_shares([20], 0.03)
    assert (scores >= f1_cuts(scores, labels, priors).thresholds).sum() == 48
    # With all scores equal, nothing between none and 400 predictions is possible.
    assert f1_cuts(scores * 0, labels, priors).thresholds[0] == math.inf


def test_one_prediction_is_possible_where_less_than_a_quarter_is_expected():
    scores, labels, _ = make_case(0)
    cuts = f1_cuts(scores, labels, Priors(np.full(5, 0.001), 0.005, "stated"))
    assert (scores >= cuts.thresholds).sum(0).tolist() == [1] * 5


def test_a_class_without_known_positives_follows_the_common_curve():
    scores, labels, _ = make_case(1)
    priors = Priors(np.asarray([0.4, 0.3, 0.4, 0.3, 0.2]), 1.6, "audit", 1.0)
    slow, curves = SlowCurves(scores, labels, priors.shares), RecallCurves(scores, labels, priors)
    assert curves.recall(4, range(1, 61)) == pytest.approx([slow.recall(4, n) for n in range(1, 61)])
    assert math.isfinite(f1_cuts(scores, labels, priors).thresholds[4])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("levels", [0, 2])
@pytest.mark.parametrize("recall", [0.3, 0.8, 0.95])
def test_recall_per_class_takes_the_fewest_predictions(seed, levels, recall):
    scores, labels, priors = make_case(seed, levels=levels)
    slow = SlowCurves(scores, labels, priors.shares)
    cuts = recall_cuts(scores, labels, priors, recall, per_class=True)
    assert cuts.thresholds[4] == math.inf
    for c in range(4):
        fewest = min(n for n in possible(scores[:, c]) if slow.recall(c, n) >= recall - 1e-12)
        assert (scores[:, c] >= cuts.thresholds[c]).sum() == fewest
        check_midway(scores[:, c], cuts.thresholds[c])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("levels", [0, 2])
@pytest.mark.parametrize("gamma", [None, 0.5])
def test_micro_recall_is_a_weighted_quantile(seed, levels, gamma):
    scores, labels, priors = make_case(seed, levels=levels)
    rng = np.random.default_rng(seed)
    if gamma:
        priors = priors._replace(shares=priors.shares * rng.uniform(0.3, 2, 5), gamma=gamma)
    weights = priors.importance((labels == 1).sum(0))
    assert (len(set(weights.tolist())) > 1) == bool(gamma)
    known = [(scores[i, c], weights[c]) for i, c in np.argwhere(labels == 1)]
    cuts = recall_cuts(scores, labels, priors, 0.8, per_class=False)
    assert cuts.thresholds[4] == math.inf
    threshold = cuts.thresholds[0]
    assert (cuts.thresholds[:4] == threshold).all()

    def reached(cut):
        return sum(w for s, w in known if s >= cut) / sum(w for _, w in known)

    lowest = max(s for s, _ in known if reached(s) >= 0.8 - 1e-9)
    kept = scores[:, :4]
    assert ((kept >= threshold) == (kept >= lowest)).all()
    check_midway(kept.ravel(), threshold)


def slow_precision(scores, p, precision):
    """Most predictions, at least 10, with a mean probability of at least `precision`; 0 if there are none."""
    most = 0
    for value in np.unique(scores):
        chosen = scores >= value
        if chosen.sum() >= 10 and p[chosen].mean() >= precision - 1e-12:
            most = max(most, int(chosen.sum()))
    return most


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("levels", [0, 2])
def test_precision_is_reached_with_the_most_predictions(seed, levels):
    scores, labels, priors = make_case(seed, levels=levels)
    # Known labels are not monotone in the score, so the lowest cut is not where precision is first missed.
    p = slow_chances(scores, labels)
    cuts = precision_cuts(scores, labels, priors, CALIBRATION, 0.6, per_class=False)
    assert (cuts.thresholds[:4] == cuts.thresholds[0]).all()
    assert cuts.thresholds[4] == math.inf
    pooled = scores[:, :4]
    assert (pooled >= cuts.thresholds[0]).sum() == slow_precision(pooled, p[:, :4], 0.6)
    check_midway(pooled.ravel(), cuts.thresholds[0])
    cuts = precision_cuts(scores, labels, priors, CALIBRATION, 0.6, per_class=True)
    for c in range(4):
        assert (scores[:, c] >= cuts.thresholds[c]).sum() == slow_precision(scores[:, c], p[:, c], 0.6)


def test_precision_of_fewer_than_ten_predictions_is_not_believed():
    scores = np.arange(40.0)[:, None]
    labels = np.where(scores >= 31, 1, -1).astype(np.int8)  # the nine highest
    priors, any_p = priors_from_shares([9], 0.5), Calibration(np.zeros(1), *np.full((2, 1), 0.5))
    cuts = precision_cuts(scores, labels, priors, any_p, 0.9, per_class=False)
    assert cuts.thresholds[0] == 29.5  # ten
    with pytest.raises(InputError, match=r"precision of 0.91 is not reached.* of 0.90 at most"):
        precision_cuts(scores, labels, priors, any_p, 0.91, per_class=False)
    # Per class, only the class in which it is reached has predictions.
    two = [np.repeat(part, 2, 1) for part in (scores, labels)]
    two[1][::2, 1] = -1
    cuts = precision_cuts(*two, priors_from_shares([9, 4], 0.5), any_p, 0.9, per_class=True)
    assert cuts.thresholds.tolist() == [29.5, math.inf]


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, math.nan])
def test_shares_out_of_their_domain_are_named(value):
    scores, labels, priors = make_case(0)
    with pytest.raises(InputError, match="recall must be between 0 and 1, got"):
        recall_cuts(scores, labels, priors, value, per_class=True)
    with pytest.raises(InputError, match="precision must be between 0 and 1, got"):
        precision_cuts(scores, labels, priors, CALIBRATION, value, per_class=True)


def test_one_cut_at_k_labels_leaves_out_classes_without_positives():
    scores, labels, priors = make_case(2)
    cuts = label_cuts(scores, labels, priors, 1.5)
    assert cuts.thresholds.tolist() == [global_threshold(scores[:, :4], 1.5)] * 4 + [math.inf]
    assert (scores >= cuts.thresholds).sum() == 90
    assert label_cuts(scores, labels, priors, 5).thresholds[0] < scores[:, :4].min()


def test_a_threshold_holds_in_the_type_of_the_scores():
    low = np.float32(1)
    column = np.asarray([low, np.nextafter(low, np.float32(2)), low, low], np.float32)
    labels = np.asarray([[0], [1], [0], [0]], np.int8)
    cuts = f1_cuts(column[:, None], labels, Priors(np.asarray([0.25]), 0.25, "labels"))
    assert (column >= cuts.thresholds[0]).tolist() == [False, True, False, False]
    assert (column >= np.float32(cuts.thresholds[0])).tolist() == [False, True, False, False]
