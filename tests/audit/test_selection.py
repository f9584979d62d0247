"""Which of several models is best, by observed labels and by fully labelled samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from spml.audit.selection import select_by_audit
from spml.metrics import compare_models, paired_resamples, sample_warnings
from tests.helpers.audits import world


def of(scores, rows):
    return {name: values[rows] for name, values in scores.items()}


def slow_map(scores, truth):
    columns = [c for c in range(truth.shape[1]) if truth[:, c].any()]
    return np.mean([average_precision_score(truth[:, c], scores[:, c]) for c in columns])


@pytest.fixture
def models():
    """Scores of three models that are ever noisier, with observed labels and all labels."""
    p, truth, labels = world(3, samples=120, classes=5)
    noise = np.random.default_rng(0).normal(size=(3, *p.shape))
    logits = np.log(p / (1 - p))
    levels = {"c": 3.0, "a": 0.5, "b": 1.0}
    scores = {name: logits + level * noise[k] for k, (name, level) in enumerate(levels.items())}
    return scores, (labels, truth)


@pytest.mark.long
def test_distances_are_those_of_a_slow_bootstrap(models):
    scores, (labels, truth) = models
    rows = np.random.default_rng(1).permutation(120)[:40]
    selection = select_by_audit(scores, labels, 2.0, of(scores, rows), truth[rows], draws=60, seed=4)
    comparison = compare_models(scores, labels, 2.0, 60, 4)
    assert [contender.observed for contender in selection.contenders.values()] == list(comparison.candidates)
    assert selection.warnings == sample_warnings(120, 5, 2.0)
    reference = selection.by_observed
    assert reference == comparison.tie_set[0]
    drawn = {name: [] for name in scores}
    for counts in paired_resamples(truth[rows], 60, 4)[1:]:
        chosen = np.repeat(rows, counts)
        for name, values in scores.items():
            drawn[name].append(slow_map(values[chosen], truth[chosen]))
    drawn = {name: np.array(values) for name, values in drawn.items()}
    for name, contender in selection.contenders.items():
        value, best = (slow_map(scores[one][rows], truth[rows]) for one in (name, reference))
        assert contender.audited.value == pytest.approx(value)
        assert contender.audited.margin == pytest.approx(1.96 * drawn[name].std(ddof=1))
        z = (best - value) / (drawn[reference] - drawn[name]).std(ddof=1) if name != reference else 0
        assert contender.z_audited == pytest.approx(z)
        assert contender.z == pytest.approx((contender.observed.z + z) / math.sqrt(2))


def test_the_best_of_both_and_its_lead(models):
    scores, (labels, truth) = models
    rows = np.arange(100)
    selection = select_by_audit(scores, labels, 2.0, of(scores, rows), truth[rows], draws=60)
    assert (selection.by_observed, selection.by_audit, selection.best) == ("a", "a", "a")
    # The lead over the next one does not depend on the third.
    of_two = {name: scores[name] for name in "ab"}
    pair = select_by_audit(of_two, labels, 2.0, of(of_two, rows), truth[rows], draws=60)
    assert selection.lead == pair.lead == pytest.approx(pair.contenders["b"].z)
    alone = select_by_audit({"b": scores["b"]}, labels, 2.0, of(scores, rows), truth[rows], draws=60)
    assert (alone.best, alone.lead, alone.contenders["b"].z) == ("b", math.inf, 0)


def test_the_lead_is_that_between_the_two_best_also_where_both_beat_the_best_by_the_sp_score(models):
    noisy, (labels, truth) = models
    noise = np.random.default_rng(5).normal(size=(3, *truth.shape))
    scores = {name: noisy["a"] + 0.3 * noise[number] for number, name in enumerate("xyz")}
    reference, second, third = compare_models(scores, labels, 2.0, 60).tie_set
    audited = {reference: noisy["c"], second: noisy["b"], third: noisy["a"]}
    selection = select_by_audit(scores, labels, 2.0, audited, truth, draws=60)
    order = sorted(scores, key=lambda name: selection.contenders[name].z)
    assert order[2] == selection.by_observed == reference
    pair = {name: scores[name] for name in order[:2]}
    between = select_by_audit(pair, labels, 2.0, audited, truth, draws=60).contenders
    assert selection.lead == pytest.approx(between[order[1]].z - between[order[0]].z)
    apart = selection.contenders[order[1]].z - selection.contenders[order[0]].z
    assert selection.lead != pytest.approx(apart, rel=0.05)


def test_a_clear_audit_outvotes_the_sp_score(models):
    scores, (labels, truth) = models
    rows = np.arange(100)
    pair = {name: scores[name] for name in "ab"}
    selection = select_by_audit(pair, labels, 2.0, of(pair, rows), truth[rows], draws=60)
    assert selection.best == "a"
    against = select_by_audit(pair, labels, 2.0, of(pair, rows), pair["b"][rows] > 1, draws=60)
    assert (against.by_observed, against.by_audit, against.best) == ("a", "b", "b")
    assert against.contenders["b"].z_audited < 0 < against.contenders["b"].observed.z
    assert against.contenders["b"].z < 0
    assert against.lead == pytest.approx(-against.contenders["b"].z)


def test_equal_models_are_not_apart(models):
    scores, (labels, truth) = models
    rows = np.arange(50)
    equal = {"x": scores["a"], "y": scores["a"].copy()}
    selection = select_by_audit(equal, labels, 2.0, of(equal, rows), truth[rows], draws=60)
    assert selection.lead == 0
    assert [contender.z for contender in selection.contenders.values()] == [0, 0]
