"""Heads in closed form: equal to scikit-learn and to plain NumPy, for all batch sizes."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

from spml.common.errors import InputError
from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.models import Top
from spml.models.solved.linear import (
    FINITE_PENALTIES,
    LDA,
    MEAN_DIFFERENCE,
    PENALTIES,
    RIDGE,
    ClosedForm,
)
from spml.models.solved.moments import Columns, MomentSum, check_size, moments

N, D, C = 90, 7, 5


def make_samples(kind="single", shift=0.0):
    """Make features of different scales, samples, and the matrix S of known positives (class 4 has none)."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(N, D)) * generator.uniform(0.2, 4, D) + shift
    index = generator.integers(0, C - 1, N)
    features[np.arange(N), index] += 2
    features = features.astype(np.float32)
    positives = np.eye(C)[index]
    observed = ObservedLabels.from_index(index, C)
    if kind == "partial":
        ternary = positives.astype(np.int8)
        ternary[::3, 0], ternary[1::3, 1] = 1, -1
        observed, positives = ObservedLabels.from_ternary(ternary), (ternary == 1).astype(np.float64)
    if kind == "full":
        positives[::2, 2] = 1
        observed = ObservedLabels.from_multi_hot(positives, unlisted="negative")
    return features, Samples(tuple(map(str, range(N))), FeatureMatrix(features), observed), positives


def plain(features=D):
    return Top(features, C, scaling="raw")


def arrays(stats):
    return *stats.spread, stats.share, stats.cross


def ridge(stats, penalties=PENALTIES):
    solver = ClosedForm(RIDGE, stats, 1.0)
    return [solver.estimate(penalty) for penalty in penalties]


def mean_difference(stats):
    return ClosedForm(MEAN_DIFFERENCE, stats, 1.0).estimate(None)


def lda(stats, penalties=FINITE_PENALTIES):
    solver = ClosedForm(LDA, stats, 1.0)
    return [(weight.T, bias) for weight, bias in map(solver.layer, penalties)]


@pytest.mark.parametrize("kind", ["single", "partial", "full"])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_ridge_equals_scikit_learn(kind, shift):
    features, samples, positives = make_samples(kind, shift)
    stats = moments(samples, plain().scaling, rows=32)
    wide = features.astype(np.float64)
    s2 = wide.var(0).mean()
    assert len(PENALTIES) == 13
    for penalty, weights in zip(PENALTIES[:-1], ridge(stats), strict=False):
        model = Ridge(alpha=penalty * s2 * N).fit(wide, positives)
        assert np.abs(weights.numpy() - model.coef_.T).max() < 1e-8
        estimate = stats.share.numpy() + (wide - stats.spread.mean.numpy()) @ weights.numpy()
        assert np.abs(estimate - model.predict(wide)).max() < 1e-8
    assert PENALTIES[0] == 0.1
    assert PENALTIES[11] == pytest.approx(300)
    steps = np.diff(np.log(PENALTIES[:-1]))
    assert steps == pytest.approx(np.full(11, math.log(3000) / 11), rel=1e-4)


@pytest.mark.parametrize("kind", ["single", "partial", "full"])
def test_the_mean_difference_equals_numpy(kind):
    features, samples, positives = make_samples(kind)
    wide = features.astype(np.float64)
    direction = np.zeros((D, C))
    for c in range(C - 1):
        direction[:, c] = wide[positives[:, c] == 1].mean(0) - wide.mean(0)
    predicted = ((wide - wide.mean(0)) @ direction).ravel()
    factor = np.linalg.lstsq(predicted[:, None], (positives - positives.mean(0)).ravel(), rcond=None)[0][0]
    weights = mean_difference(moments(samples, plain().scaling)).numpy()
    assert np.abs(weights - factor * direction).max() < 1e-8
    assert factor > 0.01
    assert not weights[:, C - 1].any()


def test_the_limit_of_the_penalty_ranks_like_the_mean_difference_weighted_by_shares():
    features, samples, positives = make_samples()
    stats = moments(samples, plain().scaling)
    nearly, limit = ridge(stats, (1e9, math.inf))
    weighted = mean_difference(stats) * stats.share
    for weights in (nearly, limit):
        ratio = weights[:, : C - 1] / weighted[:, : C - 1]
        assert ratio.std() < 1e-6 * ratio.mean()
        scores, expected = features @ weights.numpy(), features @ weighted.numpy()
        assert (np.argsort(scores, 0)[:, : C - 1] == np.argsort(expected, 0)[:, : C - 1]).all()
    centred, labels = features - stats.spread.mean.numpy(), positives - positives.mean(0)
    errors = [np.square(labels - a * centred @ limit.numpy()).sum() for a in (0.999, 1.0, 1.001)]
    assert errors[1] < min(errors[0], errors[2])


def test_the_logits_are_the_tangent_of_the_log_odds_of_k_times_the_share():
    features, samples, positives = make_samples("partial")
    top = plain()
    stats = moments(samples, top.scaling)
    model = Ridge(alpha=2.0 * features.astype(np.float64).var(0).mean() * N).fit(features, positives)
    share = model.predict(features) / positives.sum(1).mean()
    ClosedForm(RIDGE, stats, 1.7).fill(top.head, 2.0)
    with torch.no_grad():
        logits = top(torch.from_numpy(features)).logits.numpy()
    assert np.abs(logits - 4 * (1.7 * share - 0.5)).max() < 1e-5
    assert positives.sum(1).mean() > 1.1


@pytest.mark.parametrize("rows", [1, 13, 89])
def test_batches_do_not_matter(rows):
    features, samples, positives = make_samples("partial", shift=1000.0)
    whole, parts = moments(samples, plain().scaling, rows=N), moments(samples, plain().scaling, rows=rows)
    assert whole.samples == parts.samples == N
    for actual, expected in zip(arrays(whole), arrays(parts), strict=True):
        assert torch.allclose(actual, expected, rtol=1e-10, atol=1e-10)
    wide = features.astype(np.float64)
    assert np.abs(np.cov(wide.T, ddof=0) - parts.spread.matrix.numpy()).max() < 1e-9
    cross = (wide - wide.mean(0)).T @ (positives - positives.mean(0)) / N
    assert np.abs(cross - parts.cross.numpy()).max() < 1e-9


def test_memory_does_not_grow_with_samples_times_classes(monkeypatch):
    # The package has a function of the module's name.
    monkeypatch.setattr(sys.modules["spml.models.solved.moments"], "_ENTRIES", 70)
    _, samples, _ = make_samples()
    asked = []

    class Watched(FeatureMatrix):
        def fetch(self, rows, augment=None):
            asked.append(len(rows))
            return super().fetch(rows, augment)

    watched = Samples(samples.ids, Watched(make_samples()[0]), samples.observed)
    moments(watched, plain().scaling)
    assert asked == [1, *[10] * 9]  # the first row tells the number of features


def test_labels_of_a_million_classes_take_no_more_memory_than_the_known_ones():
    """A dense matrix of a batch of these labels would take 104 MB."""
    _, samples, positives = make_samples()
    apart = np.array([7, 500_000, 999_999, 12, 3])
    many = ObservedLabels.from_index(apart[positives.argmax(1)], 1_000_000)
    stats = moments(Samples(samples.ids, samples.inputs, many), plain().scaling, rows=13)
    assert stats.columns.own.tolist() == [7, 12, 500_000, 999_999]
    assert stats.cross.shape == (D, 5)
    few = moments(samples, plain().scaling)
    torch.testing.assert_close(stats.cross, few.cross[:, [0, 3, 1, 2, 4]], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(stats.share, few.share[[0, 3, 1, 2, 4]], rtol=1e-12, atol=1e-12)


def test_sparse_features_give_the_same_as_dense_ones():
    features, samples, _ = make_samples()
    features[np.abs(features) < 1] = 0
    dense = Samples(samples.ids, FeatureMatrix(features), samples.observed)
    sparse = Samples(samples.ids, FeatureMatrix(csr_matrix(features)), samples.observed)
    for actual, expected in zip(
        arrays(moments(dense, plain().scaling)), arrays(moments(sparse, plain().scaling)), strict=True
    ):
        assert torch.equal(actual, expected)


def test_moments_are_those_of_the_standardised_features():
    features, samples, positives = make_samples(shift=50.0)
    top = Top(D, C, dropout=0.5)
    top.fit_scaling(samples.inputs)
    stats = moments(samples, top.train().scaling)
    assert top.training
    scaled = (features - features.mean(0, dtype=np.float64)) / features.std(0, dtype=np.float64)
    assert np.abs(stats.spread.matrix.numpy() - np.cov(scaled.T, ddof=0)).max() < 1e-4
    model = Ridge(alpha=0.5 * N).fit(scaled, positives)
    assert np.abs(ridge(stats, (0.5,))[0].numpy() - model.coef_.T).max() < 1e-5


def test_unsolvable_data_is_refused():
    _, samples, _ = make_samples()
    for value in (0.0, 0.1, 1e6):
        same = Samples(samples.ids, FeatureMatrix(np.full((N, D), value, np.float32)), samples.observed)
        with pytest.raises(InputError, match="all 90 training samples have the same features"):
            moments(same, plain().scaling, rows=7)
    negatives = ObservedLabels.from_ternary(np.full((N, C), -1, np.int8))
    with pytest.raises(InputError, match="known positive"):
        moments(Samples(samples.ids, samples.inputs, negatives), plain().scaling)


def test_what_would_take_too_much_memory_is_refused_with_its_size():
    check_size(10**9, 20_000)
    check_size(4000, 100_000)
    with pytest.raises(InputError, match=r"20,001 x 20,001 numbers \(3\.0 GiB.*more than 3\.0 GiB"):
        check_size(10**9, 20_001)
    with pytest.raises(
        InputError, match=r"5,000 training samples .* 100,000 features .* 5,000 x 100,000 .*\(3\.7 GiB"
    ):
        check_size(5000, 100_000)


@pytest.mark.parametrize("rows", [1, 13, 40])
@pytest.mark.parametrize("shift", [0.0, 1000.0])
def test_of_fewer_samples_than_features_the_solutions_are_the_same(rows, shift):
    count, width = 40, 60
    generator = np.random.default_rng(1)
    features = (generator.normal(size=(count, width)) * generator.uniform(0.2, 4, width) + shift).astype("f")
    index = generator.integers(0, C - 1, count)
    observed = ObservedLabels.from_index(index, C)
    samples = Samples(tuple(map(str, range(count))), FeatureMatrix(features), observed)
    stats = moments(samples, plain(width).scaling, rows=rows)
    assert stats.spread.matrix.shape == (count, width)
    wide, positives = features.astype(np.float64), np.eye(C)[index]
    covariance, s2 = np.cov(wide.T, ddof=0), wide.var(0).mean()
    for penalty, weights in zip(PENALTIES[:-1], ridge(stats), strict=False):
        expected = Ridge(alpha=penalty * s2 * count).fit(wide, positives).coef_.T
        assert np.abs(weights.numpy() - expected).max() < 1e-9
    means = np.array([wide[index == c].mean(0) - wide.mean(0) for c in range(C - 1)] + [np.zeros(width)])
    for penalty, (weights, bias) in zip(FINITE_PENALTIES, lda(stats), strict=True):
        expected = np.linalg.solve(covariance + penalty * s2 * np.eye(width), means.T)
        assert np.abs(weights.numpy() - expected).max() < 1e-9
        counts = np.bincount(index, minlength=C)
        prior = np.log((counts + 0.5) / count) - (means.T * expected).sum(0) / 2
        assert np.abs(bias.numpy() - prior + wide.mean(0) @ expected).max() < 1e-7
    direction = means.T
    predicted = ((wide - wide.mean(0)) @ direction).ravel()
    factor = np.linalg.lstsq(predicted[:, None], (positives - positives.mean(0)).ravel(), rcond=None)[0][0]
    assert np.abs(mean_difference(stats).numpy() - factor * direction).max() < 1e-9


def test_samples_that_come_later_may_outnumber_the_features():
    features, samples, _ = make_samples()
    few, all_of_them = MomentSum(D, Columns(C), 3), MomentSum(D, Columns(C), N)
    for total in (few, all_of_them):
        for first in range(0, N, 5):
            batch = range(first, min(first + 5, N))
            total.add(torch.from_numpy(features[batch]).double(), Columns(C).positives(samples, batch))
    for actual, expected in zip(arrays(few.moments()), arrays(all_of_them.moments()), strict=True):
        assert torch.allclose(actual, expected, rtol=1e-10, atol=1e-12)


def test_a_class_that_all_samples_have_does_no_harm():
    _, samples, positives = make_samples()
    positives[:, 0] = 1
    observed = ObservedLabels.from_multi_hot(positives, unlisted="negative")
    stats = moments(Samples(samples.ids, samples.inputs, observed), plain().scaling)
    for weights in (*ridge(stats), mean_difference(stats)):
        assert torch.isfinite(weights).all()
        assert weights[:, 0].abs().max() < 1e-12


@pytest.mark.parametrize("kind", ["single", "partial"])
def test_lda_equals_numpy(kind):
    features, samples, positives = make_samples(kind, shift=10.0)
    stats, wide = moments(samples, plain().scaling, rows=32), features.astype(np.float64)
    centred = wide - wide.mean(0)
    sigma, counts = centred.T @ centred / N, positives.sum(0)
    solutions = lda(stats)
    assert len(solutions) == len(FINITE_PENALTIES) == 12
    for penalty, (weights, bias) in zip(FINITE_PENALTIES, solutions, strict=True):
        shrunk = sigma + penalty * np.trace(sigma) / D * np.eye(D)
        expected = np.empty((N, C))
        for c in range(C):
            mean = centred[positives[:, c] == 1].mean(0) if counts[c] else np.zeros(D)
            direction = np.linalg.solve(shrunk, mean)
            expected[:, c] = centred @ direction - mean @ direction / 2 + np.log((counts[c] + 0.5) / N)
        assert np.abs(wide @ weights.numpy() + bias.numpy() - expected).max() < 1e-8


def test_lda_without_shrinkage_is_that_of_scikit_learn():
    # With the covariance of all samples in place of that within classes, the directions are the same up to
    # one factor per discriminant, and the ranking of two classes is the same.
    generator = np.random.default_rng(1)
    index = generator.integers(0, 2, 400)
    features = (generator.normal(size=(400, 3)) * [1, 2, 3] + np.outer(index, [2, -1, 0.5])).astype(
        np.float32
    )
    samples = Samples(
        tuple(map(str, range(400))), FeatureMatrix(features), ObservedLabels.from_index(index, 2)
    )
    stats = moments(samples, Top(3, 2, scaling="raw").scaling)
    ((weights, _),) = lda(stats, (1e-9,))
    ours = (weights[:, 1] - weights[:, 0]).numpy()
    theirs = LinearDiscriminantAnalysis().fit(features, index).coef_[0]
    assert np.allclose(ours / np.linalg.norm(ours), theirs / np.linalg.norm(theirs), atol=1e-5)
