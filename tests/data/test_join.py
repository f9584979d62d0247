"""Joined records: classes, labels, splits, boxes, and samples that several parts name."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_matrix

from spml.common.errors import InputError
from spml.data.join import join_records, merge_rows, relative_names
from spml.data.records import Objects, Records
from spml.labels import ObservedLabels

ROOT = Path("photos")


def records(ids, classes, ternary, **more):
    return Records(
        source="x",
        name="x",
        ids=tuple(ids),
        inputs=tuple(ROOT / name for name in ids),
        classes=tuple(classes),
        classes_given=more.pop("classes_given", False),
        labels=ObservedLabels.from_ternary(np.array(ternary, np.int8)),
        split=more.pop("split", None),
        **more,
    )


def in_split(part, split):
    return replace(part, split=(split,) * len(part.ids))


def joined(*parts, unlisted="unknown"):
    whole = join_records(parts, "whole", "name", unlisted)
    return whole, dict(zip(whole.ids, whole.labels.to_ternary().tolist(), strict=True))


def test_union_of_classes_splits_and_notes():
    first = records(["1", "2"], "bc", [[1, -1], [0, 1]], notes=("one", "both"), skipped=(("0", "why"),))
    second = records(["3"], "ab", [[1, 0]], notes=("two", "both"))
    whole, labels = joined(in_split(first, "train"), in_split(second, "val"))
    assert whole.classes == ("a", "b", "c")
    assert labels == {"1": [0, 1, -1], "2": [0, 0, 1], "3": [1, 0, 0]}
    assert whole.split == ("train", "train", "val")
    assert whole.notes == ("one", "both", "two")
    assert whole.skipped == (("0", "why"),)
    assert whole.inputs == (ROOT / "1", ROOT / "2", ROOT / "3")
    assert (whole.source, whole.name, whole.classes_given) == ("whole", "name", False)


def test_classes_that_are_given_keep_their_order():
    first = records(["1"], "ca", [[1, 0]], classes_given=True)
    second = records(["2"], "ab", [[1, 0]], classes_given=True)
    whole, labels = joined(first, second)
    assert whole.classes == ("c", "a", "b")
    assert whole.classes_given
    assert labels == {"1": [1, 0, 0], "2": [0, 1, 0]}
    assert whole.split is None


@pytest.mark.parametrize(
    ("ternary", "unlisted", "expected"),
    [
        ([[1, -1]], "unknown", [1, -1, 0]),
        ([[1, -1]], "negative", [1, -1, -1]),
        ([[1, 0]], "negative", [1, 0, -1]),
        ([[1, 0]], "unknown", [1, 0, 0]),
    ],
)
def test_what_a_class_means_that_a_part_does_not_have(ternary, unlisted, expected):
    other = records(["2"], "c", [[1]])
    _, labels = joined(records(["1"], "ab", ternary), other, unlisted=unlisted)
    absent = -1 if unlisted == "negative" else 0
    assert labels == {"1": expected, "2": [absent, absent, 1]}


def test_a_class_that_a_part_does_not_have_is_unknown_whatever_else_is_negative():
    stored = csr_matrix((np.array([1, 0], np.int8), ([0, 0], [0, 1])), shape=(1, 3))
    first = records(["1"], "abc", [[1, 0, -1]])
    first = Records(**{**vars(first), "labels": ObservedLabels.from_csr(stored, unlisted="negative")})
    _, labels = joined(first, records(["2"], "d", [[1]]))
    assert labels["1"] == [1, 0, -1, 0]


def test_samples_that_several_parts_name():
    first, second = records(["1", "2"], "ab", [[1, 0], [0, 1]]), records(["2", "3"], "ab", [[-1, 0], [1, 0]])
    whole, labels = joined(first, second)
    assert labels == {"1": [1, 0], "2": [-1, 1], "3": [1, 0]}
    assert len(whole.inputs) == 3
    assert whole.notes == ("1 further entry of samples that are named before: labels were merged.",)
    with pytest.raises(InputError, match=r"whole: '2' .* with different splits, 'train' and 'test'"):
        joined(in_split(first, "train"), in_split(second, "test"))
    wrong = records(["2"], "ab", [[0, -1]])
    with pytest.raises(InputError, match=r"'2' is named several times, .* contradict each other about 'b'"):
        joined(first, wrong)


def test_boxes_follow_their_samples_and_classes():
    def boxes(rows, columns):
        return Objects(np.array(rows), np.array(columns), np.arange(len(rows)) / 10, np.zeros(len(rows)))

    first = records(["1", "2"], "bc", [[1, 0], [0, 1]], objects=boxes([1, 0], [1, 0]))
    second = records(["2", "3"], "ab", [[1, 0], [1, 0]], objects=boxes([0, 1], [0, 1]))
    objects = joined(first, second)[0].objects
    assert objects.row.tolist() == [1, 0, 1, 2]
    assert objects.column.tolist() == [2, 1, 0, 1]
    assert objects.area.tolist() == [0, 0.1, 0, 0.1]


def test_names_relative_to_a_folder():
    assert relative_names(records(["1", "a/2"], "x", [[1], [1]]), ROOT) == ["1", "a/2"]
    assert relative_names(records(["1"], "x", [[1]]), Path("elsewhere")) == [""]


@given(arrays(np.int8, (6, 3), elements=st.integers(-1, 1)), arrays(np.int64, 6, elements=st.integers(0, 3)))
def test_merged_rows(ternary, groups):
    groups = np.unique(groups, return_inverse=True)[1].astype(np.int64)
    merged, contradictions = merge_rows(ObservedLabels.from_ternary(ternary), groups)
    expected, both = [], []
    for group in range(groups.max() + 1):
        rows = ternary[groups == group]
        present, absent = (rows == 1).any(axis=0), (rows == -1).any(axis=0)
        expected.append(np.where(present, 1, np.where(absent, -1, 0)).tolist())
        both += [[group, column] for column in np.flatnonzero(present & absent)]
    assert merged.to_ternary().tolist() == expected
    assert contradictions.tolist() == both


def test_memory_does_not_grow_with_classes_times_samples():
    count = 40_000
    labels = ObservedLabels.from_csr(
        csr_matrix((np.ones(count), (np.arange(count), np.arange(count))), shape=(count, count))
    )
    groups = np.arange(count) // 2
    tracemalloc.start()
    try:
        merged, contradictions = merge_rows(labels, groups)
        assert tracemalloc.get_traced_memory()[1] < 50e6  # a dense matrix has 800 MB
    finally:
        tracemalloc.stop()
    assert len(contradictions) == 0
    assert merged.entries(1)[0].tolist() == groups.tolist()
