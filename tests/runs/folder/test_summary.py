"""Files that a finished run leaves in its folder."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from spml import plots
from spml.data import Dataset, Samples
from spml.decisions import Decision, scores_of
from spml.labels import ObservedLabels
from spml.runs.folder import summary
from spml.runs.predict.batches import Batch

LOGITS = np.array([[2.0, 0.0, -2.0], [-1.0, -3.0, 3.0]], np.float32)


class Images:
    kind = "image"

    def __len__(self):
        return 2

    def take(self, rows):
        return self

    def fetch(self, rows, augment):
        import torch

        return torch.zeros((len(rows), 3, 4, 4), dtype=torch.uint8)


@pytest.mark.parametrize("scale", ["sigmoid", "exp"])
@pytest.mark.parametrize("with_truth", [False, True])
def test_examples_show_scores_as_predict_does_and_what_was_missed(monkeypatch, tmp_path, scale, with_truth):
    samples = Samples(("x", "y"), Images(), ObservedLabels.from_index(np.array([1, 0]), 3))
    truth = ObservedLabels.from_multi_hot([[1, 1, 0], [1, 0, 0]], unlisted="negative")
    data = Dataset("d", ("a", "b", "c"), {"val": samples}, {"val": truth} if with_truth else {})
    logits = LOGITS if scale == "sigmoid" else LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
    drawn = {}
    monkeypatch.setattr(plots, "example_sheet", lambda *arguments, **more: drawn.update(more, of=arguments))
    places = np.arange(24, dtype=np.float32).reshape(6, 4)
    windows = np.arange(6).reshape(2, 3)
    run = SimpleNamespace(
        folder=tmp_path,
        classes=data.classes,
        classifier=SimpleNamespace(top=SimpleNamespace(local=True)),
        places=places,
        stream=lambda inputs, engine, where: iter([Batch(2, np.arange(2), logits, {}, windows)]),
        probabilities=lambda logits: scores_of(logits, scale),
        decision=lambda: Decision(float(logits[0, 1]), never=(2,)),
    )
    summary.draw_examples(run, data, "cpu")
    path, images, labels = drawn["of"]
    assert (path.name, images.shape, drawn["with_truth"]) == ("examples.png", (2, 3, 4, 4), with_truth)
    scores = 1 / (1 + np.exp(-LOGITS)) if scale == "sigmoid" else np.exp(logits)
    # Sample x: a and b are predicted. Sample y: its observed label a is missed, and c is never predicted.
    expected = [[("a", 0, 0, False, True), ("b", 0, 1, True, True)], [("a", 1, 0, True, False)]]
    for found, wanted in zip(labels, expected, strict=True):
        assert [(label.name, label.observed, label.predicted) for label in found] == [
            (name, observed, predicted) for name, _, _, observed, predicted in wanted
        ]
        for label, (_, row, column, _, _) in zip(found, wanted, strict=True):
            assert label.score == pytest.approx(scores[row, column], rel=1e-5)
            assert label.window == places[3 * row + column].tolist()
            assert label.true == (bool(truth.to_ternary()[row, column] == 1) if with_truth else None)
