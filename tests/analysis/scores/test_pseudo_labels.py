"""Predictive values of pseudo-labels, by hand and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import precision_score

from spml.analysis import pseudo_labels
from spml.analysis.scores.pseudo_labels import predictive_values
from spml.common.errors import InputError
from tests.analysis.scores.recordings import make_labels, make_logits, save_recording


def test_by_hand():
    """Class a: TP 1, FP 1, TN 1, FN 0. Class b: no positive, TN 1, FN 2. Class c: TP 1 and no negative."""
    truth = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 1]], bool)
    positive = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1]], bool)
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 0]], bool)
    values = predictive_values(positive, truth, mask)
    assert values == (pytest.approx((1 / 2 + 1) / 2), pytest.approx((1 + 1 / 3) / 2), 2, 2)
    nothing = predictive_values(np.zeros_like(truth), truth, mask)
    assert math.isnan(nothing.ppv)
    assert (nothing.ppv_classes, nothing.npv_classes) == (0, 3)


@pytest.mark.parametrize("known", [False, True])
def test_means_over_classes_are_precisions_of_both_signs(tmp_path, known):
    observed, truth = make_labels(samples=120)
    logits = make_logits(truth)
    run = save_recording(tmp_path / "run", logits, observed, truth)
    table = pseudo_labels([run], tau=0.6, known=known).table
    assert table["epoch"] == (0, 1, 2)
    for epoch in range(3):
        positive = expit(logits[epoch]) > 0.6
        ppv, npv = [], []
        for column in range(3):
            rows = np.ones(120, bool) if known else observed[:, column] == 0
            ppv.append(precision_score(truth[rows, column], positive[rows, column]))
            npv.append(precision_score(~truth[rows, column], ~positive[rows, column]))
        assert table["ppv"][epoch] == pytest.approx(np.mean(ppv))
        assert table["npv"][epoch] == pytest.approx(np.mean(npv))
    assert table["ppv"][0] < 0.7 < 0.9 < table["ppv"][2]
    assert table["ppv_classes"] == table["npv_classes"] == (3, 3, 3)


def test_a_label_at_the_threshold_is_negative(tmp_path):
    run = save_recording(
        tmp_path / "run", [np.zeros((2, 3)), np.full((2, 3), 0.25)], np.zeros((2, 3), np.int8), np.eye(2, 3)
    )
    result = pseudo_labels([run], tau=0.5)
    assert result.table["npv"] == (
        pytest.approx((1 / 2 + 1 / 2 + 1) / 3),
        pytest.approx(math.nan, nan_ok=True),
    )
    assert result.table["ppv"] == (
        pytest.approx(math.nan, nan_ok=True),
        pytest.approx((1 / 2 + 1 / 2 + 0) / 3),
    )
    (note,) = result.notes
    assert "no label is above tau = 0.5" in note


def test_curves_are_in_percent_a_panel_per_sign(tmp_path):
    observed, truth = make_labels()
    runs = [
        save_recording(tmp_path / name, make_logits(truth), observed, truth, method=name)
        for name in ("an", "gr")
    ]
    result = pseudo_labels(runs, tau=0.5, label="b")
    for axes, part in zip(result.figure.axes, ("ppv", "npv"), strict=True):
        assert [line.get_label() for line in axes.lines] == ["an", "gr"]
        assert axes.lines[1].get_ydata() == pytest.approx([100 * value for value in result.table[part][3:]])
        assert axes.get_ylabel().endswith("predictive value, %")
    assert set(result.table["ppv_classes"]) == {1}


def test_the_threshold_is_a_probability(tmp_path):
    with pytest.raises(InputError, match=r"--tau must be a probability in \[0, 1\], got 1\.5"):
        pseudo_labels([tmp_path], tau=1.5)
