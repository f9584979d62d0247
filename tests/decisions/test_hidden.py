"""Hidden labels: against all label sets, numerical integration, and draws where the assumption is true."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from spml.decisions import (
    fit_calibration,
    hidden_probabilities,
    priors_from_shares,
    shown_probabilities,
)
from tests.decisions.simulated import make_world


def over_label_sets(p):
    """Probability that each class is shown, and that it is present, given that there is a label at all."""
    shown, present, some = np.zeros(len(p)), np.zeros(len(p)), 0.0
    for labels in itertools.product([0, 1], repeat=len(p)):
        labels = np.asarray(labels)
        if not labels.any():
            continue
        probability = np.prod(np.where(labels, p, 1 - p))
        some += probability
        shown += probability * labels / labels.sum()
        present += probability * labels
    return shown / some, present / some


@pytest.mark.parametrize(
    "p", [[0.5, 0.1, 0.02, 0.9, 0.3], [0.01] * 5, [1, 0.2, 0, 0.4, 1], [0.7, 0, 0, 0, 0]]
)
def test_shown_probabilities_are_those_over_all_label_sets(p):
    shown, _ = over_label_sets(np.asarray(p, float))
    assert shown_probabilities([p])[0] == pytest.approx(shown, abs=1e-7)


def test_hidden_probabilities_are_those_over_all_label_sets():
    # The last class is certain, so every sample has a label, as the calibrated probabilities assume.
    p = np.asarray([0.5, 0.1, 0.02, 0.9, 1.0])
    shown, present = over_label_sets(p)
    assert present == pytest.approx(p)
    labels = np.asarray([[0, 0, 0, 0, 1], [1, 0, -1, 0, 0], [0, 0, 0, 0, 0]], np.int8)
    found = hidden_probabilities(np.tile(p, (3, 1)), labels)
    expected = (p - shown) / (1 - shown)  # present but not shown, given not shown
    assert found[0] == pytest.approx([*expected[:4], 0], abs=1e-7)
    assert found[1] == pytest.approx([0, expected[1], 0, expected[3], expected[4]], abs=1e-7)
    assert found[2] == pytest.approx(p)  # nothing was shown of this sample


@pytest.mark.parametrize("classes", [5, 80, 300])
def test_the_integral_is_right_with_many_classes(classes):
    p = np.random.default_rng(classes).beta(0.2, 3, classes)
    some = 1 - np.prod(1 - p)
    expected = []
    for c in range(5):
        others = np.delete(p, c)
        integral = quad(lambda u, others=others: np.prod(1 - others + others * u), 0, 1, epsabs=1e-12)[0]
        expected.append(p[c] * integral / some)
    assert shown_probabilities([p])[0, :5] == pytest.approx(expected, rel=1e-5)


def test_properties():
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 2, (200, 12))
    shown = shown_probabilities(p)
    assert shown.sum(1) == pytest.approx(1)
    labels = np.zeros(p.shape, np.int8)
    labels[np.arange(200), rng.integers(0, 12, 200)] = 1
    labels[:50, 3] = -1
    hidden = hidden_probabilities(p, labels)
    assert (hidden >= 0).all()
    assert (hidden <= p + 1e-12).all()
    assert (hidden[labels != 0] == 0).all()
    rows, columns = rng.permutation(200), rng.permutation(12)
    moved = hidden_probabilities(p[rows][:, columns], labels[rows][:, columns])
    assert moved == pytest.approx(hidden[rows][:, columns])
    assert (
        np.diff(hidden_probabilities(np.linspace(0, 1, 11)[:, None] * [1, 1], labels[:11, :2] * 0), axis=0)
        > 0
    ).all()


def test_a_large_matrix_is_done_in_blocks(monkeypatch):
    world = make_world(0, samples=50, classes=6)
    p = 1 / (1 + np.exp(-world.scores))
    whole = hidden_probabilities(p, world.observed)
    monkeypatch.setattr("spml.scores.pairs._PAIRS", 40)
    assert hidden_probabilities(p, world.observed) == pytest.approx(whole)


def yield_gaps(mean_labels, sizes):
    """Mean over 30 draws of expected - true share of hidden labels in the first of the list."""
    gaps = []
    for seed in range(30):
        world = make_world(seed, mean_labels=mean_labels)
        priors = priors_from_shares((world.observed == 1).sum(0), world.mean_labels)
        p = fit_calibration(world.scores, world.observed, priors)(world.scores)
        hidden = hidden_probabilities(p, world.observed).ravel()
        ranked = np.argsort(np.where(world.observed == 0, -world.scores, np.inf), axis=None)
        true = (world.truth & (world.observed == 0)).ravel()
        gaps.append([hidden[ranked[:n]].mean() - true[ranked[:n]].mean() for n in sizes])
    return np.mean(gaps, 0)


@pytest.mark.long
def test_the_expected_yield_is_unbiased_where_the_known_label_is_a_uniform_draw():
    assert np.abs(yield_gaps(3.0, (100, 500, 2000))).max() < 0.03
    assert np.abs(yield_gaps(1.8, (500, 2000))).max() < 0.03
    # Near p = 1, hidden labels of data with few labels per sample depend on the last digits of p.
    assert 0.03 < yield_gaps(1.8, (100,))[0] < 0.08
