"""Class priors and K: by hand, against slow loops, and coverage of the interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spml.audit import HiddenLabels
from spml.common.errors import InputError
from spml.decisions import fit_probabilities, mean_labels_interval, priors_from_audit, priors_from_shares
from tests.decisions.simulated import make_world

# Samples with 0, 1, 2, ... labels in real data sets.
COUNTS = {
    "animals": [0, 2436, 913, 187, 30, 10],
    "bibtex": [0, 2811, 1840, 1309, 669, 399, 179, 86, 46, 18, 7, 12],
    "emotions": [0, 178, 315, 100],
    "enron": [0, 196, 271, 509, 372, 214, 80, 45, 9, 3, 1, 1],
    "yeast": [0, 32, 412, 112, 1102, 173, 415, 102, 55, 9, 4, 1],
}
NEARLY_SINGLE = [0, 2230, 176, 1]  # scene


def rows_with(counts, classes=12):
    """Labels of samples with the given numbers of labels."""
    return np.arange(classes) < np.asarray(counts)[:, None]


def test_shares_by_hand():
    priors = priors_from_shares([60, 30, 10, 0], 1.5)
    assert priors.shares.tolist() == pytest.approx([0.9, 0.45, 0.15, 0.0])
    assert (priors.mean_labels, priors.source, priors.gamma) == (1.5, "stated", None)
    assert priors_from_shares([60, 30, 10, 0], 2.0).shares[0] == 0.95  # 1.2
    assert priors.importance([60, 30, 10, 0]).tolist() == [1, 1, 1, 1]
    assert not priors.looks_biased


@pytest.mark.parametrize("k", [0.0, -1.0, 2.5, math.nan])
def test_an_impossible_k_is_named(k):
    with pytest.raises(InputError, match="above 0 and at most 2, the number of classes, got"):
        priors_from_shares([3, 4], k)


def test_without_a_known_positive_nothing_is_estimated():
    with pytest.raises(InputError, match="no label is a known positive"):
        priors_from_shares([0, 0], 1.0)
    with pytest.raises(InputError, match="no label is a known positive"):
        priors_from_audit([0, 0], np.ones((50, 2), bool))


def slow_fill(weights, total, room):
    """Scale weights to a sum, none above its room."""
    factor = total / sum(weights)
    for _ in range(2000):
        filled = [min(factor * weight, limit) for weight, limit in zip(weights, room, strict=True)]
        factor *= 1 + (total - sum(filled)) / total
    return filled


def slow_fit(found, trials, counts, room):
    """The most probable exponent, shape and rates on the grid."""
    rows = max(trials)
    best = (-math.inf, None, None, None)
    for gamma in np.arange(41) * 0.05:
        shares = slow_fill([max(count, 0.5) ** gamma for count in counts], sum(found) / rows, room)
        rates = [share * rows / of for share, of in zip(shares, trials, strict=True)]
        for shape in np.exp(np.linspace(math.log(0.3), math.log(1000), 40)):
            # SciPy counts failures before `shape` successes of this probability.
            success = [shape / (shape + of * rate) for of, rate in zip(trials, rates, strict=True)]
            likelihood = stats.nbinom.logpmf(found, shape, success).sum()
            if likelihood > best[0] + 1e-9:
                best = (likelihood, gamma, shape, rates)
    return best[1:]


def slow_priors(positives, audited, known, samples):
    """Exponent of all labels, and shares of all classes."""
    m = len(audited)
    there = [count / samples for count in positives]
    room = [max(0.95 - share, 0) for share in there]
    x = audited.sum(0)
    gamma, shape, rates = slow_fit(x, [m] * len(x), positives, [np.inf] * len(x))
    if known is None:
        missing = x.sum() / m - sum(there)
        hidden = [
            max(rate * (shape + of) / (shape + m * rate) - share, 0)
            for rate, of, share in zip(rates, x, there, strict=True)
        ]
    else:
        x, trials = (audited & ~known).sum(0), (~known).sum(0)
        missing = x.sum() / m
        _, shape, rates = slow_fit(x, trials, positives, room)
        hidden = [
            rate * (shape + of) / (shape + count * rate) * (1 - share)
            for rate, of, count, share in zip(rates, x, trials, there, strict=True)
        ]
    hidden = slow_fill(hidden, missing, room)
    shares = [a + b if count else 0 for a, b, count in zip(there, hidden, positives, strict=True)]
    return gamma, shares, sum(there) + missing


@pytest.mark.parametrize("power", [0.0, 1.0])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_priors_of_an_audit_follow_the_slow_loop(power, elsewhere):
    world = make_world(3, samples=400, classes=8, power=power)
    positives, audited = (world.observed == 1).sum(0), world.truth[:60]
    positives[5] = 0
    known = None if elsewhere else world.observed[:60] == 1
    gamma, shares, mean_labels = slow_priors(positives, audited, known, 400)
    priors = priors_from_audit(positives, audited, known=known, samples=400)
    assert priors.gamma == pytest.approx(gamma)
    assert priors.shares == pytest.approx(shares, rel=1e-4)
    assert priors.shares[5] == 0
    assert priors.mean_labels == pytest.approx(mean_labels)
    assert priors.source == "audit"


def test_five_cats_of_fifty_say_little_against_741_known_ones():
    observed = np.repeat(np.eye(4, dtype=bool), [741, 1343, 400, 200], axis=0)
    rows = np.r_[np.flatnonzero(observed[:, 0])[:4], np.flatnonzero(observed[:, 1])[:46]]
    truth = observed[rows].copy()
    truth[4, 0] = truth[:9, 3] = True
    priors = priors_from_audit(observed.sum(0), truth, known=observed[rows], samples=2684)
    known = observed[:, 0].mean()
    # One of the 46 that were not known to be cats is one.
    assert known < priors.low[0] < priors.shares[0] < priors.high[0]
    # None of the four was seen without being known to be there, so that nothing more is certain.
    assert priors.low[1] == observed[:, 1].mean() <= priors.shares[1] < priors.high[1]
    assert priors.shares[0] == pytest.approx(known + (1 - known) / 46, abs=0.02)
    assert priors.mean_labels == pytest.approx(1 + 10 / 50)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 9), st.integers(40, 120), st.booleans())
def test_no_estimate_contradicts_what_is_known(seed, classes, samples, elsewhere):
    rng = np.random.default_rng(seed)
    truth = rng.random((samples, classes)) < rng.uniform(0.02, 0.7, classes)
    truth[~truth.any(1), rng.integers(classes)] = True
    # Any number of the labels of a sample is known, frequent ones rather, or none.
    observed = truth & (rng.random(truth.shape) < rng.uniform(0.1, 1) * truth.mean(0))
    observed[0] = truth[0]
    rows = rng.permutation(samples)[:25]
    if elsewhere:
        audited, known = rng.permuted(truth, axis=0)[rows], None
        audited[0, 0] = True
    else:
        audited, known = truth[rows], observed[rows]
    positives, least = observed.sum(0), observed.sum() / samples
    k = mean_labels_interval(audited, known=known, least=least)
    assert least - 1e-9 <= k.low <= k.value <= k.high
    audit = priors_from_audit(positives, audited, known=known, samples=samples)
    assert audit.mean_labels == pytest.approx(k.value)
    stated = priors_from_shares(positives, max(k.value, 1e-3), samples=samples)
    scores = rng.normal(truth, 1.0)
    labels = observed.astype(np.int8)
    calibration, fitted = fit_probabilities(scores, labels, stated)
    for priors in (audit, stated, fitted):
        seen = positives > 0
        assert (priors.shares[seen] >= positives[seen] / samples - 1e-9).all()
        assert (priors.shares <= 1).all()
        assert priors.shares.sum() <= k.high + 1e-6
    assert (audit.low <= audit.shares + 1e-9).all()
    assert (audit.shares <= audit.high + 1e-9).all()
    if k.value > observed.sum() / observed.any(1).sum():
        for priors, fit in ((audit, None), (stated, None), (fitted, calibration)):
            hidden = HiddenLabels(labels, scores, priors, fit)
            unknown = (labels == 0).sum(0)
            assert (hidden.per_class <= unknown + 1e-6).all()
            ranked = hidden.rank()
            assert (ranked.probability <= 1).all()
            # One number of positives for a class: that of its share.
            of_shares = np.maximum(hidden.priors.shares * samples, positives)
            assert positives + hidden.per_class == pytest.approx(of_shares)
            assert hidden.per_class.sum() <= unknown.sum()


def test_importance_of_an_audit_is_bounded():
    world = make_world(3, samples=400, classes=8)
    positives = (world.observed == 1).sum(0)
    priors = priors_from_audit(positives, world.truth[:60])._replace(
        shares=np.asarray([0.5, 1e-6, 0.9, 0.1, 0, 0.2, 0.2, 0.2]), mean_labels=2.0
    )
    weights = priors.importance([50, 20, 1, 29, 0, 0, 0, 0])
    assert weights.tolist() == pytest.approx([0.5, 0.2, 5.0, 0.1 / 0.58, 1, 1, 1, 1], abs=0.05)
    assert weights[1] == 0.2
    assert weights[2] == 5.0


@pytest.mark.long
def test_gamma_tells_biased_hiding_from_uniform_hiding():
    gammas = {power: [] for power in (0.0, 1.0)}
    for power, found in gammas.items():
        for seed in range(10):
            world = make_world(seed, samples=1500, power=power)
            priors = priors_from_audit((world.observed == 1).sum(0), world.truth[:50])
            found.append(priors.looks_biased)
    assert np.mean(gammas[0.0]) <= 0.2
    assert np.mean(gammas[1.0]) >= 0.6


def test_interval_by_hand():
    audited = rows_with([1] * 10 + [3] * 10)
    interval = mean_labels_interval(audited)
    # Mean 2, variance 20 / 19, 19 degrees of freedom.
    half = 2.0930240544 * math.sqrt(20 / 19 / 20)
    assert interval == pytest.approx((2.0, 2 - half, 2 + half))
    expected = stats.t.interval(0.8, 19, loc=2, scale=stats.sem([1] * 10 + [3] * 10))
    assert mean_labels_interval(audited, 0.8)[1:] == pytest.approx(expected)
    assert mean_labels_interval(rows_with([0] * 19 + [9])).low == 0


@pytest.mark.parametrize(
    "estimate", [mean_labels_interval, lambda audited: priors_from_audit([5, 5], audited)]
)
def test_an_audit_that_says_too_little_is_refused(estimate):
    with pytest.raises(InputError, match=r"at least 20 samples .* got 19"):
        estimate(np.ones((19, 2), bool))
    with pytest.raises(InputError, match="none of the 30 audited samples has a label"):
        estimate(np.zeros((30, 2), bool))


def coverage(counts, samples, draws):
    """Share of audits of this size whose interval covers K."""
    rng = np.random.default_rng(0)
    population = np.repeat(np.arange(len(counts)), counts)
    covered = 0
    for _ in range(draws):
        interval = mean_labels_interval(rows_with(rng.choice(population, samples)))
        covered += interval.low <= population.mean() <= interval.high
    return covered / draws


@pytest.mark.long
@pytest.mark.parametrize("samples", [50, 100, 200])
@pytest.mark.parametrize("name", COUNTS)
def test_the_interval_covers_k(name, samples):
    assert coverage(COUNTS[name], samples, 3000) == pytest.approx(0.95, abs=0.02)


@pytest.mark.long
def test_the_interval_is_a_little_narrow_where_few_samples_have_a_second_label():
    assert 0.86 < coverage(NEARLY_SINGLE, 50, 3000) < 0.92
    assert coverage(NEARLY_SINGLE, 200, 3000) == pytest.approx(0.95, abs=0.02)


@pytest.mark.long
@pytest.mark.parametrize("power", [0.0, 1.0])
def test_an_audit_brings_priors_nearer_to_the_truth_under_bias(power):
    errors = {"shares": [], "audit": []}
    for seed in range(10):
        world = make_world(seed, power=power)
        positives = (world.observed == 1).sum(0)
        for name, priors in {
            "shares": priors_from_shares(positives, world.mean_labels),
            "audit": priors_from_audit(positives, world.truth[:100]),
        }.items():
            errors[name].append(np.abs(priors.shares - world.truth.mean(0)).sum() / world.mean_labels)
    shares, audit = (float(np.mean(values)) for values in errors.values())
    assert audit < 0.15
    assert (audit < shares) == (power == 1.0)
