"""Share of hidden positives by predicted probability, against loops and Eq. 6 by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from spml.analysis import posterior
from spml.analysis.scores.posterior import selected_completely_at_random
from spml.common.errors import InputError
from tests.analysis.scores.recordings import make_labels, make_logits, save_recording


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


def test_eq_6_holds_where_labels_are_hidden_at_random(tmp_path):
    """The points lie on the curve if p is right and each positive is observed with probability 1 / K."""
    generator = np.random.default_rng(0)
    p = generator.uniform(0.02, 0.98, (40_000, 4))
    truth = generator.random(p.shape) < p
    observed = np.where(truth & (generator.random(p.shape) < 1 / 2), 1, 0)
    logits = np.log(p) - np.log1p(-p)
    run = save_recording(tmp_path / "run", [logits, logits], observed, truth, classes="abcd")
    table = posterior([run], buckets=20).table
    assert table["ratio"] == pytest.approx(table["k"], abs=0.04)
    assert max(abs(np.array(table["ratio"]) - table["p_low"])) > 0.1


def test_mean_labels_are_those_of_the_truth_or_as_stated(tmp_path):
    observed, truth = make_labels()
    run = save_recording(tmp_path / "run", make_logits(truth), observed, truth)
    mean = truth.sum() / len(truth)
    measured, stated = posterior([run]), posterior([run], mean_labels=1.46)
    assert f"K = {mean:.4g} mean labels per sample, of the recorded samples." in measured.notes
    assert "K = 1.46 mean labels per sample, as stated." in stated.notes
    assert measured.table["ratio"] == stated.table["ratio"]
    assert measured.table["k"] != stated.table["k"]
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
        InputError, match=r"but 0\.333 is the mean of the recorded samples: state it \(--mean_l"
    ):
        posterior([run])
    with pytest.raises(InputError, match=r"but 0\.5 is given"):
        posterior([run], mean_labels=0.5)
    posterior([run], mean_labels=1.5)
