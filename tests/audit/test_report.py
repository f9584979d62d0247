"""Reports on classes, health, and warnings."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spml.audit import HiddenLabels, class_report, health_summary
from spml.decisions import fit_probabilities
from tests.audit.simulated import simulate


@pytest.fixture(scope="module")
def data():
    data = simulate(400, 6, seed=4)
    return data._replace(scores=np.round(data.scores, 1))  # with ties


def test_a_class_has_its_counts_and_its_separation(data):
    hidden = HiddenLabels.from_mean_labels(data.labels, data.scores, data.mean_labels)
    _, priors = fit_probabilities(data.scores, hidden.labels, hidden.priors)
    report = class_report(data.labels, data.scores, mean_labels=data.mean_labels, class_names=[*"abcdef"])
    assert [each.label for each in report] == [*"abcdef"]
    for column, each in enumerate(report):
        known = data.labels == column
        assert each.known == known.sum()
        assert each.prior == pytest.approx(priors.shares[column])
        assert each.hidden == pytest.approx(hidden.per_class[column])
        assert each.separation == pytest.approx(roc_auc_score(known, data.scores[:, column]))
        assert each.learnable
        assert not each.reason
    assert class_report(data.labels, data.scores, mean_labels=2)[1].label == "1"


def test_a_class_is_not_learnable_without_labels_or_without_separation(data):
    generator = np.random.default_rng(0)
    labels, scores = data.labels.copy(), data.scores.copy()
    keep = (labels != 0) & ((labels != 1) | (np.cumsum(labels == 1) <= 9))
    labels, scores = labels[keep], scores[keep]
    scores[:, 2] = generator.normal(size=len(scores))
    reasons = [each.reason for each in class_report(labels, scores, mean_labels=data.mean_labels)]
    assert reasons == [
        "no known positive",
        "fewer than 10 known positives",
        "scores hardly tell it from other classes",
        "",
        "",
        "",
    ]


def test_chance_counts_for_classes_with_few_labels():
    """A separation of .65 is convincing with 40 known positives, but not with 10."""
    reasons = []
    for known in (10, 40):
        scores = np.zeros((400, 2))
        scores[:, 0] = np.arange(400)
        other = np.setdiff1d(np.arange(400), rows := np.linspace(120, 399, known).astype(int))
        labels = np.ones(400, np.int64)
        labels[rows] = 0
        each = class_report(labels, scores, mean_labels=1.2)[0]
        auc = np.mean([[mine > theirs for theirs in other] for mine in rows])
        assert each.separation == pytest.approx(auc)
        assert 0.6 < auc < 0.68
        reasons.append(each.reason)
    assert reasons == ["scores hardly tell it from other classes", ""]


def test_health_counts_what_is_missing(data):
    hidden = HiddenLabels.from_mean_labels(data.labels, data.scores, data.mean_labels)
    health = health_summary(data.labels, data.scores, mean_labels=data.mean_labels)
    samples = len(data.labels)
    assert (health["samples"], health["classes"], health["known_positives"]) == (samples, 6, samples)
    assert health["mean_labels"] == data.mean_labels
    assert health["share_missing"] == pytest.approx(1 - 1 / data.mean_labels)
    assert health["expected_hidden"] == pytest.approx(hidden.per_class.sum())
    assert health["probably_missing"] == hidden.find().sum()
    assert health["not_learnable"] == []
    assert "uniform draw" in health["warnings"][0]
    assert len(health["warnings"]) == 1
    few = health_summary(data.labels[:90], data.scores[:90], mean_labels=data.mean_labels)
    assert any("Only 90 samples" in line for line in few["warnings"])
    truth = data.truth.sum() - samples
    assert health["expected_hidden"] == pytest.approx(truth, rel=0.1)
