"""Distances and densities of probabilities, against SciPy and counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import wasserstein_distance

from spml.analysis import densities, separation
from spml.analysis.scores.distributions import wasserstein
from spml.common.errors import InputError
from tests.analysis.scores.recordings import make_labels, make_logits, save_recording


@given(
    st.lists(st.integers(-4, 4), min_size=1, max_size=12),
    st.lists(st.integers(-4, 4), min_size=1, max_size=12),
)
def test_the_distance_is_that_of_scipy_with_ties(first, second):
    values = np.array([*first, *second]) / 4
    positive = np.arange(len(values)) < len(first)
    assert wasserstein(values, positive) == pytest.approx(
        wasserstein_distance(values[positive], values[~positive]), abs=1e-12
    )


def test_the_distance_of_many_values():
    generator = np.random.default_rng(0)
    p = expit(generator.normal(size=20_000)).astype(np.float32)
    positive = generator.random(20_000) < expit(4 * p - 3)
    expected = wasserstein_distance(p[positive].astype(float), p[~positive].astype(float))
    assert wasserstein(p, positive) == pytest.approx(expected, rel=1e-6)
    assert expected > 0.05


@pytest.fixture
def runs(tmp_path):
    """Two runs of two epochs, and their probabilities."""
    observed, truth = make_labels()
    logits = [make_logits(truth, seed=seed) for seed in (0, 1)]
    folders = [
        save_recording(tmp_path / method, scores, observed, truth, method=method)
        for method, scores in zip(("an", "gr"), logits, strict=True)
    ]
    return folders, [expit(scores) for scores in logits], observed, truth


def test_separation_is_the_distance_between_hidden_positives_and_true_negatives(runs):
    folders, probabilities, observed, truth = runs
    result = separation(folders)
    assert result.table["run"] == ["an"] * 3 + ["gr"] * 3
    assert result.table["epoch"] == [0, 1, 2, 0, 1, 2]
    hidden, absent = (observed == 0) & truth, (observed == 0) & ~truth
    expected = [wasserstein_distance(p[hidden], p[absent]) for run in probabilities for p in run]
    assert result.table["distance"] == pytest.approx(expected, rel=1e-5)
    assert expected[0] < 0.15 < 0.5 < expected[2]
    assert set(result.table["positives"]) == {hidden.sum()}
    assert set(result.table["negatives"]) == {absent.sum()}
    (axes,) = result.figure.axes
    assert [line.get_label() for line in axes.lines] == ["an", "gr"]
    assert axes.lines[1].get_ydata() == pytest.approx(expected[3:], rel=1e-5)
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_separation_of_one_class_or_of_all_labels(runs):
    folders, probabilities, observed, truth = runs
    p, hidden = probabilities[0][2], (observed == 0)[:, 1]
    one = separation(folders[:1], label="b").table["distance"][2]
    positives, negatives = p[hidden & truth[:, 1], 1], p[hidden & ~truth[:, 1], 1]
    assert one == pytest.approx(wasserstein_distance(positives, negatives), rel=1e-5)
    both = separation(folders[:1], known=True).table["distance"][2]
    assert both == pytest.approx(wasserstein_distance(p[truth], p[~truth]), rel=1e-5)


def test_densities_integrate_to_one(runs):
    folders, *_ = runs
    table = densities(folders, epochs=[0, 2], bins=7).table
    rows = list(zip(*table.values(), strict=True))
    for run in ("an", "gr"):
        for epoch in (0, 2):
            for truth in ("positive", "negative"):
                bars = [row[3:] for row in rows if row[:3] == (run, epoch, truth)]
                assert len(bars) == 7
                assert sum((high - low) * density for low, high, _, density in bars) == pytest.approx(1)
    assert len(rows) == 7 * 8


def test_densities_are_counts_by_true_label(tmp_path):
    """Probabilities 0, 1/2 and 1 to the precision of float16: the last bin holds 1, a middle one 1/2."""
    observed = np.array([[1, 0, 0], [0, 1, 0]])
    truth = np.array([[1, 1, 0], [0, 1, 0]])
    logits = [[9.0, 0.0, -60.0], [60.0, 9.0, 0.0]]
    run = save_recording(tmp_path / "run", [logits, np.zeros((2, 3))], observed, truth)
    table = densities([run], epochs=[0], bins=4).table
    assert table["truth"] == ("negative",) * 4 + ("positive",) * 4
    assert table["p_low"] == (0, 0.25, 0.5, 0.75) * 2
    assert table["p_high"] == (0.25, 0.5, 0.75, 1) * 2
    assert table["labels"] == (1, 0, 1, 1, 0, 0, 1, 0)
    assert table["density"] == pytest.approx([4 / 3, 0, 4 / 3, 4 / 3, 0, 0, 4, 0])
    known = densities([run], epochs=[0], bins=4, known=True).table
    assert known["labels"] == (1, 0, 1, 1, 0, 0, 1, 2)


def test_densities_have_a_row_per_epoch_and_a_column_per_run(runs):
    folders, *_ = runs
    result = densities(folders, epochs=[0, 1, 2], label="c", log=False)
    titles = [axes.get_title(loc="left") for axes in result.figure.axes]
    assert titles == [
        "an, before training", "gr, before training", "an, epoch 1", "gr, epoch 1", "an, epoch 2",
        "gr, epoch 2",
    ]  # fmt: skip
    assert {axes.get_yscale() for axes in result.figure.axes} == {"linear"}
    assert result.figure.get_suptitle() == "Probabilities of unknown labels of class c"
    assert set(densities(folders).table["epoch"]) == {2}
    assert densities(folders).figure.axes[0].get_yscale() == "log"


def test_bins_must_be_positive(runs):
    with pytest.raises(InputError, match="the number of bins must be at least 1, got 0"):
        densities(runs[0], bins=0)
