"""Heads in closed form: equal to scikit-learn and to plain NumPy, whatever the batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.linear_model import Ridge

from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.errors import InputError
from spml.labels import ObservedLabels
from spml.models import Top
from spml.models.closed_form import (
    MAX_FEATURES,
    PENALTIES,
    check_width,
    fill_head,
    mean_difference,
    moments,
    ridge,
)

N, D, C = 90, 7, 5


def made(kind="single", shift=0.0):
    """Features of different scales, samples, and the matrix S of known positives (class 4 has none)."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(N, D)) * generator.uniform(0.2, 4, D) + shift
    index = generator.integers(0, C - 1, N)
    features[np.arange(N), index] += 2
    features = features.astype(np.float32)
    shown = np.eye(C)[index]
    observed = ObservedLabels.from_index(index, C)
    if kind == "partial":
        ternary = shown.astype(np.int8)
        ternary[::3, 0], ternary[1::3, 1] = 1, -1
        observed, shown = ObservedLabels.from_ternary(ternary), (ternary == 1).astype(np.float64)
    if kind == "full":
        shown[::2, 2] = 1
        observed = ObservedLabels.from_multi_hot(shown, unlisted="negative")
    return features, Samples(tuple(map(str, range(N))), FeatureMatrix(features), observed), shown


def plain(features=D):
    return Top(features, C, standardise=False)


@pytest.mark.parametrize("kind", ["single", "partial", "full"])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_ridge_equals_scikit_learn(kind, shift):
    features, samples, shown = made(kind, shift)
    found = moments(samples, plain(), rows=32)
    wide = features.astype(np.float64)
    s2 = wide.var(0).mean()
    assert len(PENALTIES) == 13
    for penalty, weights in zip(PENALTIES[:-1], ridge(found), strict=False):
        model = Ridge(alpha=penalty * s2 * N).fit(wide, shown)
        assert np.abs(weights.numpy() - model.coef_.T).max() < 1e-8
        estimate = found.share.numpy() + (wide - found.mean.numpy()) @ weights.numpy()
        assert np.abs(estimate - model.predict(wide)).max() < 1e-8
    assert PENALTIES[0] == 0.1
    assert PENALTIES[11] == pytest.approx(300)
    steps = np.diff(np.log(PENALTIES[:-1]))
    assert steps == pytest.approx(np.full(11, math.log(3000) / 11), rel=1e-4)


@pytest.mark.parametrize("kind", ["single", "partial", "full"])
def test_the_mean_difference_equals_numpy(kind):
    features, samples, shown = made(kind)
    wide = features.astype(np.float64)
    direction = np.zeros((D, C))
    for c in range(C - 1):
        direction[:, c] = wide[shown[:, c] == 1].mean(0) - wide.mean(0)
    predicted = ((wide - wide.mean(0)) @ direction).ravel()
    factor = np.linalg.lstsq(predicted[:, None], (shown - shown.mean(0)).ravel(), rcond=None)[0][0]
    weights = mean_difference(moments(samples, plain())).numpy()
    assert np.abs(weights - factor * direction).max() < 1e-8
    assert factor > 0.01
    assert not weights[:, C - 1].any()


def test_the_limit_of_the_penalty_ranks_like_the_mean_difference_weighted_by_shares():
    features, samples, shown = made()
    found = moments(samples, plain())
    nearly, limit = ridge(found, (1e9, math.inf))
    weighted = mean_difference(found) * found.share
    for weights in (nearly, limit):
        ratio = weights[:, : C - 1] / weighted[:, : C - 1]
        assert ratio.std() < 1e-6 * ratio.mean()
        scores, expected = features @ weights.numpy(), features @ weighted.numpy()
        assert (np.argsort(scores, 0)[:, : C - 1] == np.argsort(expected, 0)[:, : C - 1]).all()
    centred, labels = features - found.mean.numpy(), shown - shown.mean(0)
    errors = [np.square(labels - a * centred @ limit.numpy()).sum() for a in (0.999, 1.0, 1.001)]
    assert errors[1] < min(errors[0], errors[2])


def test_the_logits_are_the_tangent_of_the_log_odds_of_k_times_the_share():
    features, samples, shown = made("partial")
    top = plain()
    found = moments(samples, top)
    weights = next(iter(ridge(found, (2.0,))))
    model = Ridge(alpha=2.0 * features.astype(np.float64).var(0).mean() * N).fit(features, shown)
    share = model.predict(features) / shown.sum(1).mean()
    fill_head(top.head, weights, found, 1.7)
    with torch.no_grad():
        logits = top(torch.from_numpy(features)).logits.numpy()
    assert np.abs(logits - 4 * (1.7 * share - 0.5)).max() < 1e-5
    assert shown.sum(1).mean() > 1.1


@pytest.mark.parametrize("rows", [1, 13, 89])
def test_batches_do_not_matter(rows):
    features, samples, shown = made("partial", shift=1000.0)
    whole, parts = moments(samples, plain(), rows=N), moments(samples, plain(), rows=rows)
    for one, other in zip(whole, parts, strict=True):
        assert torch.allclose(one, other, rtol=1e-10, atol=1e-10)
    wide = features.astype(np.float64)
    assert np.abs(np.cov(wide.T, ddof=0) - parts.covariance.numpy()).max() < 1e-9
    cross = (wide - wide.mean(0)).T @ (shown - shown.mean(0)) / N
    assert np.abs(cross - parts.cross.numpy()).max() < 1e-9


def test_memory_does_not_grow_with_samples_times_classes(monkeypatch):
    from spml.models import closed_form

    monkeypatch.setattr(closed_form, "_ENTRIES", 70)
    _, samples, _ = made()
    asked = []

    class Watched(FeatureMatrix):
        def fetch(self, rows, augment=None):
            asked.append(len(rows))
            return super().fetch(rows, augment)

    watched = Samples(samples.ids, Watched(made()[0]), samples.observed)
    moments(watched, plain())
    assert asked == [10] * 9


def test_sparse_features_give_the_same_as_dense_ones():
    features, samples, _ = made()
    features[np.abs(features) < 1] = 0
    dense = Samples(samples.ids, FeatureMatrix(features), samples.observed)
    sparse = Samples(samples.ids, FeatureMatrix(csr_matrix(features)), samples.observed)
    for one, other in zip(moments(dense, plain()), moments(sparse, plain()), strict=True):
        assert torch.equal(one, other)


def test_standardised_features_are_those_that_the_head_is_given():
    features, samples, shown = made(shift=50.0)
    top = Top(D, C, dropout=0.5)
    top.fit_standardise(samples.inputs)
    found = moments(samples, top.train())
    assert top.training
    scaled = (features - features.mean(0, dtype=np.float64)) / features.std(0, dtype=np.float64)
    assert np.abs(found.covariance.numpy() - np.cov(scaled.T, ddof=0)).max() < 1e-4
    model = Ridge(alpha=0.5 * N).fit(scaled, shown)
    assert np.abs(next(iter(ridge(found, (0.5,)))).numpy() - model.coef_.T).max() < 1e-5


def test_what_can_not_be_solved_is_refused():
    _, samples, _ = made()
    for value in (0.0, 0.1, 1e6):
        same = Samples(samples.ids, FeatureMatrix(np.full((N, D), value, np.float32)), samples.observed)
        with pytest.raises(InputError, match="all 90 training samples have the same features"):
            moments(same, plain(), rows=7)
    negatives = ObservedLabels.from_ternary(np.full((N, C), -1, np.int8))
    with pytest.raises(InputError, match="known positive"):
        moments(Samples(samples.ids, samples.inputs, negatives), plain())
    check_width(MAX_FEATURES)
    with pytest.raises(InputError, match="20,001 features, more than 20,000"):
        check_width(MAX_FEATURES + 1)


def test_a_class_that_all_samples_show_does_no_harm():
    _, samples, shown = made()
    shown[:, 0] = 1
    observed = ObservedLabels.from_multi_hot(shown, unlisted="negative")
    found = moments(Samples(samples.ids, samples.inputs, observed), plain())
    for weights in (*ridge(found), mean_difference(found)):
        assert torch.isfinite(weights).all()
        assert weights[:, 0].abs().max() < 1e-12
