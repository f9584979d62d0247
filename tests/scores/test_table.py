"""Scores that come in parts, kept in full or the highest of each sample."""

from __future__ import annotations

import numpy as np
import pytest

from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.runs.folder.held_out import all_scores
from spml.scores import InMemory, ScoreBlocks, ScoreTable, TopScores, forms

N, C, K = 7, 40, 5


@pytest.fixture
def scores():
    return np.random.default_rng(0).normal(size=(N, C)).round(1).astype(np.float32)


@pytest.fixture
def labels():
    return ObservedLabels.from_index([3, 0, 39, 7, 7, 20, 1], C)


def expected_entries(scores, labels, k):
    """The k highest of each sample, of equal ones the first, and the known positive; by class."""
    kept = []
    for row, known in zip(scores, labels.index, strict=True):
        best = np.argsort(-row, kind="stable")[:k]
        kept.append(sorted({*best.tolist(), int(known)}))
    return kept


def highest_scores(scores, labels, k):
    return InMemory(scores).highest(k, labels.entries(1))


def columns_by_sample(top):
    return [part.tolist() for part in np.split(top.columns, top.starts[1:-1])]


def test_all_scores_in_any_order(scores, labels):
    table = ScoreTable(labels)
    assert not table.highest
    table.put(np.array([5, 1]), InMemory(scores[[5, 1]]))
    blocks = ScoreBlocks(5, C, lambda columns: iter([scores[[6, 0]], scores[[2, 3, 4]]]))
    table.put(np.array([6, 0, 2, 3, 4]), blocks)
    assert (table.finish().array == scores).all()


def test_the_highest_in_any_order(scores, labels, monkeypatch):
    monkeypatch.setattr("spml.scores.forms.HIGHEST", K)
    table = ScoreTable(labels, highest=True)
    table.put(np.array([5, 1]), InMemory(scores[[5, 1]]))
    table.put(np.array([3]), highest_scores(scores[[3]], labels.take([3]), K))
    blocks = ScoreBlocks(4, C, lambda columns: iter([scores[[6, 0]], scores[[2, 4]]]))
    table.put(np.array([6, 0, 2, 4]), blocks)
    top = table.finish()
    assert isinstance(top, TopScores)
    assert columns_by_sample(top) == expected_entries(scores, labels, K)
    assert (top.scores == scores[top.rows, top.columns]).all()
    assert (top.floors == np.sort(scores, 1)[:, -K]).all()


def test_no_more_entries_than_fit_are_kept_of_all_samples(scores, labels, monkeypatch):
    monkeypatch.setattr("spml.scores.forms.MOST_ENTRIES", 3 * N)
    table = ScoreTable(labels, highest=True)
    table.put(np.arange(N), InMemory(scores))
    assert columns_by_sample(table.finish()) == expected_entries(scores, labels, 3)


def test_too_many_scores_are_not_kept_in_full(labels, monkeypatch):
    assert not ScoreTable(labels).highest
    monkeypatch.setattr(forms, "MOST_SCORES", N * C - 1)
    assert ScoreTable(labels).highest


def test_blocks_make_no_difference(scores, labels, monkeypatch):
    whole = highest_scores(scores, labels, K)
    monkeypatch.setattr("spml.scores.forms._BLOCK", 2 * C)
    parts = highest_scores(scores, labels, K)
    for expected, found in ((whole.starts, parts.starts), (whole.columns, parts.columns),
                            (whole.scores, parts.scores), (whole.floors, parts.floors)):  # fmt: skip
        assert (expected == found).all()


def test_some_samples_of_either_form(scores, labels):
    rows = np.array([4, 0])
    assert (InMemory(scores).take(rows).array == scores[rows]).all()
    taken = highest_scores(scores, labels, K).take(rows)
    assert columns_by_sample(taken) == [expected_entries(scores, labels, K)[row] for row in rows]


def test_scores_that_were_left_out_are_as_high_as_they_can_be(scores, labels, monkeypatch):
    assert all_scores(InMemory(scores), "A figure") is scores
    top = highest_scores(scores, labels, K)
    dense = all_scores(top, "A figure")
    kept = np.zeros((N, C), bool)
    kept[top.rows, top.columns] = True
    assert (dense[kept] == scores[kept]).all()
    assert (dense[~kept] == np.broadcast_to(top.floors[:, None], (N, C))[~kept]).all()
    assert (dense >= scores).all()
    monkeypatch.setattr(forms, "MOST_SCORES", N * C - 1)
    with pytest.raises(InputError, match=r"A figure compares .* 7 samples and 40 classes do not fit"):
        all_scores(top, "A figure")


def test_a_score_that_was_left_out_is_not_a_number(scores, labels):
    top = highest_scores(scores, labels, K)
    best, worst = scores.argmax(1), np.where(scores.argmin(1) == labels.index, -1, scores.argmin(1))
    assert (top.at(np.arange(N), best) == scores.max(1)).all()
    assert np.isnan(top.at(np.arange(N), worst)[worst >= 0]).all()
    assert (top.at(np.arange(N), labels.index) == scores[np.arange(N), labels.index]).all()


def test_as_many_scores_as_classes_leave_nothing_out(scores, labels):
    top = highest_scores(scores, labels, C)
    assert (top.scores.reshape(N, C) == scores).all()
    assert np.isneginf(top.floors).all()
    assert not top.pairs.left_out.any()
