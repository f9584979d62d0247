"""Every way to state labels in memory, and every mistake in them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from spml.data.memory import understand_labels
from tests.helpers.commands import refusal

NAN = float("nan")
ABC = ("a", "b", "c")
FULL = np.array([[1, 0, 0], [0, 1, 1]])


def understood(y, classes=None, known=(), unlisted="unknown"):
    """Classes and the {-1, 0, +1} matrix."""
    found = understand_labels(y, classes, known, unlisted)
    return found.classes, found.observed.to_ternary().tolist()


ONE_EACH = [[0, 1, 0], [1, 0, 0]]
SOME = [[1, 0, 1], [0, 0, 0]]
MATRIX = [[1, 0, 0], [0, 1, 1]]


@pytest.mark.parametrize(
    ("y", "classes", "expected"),
    [
        (["b", "a"], ABC, (ABC, ONE_EACH)),
        (np.array(["b", "a"]), ABC, (ABC, ONE_EACH)),
        (np.array(["b", "a"]), np.array(ABC), (ABC, ONE_EACH)),
        (np.array([{"c", "a"}, []], object), ABC, (ABC, SOME)),
        (["b", "a"], None, (("a", "b"), [[0, 1], [1, 0]])),
        ([1, 0], ABC, (ABC, ONE_EACH)),
        (np.array([1, 0], np.uint8), ABC, (ABC, ONE_EACH)),
        (torch.tensor([1, 0]), ABC, (ABC, ONE_EACH)),
        (np.array([1, 0], np.int16), None, (("0", "1"), [[0, 1], [1, 0]])),
        (np.array([1, 0], np.int8), ABC, (ABC, ONE_EACH)),
        ([torch.tensor(1), np.int64(0)], ABC, (ABC, ONE_EACH)),
        ([1, 0], None, (("0", "1"), [[0, 1], [1, 0]])),
        ([["c", "a"], []], ABC, (ABC, SOME)),
        ([{"c", "a"}, ()], ABC, (ABC, SOME)),
        ([[2, 0], []], ABC, (ABC, SOME)),
        ([[2], [0]], None, (("0", "1", "2"), [[0, 0, 1], [1, 0, 0]])),
        (FULL, ABC, (ABC, MATRIX)),
        (FULL.astype(bool), None, (("0", "1", "2"), MATRIX)),
        (torch.tensor(FULL).bfloat16(), ABC, (ABC, MATRIX)),
        ([FULL[0], FULL[1]], ABC, (ABC, MATRIX)),
        (csr_matrix(FULL), ABC, (ABC, MATRIX)),
        (csr_matrix(FULL).tocsc(), ABC, (ABC, MATRIX)),
        (np.array([[1, -1, 0], [0, 1, 1]]), ABC, (ABC, [[1, -1, 0], [0, 1, 1]])),
        (np.array([[1, 0, NAN], [NAN, 1, 1]]), ABC, (ABC, [[1, -1, 0], [0, 1, 1]])),
    ],
)
def test_every_kind_of_labels(y, classes, expected):
    assert understood(y, classes) == expected


def test_zero_follows_unlisted_and_names_as_well():
    assert understood(FULL, ABC, unlisted="negative")[1] == [[1, -1, -1], [-1, 1, 1]]
    assert understood(["b", "a"], ABC, unlisted="negative")[1] == [[-1, 1, -1], [1, -1, -1]]
    assert understood([1, 0], ABC, unlisted="negative")[1] == [[-1, 1, -1], [1, -1, -1]]


def test_indices_and_columns_are_those_of_a_known_run_but_names_speak_for_themselves():
    assert understood([1, 0], known=ABC) == (ABC, ONE_EACH)
    assert understood(FULL, known=ABC) == (ABC, MATRIX)
    assert understood(["b", "a"], known=ABC)[0] == ("a", "b")
    assert understood([1, 0], classes=["x", "y"], known=ABC)[0] == ("x", "y")


def test_labels_of_pandas():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    assert understood(pandas.Series(["b", "a"], dtype="category"), ABC) == (ABC, ONE_EACH)
    assert understood(pandas.Series([1, 0], dtype="Int64"), ABC) == (ABC, ONE_EACH)
    assert understood(pandas.Index(["b", "a"]), ABC) == (ABC, ONE_EACH)
    assert understood(pandas.DataFrame(FULL, columns=list("xyz"))) == (("x", "y", "z"), MATRIX)
    with_missing = pandas.DataFrame({"x": pandas.array([1, None], "Int64"), "y": [0, 1]})
    assert understood(with_missing) == (("x", "y"), [[1, -1], [0, 1]])


def test_labels_of_polars_are_refused():
    series = type("Series", (), {"__module__": "polars.series.series"})()
    assert "of polars, which is not read: call y.to_pandas()" in refusal(understood, series, ABC)


_EXPECTED = (
    "; expected class names, alone or with separators, class indices, a list of names or of indices for each"
    " sample, or a matrix (N, C) of {0, 1}, {-1, 0, 1} or {0, 1, NaN} as a NumPy array, torch tensor, SciPy"
    " matrix or DataFrame."
)
_NEEDS_A_LABEL = (
    "but every sample needs a label. Leave out samples without one, or give a list of labels for each "
    "sample, which may be empty."
)
_AS_A_MATRIX = (
    "as if it were the row of a matrix: lists hold the indices of the labels of a sample. Pass a matrix as "
    "an array: numpy.array(y)."
)


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ({"a": 1}, None, f"y is a value of the type dict{_EXPECTED}"),
        (5, None, f"y is 5{_EXPECTED}"),
        ([], None, f"y is empty{_EXPECTED}"),
        (["a", None], None, f"y[1] is None, {_NEEDS_A_LABEL}"),
        ([1, NAN], None, f"y[1] is nan, {_NEEDS_A_LABEL}"),
        ([None, "a"], None, f"y[0] is None, {_NEEDS_A_LABEL}"),
        (["a", 1], None, "y[1] is 1, but others are class names: labels are all names or all indices."),
        ([1, "a"], None, "y[1] is 'a', but others are class indices: labels are all names or all indices."),
        ([0.5, 1.0], None, f"y[0] is 0.5{_EXPECTED}"),
        ([True, False], None, f"y[0] is True{_EXPECTED}"),
        (["a", "dgo"], ["a", "dog"], "y[1]: 'dgo' is not one of the 2 classes. Did you mean dog?"),
        (["a", "b\0"], None, "y[1]: the class name 'b\\x00' holds control characters. Correct it."),
        (
            ["['a', 'b']", "['a'", "['b's', 'c']"],
            None,
            "y[2]: y: labels: 1 cell can't be read as lists",
        ),
        (["a", "b"], ["a", "a"], "classes[1]: 'a' occurs twice: give distinct names as text."),
        ([0, 1], ["a", 1], "classes[1]: 1 is not text: give distinct names as text."),
        ([0, 3], ABC, "data in memory: Y: row 1: class index 3 is outside 0 ... 2 (rows and columns counted"),
        ([[0], [3]], ABC, "y[1]: class index 3 is outside 0 ... 2."),
        ([[0], 1], ABC, "y[1] is 1: give a list of labels for each sample, or a label for each."),
        ([["a"], [None]], None, f"y[1] holds None, {_NEEDS_A_LABEL}"),
        ([["a"], [1]], None, "y[1] holds 1, but others are class names: labels are all names or all ind"),
        ([[], []], None, "y: no sample has a label. At least some must have one."),
        ([[1, 0, 0], [0, 1, 1]], None, f"y: y[0] repeats a class index, {_AS_A_MATRIX}"),
        ([[1, 0], [0, 1]], None, f"y: every list has an index of each class, {_AS_A_MATRIX}"),
        (FULL, ["a", "b"], "data in memory: Y has 3 columns; expected 2, one per class name."),
        (np.array([[1, 0], [0, 5]]), None, "data in memory: Y: row 1, column 1 is 5 (rows and columns"),
        (
            np.array([["a", "b"], ["b", "a"]]),
            None,
            "Y must hold numbers, one row per sample; got <U1 (2, 2)",
        ),
        ([np.array([1, 0]), np.array([1, 0, 0])], None, "the rows of a matrix need the same length."),
    ],
)
def test_every_mistake_is_told(y, classes, message):
    assert message in refusal(understood, y, classes)
