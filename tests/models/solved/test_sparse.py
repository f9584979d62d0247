"""Heads on many sparse features: equal to plain NumPy with the same covariance, and to the dense heads."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, random_array

from spml.common import numerics as covariance
from spml.common.errors import InputError
from spml.common.numerics import SparseSpread
from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.models import Top
from spml.models.scaling import make_scaling
from spml.models.solved.auto import fit_auto
from spml.models.solved.linear import LDA, MEAN_DIFFERENCE, MULTINOMIAL, RIDGE, ClosedForm, Solver
from spml.models.solved.members import member_scores
from spml.models.solved.moments import fit_scaling, moments, scaled
from spml.models.solved.spaces import Pool

N, D, C = 70, 40, 4


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Treat 40 sparse features as many."""
    monkeypatch.setattr("spml.models.solved.moments.WIDE", 20)


def make_samples(whole=False, seed=0, count=N):
    generator = np.random.default_rng(seed)
    features = random_array((count, D), density=0.2, rng=generator, dtype=np.float32).toarray()
    index = generator.integers(0, C, count)
    features[np.arange(count), index] += 1
    features = np.round(5 * features) if whole else features
    observed = ObservedLabels.from_index(index, C)
    matrix = FeatureMatrix(csr_matrix(features))
    return features.astype(np.float64), index, Samples(tuple(map(str, range(count))), matrix, observed)


def unit_rows(features):
    return features / np.linalg.norm(features, axis=1, keepdims=True)


def top(scaling="unit"):
    return Top(D, C, scaling=scaling)


@pytest.mark.parametrize("axes", [5, D - 1])
def test_solutions_are_those_of_the_covariance_that_the_spread_states(monkeypatch, axes):
    monkeypatch.setattr(covariance, "SPARSE_AXES", axes)
    features, index, samples = make_samples()
    rows, stats = unit_rows(features), moments(samples, top().scaling)
    values, vectors = (each.numpy() for each in stats.spread.axes())
    assert values.shape == (axes,)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(axes), atol=1e-5)
    others = np.eye(D) - vectors @ vectors.T
    sigma = vectors @ np.diag(values) @ vectors.T + stats.spread.rest * others
    centred, labels = rows - rows.mean(0), np.eye(C)[index]
    covariance_of_all = centred.T @ centred / N
    assert stats.spread.rest * (D - axes) == pytest.approx(np.trace(others @ covariance_of_all), abs=1e-6)
    unit, cross = np.trace(covariance_of_all) / D, centred.T @ (labels - labels.mean(0)) / N
    for penalty in (0.1, 10.0):
        inverse = np.linalg.inv(sigma + penalty * unit * np.eye(D))
        found = ClosedForm(RIDGE, stats, 1.0).estimate(penalty)
        np.testing.assert_allclose(found, inverse @ cross, atol=1e-4 * np.abs(inverse @ cross).max())
        weights, bias = ClosedForm(LDA, stats, 1.0).layer(penalty)
        means = cross / labels.mean(0)
        wanted = inverse @ means
        log_prior = np.log((labels.sum(0) + 0.5) / N)
        np.testing.assert_allclose(weights.T, wanted, atol=1e-4 * np.abs(wanted).max())
        offsets = log_prior - (means * wanted).sum(0) / 2 - rows.mean(0) @ wanted
        np.testing.assert_allclose(bias, offsets, atol=1e-4)


def test_with_all_axes_heads_are_those_of_dense_features():
    features, _, samples = make_samples()
    dense = Samples(samples.ids, FeatureMatrix(features.astype(np.float32)), samples.observed)
    both = [moments(each, top().scaling) for each in (samples, dense)]
    assert isinstance(both[0].spread, SparseSpread)
    for head, penalty in ((RIDGE, 1.0), (RIDGE, math.inf), (LDA, 1.0), (MEAN_DIFFERENCE, None)):
        first, second = (ClosedForm(head, stats, 1.0).layer(penalty) for stats in both)
        for mine, theirs in zip(first, second, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-4 * float(theirs.abs().max()))


def test_few_axes_lose_little_where_features_without_them_would_lose_much(monkeypatch):
    """The covariance of the other directions is not zero: the class means along them count."""
    _, _, samples = make_samples(count=400)
    _, new_index, new = make_samples(seed=1, count=400)
    rows = scaled(new.inputs.csr(range(400)), make_scaling("unit", D))
    right = {}
    for axes in (2, D):
        monkeypatch.setattr(covariance, "SPARSE_AXES", axes)
        solver = Solver(moments(samples, top().scaling))
        right[axes] = (solver.scores(LDA, 1.0, [solver.centred(rows)]).argmax(1).numpy() == new_index).mean()
        solver.values, solver.vectors = solver.values[: min(axes, 30)], solver.vectors[:, : min(axes, 30)]
        solver.cross, solver.squares = solver.cross[: min(axes, 30)], solver.squares[: min(axes, 30)]
        right[axes, "cut"] = (
            solver.scores(LDA, 1.0, [solver.centred(rows)]).argmax(1).numpy() == new_index
        ).mean()
    assert right[2] > right[D] - 0.03
    assert right[2, "cut"] < right[2] - 0.2


@pytest.mark.parametrize("name", ["unit", "sqrtl2", "tfidf"])
def test_sparse_rows_are_scaled_as_dense_ones(name):
    features, _, samples = make_samples(whole=True)
    rows = torch.from_numpy(features.astype(np.float32))
    dense, mine = make_scaling(name, D), make_scaling(name, D)
    dense.fit([rows])
    matrix = samples.inputs.csr(range(N)).astype(np.float32)
    fit_scaling(mine, matrix)
    np.testing.assert_allclose(scaled(matrix, mine).toarray(), dense(rows), atol=1e-6)


@pytest.mark.parametrize(("whole", "scaling"), [(True, "tfidf"), (False, "unit")])
@pytest.mark.parametrize("cross_validate", [True, False])
def test_auto_head_on_sparse_features(whole, scaling, cross_validate):
    _, _, train = make_samples(whole, count=120)
    _, index, val = make_samples(whole, seed=1, count=80)

    def score(scores, rows, classes):
        labels = np.concatenate([train.observed.index, val.observed.index])[rows]
        return float((scores.argmax(1) == labels).mean())

    found = fit_auto(train, val, score, cross_validate=cross_validate, mean_labels=1.0)
    spaces = {each["space"] for each in found.head.describe()}
    assert f"{scaling}, linear" in spaces
    assert spaces <= {f"{scaling}, linear", "sqrtl2, linear"}
    assert {each["space"] for each in found.tried} == {f"{scaling}, linear", *["sqrtl2, linear"] * whole}
    pool, rows = Pool(train, val), np.arange(120, 200)
    assert pool.wide
    features = torch.from_numpy(val.inputs.dense(range(80)))
    np.testing.assert_allclose(
        member_scores(found.head, pool, rows), found.head.member_scores(features), atol=1e-5
    )
    assert (found.head(features).argmax(1).numpy() == index).mean() > 0.8
    assert MULTINOMIAL in {each["head"] for each in found.head.describe()}


def test_what_can_t_be_solved_is_refused():
    same = csr_matrix(np.ones((5, D), np.float32))
    with pytest.raises(InputError, match="all 5 training samples have the same features"):
        SparseSpread(same)
    _, _, samples = make_samples()
    unknown = ObservedLabels.from_ternary(np.zeros((N, C), np.int8))
    with pytest.raises(InputError, match="none of the 70 training samples has a known positive label"):
        moments(Samples(samples.ids, samples.inputs, unknown), top().scaling)
