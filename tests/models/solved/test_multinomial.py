"""Softmax regression on sparse features: equal to scikit-learn's, and solved in the auto head."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix, random_array
from sklearn.linear_model import LogisticRegression
from torch import nn

from spml.data import Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.models.solved import moments, softmax, spaces
from spml.models.solved.auto import fit_auto
from spml.models.solved.linear import MULTINOMIAL, Solver
from spml.models.solved.moments import Columns, sparse_moments
from spml.models.solved.search import best_of
from spml.models.solved.softmax import MULTINOMIAL_PENALTIES, Multinomial

N, D, C = 90, 30, 4


def make_data(seed=0, density=0.3):
    """Sparse features, of which the last ten rows have no known positive and the first ten have two."""
    generator = np.random.default_rng(seed)
    matrix = random_array((N, D), density=density, rng=generator, dtype=np.float32).tocsr()
    matrix = csr_matrix(matrix.multiply(np.geomspace(0.1, 3, D)[None]), dtype=np.float32)
    first = (matrix @ generator.normal(size=(D, C))).argmax(1)
    first[: C * 3] = np.arange(C * 3) % C  # every class occurs
    rows, labels = np.arange(N - 10), first[: N - 10]
    rows, labels = np.append(rows, np.arange(10)), np.append(labels, (first[:10] + 1) % C)
    return matrix, (rows, labels)


def solve(matrix, positives, start=None):
    stats = sparse_moments(matrix, positives, Columns(C))
    return stats, Multinomial(matrix, positives, stats, start)


@pytest.mark.parametrize("penalty", [100.0, 3.0])
def test_the_solution_is_that_of_scikit_learn(monkeypatch, penalty):
    monkeypatch.setattr(softmax, "TOLERANCE", 1e-5)
    monkeypatch.setattr(softmax, "MAX_EVALUATIONS", 2000)
    matrix, (rows, labels) = make_data()
    stats, mine = solve(matrix, (rows, labels))
    dense = matrix.toarray().astype(np.float64)
    l2 = penalty * dense.var(0).mean() / (2 * C)
    theirs = LogisticRegression(C=1 / (2 * l2 * len(rows)), tol=1e-10, max_iter=10_000)
    theirs.fit(dense[rows], labels)
    found = mine.outputs(penalty, matrix).log_softmax(1).numpy()
    np.testing.assert_allclose(found, theirs.predict_log_proba(dense), atol=2e-3)
    solver, layer = Solver(stats), nn.Linear(D, C)
    solver.multinomial = mine
    solver.fill(layer, MULTINOMIAL, penalty)
    np.testing.assert_allclose(layer.weight.detach(), theirs.coef_, atol=2e-3 * np.abs(theirs.coef_).max())
    np.testing.assert_allclose(
        layer(torch.from_numpy(matrix.toarray())).log_softmax(1).detach(), found, atol=1e-5
    )
    parts = [matrix[:50], matrix[50:]]
    np.testing.assert_allclose(solver.scores(MULTINOMIAL, penalty, parts), found, atol=1e-5)
    some = torch.tensor([0, 2])
    np.testing.assert_allclose(solver.scores(MULTINOMIAL, penalty, parts, some), found[:, [0, 2]], atol=1e-5)


def test_the_tolerance_is_enough_and_the_path_is_short():
    matrix, positives = make_data()
    _, path = solve(matrix, positives)
    for penalty in MULTINOMIAL_PENALTIES[:6]:
        found = path.outputs(penalty, matrix).log_softmax(1)
        alone = solve(matrix, positives)[1].outputs(penalty, matrix).log_softmax(1)
        assert float((found - alone).abs().mean()) < 0.05  # wherever the search starts
    assert [*path._solutions] == [*MULTINOMIAL_PENALTIES[3:6]]


def test_the_search_ends_with_the_second_solution_that_is_worse():
    asked = []
    values = dict(zip(MULTINOMIAL_PENALTIES, (0.1, 0.3, 0.2, 0.5, 0.4, 0.5, 0.4, 0.9), strict=False))

    def scores_of(head, penalty):
        asked.append(penalty)
        return np.full((1, C), values[penalty], np.float32)

    solutions = [(MULTINOMIAL, penalty) for penalty in MULTINOMIAL_PENALTIES]
    (best,), tried = best_of(scores_of, "unit", 0.0, lambda scores: float(scores.mean()), solutions)
    assert asked == [*MULTINOMIAL_PENALTIES[:7]]
    assert best.penalty == MULTINOMIAL_PENALTIES[3]
    assert len(tried) == 7


@pytest.mark.parametrize(
    ("kind", "scaling", "limit", "reason"),
    [
        ("wide", "unit", "", ""),
        ("sparse", "sqrtl2", "", ""),
        ("dense", "sqrtl2", "", ""),
        ("unlike counts", "", "", ""),
        ("wide", "unit", "MOST_SOFTMAX_WEIGHTS", "too much memory"),
        ("sparse", "sqrtl2", "MOST_WORK", "too much time"),
    ],
)
def test_the_auto_head_solves_it_where_it_can(monkeypatch, lines, kind, scaling, limit, reason):
    if kind == "wide":
        monkeypatch.setattr(moments, "WIDE", 20)
    if limit:
        monkeypatch.setattr(spaces, limit, 10)
    matrix, _ = make_data(density=0.15 if scaling else 0.5)
    features = matrix if kind in ("wide", "sparse") else matrix.toarray()
    index = np.random.default_rng(1).integers(0, C, N)
    parts = [
        Samples(
            tuple(map(str, rows)), FeatureMatrix(features[rows]), ObservedLabels.from_index(index[rows], C)
        )
        for rows in (np.arange(60), np.arange(60, N))
    ]
    found = fit_auto(*parts, lambda scores, rows, classes: 0.5, cross_validate=False, mean_labels=1.0)
    in_spaces = {each["space"] for each in found.tried if each["head"] == MULTINOMIAL}
    assert in_spaces == (set() if limit or not scaling else {f"{scaling}, linear"})
    assert [line for line in lines if reason in line and "without softmax regression" in line] == lines
    assert bool(lines) == bool(limit)
    if not in_spaces:
        return
    # In the end it is solved on all labelled samples, at the strongest penalty here.
    layer = next(
        layer for layer, member in zip(found.head.heads, found.head.settings.members, strict=True)
        if member.head == MULTINOMIAL
    )  # fmt: skip
    scaled = moments.scaled(matrix, found.head.scalings[scaling])
    _, again = solve(scaled, (np.arange(N), index))
    mine = layer(torch.from_numpy(scaled.toarray())).log_softmax(1).detach()
    wanted = again.outputs(MULTINOMIAL_PENALTIES[0], scaled).log_softmax(1)
    np.testing.assert_allclose(mine, wanted, atol=2e-3)
