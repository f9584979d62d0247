"""Metrics against full labels in blocks of samples: the values of all scores at once."""

from __future__ import annotations

import numpy as np
import pytest

from spml.decisions import Decision
from spml.labels import ObservedLabels
from spml.metrics import register_metric, registry
from spml.runs.evaluate import Measured, measure_runs
from spml.scores import InMemory, forms
from tests.helpers.slow import in_blocks

COLUMNS = [4, 0, 2, 5, 1, 6]
"""The data lists six of eight classes, in an order of its own."""


def values(result):
    """All numbers of a result, by their path."""
    if isinstance(result, dict):
        return {
            f"{key}.{path}": value for key, part in result.items() for path, value in values(part).items()
        }
    if isinstance(result, (list, tuple)):
        return values(dict(enumerate(result)))
    return {"": result}


@pytest.mark.parametrize("limit", [1 << 28, 0], ids=["columns kept", "counted"])
@pytest.mark.parametrize(
    "decision",
    [
        Decision(0.4, never=(0,), top1_fallback=True),
        Decision((0.1, -0.2, np.inf, 0.3, 0.0, 0.5, 0.2, 0.1), never=(2, 7)),
        Decision(None, top_k=2),
    ],
    ids=["one threshold", "one for each class", "top k"],
)
def test_blocks_give_the_values_of_the_whole(decision, limit, monkeypatch):
    monkeypatch.setattr(forms, "MOST_SCORES", limit)
    # So that metrics of many classes are among them.
    few = {name: ("", metric._replace(fewest_classes=1)) for name, metric in registry.metrics().items()}
    monkeypatch.setattr(registry._REGISTRY, "entries", few)
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(40, 8)).astype(np.float32).round(1)  # with ties
    full = (rng.random((40, 6)) < 0.25).astype(np.int8)
    full[:9] = 0  # a block without a positive
    full[:, 3] = 0
    truth = ObservedLabels.from_multi_hot(full, unlisted="negative")
    classes = tuple("abcdef")

    def calibrated(scores):
        return 1 / (1 + np.exp(-scores))

    whole = measure_runs(
        {"r": Measured(lambda: InMemory(logits), decision, COLUMNS, calibrated)},
        truth, classes, "zero", draws=0, seed=0,
    )  # fmt: skip
    run = Measured(lambda: in_blocks(logits, 7), decision, COLUMNS, calibrated)
    blocks = measure_runs({"r": run}, truth, classes, "zero", draws=0, seed=0)
    assert blocks.pop("not_measured") == []
    assert set(whole["runs"]["r"]) >= {"mAP", "thresholded", "top_k", "propensity_scored_top_k"}
    expected, found = values(whole), values(blocks)
    assert list(found) == list(expected)
    for path, value in expected.items():
        if "calibration" in path:
            assert found[path] == pytest.approx(value, rel=1e-12), path
        else:
            assert found[path] == value, path


def test_a_metric_that_needs_all_scores_is_named(monkeypatch):
    monkeypatch.setattr(registry._REGISTRY, "entries", dict(registry._REGISTRY.entries))
    register_metric("spread", "Spread of the scores")(lambda data: float(np.ptp(data.scores)))
    truth = ObservedLabels.from_multi_hot([[1, 0], [0, 1]], unlisted="negative")
    run = Measured(lambda: in_blocks(np.eye(2, dtype=np.float32), 1), Decision(0.5), [0, 1])
    result = measure_runs({"r": run}, truth, ("a", "b"), "exclude", draws=0, seed=0)
    assert result["not_measured"] == ["Spread of the scores"]
    assert "spread" not in result["runs"]["r"]
    assert result["runs"]["r"]["mAP"] == 1
    assert "calibration" not in result["runs"]["r"]
