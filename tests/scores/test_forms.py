"""The three forms of scores answer alike; of the highest only, what was left out is as high as it can be."""

from __future__ import annotations

import numpy as np
import pytest

from spml.scores import InMemory, as_scores, highest, ranks_of
from tests.helpers.slow import in_blocks

N, C = 9, 12


@pytest.fixture
def matrix():
    return np.random.default_rng(0).normal(size=(N, C)).round(1).astype(np.float32)


@pytest.fixture(params=["in memory", "blocks", "nothing left out"])
def scores(matrix, request):
    none = np.empty(0, np.int64)
    return {
        "in memory": InMemory(matrix),
        "blocks": in_blocks(matrix, 4),
        "nothing left out": InMemory(matrix).highest(C, (none, none)),
    }[request.param]


def test_every_form_gives_the_same_scores(scores, matrix):
    assert (scores.shape, len(scores), scores.complete) == ((N, C), N, True)
    rows, columns = np.array([8, 0, 4, 4]), np.array([3, 11, 0, 5])
    np.testing.assert_array_equal(scores.gather(), matrix)
    np.testing.assert_array_equal(scores.gather(columns), matrix[:, columns])
    np.testing.assert_array_equal(scores.at(rows, columns), matrix[rows, columns])
    np.testing.assert_array_equal(scores.take(np.array([1, 4, 7])).gather(), matrix[[1, 4, 7]])
    np.testing.assert_array_equal(scores.select(columns).gather(), matrix[:, columns])
    np.testing.assert_array_equal(scores.select(columns).gather(np.array([2, 0])), matrix[:, [0, 3]])
    blocks = list(scores.blocks(np.array([2, 5])))
    assert np.concatenate([rows for rows, _ in blocks]).tolist() == list(range(N))
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), matrix[:, [2, 5]])
    np.testing.assert_array_equal(scores.pairs.scores, matrix.ravel())
    assert as_scores(scores) is scores


def test_ranks_among_all_kept_scores_are_those_of_the_matrix(scores, matrix):
    mask = np.random.default_rng(1).random((N, C)) < 0.3
    (found,), (expected,) = ranks_of(scores, np.nonzero(mask)), ranks_of(matrix, np.nonzero(mask))
    order = [np.lexsort((ranks.rows, ranks.ge, ranks.columns)) for ranks in (found, expected)]
    for one, other in zip(found[:5], expected[:5], strict=True):
        np.testing.assert_array_equal(one[order[0]], other[order[1]])
    np.testing.assert_array_equal(found.counts, expected.counts)


def test_a_known_positive_that_is_not_among_the_highest_has_the_last_rank(matrix):
    low = matrix.argmin(1)
    top = InMemory(matrix).highest(3, (np.arange(N), low))
    assert not top.complete
    (ranks,) = ranks_of(top, (np.arange(N), low))
    assert (ranks.ge == N).all()
    kept = np.zeros((N, C), int)
    np.put_along_axis(kept, highest(matrix, 3), 1, axis=1)
    np.testing.assert_array_equal(ranks.gt, kept.sum(0)[ranks.columns])


def test_of_equal_scores_the_first_are_the_highest():
    scores = np.array([[1, 2, 2, 2, 0], [0, 0, 0, 0, 0], [3, -np.inf, 3, 4, 4]], np.float32)
    assert highest(scores, 2).tolist() == [[1, 2], [0, 1], [3, 4]]
    assert highest(scores, 9).tolist() == [[1, 2, 3, 0, 4], [0, 1, 2, 3, 4], [3, 4, 0, 2, 1]]
    assert highest(scores, 0).shape == (3, 0)


def test_a_score_that_is_not_a_number_is_named():
    scores = np.zeros((3, 2), np.float32)
    scores[2, 1] = np.nan
    with pytest.raises(ValueError, match="row 2, column 1 is NaN"):
        ranks_of(InMemory(scores), (np.array([0]), np.array([1])))
