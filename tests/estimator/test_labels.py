"""Every form of y, and what is wrong with others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.exceptions import DataConversionWarning

from spml.common.errors import InputError
from spml.sklearn.inputs import read_labels

nan = np.nan
MATRIX = np.array([[0, 1, 0], [1, 1, 0]])


def ternary(y, classes=None, unlisted="unknown"):
    labels = read_labels(y, classes, unlisted)
    return labels.classes.tolist(), labels.observed().to_ternary().tolist()


@pytest.mark.parametrize(
    ("y", "classes", "expected"),
    [
        (["sea", "dog"], None, (["dog", "sea"], [[0, 1], [1, 0]])),
        (np.array([7, 3, 7]), None, ([3, 7], [[0, 1], [1, 0], [0, 1]])),
        (np.array([-1.0, 1.0]), None, ([-1.0, 1.0], [[1, 0], [0, 1]])),
        ([True, False], None, ([False, True], [[0, 1], [1, 0]])),
        (torch.tensor([1, 0]), None, ([0, 1], [[0, 1], [1, 0]])),
        (np.array([1, 0]), ["a", "b", "c"], (["a", "b", "c"], [[0, 1, 0], [1, 0, 0]])),
        (["c", "a"], ["c", "b", "a"], (["c", "b", "a"], [[1, 0, 0], [0, 0, 1]])),
        ([20, 10], [10, 20, 30], ([10, 20, 30], [[0, 1, 0], [1, 0, 0]])),
        ([["sea", "dog"], [], ["dog", "dog"]], None, (["dog", "sea"], [[1, 1], [0, 0], [1, 0]])),
        ([{5}, {2, 5}], None, ([2, 5], [[0, 1], [1, 1]])),
        (np.array([["a"], ["b", "a"]], object), None, (["a", "b"], [[1, 0], [1, 1]])),
        ([[2], [0]], None, ([0, 2], [[0, 1], [1, 0]])),
        ([[0, 2], [1, 2]], None, ([0, 1, 2], [[1, 0, 1], [0, 1, 1]])),
        (MATRIX, None, ([0, 1, 2], [[0, 1, 0], [1, 1, 0]])),
        (MATRIX.tolist(), None, ([0, 1, 2], [[0, 1, 0], [1, 1, 0]])),
        (list(MATRIX), list("abc"), (["a", "b", "c"], [[0, 1, 0], [1, 1, 0]])),
        (csr_array(MATRIX), None, ([0, 1, 2], [[0, 1, 0], [1, 1, 0]])),
        (np.array([[-1, 1], [0, 1]]), None, ([0, 1], [[-1, 1], [0, 1]])),
        ([[nan, 1], [0, 1]], None, ([0, 1], [[0, 1], [-1, 1]])),
    ],
)
def test_labels_are_understood(y, classes, expected):
    assert ternary(y, classes) == expected


def test_zeros_mean_what_is_said_or_what_the_matrix_tells():
    assert ternary(MATRIX, unlisted="negative")[1] == [[-1, 1, -1], [1, 1, -1]]
    assert ternary([["a"], ["b"]], unlisted="negative")[1] == [[1, -1], [-1, 1]]
    assert ternary(np.array([0, 1]), unlisted="negative")[1] == [[1, -1], [-1, 1]]
    assert read_labels([[nan, 1], [0, 1]], None, "unknown").unlisted == "negative"
    assert read_labels(np.array([[-1, 1], [0, 1]]), None, "negative").unlisted == "unknown"


def test_a_column_of_classes_is_one_class_per_sample():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        assert ternary(np.array([["a"], ["b"]])) == (["a", "b"], [[1, 0], [0, 1]])


def test_columns_of_a_frame_are_names():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(MATRIX, columns=["a", "b", "c"])
    assert ternary(frame) == (["a", "b", "c"], [[0, 1, 0], [1, 1, 0]])
    assert ternary(frame, ["c", "a", "b"]) == (["c", "a", "b"], [[0, 0, 1], [0, 1, 1]])
    assert ternary(pandas.Series(["b", "a"], dtype="category")) == (["a", "b"], [[0, 1], [1, 0]])
    with pytest.raises(
        InputError, match=r"y has the columns \('a', 'b', 'c'\), but the classes are \['a', 'b'\]"
    ):
        read_labels(frame, ["a", "b"], "unknown")


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([0.5, 1.5], None, "Unknown label type: continuous"),
        (np.array([0.0, nan]), None, "Input y contains NaN"),
        ([None, "a"], None, "y[0] is None, but every sample needs a label. Leave out samples without one"),
        (["a", nan], None, "y[1] is nan, but every sample needs a label."),
        (np.array(["a", None], object), None, "y[1] is None, but every sample needs a label."),
        ([["a"], ["b", None]], None, "y[1] is None, but every sample needs a label."),
        (["a", 1], None, "y[1] has the label 1, but others are like 'a': labels are all names, all numbers"),
        ([["a"], ["b", 1]], None, "y[1] has the label 1, but others are like 'a'"),
        (5, None, "y is 5; expected class names, alone or with separators, class indices"),
        ({"a": 1}, None, "y is a value of the type dict; expected class names"),
        (np.zeros((2, 2, 2)), None, "shape (2, 2, 2), dtype float64; expected class names"),
        ([0, [1, 2]], None, "y[1] has the label a value of the type list, but others are like 0: labels are"),
        ([["a"], "b"], None, "y[1] is 'b', but y[0] is a list: give a list of labels for each sample."),
        ([[], []], None, "y: no sample has a label. At least some must have one."),
        (["dog", "bird"], ["dog", "cat"],
         "y[1]: 'bird' is not a class. Known: cat, dog. A class that may be"),
        ([["dog"], ["dog", "bir"]], ["dog", "bird"],
         "y[1]: 'bir' is not a class. Did you mean bird? A class"),
        ([0, 3], ["a", "b"], "y[1]: 3 is not a class. Known: 0, 1."),
        (MATRIX, ["a", "b"], "y has 3 columns, but there are 2 classes: give one column for each class."),
        (["a", "b"], "ab", "classes must be a list of distinct classes, got 'ab'."),
        (["a", "b"], ["a", "b", "a"], "classes must be a list of distinct classes, got ['a', 'b', 'a']."),
    ],
)  # fmt: skip
def test_wrong_labels_are_refused(y, classes, message):
    with pytest.raises((ValueError, TypeError)) as error:
        read_labels(y, classes, "unknown")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([[0, 2], [1, 0]]), "row 0, column 1"),
        (np.array([["a", "b"], ["a", "b"]]), "Y must hold numbers, one row per sample"),
        (["a", ""], "y: class 0: the class name '' is empty or too long. Correct it."),
        (["a\nb", "c"], "holds control characters"),
    ],
)
def test_labels_are_checked_when_they_are_used(y, message):
    with pytest.raises(InputError) as error:
        read_labels(y, None, "unknown").observed()
    assert message in str(error.value)
