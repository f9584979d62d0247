"""Missing labels of arrays: probabilities, lists, yields."""

from __future__ import annotations

import numpy as np
import pytest

from spml.audit import (
    HiddenLabels,
    expected_yield,
    find_missing_labels,
    rank_missing_labels,
)
from spml.common.errors import InputError
from spml.decisions import fit_calibration, priors_from_shares
from spml.labels import ObservedLabels
from tests.audit.simulated import simulate


@pytest.fixture(scope="module")
def data():
    return simulate(300, 6, seed=1)


def ternary(data):
    return ObservedLabels.from_index(data.labels, data.scores.shape[1]).to_ternary()


def slow_hidden(data):
    """Probability that each pair is hidden, one after the other."""
    labels = ternary(data)
    calibration = fit_calibration(data.scores, labels, priors_from_shares(labels.sum(0), data.mean_labels))
    return np.array(
        [
            [
                float(np.interp(score, calibration.scores, calibration.hidden)) if label == 0 else 0.0
                for score, label in zip(*row, strict=True)
            ]
            for row in zip(data.scores.astype(float), labels, strict=True)
        ]
    )


def slow_list(scores, labels, hidden, top, per_class, least):
    """The list as plain Python makes it."""
    pairs = [
        (-scores[row, column], row, column)
        for row in range(len(scores))
        for column in range(scores.shape[1])
        if labels[row, column] == 0 and hidden[row, column] >= least
    ]
    listed, seen = [], {}
    for _, row, column in sorted(pairs):
        seen[column] = seen.get(column, 0) + 1
        if not per_class or seen[column] <= per_class:
            listed.append((row, column, seen[column]))
    return listed[: top or None]


def test_probabilities_are_those_of_the_definition(data):
    small = data._replace(labels=data.labels[:40], scores=data.scores[:40])
    hidden = HiddenLabels.from_mean_labels(small.labels, small.scores, small.mean_labels)
    expected = slow_hidden(small)
    ((block, found),) = hidden.blocks()
    assert block.start == 0
    np.testing.assert_allclose(found, expected, atol=1e-5)
    known = np.bincount(small.labels, minlength=6)
    np.testing.assert_allclose(hidden.per_class, np.maximum(40 * hidden.priors.shares - known, 0))
    assert hidden.per_class.sum() == pytest.approx(40 * (small.mean_labels - 1), rel=1e-6)
    assert hidden.count(0.3) == (expected > 0.3).sum() > 0


def test_a_label_is_found_where_it_is_more_likely_there_than_not(data):
    found = find_missing_labels(data.labels, data.scores, mean_labels=data.mean_labels)
    hidden = np.concatenate(
        [part for _, part in HiddenLabels.from_mean_labels(*data[:2], data.mean_labels).blocks()]
    )
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, hidden > 0.5)
    assert not found[np.arange(len(found)), data.labels].any()
    assert (
        0
        < found.sum()
        < find_missing_labels(*data[:2], mean_labels=data.mean_labels, min_probability=0.2).sum()
    )


@pytest.mark.parametrize(
    ("top", "per_class", "least"), [(0, 0, 0.0), (50, 0, 0.0), (0, 7, 0.0), (25, 9, 0.0), (40, 12, 0.2)]
)
@pytest.mark.parametrize("entries", [1 << 20, 60])
def test_the_list_is_that_of_a_plain_sort(data, monkeypatch, entries, top, per_class, least):
    scores = np.round(data.scores, 1)  # with ties
    hidden = np.zeros(scores.shape)
    for block, part in HiddenLabels.from_mean_labels(data.labels, scores, 2.0).blocks():
        hidden[block] = part
    monkeypatch.setattr("spml.scores.forms._PAIRS", entries)
    listed = rank_missing_labels(
        data.labels, scores, mean_labels=2.0, top=top, per_class=per_class, min_probability=least
    )
    expected = slow_list(scores, ternary(data), hidden, top, per_class, least)
    assert list(zip(listed.rows, listed.columns, listed.rank_in_class, strict=True)) == expected
    np.testing.assert_array_equal(listed.rank, np.arange(1, len(expected) + 1))
    np.testing.assert_allclose(listed.probability, hidden[listed.rows, listed.columns], rtol=1e-9)
    assert len(expected) > 20


def test_all_forms_of_labels_mean_the_same(data):
    forms = (
        data.labels,
        data.labels.tolist(),
        ternary(data),
        ternary(data).astype(np.float64),
        ObservedLabels.from_index(data.labels, 6),
    )
    first, *others = (rank_missing_labels(form, data.scores, mean_labels=2, top=20) for form in forms)
    for other in others:
        for mine, theirs in zip(first, other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_known_negatives_and_classes_without_positives_are_never_listed(data):
    labels = ternary(data)
    column = int((labels == 1).sum(0).argmin())
    labels = labels[labels[:, column] != 1]
    scores = data.scores[ternary(data)[:, column] != 1].copy()
    scores[:, column] = 9.0
    labels[:30, (column + 1) % 6] = np.minimum(labels[:30, (column + 1) % 6] * 2 - 1, 1)
    listed = rank_missing_labels(labels, scores, mean_labels=2)
    assert column not in listed.columns
    assert (labels[listed.rows, listed.columns] == 0).all()
    assert len(listed.rows) == (labels == 0).sum() - (labels[:, column] == 0).sum()
    assert HiddenLabels.from_mean_labels(labels, scores, 2).per_class[column] == 0


def test_a_sample_without_a_known_positive_may_have_any_label(data):
    """Nothing was shown of it, so the probability is not lowered."""
    labels, scores = ternary(data), data.scores
    labels[0] = 0
    hidden = HiddenLabels.from_mean_labels(labels, scores, 2)
    np.testing.assert_allclose(next(hidden.blocks())[1][0], hidden.calibration(scores[0]))


def yields(seeds, length):
    """Expected minus true share of right labels in lists, per seed."""
    differences = []
    for seed in seeds:
        data = simulate(1500, 10, seed, 1.5, -2)
        listed = rank_missing_labels(data.labels, data.scores, mean_labels=data.mean_labels, top=length)
        hidden = data.truth.copy()
        hidden[np.arange(len(hidden)), data.labels] = False
        right = hidden[listed.rows, listed.columns].mean()
        differences.append(expected_yield(listed.probability).expected / length - right)
    return np.asarray(differences)


def test_the_expected_yield_is_right_for_most_lists():
    assert abs(yields(range(3), 1000).mean()) < 0.05


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        ([0.5] * 500, "about 250 of 500 (+-15 points if the shown label is a uniform draw)"),
        ([0.9] * 1371, "about 1,200 of 1,371 (+-15 points if the shown label is a uniform draw)"),
        ([0.1, 0.2], "fewer than 1 of 2 (+-15 points if the shown label is a uniform draw)"),
        # 996 to two digits is more than there are.
        ([1.0] * 996, "about 996 of 996 (+-15 points if the shown label is a uniform draw)"),
        ([], "0 of 0"),
    ],
)
def test_the_yield_is_told_without_false_precision(probability, text):
    told = expected_yield(probability)
    assert told.expected == pytest.approx(sum(probability))
    assert str(told) == text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean_labels": 1.0}, "no label is missing"),
        ({"mean_labels": 9.0}, "at most 6"),
        ({"scores": np.zeros((300, 5))}, "labels"),
        ({"scores": np.full((300, 6), np.nan)}, "NaN"),
        ({"scores": np.full((300, 6), np.inf)}, "finite"),
        ({"labels": np.full(300, 7)}, "row 0: class index 7"),
        ({"labels": np.full((300, 6), 2)}, r"row 0, column 0"),
        ({"labels": np.zeros((300, 6), np.int8)}, "known positive"),
        ({"labels": np.zeros(10, np.int64)}, "10 samples"),
        ({"top": -1}, "top"),
        ({"min_probability": 1.5}, "min_probability"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    arguments = {"labels": np.arange(300) % 6, "scores": np.ones((300, 6)), "mean_labels": 2.0}
    with pytest.raises(InputError, match=message):
        rank_missing_labels(**{**arguments, **change})


@pytest.mark.long
@pytest.mark.parametrize("length", [300, 1000])
def test_the_expected_yield_is_unbiased_where_a_uniform_draw_is_shown(length):
    differences = yields(range(30), length)
    assert abs(differences.mean()) < 0.03
    assert differences.std() > 0.005  # nothing of the truth has reached it
