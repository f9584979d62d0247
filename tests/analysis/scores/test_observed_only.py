"""What is drawn without true labels: values by hand, and that the truth changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from spml.analysis import observed_only
from spml.common.errors import InputError
from tests.analysis.scores.recordings import make_labels, make_logits, save_recording


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
