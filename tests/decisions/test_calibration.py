"""Probabilities: against slow loops without bins, SciPy's likelihood, and a case by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.special import expit, logit
from sklearn.linear_model import LogisticRegression

from spml.decisions import (
    Calibration,
    calibration_error,
    fit_calibration,
    fit_probabilities,
    priors_from_audit,
    priors_from_shares,
    refine_calibration,
)
from spml.decisions.priors import Priors
from tests.decisions.simulated import make_world, some_labels


def isotonic(values, counts):
    """Non-decreasing least squares by the min-max formula."""
    sums, weights = (np.concatenate([[0.0], np.cumsum(each)]) for each in (values * counts, counts))
    with np.errstate(invalid="ignore"):  # nothing lies between a value and the one before it
        means = (sums[1:] - sums[:-1, None]) / (weights[1:] - weights[:-1, None])  # from row to column
    size = range(len(values))
    return [max(means[first, place:].min() for first in range(place + 1)) for place in size]


def slow_hidden(scores, labels, weight):
    """Probability that an unknown label of a labelled sample is there, by its score: labels hidden by known
    ones at their score, or at the next lower score that an unknown label has."""
    labelled = (labels == 1).any(1)
    values, counts = np.unique(scores[labelled][labels[labelled] == 0], return_counts=True)
    number = dict.fromkeys(values.tolist(), 0.0)
    for pair, w in weight.items():
        below = [value for value in number if value <= scores[pair]]
        number[max(below) if below else values[0]] += max(w - 1, 0)
    hidden = isotonic(np.asarray(list(number.values())) / counts, counts)
    return dict(zip(values.tolist(), np.clip(hidden, 0, 1), strict=True)), number, counts


def slow_steady(scores, labels, weight):
    """The same, drawn to scikit-learn's logistic regression where few labels are known."""
    hidden, number, counts = slow_hidden(scores, labels, weight)
    depth = {}
    for value in hidden:
        above, same = (scores > value).sum(), (scores == value).sum()
        depth[value] = -math.log((above + same / 2) / scores.size) / 3 - 1
    x = [[1, depth[value], depth[value] ** 2] for value in hidden]
    there = np.asarray(list(number.values()))
    model = LogisticRegression(C=100, fit_intercept=False, tol=1e-10, max_iter=10_000)
    target = np.repeat([1, 0], len(x))
    model.fit(x + x, target, np.concatenate([there, np.maximum(counts - there, 0)]))
    curve = model.predict_proba(x)[:, 1]
    steady, least = {}, 0.0
    for value, h in hidden.items():
        block = [i for i, other in enumerate(hidden.values()) if other == h]
        lowest = min(other for other in hidden if hidden[other] == h)
        known = sum(scores[pair] >= lowest for pair in weight)
        smooth = np.average(curve[block], weights=counts[block])
        least = max(least, (known * h + 100 * smooth) / (known + 100))
        steady[value] = least
    odds, total = logit(list(steady.values())), counts @ list(hidden.values())
    b = brentq(lambda b: expit(odds + b) @ counts - total, -30, 30, xtol=1e-13) if total else -np.inf
    return dict(zip(steady, expit(odds + b), strict=True))


def slow_calibration(scores, labels, priors):
    """Probability of each distinct score, and weight of each known label: the procedure with loops, one bin
    per distinct score."""
    samples, _ = scores.shape
    k = priors.mean_labels
    v = priors.importance((labels == 1).sum(0))
    known = [(i, c) for i in range(samples) for c in range(scores.shape[1]) if labels[i, c] == 1]
    own = {i: sum(row == i for row, _ in known) for i in range(samples)}
    values = np.unique(scores)
    counts = np.asarray([(scores == value).sum() for value in values])
    weight = {pair: k / own[pair[0]] * v[pair[1]] for pair in known}
    for _ in range(6):
        target = [sum(w for pair, w in weight.items() if scores[pair] == value) for value in values]
        fitted = np.clip(isotonic(np.asarray(target) / counts, counts), 0, 1 - 1e-6)
        with np.errstate(divide="ignore"):
            odds = logit(fitted)
        b = brentq(lambda b, odds=odds: expit(odds + b) @ counts - k * samples, -30, 30, xtol=1e-13)
        p = dict(zip(values.tolist(), expit(odds + b), strict=True))
        h, _, _ = slow_hidden(scores, labels, weight)
        labelled = [i for i in range(samples) if own[i]]
        m = {i: sum(h[scores[i, c]] for c in np.flatnonzero(labels[i] == 0)) for i in labelled}
        missing = max(k - np.mean([own[i] for i in labelled]), 0)
        u = {i: (labels[i] == 0).sum() for i in labelled}
        share = {
            i: 0.85 * m[i] / np.mean(list(m.values())) + 0.15 * u[i] / np.mean(list(u.values()))
            for i in labelled
        }
        weight = {(i, c): v[c] * (own[i] + missing * share[i]) / own[i] for i, c in known}
        scale = k * len(labelled) / sum(weight.values())
        weight = {pair: max(1.0, scale * w) for pair, w in weight.items()}
    return p, slow_steady(scores, labels, weight), weight


def check_calibration(scores, labels, priors):
    expected, hidden, weight = slow_calibration(scores, labels, priors)
    found, moved = fit_probabilities(scores, labels, priors)
    values = np.asarray(list(expected))
    assert found(values) == pytest.approx(np.asarray(list(expected.values())), abs=1e-6)
    at = np.asarray(list(hidden))
    assert found.of_hidden(at) == pytest.approx(np.asarray(list(hidden.values())), abs=1e-6)
    assert found(scores).sum(1).mean() == pytest.approx(priors.mean_labels, abs=1e-5)
    if priors.gamma is None:
        there = (labels == 1).mean(0)
        hides = [sum(w - 1 for (_, c), w in weight.items() if c == column) for column in range(len(there))]
        shares = there + (priors.mean_labels - there.sum()) * np.asarray(hides) / sum(hides)
        assert moved.shares == pytest.approx(np.minimum(shares, 0.95), abs=1e-6)
    else:
        assert moved == priors
    return found


@pytest.mark.parametrize("levels", [0, 3])
def test_follows_the_slow_loop_with_one_known_label(levels):
    world = make_world(0, samples=25, classes=5)
    scores = np.round(world.scores * levels) / levels if levels else world.scores
    found = check_calibration(scores, world.observed, priors_from_shares((world.observed == 1).sum(0), 2.2))
    assert len(np.unique(found.probabilities)) > 3


def test_follows_the_slow_loop_with_an_audit():
    world = make_world(1, samples=28, classes=5)
    ratio = np.asarray([0.1, 0.4, 1.0, 3.0, 9.0])
    shares = 2.2 * world.observed.mean(0) * ratio
    priors = Priors(shares, 2.2, "audit", 0.5)
    assert priors.importance((world.observed == 1).sum(0)) == pytest.approx(np.clip(ratio, 0.2, 5))
    check_calibration(world.scores, world.observed, priors)


@pytest.mark.parametrize("seed", range(3))
def test_follows_the_slow_loop_with_none_one_and_several_known_labels(seed):
    rng = np.random.default_rng(seed)
    labels = some_labels(rng, (28, 4))
    scores = rng.normal(labels, 1.0)
    check_calibration(scores, labels, priors_from_shares((labels == 1).sum(0), 2.0))


def test_with_all_labels_known_it_is_isotonic_regression():
    rng = np.random.default_rng(0)
    truth = rng.random((50, 4)) < 0.4
    labels = np.where(truth, 1, -1).astype(np.int8)
    scores = rng.normal(truth, 1.0)
    some = truth.any(1)
    scores, labels, truth = scores[some], labels[some], truth[some]
    found = fit_calibration(scores, labels, priors_from_shares(truth.sum(0), truth.sum(1).mean(), "labels"))
    order = np.argsort(scores.ravel())
    plain = isotonic(truth.ravel()[order].astype(float), np.ones(truth.size))
    assert found(scores.ravel()[order]) == pytest.approx(np.asarray(plain), abs=1e-5)


def test_more_scores_than_bins_give_about_the_same():
    world = make_world(2)
    priors = priors_from_shares((world.observed == 1).sum(0), world.mean_labels)
    found = fit_calibration(world.scores.astype(np.float32), world.observed, priors)
    p = found(world.scores)
    assert p.sum(1).mean() == pytest.approx(world.mean_labels, rel=0.005)
    assert calibration_error(p, world.truth).error < 0.12
    assert len(found.scores) < 3000


@pytest.mark.long
def test_probabilities_and_totals_are_right_where_the_assumption_holds():
    gaps, errors, precision = [], [], []
    for seed in range(10):
        world = make_world(seed)
        p = fit_calibration(
            world.scores, world.observed, priors_from_shares((world.observed == 1).sum(0), world.mean_labels)
        )(world.scores)
        errors.append(calibration_error(p, world.truth).error)
        for low, high in ((0.02, 0.2), (0.2, 0.5), (0.5, 0.8)):
            inside = (p >= low) & (p < high)
            gaps.append([p[inside].mean() - world.truth[inside].mean()])
        precision.append(p[p > 0.5].mean() - world.truth[p > 0.5].mean())
    assert np.mean(errors) < 0.08
    assert np.abs(np.mean(np.reshape(gaps, (10, 3)), 0)).max() < 0.03
    assert abs(np.mean(precision)) < 0.03


def test_refining_minimises_the_penalised_likelihood():
    world = make_world(4, samples=600, classes=6)
    calibration = Calibration(
        np.asarray([-6.0, 0, 6]), expit(np.asarray([-4.0, 0.5, 3])), expit(np.asarray([-5.0, -1, 1]))
    )
    scores, truth = world.scores[:50], world.truth[:50]
    p = np.clip(calibration(scores), 1e-6, 1 - 1e-6)

    def loss(parameters):
        a, b = parameters
        moved = expit(a * logit(p) + b)
        likelihood = -np.log(np.where(truth, moved, 1 - moved)).sum()
        return likelihood + ((a - 1) / 0.3) ** 2 / 2 + b**2 / 2

    a, b = minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10}).x
    refined = refine_calibration(calibration, scores, truth)
    assert abs(b) > 0.3  # the calibration was wrong
    assert (refined.scores == calibration.scores).all()
    assert refined.probabilities == pytest.approx(expit(a * logit(calibration.probabilities) + b), abs=1e-4)
    assert refined.hidden == pytest.approx(expit(a * logit(calibration.hidden) + b), abs=1e-4)


def test_refining_with_nothing_new_changes_little_and_stays_monotone():
    world = make_world(5)
    priors = priors_from_shares((world.observed == 1).sum(0), world.mean_labels)
    calibration = fit_calibration(world.scores, world.observed, priors)
    refined = refine_calibration(calibration, world.scores, world.truth)
    assert refined(world.scores).sum() == pytest.approx(world.truth.sum(), rel=0.01)
    against = refine_calibration(calibration, world.scores[:50], ~world.truth[:50])
    for result in (refined, against):
        assert (np.diff(result.probabilities) >= 0).all()
        assert Calibration.from_dict(result.to_dict())(0.3) == result(0.3)


@pytest.mark.long
def test_an_audit_mends_probabilities_under_bias():
    before, after = [], []
    for seed in range(5):
        world = make_world(seed, power=1.0)
        positives = (world.observed == 1).sum(0)
        plain = fit_calibration(
            world.scores, world.observed, priors_from_shares(positives, world.mean_labels)
        )
        priors = priors_from_audit(positives, world.truth[:100])
        audited = fit_calibration(world.scores, world.observed, priors)
        audited = refine_calibration(audited, world.scores[:100], world.truth[:100])
        before.append(calibration_error(plain(world.scores), world.truth).error)
        after.append(calibration_error(audited(world.scores), world.truth).error)
    assert np.mean(after) < 0.75 * np.mean(before)


def test_calibration_error_by_hand():
    p = [[0.05, 0.15, 1.0], [0.08, 0.55, 0.95]]
    truth = [[False, True, True], [False, False, True]]
    found = calibration_error(p, truth, bins=10)
    # Bins 0, 1, 5, 9: |.13 - 0|, |.15 - 1|, |.55 - 0|, |1.95 - 2|, over 3 positives.
    assert found.error == pytest.approx((0.13 + 0.85 + 0.55 + 0.05) / 3)
    assert found.counts.tolist() == [2, 1, 0, 0, 0, 1, 0, 0, 0, 2]
    assert found.expected[[0, 1, 5, 9]].tolist() == pytest.approx([0.065, 0.15, 0.55, 0.975])
    assert found.observed[[0, 1, 5, 9]].tolist() == [0, 1, 0, 1]
    assert np.isnan(found.expected[2])
    assert np.isnan(found.observed[2])


@pytest.mark.parametrize(
    "knots",
    [
        ([], [], []),
        ([0.0, 1.0], [0.1], [0.1, 0.2]),
        ([0.0, 1.0], [0.1, 0.2], [0.1]),
        ([1.0, 0.0], [0.1, 0.2], [0.1, 0.2]),
        ([0.0, 1.0], [0.3, 0.2], [0.1, 0.2]),
        ([0.0, 1.0], [0.3, 0.4], [0.3, 0.2]),
        ([0.0, 1.0], [0.3, 1.2], [0.1, 0.2]),
        ([0.0, 1.0], [0.3, 0.4], [-0.1, 0.2]),
        ([0.0, math.inf], [0.3, 0.4], [0.1, 0.2]),
    ],
)
def test_knots_that_are_no_calibration_are_refused(knots):
    with pytest.raises(ValueError, match="knots must be"):
        Calibration.from_dict(dict(zip(Calibration._fields, knots, strict=True)))
