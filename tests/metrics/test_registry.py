"""Registered metrics: the built-in ones, and one of another package."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spml.metrics import (
    LabelledScores,
    average_precision,
    cost_sensitive_hamming,
    mean_average_precision,
    metrics,
    precision_recall_f1,
    register_metric,
    top_k,
)
from tests.helpers.processes import finish_all

HAMMING_LOSS = '''
from spml.metrics import LabelledScores, register_metric


@register_metric("hamming_loss", "Hamming loss")
def hamming_loss(data: LabelledScores) -> float:
    """Share of the N x C labels that are predicted wrongly."""
    predicted = data.scores >= data.threshold
    return float((predicted != (data.truth == 1)).mean())
'''


@pytest.fixture
def other_package(tmp_path):
    """A package with a metric, as pip would install it."""
    (tmp_path / "their_metric.py").write_text(HAMMING_LOSS)
    info = tmp_path / "their_metric-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-metric\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[spml.metrics]\nhamming_loss = their_metric\n")
    return tmp_path


@pytest.mark.long
def test_a_metric_of_another_package_is_found_by_its_entry_point(other_package):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, (80, 3), np.uint8)
    labels[:, 2] = 1 - labels[:, 1]
    matrix = labels + rng.normal(size=(80, 3)).astype(np.float32)
    split = np.repeat(["train", "val", "test"], [40, 20, 20])
    np.savez(other_package / "x.npz", X=matrix, Y=labels, classes=np.array(["a", "b", "c"]), split=split)
    script = (
        "import contextlib, os, sys\n"
        f"sys.path.insert(0, {str(other_package)!r}); os.chdir({str(other_package)!r})\n"
        "import spml\n"
        "from spml.cli.main import main\n"
        "data = ['x.npz', '--data.unlisted', 'negative']\n"
        "main(['train', *data, '--epochs', '1', '--threads', '1', '--output', 'run'])\n"
        "with open('said', 'w') as said, contextlib.redirect_stdout(said):\n"
        "    main(['evaluate', 'run', *data, '--output', 'evaluation.json'])\n"
        "np = __import__('numpy'); np.savez('test.npz', X=np.load('x.npz')['X'][60:])\n"
        "predicted = spml.load('run').predict('test.npz').labels\n"
        "import json; json.dump(predicted, open('predicted.json', 'w'))\n"
    )
    finish_all(exec, script, processes=1)
    report = json.loads((other_package / "evaluation.json").read_text())
    predicted = json.loads((other_package / "predicted.json").read_text())
    wrong = [
        [("abc"[c] in names) != bool(labels[60 + row, c]) for c in range(3)]
        for row, names in enumerate(predicted)
    ]
    assert report["hamming_loss"] == pytest.approx(np.mean(wrong))
    assert list(report)[-3:] == ["hamming_loss", "run", "sha256"]
    assert f"Hamming loss {report['hamming_loss']:.4f}" in (other_package / "said").read_text().splitlines()


def test_built_in_metrics_are_those_of_the_functions():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(30, 4)).astype(np.float32)
    truth = np.where(rng.random((30, 4)) < 0.3, 1, -1).astype(np.int8)
    truth[:, 2] = -1
    data = LabelledScores(scores, truth, ("a", "b", "c", "d"), 0.5, "zero")
    reported = {name: metric for name, metric in metrics().items() if metric.fewest_classes <= 4}
    report = {name: metric.measure(data) for name, metric in reported.items()}
    expected = average_precision(scores, truth)
    assert report == {
        "mAP": mean_average_precision(scores, truth, "zero"),
        "AP": {"a": expected[0], "b": expected[1], "d": expected[3]},
        "classes_without_positives": ["c"],
        "threshold": 0.5,
        "thresholded": {
            average: precision_recall_f1(scores, truth, 0.5, average)._asdict()
            for average in ("micro", "macro", "samples")
        },
        "top_k": {"1": top_k(scores, truth, 1)._asdict(), "3": top_k(scores, truth, 3)._asdict()},
        "cost_sensitive_hamming": cost_sensitive_hamming(scores, truth, 0.5),
    }
    assert list(report)[:7] == [
        "mAP", "AP", "classes_without_positives", "threshold", "thresholded", "top_k",
        "cost_sensitive_hamming",
    ]  # fmt: skip
    assert list(report["thresholded"]) == ["micro", "macro", "samples"]
    json.dumps(report, allow_nan=False)


def test_thresholds_of_classes_are_reported_by_name():
    scores = np.asarray([[1.0, 1.0, 1.0], [0.5, 2.0, 3.0]], np.float32)
    data = LabelledScores(scores, np.ones((2, 3), np.int8), ("a", "b", "c"), (0.75, 1.5, np.inf))
    assert metrics()["threshold"].measure(data) == {"a": 0.75, "b": 1.5, "c": None}
    assert data.predicted.tolist() == [[True, False, False], [False, True, False]]


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(ValueError, match=r"metric 'mAP' is already registered by spml\.metrics\.average"):
        register_metric("mAP", "Another mAP")(lambda data: 0.0)
    assert metrics()["mAP"].title == "mAP"
