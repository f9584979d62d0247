"""Audits on the highest scores of each sample equal those on all scores where nothing was left out."""

import numpy as np
import pytest

from spml.audit import (
    HiddenLabels,
    class_report,
    find_missing_labels,
    health_summary,
    rank_missing_labels,
    rank_wrong_labels,
)
from spml.common.errors import InputError
from spml.labels import ObservedLabels
from spml.scores import InMemory, TopScores
from tests.audit.simulated import simulate


def highest(data, k):
    labels = ObservedLabels.from_index(data.labels, data.scores.shape[1])
    return labels, InMemory(data.scores).highest(k, labels.entries(1))


@pytest.fixture(scope="module")
def data():
    return simulate(800, 30, 0)


def test_everything_is_the_same_where_nothing_was_left_out(data):
    labels, top = highest(data, 30)
    k = data.mean_labels
    all_of_it, kept = (HiddenLabels.from_mean_labels(labels, each, k) for each in (data.scores, top))
    assert np.allclose(all_of_it.per_class, kept.per_class, rtol=1e-12)
    assert (all_of_it.find() == kept.find()).all()
    assert all_of_it.find().any()
    assert (all_of_it.count(), all_of_it.unknown) == (kept.count(), kept.unknown)
    lists = [rank_missing_labels(labels, each, mean_labels=k, top=500) for each in (data.scores, top)]
    for expected, found in zip(*lists, strict=True):
        assert np.allclose(expected, found, rtol=1e-12)
    doubted = [rank_wrong_labels(labels, each, mean_labels=k) for each in (data.scores, top)]
    assert len(doubted[0].rows)
    for expected, found in zip(*doubted, strict=True):
        assert np.allclose(expected, found, rtol=1e-12)
    reports = [class_report(labels, each, mean_labels=k) for each in (data.scores, top)]
    for expected, found in zip(*reports, strict=True):
        assert expected.separation == pytest.approx(found.separation, rel=1e-12)
        assert (expected.known, expected.reason) == (found.known, found.reason)


def test_totals_count_what_was_left_out(data):
    labels, top = highest(data, 12)
    dense = health_summary(labels, data.scores, mean_labels=data.mean_labels)
    kept = health_summary(labels, top, mean_labels=data.mean_labels)
    assert kept["expected_hidden"] == pytest.approx(dense["expected_hidden"], rel=0.1)
    lists = [
        rank_missing_labels(labels, s, mean_labels=data.mean_labels, top=300) for s in (data.scores, top)
    ]
    assert (lists[0].rows == lists[1].rows).all()
    assert (lists[0].columns == lists[1].columns).all()
    assert np.abs(lists[0].probability - lists[1].probability).mean() < 0.05


@pytest.mark.long
def test_a_mask_that_does_not_fit_is_refused():
    samples, classes = 20, 20_000_000
    top = TopScores(
        np.arange(0, 3 * samples + 1, 3),
        np.tile(np.arange(3), samples),
        np.tile(np.float32([3, 1, 0.5]), samples),
        np.full(samples, 0.5, np.float32),
        classes,
    )
    labels = ObservedLabels.from_index(np.zeros(samples, int), classes)
    with pytest.raises(InputError, match=r"20,000,000 classes would take 0\.4 GB: .*rank_missing_labels"):
        find_missing_labels(labels, top, mean_labels=1.5)
