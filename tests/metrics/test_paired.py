"""Metrics on bootstrap draws: those of the repeated rows; intervals and differences of several models."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, precision_recall_fscore_support

from spml.metrics import LabelledScores, compare_paired, drawn_metrics, metrics, resamples, top_k

CLASSES = tuple("abcdef")


def problem(seed=0, samples=50, **more):
    rng = np.random.default_rng(seed)
    truth = np.where(rng.random((samples, 6)) < 0.3, 1, -1).astype(np.int8)
    truth[:, 4] = np.where(np.arange(samples) == 7, 1, -1)  # drawn in some draws only
    truth[3] = -1
    scores = (truth + rng.normal(size=(samples, 6))).astype(np.float32).round(1)
    return LabelledScores(scores, truth, CLASSES, 0.5, **more)


def draws(samples=50, count=30):
    (drawn,) = resamples(samples, count, seed=1)
    return np.concatenate([np.ones((1, samples), int), drawn])


@pytest.mark.parametrize("empty", ["exclude", "zero"])
def test_metrics_of_a_draw_are_those_of_scikit_learn_on_the_repeated_rows(empty):
    data, multiplicity = problem(empty=empty), draws()
    found = drawn_metrics(data, multiplicity)
    assert 0 < (multiplicity[:, 7] == 0).sum() < 30
    for number, drawn in enumerate(multiplicity):
        rows = np.repeat(np.arange(50), drawn)
        truth, scores = data.truth[rows] == 1, data.scores[rows]
        ap = [
            average_precision_score(truth[:, c], scores[:, c]) if truth[:, c].any() else None
            for c in range(6)
        ]
        defined = [value for value in ap if value is not None]
        expected = {"mAP": sum(defined) / (6 if empty == "zero" else len(defined))}
        for average in ("micro", "macro"):
            values = precision_recall_fscore_support(truth, scores >= 0.5, average=average, zero_division=0)
            names = [f"{average}_{name}" for name in ("precision", "recall", "F1")]
            expected |= dict(zip(names, values[:3], strict=True))
        for k in (1, 3, 5):
            values = top_k(scores, truth, k)
            expected |= dict(zip((f"P@{k}", f"R@{k}", f"hit@{k}"), values, strict=True))
        assert {name: values[number] for name, values in found.items()} == pytest.approx(expected, rel=1e-6)


def test_the_draw_of_every_sample_gives_the_registered_metrics():
    data = problem()
    found = {name: values[0] for name, values in drawn_metrics(data, draws()).items()}
    report = {name: metric.measure(data) for name, metric in metrics().items()}
    assert found["mAP"] == pytest.approx(report["mAP"], rel=1e-12)
    assert found["macro_recall"] == pytest.approx(report["thresholded"]["macro"]["recall"], rel=1e-12)
    assert found["hit@3"] == pytest.approx(report["top_k"]["3"]["hit"], rel=1e-12)


def test_what_is_decided_and_what_is_never_predicted_counts():
    chosen = problem().scores > 1.0
    data = problem(decided=chosen)
    found = drawn_metrics(data, draws())
    expected = precision_recall_fscore_support(data.truth == 1, chosen, average="micro", zero_division=0)
    assert [found[f"micro_{name}"][0] for name in ("precision", "recall", "F1")] == pytest.approx(
        expected[:3]
    )
    without = problem(never=(0, 1))
    tags = without.scores >= 0.5
    tags[:, :2] = False
    found = drawn_metrics(without, draws())
    expected = precision_recall_fscore_support(data.truth == 1, tags, average="macro", zero_division=0)
    assert [found[f"macro_{name}"][0] for name in ("precision", "recall", "F1")] == pytest.approx(
        expected[:3]
    )
    others = np.where([True, True, *[False] * 4], -99.0, data.scores)
    assert found["P@3"][0] == pytest.approx(top_k(others, data.truth, 3).precision)
    assert [name for name in found if name.startswith("P@")] == ["P@1", "P@3"]  # of four classes
    assert found["mAP"][0] == pytest.approx(drawn_metrics(data, draws())["mAP"][0])


def test_models_are_compared_on_the_same_draws():
    rng = np.random.default_rng(3)
    common = rng.normal(size=80) / 50
    drawn = {
        "low": {"mAP": 0.5 + np.concatenate([[0], common]), "P@1": np.full(81, 0.9)},
        "high": {
            "mAP": 0.6 + np.concatenate([[0], common]),
            "P@1": np.concatenate([[0.8, 1.0], np.full(79, 0.8)]),
        },
        "near": {"mAP": 0.59 + np.concatenate([[0], rng.normal(size=80) / 50]), "P@1": np.full(81, 0.9)},
    }
    found = compare_paired(drawn)
    deviation = 1.96 * common.std(ddof=1)
    low = found["low"]["mAP"]
    assert (low.value, low.low, low.high) == pytest.approx((0.5, 0.5 - deviation, 0.5 + deviation))
    # What moves both models alike cancels, so that intervals overlap although the difference is certain.
    assert low[2:] == pytest.approx((0.1, 0.0))
    assert found["high"]["mAP"][2:] == (0.0, 0.0)
    assert [found[name]["mAP"].tied for name in drawn] == [False, True, True]
    assert [found[name]["P@1"].behind for name in drawn] == pytest.approx([0.0, 0.1, 0.0])
    spread = 1.96 * np.std(drawn["high"]["P@1"][1:], ddof=1)
    assert found["high"]["P@1"].behind_margin == pytest.approx(spread)


def test_an_interval_does_not_leave_the_range_of_the_metric():
    values = np.array([0.99, 0.9, 1.0, 0.8])
    (score,) = compare_paired({"a": {"mAP": values}})["a"].values()
    assert score.high == 1.0
    (score,) = compare_paired({"a": {"mAP": 1 - values}})["a"].values()
    assert score.low == 0.0
