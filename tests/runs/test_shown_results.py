"""Results in Python: short representations, and cells of notebooks that run twice."""

from __future__ import annotations

import json

import numpy as np
import pytest

import spml
from spml.common.errors import InputError


def data(n=60):
    generator = np.random.default_rng(0)
    index = generator.integers(0, 3, n)
    return (np.eye(3)[index] * 3 + generator.normal(size=(n, 3))).astype(np.float32), index


def test_the_cell_of_a_notebook_runs_twice(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    X, y = data()
    first, second = (spml.train(X, y, head="ridge", pictures=False) for _ in range(2))
    assert [str(run.folder) for run in (first, second)] == ["runs/memory-ridge", "runs/memory-ridge-2"]
    assert "so this one is written to runs/memory-ridge-2 (or pass output=FOLDER)" in capsys.readouterr().err
    with pytest.raises(InputError, match="already holds a run"):
        spml.train(X, y, head="ridge", output="runs/memory-ridge", pictures=False)


def test_predictions_thresholds_and_evaluations_are_short(tmp_path):
    X, y = data()
    run = spml.train(
        X, y, classes=["cat", "dog", "<b>"], head="ridge", mean_labels=1.5, pictures=False, quiet=True,
        output=str(tmp_path / "run"),
    )  # fmt: skip
    found = run.predict(X)
    lines = repr(found).splitlines()
    assert lines[0] == "Predictions of 60 samples, 3 classes, probabilities"
    assert len(lines) == 11
    assert lines[-1] == "... and 52 more"
    assert "<b>" not in found._repr_html_()
    assert repr(run.thresholds).startswith(
        "Thresholds of 3 classes: f1, per class, K = 1.5 (stated)\nclass  threshold"
    )
    assert "<b>" not in run.thresholds._repr_html_()
    full = np.eye(3, dtype=np.int64)[y]
    result = run.evaluate(X, full, unlisted="negative")
    assert repr(result).startswith("Evaluation of 60 samples; further keys: data, split")
    assert f"mAP                     {result['mAP']:.4g}" in repr(result)
    assert json.loads(json.dumps(result))["mAP"] == result["mAP"]


def test_photos_are_shown_with_their_labels(photo_run, photos):
    shown = photo_run.predict([str(photos / "red"), str(photos / "blue")], workers=0)._repr_html_()
    assert shown.count("<img src='data:image/jpeg;base64,") == 8
    assert "... and 8 more" in shown


def test_texts_are_said_by_the_argument(tmp_path):
    texts = ["a cat sat", "dogs bark", "the cat", "a dog barks"] * 8
    options = {"head": "ridge", "pictures": False, "quiet": True}
    run = spml.train(texts, ["cat", "dog"] * 16, text=True, output=str(tmp_path / "one"), **options)
    same = spml.train(
        texts, ["cat", "dog"] * 16, data={"text": "text"}, output=str(tmp_path / "two"), **options
    )
    assert run.config.data.text == same.config.data.text == "text"
    assert run.predict("a cat barks").labels == same.predict("a cat barks").labels
    with pytest.raises(InputError, match=r"data\.text is set by the argument text, too"):
        spml.train(texts, ["cat", "dog"] * 16, text=True, data={"text": "text"})
