"""Shares of hidden positives by probability, and predictive values of pseudo-labels, by hand and by loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import precision_score

from spml.analysis import posterior, pseudo_labels
from spml.analysis.recorded import predictive_values, selected_completely_at_random
from spml.common.errors import InputError
from tests.analysis.recorded.recordings import make_labels, make_logits, save_recording


def test_ratios_are_those_of_a_loop_over_buckets(tmp_path):
    observed, truth = make_labels(samples=200)
    logits = make_logits(truth)
    run = save_recording(tmp_path / "run", logits, observed, truth)
    table = posterior([run], buckets=10).table
    rows = list(zip(*table.values(), strict=True))
    mean = truth.sum(1).mean()
    expected = []
    for epoch in (0, 2):
        p = expit(logits[epoch].astype(np.float64))
        for bucket in range(10):
            inside = (observed == 0) & (p >= bucket / 10) & (p < (bucket + 1) / 10)
            if not inside.any():
                continue
            middle = bucket / 10 + 0.05
            false_negatives, true_negatives = (inside & truth).sum(), (inside & ~truth).sum()
            expected.append(
                (
                    *("an", epoch, bucket / 10, (bucket + 1) / 10, inside.sum(), false_negatives),
                    false_negatives / (false_negatives + true_negatives),
                    (1 - 1 / mean) * middle / (1 - middle / mean),
                )
            )
    assert len(rows) == len(expected) > 15
    for row, wanted in zip(rows, expected, strict=True):
        assert row[:2] == wanted[:2]
        assert row[2:] == pytest.approx(wanted[2:], abs=1e-9)


def test_eq_6():
    """With K = 2, a label with p = 1/2 is observed in half of the samples that have it: (1/4) / (3/4)."""
    assert selected_completely_at_random(np.array([0.0, 0.5, 0.8]), 2.0) == pytest.approx([0, 1 / 3, 2 / 3])
    assert selected_completely_at_random(np.array([0.3]), 1e9) == pytest.approx([0.3])
    assert selected_completely_at_random(np.array([0.3]), 1.0) == [0]


def test_mean_labels_are_those_of_the_truth_or_as_stated(tmp_path):
    observed, truth = make_labels()
    run = save_recording(tmp_path / "run", make_logits(truth), observed, truth)
    mean = truth.sum() / len(truth)
    measured, stated = posterior([run]), posterior([run], mean_labels=1.46)
    assert f"K = {mean:.4g} mean labels per sample, of the recorded samples." in measured.notes
    assert "K = 1.46 mean labels per sample, as stated." in stated.notes
    assert measured.table["ratio"] == stated.table["ratio"]
    assert measured.table["k"] != stated.table["k"]
    assert not stated.figure.axes[0].lines  # before training, p estimates nothing
    curve = stated.figure.axes[1].lines[0]
    assert curve.get_label() == "Eq. 6, a = 1/1.46"
    assert len(curve.get_xdata()) == 100
    middle = curve.get_xdata()[70]
    assert curve.get_ydata()[70] == pytest.approx((1 - 1 / 1.46) * middle / (1 - middle / 1.46))


def test_panels_are_before_and_after_training(tmp_path):
    observed, truth = make_labels()
    runs = [
        save_recording(tmp_path / name, make_logits(truth), observed, truth, method=name)
        for name in ("an", "gr")
    ]
    axes = posterior(runs, label="b").figure.axes
    assert [panel.get_title(loc="left") for panel in axes] == [
        "an, before training", "an, epoch 2", "gr, before training", "gr, epoch 2",
    ]  # fmt: skip


def test_eq_6_needs_a_label_per_sample(tmp_path):
    truth = np.array([[True, False, False], [False, False, False], [False, False, False]])
    run = save_recording(tmp_path / "run", [np.zeros((3, 3))] * 2, np.zeros((3, 3), np.int8), truth)
    with pytest.raises(
        InputError, match=r"but 0\.333 is the mean of the recorded samples: state it \(`mean_l"
    ):
        posterior([run])
    with pytest.raises(InputError, match=r"but 0\.5 is given"):
        posterior([run], mean_labels=0.5)
    posterior([run], mean_labels=1.5)


def test_by_hand():
    """Class a: TP 1, FP 1, TN 1, FN 0. Class b: no positive, TN 1, FN 2. Class c: TP 1 and no negative."""
    truth = np.array([[1, 1, 1], [0, 1, 0], [0, 0, 1]], bool)
    positive = np.array([[1, 0, 1], [1, 0, 1], [0, 0, 1]], bool)
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 1, 0]], bool)
    values = predictive_values(positive, truth, mask)
    assert values == (pytest.approx((1 / 2 + 1) / 2), pytest.approx((1 + 1 / 3) / 2), 2, 2)
    nothing = predictive_values(np.zeros_like(truth), truth, mask)
    assert math.isnan(nothing[0])
    assert nothing[2:] == (0, 3)


@pytest.mark.parametrize("known", [False, True])
def test_means_over_classes_are_precisions_of_both_signs(tmp_path, known):
    observed, truth = make_labels(samples=120)
    logits = make_logits(truth)
    run = save_recording(tmp_path / "run", logits, observed, truth)
    table = pseudo_labels([run], tau=0.6, known=known).table
    assert table["epoch"] == [0, 1, 2]
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
    assert table["ppv_classes"] == table["npv_classes"] == [3, 3, 3]
    counted = np.ones_like(truth) if known else observed == 0
    assert table["above"] == pytest.approx([(expit(each)[counted] > 0.6).mean() for each in logits])


def test_a_label_at_the_threshold_is_negative(tmp_path):
    run = save_recording(
        tmp_path / "run", [np.zeros((2, 3)), np.full((2, 3), 0.25)], np.zeros((2, 3), np.int8), np.eye(2, 3)
    )
    result = pseudo_labels([run], tau=0.5)
    assert result.table["npv"] == [
        pytest.approx((1 / 2 + 1 / 2 + 1) / 3),
        pytest.approx(math.nan, nan_ok=True),
    ]
    assert result.table["ppv"] == [
        pytest.approx(math.nan, nan_ok=True),
        pytest.approx((1 / 2 + 1 / 2 + 0) / 3),
    ]
    (note,) = result.notes
    assert "no label is above tau = 0.5" in note


def test_curves_are_in_percent_a_panel_per_sign(tmp_path):
    observed, truth = make_labels()
    runs = [
        save_recording(tmp_path / name, make_logits(truth), observed, truth, method=name)
        for name in ("an", "gr")
    ]
    result = pseudo_labels(runs, tau=0.5, label="b")
    for axes, part in zip(result.figure.axes, ("ppv", "npv", "above"), strict=True):
        assert [line.get_label() for line in axes.lines][:2] == ["an", "gr"]
        assert axes.lines[1].get_ydata() == pytest.approx([100 * value for value in result.table[part][3:]])
    titles = [axes.get_title(loc="left") for axes in result.figure.axes]
    assert titles == ["p > 0.5: positive", "p \N{LESS-THAN OR EQUAL TO} 0.5: negative", "labels with p > 0.5"]
    hidden = observed[:, 1] == 0
    share = 100 * truth[hidden, 1].mean()
    assert result.figure.axes[2].lines[2].get_ydata() == pytest.approx([share, share])
    assert set(result.table["ppv_classes"]) == {1}


def test_the_threshold_is_a_probability(tmp_path):
    with pytest.raises(InputError, match=r"`tau` must be a probability in \[0, 1\], got 1\.5"):
        pseudo_labels([tmp_path], tau=1.5)
