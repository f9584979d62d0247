"""Given labels that look wrong."""

from __future__ import annotations

import numpy as np
import pytest

from spml.audit import HiddenLabels, rank_wrong_labels
from spml.common.errors import InputError
from tests.audit.simulated import simulate


def test_confidence_compares_with_the_most_probable_unknown_class():
    data = simulate(300, 5, seed=2)
    hidden = HiddenLabels.from_mean_labels(data.labels, data.scores, data.mean_labels)
    confidence = []
    for row, given in enumerate(data.labels.tolist()):
        p = [max(float(hidden.calibration(score)), 1e-12) for score in data.scores[row]]
        others = max(p[column] for column in range(5) if column != given)
        confidence.append(p[given] / (p[given] + others))
    found = rank_wrong_labels(data.labels, data.scores, mean_labels=data.mean_labels)
    assert set(found.rows.tolist()) == {row for row, value in enumerate(confidence) if value < 0.5}
    assert len(found.rows) > 5
    np.testing.assert_allclose(found.confidence, np.asarray(confidence)[found.rows], rtol=1e-9)
    np.testing.assert_array_equal(found.columns, data.labels[found.rows])
    assert (np.diff(found.confidence) >= 0).all()
    tied = np.diff(found.confidence) == 0
    assert (np.diff(data.scores[found.rows, found.columns])[tied] >= 0).all()
    assert found.rank.tolist() == list(range(1, len(found.rank) + 1))
    shorter = rank_wrong_labels(data.labels, data.scores, mean_labels=data.mean_labels, top=3)
    np.testing.assert_array_equal(shorter.rows, found.rows[:3])


def test_another_known_positive_does_not_speak_against_a_label():
    data = simulate(300, 5, seed=2)
    labels = np.zeros((len(data.labels), 5), np.int8)
    labels[np.arange(len(labels)), data.labels] = 1
    first = rank_wrong_labels(labels, data.scores, mean_labels=data.mean_labels, top=1)
    row, best = int(first.rows[0]), int(data.scores[first.rows[0]].argmax())
    labels[row] = -1
    labels[row, [best, int(first.columns[0])]] = 1
    found = rank_wrong_labels(labels, data.scores, mean_labels=data.mean_labels)
    assert row not in found.rows


def test_a_negative_number_of_labels_is_refused():
    with pytest.raises(InputError, match="top"):
        rank_wrong_labels([0, 1], [[1.0, 2.0, 0.0], [0.0, 1.0, 2.0]], mean_labels=1.5, top=-1)


def test_replaced_labels_are_found_more_often_than_by_chance():
    data, generator = simulate(1500, 10, seed=3, spread=2.5), np.random.default_rng(0)
    labels = data.labels.copy()
    for row in np.flatnonzero(generator.random(len(labels)) < 0.1):
        labels[row] = generator.choice(np.flatnonzero(~data.truth[row]))
    wrong = ~data.truth[np.arange(len(labels)), labels]
    found = rank_wrong_labels(labels, data.scores, mean_labels=data.mean_labels, top=100)
    share = wrong.mean()
    assert 0.08 < share < 0.12
    assert wrong[found.rows].mean() > 5 * share
