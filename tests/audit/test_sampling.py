"""Which samples to label in full, and what their labels are expected to tell."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chisquare, t
from sklearn.metrics import average_precision_score

from spml.audit import sampling
from spml.audit.sampling import CORRELATION, draw_sample, forecast_audit
from spml.common.draws import permutation, uniform
from spml.common.errors import InputError
from spml.decisions import (
    fit_calibration,
    hidden_probabilities,
    mean_labels_interval,
    priors_from_shares,
)
from tests.helpers.audits import world

# -- the draw --------------------------------------------------------------------------------------------


def test_every_sample_is_equally_likely_at_every_position():
    draws = np.stack([draw_sample(40, 20, seed) for seed in range(2000)])
    assert all(len(set(rows)) == 20 and set(rows) <= set(range(40)) for rows in draws.tolist())
    for rows in (draws, draws[:, :5]):
        counts = np.bincount(rows.ravel(), minlength=40)
        # Counts of a draw without replacement vary less than the multinomial ones of the test.
        assert chisquare(counts).pvalue > 0.01


def test_the_draw_depends_on_the_seed_alone():
    assert draw_sample(1000, 30, 1).tolist() == draw_sample(1000, 30, 1).tolist()
    assert draw_sample(1000, 30, 1).tolist() != draw_sample(1000, 30, 2).tolist()
    # More rows are the same ones and some others: who wants to label more can go on.
    assert draw_sample(1000, 60, 1)[:30].tolist() == draw_sample(1000, 30, 1).tolist()


@pytest.mark.parametrize(
    ("samples", "rows", "words"),
    [
        (100, 19, "19 samples are too few to estimate anything: draw at least 20"),
        (1500, 1501, "1,501 samples can't be drawn from 1,500: draw fewer"),
    ],
)
def test_impossible_draws(samples, rows, words):
    with pytest.raises(InputError, match=words):
        draw_sample(samples, rows)


# -- the forecast ----------------------------------------------------------------------------------------


def test_errors_of_map_are_those_of_a_slow_loop(monkeypatch):
    monkeypatch.setattr(sampling, "_SUBSETS", 3)
    p, _, labels = world(0, samples=60, classes=4)
    hidden, scores = p * (labels == 0), np.round(np.log(p / (1 - p)), 1)
    errors = sampling._simulated_errors([scores, -scores], labels == 1, hidden, 20, 5, seed=7)
    expected = []
    for number in range(2):
        truth = (labels == 1) | (uniform(240, "forecast", "labels", 7, number).reshape(60, 4) < hidden)
        for subset in range(3):
            rows = permutation(60, "forecast", "rows", 7, number, subset)[:20]
            row = []
            for model in (scores, -scores):
                of_all, of_rows = (
                    np.mean([
                        average_precision_score(truth[chosen, c], model[chosen, c])
                        for c in range(4) if truth[chosen, c].any()
                    ])
                    for chosen in (np.arange(60), rows)
                )  # fmt: skip
                row.append(of_rows - of_all)
            expected.append(row)
    assert errors == pytest.approx(np.transpose(expected), abs=1e-12)


def test_what_follows_from_the_simulated_errors(monkeypatch):
    errors = np.random.default_rng(0).normal(0.02, 0.05, (3, 400))
    monkeypatch.setattr(sampling, "_simulated_errors", lambda models, *rest: errors[: len(models)])
    p, _, labels = world(0, samples=60)
    one, three = (forecast_audit([p] * models, labels, p, 25) for models in (1, 3))
    assert one.map_shift == three.map_shift == pytest.approx(errors[0].mean())
    within = np.abs(errors[0] - one.map_shift) <= one.map_margin
    assert within.mean() == pytest.approx(0.95, abs=0.003)
    assert one.smallest_difference == pytest.approx(2.8 * np.sqrt(2 - 2 * CORRELATION) * errors[0].std())
    pairs = [(errors[a] - errors[b]).var() for a, b in combinations(range(3), 2)]
    assert three.smallest_difference == pytest.approx(2.8 * np.sqrt(np.mean(pairs)))
    assert (one.simulated, three.simulated) == (False, True)


def test_the_spread_of_labels_by_hand():
    # Two kinds of samples, all labels known: 1 or 3 labels each.
    labels = np.full((60, 4), -1, np.int8)
    labels[:, 0] = 1
    labels[30:, 1:3] = 1
    forecast = forecast_audit([np.arange(240.0).reshape(60, 4)], labels, np.zeros((60, 4)), 30)
    assert forecast.mean_labels == 2
    assert forecast.mean_labels_margin == pytest.approx(t.ppf(0.975, 29) * 1 / np.sqrt(30))
    # Four labels that are there with probability 1/2 each.
    p = np.full((60, 4), 0.5)
    forecast = forecast_audit([p], np.zeros((60, 4), np.int8), p, 30)
    assert forecast.mean_labels == 2
    assert forecast.mean_labels_margin == pytest.approx(t.ppf(0.975, 29) * 1 / np.sqrt(30))


def test_margins_hold_where_labels_are_independent_and_the_known_one_is_a_uniform_draw():
    covered, within, margins, errors = [], [], [], []
    for seed in range(40):
        p, truth, labels = world(seed)
        scores = np.log(p / (1 - p))
        priors = priors_from_shares((labels == 1).sum(0), truth.sum(1).mean())
        hidden = hidden_probabilities(scores, labels, fit_calibration(scores, labels, priors))
        forecast = forecast_audit([scores], labels, hidden, 50, draws=200, seed=seed)
        margins.append(forecast.mean_labels_margin / t.ppf(0.975, 49))
        chosen = np.zeros((51, 400), np.int16)
        chosen[0] = 1
        for draw in range(50):
            rows = draw_sample(400, 50, seed=1000 * seed + draw)
            chosen[1 + draw, rows] = 1
            errors.append(truth[rows].sum(1).mean() - truth.sum(1).mean())
            interval = mean_labels_interval(truth[rows])
            covered.append(interval.low <= truth.sum(1).mean() <= interval.high)
        of_map = sampling.bootstrap_map(scores, truth, chosen)
        within += (np.abs(of_map[1:] - of_map[0] - forecast.map_shift) <= forecast.map_margin).tolist()
    # 50 of 400 samples are drawn without replacement, so their mean varies less than that of 50 new ones.
    assert np.std(errors) / np.sqrt(1 - 50 / 400) == pytest.approx(np.mean(margins), rel=0.08)
    assert 0.93 <= np.mean(covered) <= 0.985
    assert 0.93 <= np.mean(within) <= 0.97


def test_a_large_data_set_is_forecast_from_a_part_of_it(monkeypatch):
    monkeypatch.setattr(sampling, "_MOST_SCORES", 800)
    seen = []

    def errors(models, known, hidden, *rest):
        seen.append((len(known), len(hidden), *map(len, models)))
        return np.zeros((len(models), 2))

    monkeypatch.setattr(sampling, "_simulated_errors", errors)
    p, _, labels = world(1, samples=300)
    for rows in (20, 30):
        forecast_audit([p], labels, p, rows)
    assert seen == [(100, 100, 100), (120, 120, 120)]  # never fewer than four times the sample
