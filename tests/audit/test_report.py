"""Reports on classes, health, and warnings."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from spml.audit import HiddenLabels, class_report, health_summary
from spml.audit.report import summarise_classes, trust_warnings
from spml.decisions import Priors
from tests.audit.simulated import simulate


@pytest.fixture(scope="module")
def data():
    data = simulate(400, 6, seed=4)
    return data._replace(scores=np.round(data.scores, 1))  # with ties


def test_a_class_has_its_counts_and_its_separation(data):
    hidden = HiddenLabels.from_mean_labels(data.labels, data.scores, data.mean_labels)
    report = class_report(data.labels, data.scores, mean_labels=data.mean_labels, class_names=[*"abcdef"])
    assert [each.label for each in report] == [*"abcdef"]
    for column, each in enumerate(report):
        known = data.labels == column
        assert each.known == known.sum()
        assert each.prior == pytest.approx(data.mean_labels * known.mean())
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
    truth = data.truth.sum() - samples
    assert health["expected_hidden"] == pytest.approx(truth, rel=0.1)


def warnings(priors, samples, known=(20, 30, 50)):
    labels = np.repeat(np.arange(len(known)), known)
    scores = np.random.default_rng(0).normal(size=(len(labels), len(known)))
    report = summarise_classes(HiddenLabels.from_mean_labels(labels, scores, 1.5))
    return trust_warnings(priors, report, samples)


def test_what_limits_the_trust_is_told():
    shares = np.full(30, 0.1)
    uniform, *rest = warnings(Priors(shares, 2.0, "stated"), 1000)
    assert "uniform draw" in uniform
    assert any("many for 3 classes" in line for line in rest)
    assert any("Only 99 samples" in line for line in warnings(Priors(shares, 2.0, "stated"), 99))
    assert any("0.2" in line for line in warnings(Priors(shares, 1.2, "stated"), 1000))
    assert any(
        "1 of 3 class has fewer" in line
        for line in warnings(Priors(shares, 2.0, "stated"), 1000, (20, 9, 50))
    )
    audited = warnings(Priors(shares, 2.0, "audit", gamma=0.7), 1000)
    assert "gamma = 0.7" in audited[0]
    assert not any("uniform draw" in line for line in audited)


def test_enough_samples_and_an_unbiased_audit_leave_no_warning():
    assert warnings(Priors(np.full(3, 0.1), 0.3, "audit", gamma=0.9), 1000)[0].startswith("With 0.3 labels")
    labels = np.repeat(np.arange(40), 30)
    scores = np.random.default_rng(0).normal(size=(len(labels), 40))
    report = summarise_classes(HiddenLabels.from_mean_labels(labels, scores, 2.0))
    assert trust_warnings(Priors(np.full(40, 0.05), 2.0, "audit", gamma=0.9), report, 1200) == []
