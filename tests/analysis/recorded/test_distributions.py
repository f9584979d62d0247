"""Distances and densities of probabilities, against SciPy and counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import wasserstein_distance

from spml.analysis import densities, observed_only, separation
from spml.analysis.recorded import wasserstein
from spml.common.errors import InputError
from tests.analysis.recorded.recordings import make_labels, make_logits, save_recording


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
    assert table["truth"] == ["negative"] * 4 + ["positive"] * 4
    assert table["p_low"] == [0, 0.25, 0.5, 0.75] * 2
    assert table["p_high"] == [0.25, 0.5, 0.75, 1] * 2
    assert table["labels"] == [1, 0, 1, 1, 0, 0, 1, 0]
    assert table["density"] == pytest.approx([4 / 3, 0, 4 / 3, 4 / 3, 0, 0, 4, 0])
    known = densities([run], epochs=[0], bins=4, known=True).table
    assert known["labels"] == [1, 0, 1, 1, 0, 0, 1, 2]


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


def test_positives_of_all_runs_in_one_panel(runs):
    folders, *_ = runs
    apart, result = (densities(folders, bins=7, known=True, together=each) for each in (False, True))
    (axes,) = result.figure.axes
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["an, epoch 2", "gr, epoch 2"]
    rows = [row for row in zip(*apart.table.values(), strict=True) if row[2] == "positive"]
    assert list(zip(*result.table.values(), strict=True)) == rows
    assert len(rows) == 14
    outlines = [part for part in axes.patches if not part.get_fill()]
    assert [part.get_data().values.tolist() for part in outlines] == [
        [row[-1] for row in rows if row[0] == name] for name in ("an", "gr")
    ]
    assert len({part.get_edgecolor() for part in outlines}) == 2


def test_densities_at_the_best_epoch_of_each_run(runs):
    folders, *_ = runs
    for folder, values in zip(folders, ([0.3, 0.2], [0.4, 0.4]), strict=True):
        lines = [f'{{"epoch": {number}, "val/mAP": {value}}}' for number, value in enumerate(values, 1)]
        (folder / "metrics.jsonl").write_text("\n".join(lines))
    assert set(densities(folders, epochs="best").table["epoch"]) == {1}
    (folders[1] / "metrics.jsonl").write_text('{"val/mAP": 0.4}\n{"val/mAP": 0.5}\n')
    table = densities(folders, epochs="best").table
    assert {*zip(table["run"], table["epoch"], strict=True)} == {("an", 1), ("gr", 2)}
    for text in ('{"val/SP": 0.4}\n', '{"val/mAP": 0.4}\n{"val/SP": 0.4}\n', ""):
        (folders[1] / "metrics.jsonl").write_text(text)
        with pytest.raises(InputError, match=r"gr: has no true validation mAP of every epoch.*epochs=\[1,2"):
            densities(folders, epochs="best")


def test_bins_must_be_positive(runs):
    with pytest.raises(InputError, match="the number of bins must be at least 1, got 0"):
        densities(runs[0], bins=0)


# -- without true labels: values by hand, and that the truth changes nothing ----------------------------


def rows_of(result, *start):
    rows = list(zip(*result.table.values(), strict=True))
    return [row for row in rows if row[2 : 2 + len(start)] == start]


def test_values_by_hand(tmp_path):
    observed = np.array([[1, 0, 0], [0, 1, -1]])
    logits = np.array([[2.0, 0.5, -3.0], [0.5, -1.0, 4.0]])
    run = save_recording(tmp_path / "run", [np.zeros((2, 3)), logits], observed, None)
    result = observed_only([run], bins=2)
    unknown = [row[4:] for row in rows_of(result, "density", "unknown")]
    assert unknown == [(0, 0.5, pytest.approx(2 / 3)), (0.5, 1, pytest.approx(4 / 3))]
    given = [row[4:] for row in rows_of(result, "density", "observed positive")]
    assert given == [(0, 0.5, pytest.approx(1)), (0.5, 1, pytest.approx(1))]
    assert [row[3:] for row in rows_of(result, "observed")] == [
        ("a", "", "", 1),
        ("b", "", "", 1),
        ("c", "", "", 0),
    ]
    expected = expit(logits).sum(0)
    assert [row[6] for row in rows_of(result, "expected")] == pytest.approx(expected.tolist(), rel=1e-6)
    assert {row[:2] for row in rows_of(result)} == {("an", 1)}
    before = [row[6] for row in rows_of(observed_only([run], epoch=0), "expected")]
    assert before == [1.0, 1.0, 1.0]
    (_, below) = result.figure.axes
    assert below.get_title(loc="left") == f"{expected.sum() / 2:.3g} labels per sample are expected"
    assert any("not calibrated" in note for note in result.notes)


def test_true_labels_change_nothing(tmp_path):
    observed, truth = make_labels()
    logits = make_logits(truth)
    results = [
        observed_only([save_recording(tmp_path / name, logits, observed, known)])
        for name, known in (("right", truth), ("wrong", ~truth), ("none", None))
    ]
    assert results[0].table == results[1].table == results[2].table


def test_classes_are_ordered_by_observed_positives(tmp_path):
    observed = np.array([[0, 1, 0], [0, 1, 0], [0, 0, 1]])
    run = save_recording(tmp_path / "run", [np.zeros((3, 3)), np.ones((3, 3))], observed, None)
    (_, below) = observed_only([run]).figure.axes
    assert [tick.get_text() for tick in below.get_xticklabels()] == ["b", "c", "a"]
    assert [bar.get_height() for bar in below.patches] == [2, 1, 0]


def test_the_axis_holds_the_points_of_all_runs(tmp_path):
    observed, truth = make_labels()
    low, high = (np.full((2, *truth.shape), value) for value in (-5.0, 5.0))
    runs = [
        save_recording(tmp_path / name, logits, observed, truth, method=name)
        for name, logits in (("an", low), ("gr", high))
    ]
    axes = observed_only(runs).figure.axes
    for panel in axes[2:]:
        assert panel.get_ylim()[0] == 0
        assert panel.get_ylim()[1] >= len(truth) * expit(5.0)


def test_many_classes_are_not_named(tmp_path):
    observed, truth = make_labels(samples=60, classes=30)
    names = [f"class {number}" for number in range(30)]
    run = save_recording(tmp_path / "run", make_logits(truth), observed, truth, classes=names)
    (_, below) = observed_only([run]).figure.axes
    assert not below.get_xticklabels()


@pytest.mark.parametrize(("value", "missing"), [(0, "observed positive"), (1, "unknown")])
def test_both_groups_are_needed(tmp_path, value, missing):
    run = save_recording(tmp_path / "run", [np.zeros((2, 3))] * 2, np.full((2, 3), value, np.int8), None)
    with pytest.raises(InputError, match=f"of the labels of its recorded samples, none is {missing}"):
        observed_only([run])
