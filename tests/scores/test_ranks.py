"""Ranks among scores in blocks: the same integers as among all scores at once."""

from __future__ import annotations

import numpy as np
import pytest

from spml.metrics import observed_ranks, ranks_of
from spml.scores import forms
from spml.scores.ranks import rank_positives
from tests.helpers.slow import in_blocks


def drawn(seed):
    """Scores, of which half have many ties, and two masks of positives; some classes have none."""
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 60), rng.integers(2, 30)
    scores = rng.integers(-3, 4, shape) if seed % 2 else rng.normal(size=shape)
    scores = scores.astype(np.float32)
    scores[rng.random(shape) < 0.05] = rng.choice([np.inf, -np.inf, 0.0])
    masks = [rng.random(shape) < share for share in (rng.choice([0.02, 0.3, 0.9]), 0.1)]
    for mask in masks:
        mask[:, rng.integers(shape[1])] = False
        mask[rng.integers(shape[0]), 0] = True
    return scores, masks


def assert_equal(found, expected):
    for name, one, other in zip(found._fields, found, expected, strict=True):
        assert one.dtype == other.dtype, name
        np.testing.assert_array_equal(one, other, err_msg=name)


@pytest.mark.parametrize("limit", [1 << 28, 0], ids=["columns kept", "counted"])
@pytest.mark.parametrize("seed", range(8))
def test_ranks_of_blocks_are_those_of_the_matrix(seed, limit, monkeypatch):
    monkeypatch.setattr(forms, "MOST_SCORES", limit)
    scores, masks = drawn(seed)
    for size in (1, 7, 100):
        found = ranks_of(in_blocks(scores, size), *(np.nonzero(mask) for mask in masks))
        for ranks, mask in zip(found, masks, strict=True):
            assert_equal(ranks, rank_positives(scores, mask))


def test_one_look_where_the_columns_fit_and_two_where_not(monkeypatch):
    scores, (first, second) = drawn(4)
    entries = [np.nonzero(mask) for mask in (first, second)]
    columns = np.flatnonzero(first.any(0) | second.any(0))
    for limit, count in ((columns.size * len(scores), 1), (columns.size * len(scores) - 1, 2)):
        monkeypatch.setattr(forms, "MOST_SCORES", limit)
        looks = []
        ranks_of(in_blocks(scores, 10, looks), *entries)
        assert len(looks) == count
        for look in looks:
            np.testing.assert_array_equal(look, columns)


def test_ranks_of_observed_indices():
    scores = drawn(2)[0]
    index = np.random.default_rng(0).integers(scores.shape[1], size=len(scores))
    matrix = np.zeros(scores.shape, np.int8)
    matrix[np.arange(len(scores)), index] = 1
    (found,) = ranks_of(scores, (np.arange(len(scores)), index))
    for expected in (observed_ranks(scores, index), observed_ranks(scores, matrix)):
        assert_equal(found, expected)
    assert_equal(found, rank_positives(scores, matrix == 1))


def test_known_negatives_and_unknown_labels_rank_alike():
    scores, (mask, _) = drawn(6)
    labels = np.where(mask, 1, np.random.default_rng(1).integers(-1, 1, scores.shape)).astype(np.int8)
    (found,) = ranks_of(in_blocks(scores, 9), np.nonzero(labels == 1))
    assert_equal(found, observed_ranks(scores, labels))
