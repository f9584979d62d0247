"""Arrays that hold labels, and joins by name."""

from __future__ import annotations

import numpy as np

from spml.common.label_checks import merge_entries, rows_of


def test_rows_are_found_by_name() -> None:
    assert rows_of(["b", "a", "c"], ["c", "x", "b", "c"]).tolist() == [2, -1, 0, 2]
    assert rows_of([], ["a"]).tolist() == [-1]
    assert rows_of(["a"], []).dtype == np.int64


def test_columns_with_the_same_place_are_merged() -> None:
    labels = np.array([0, 2, 3]), np.array([0, 1, 1]), np.array([1, -1, -1], np.int8)
    merged = merge_entries(*labels, np.array([0, 0, -1]), 1, 0)
    assert [part.tolist() for part in merged] == [[0, 1, 2], [0, 0], [1, -1]]
