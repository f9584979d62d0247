"""Names of samples that are row numbers."""

from __future__ import annotations

import numpy as np
import pytest

from spml.data.names import RowNames, take_names


def test_row_names_equal_a_tuple_of_strings():
    names = RowNames(12)
    expected = tuple(map(str, range(12)))
    assert names == expected
    assert expected == names
    assert tuple(names) == expected
    assert hash(names) == hash(expected)
    assert names != expected[:-1]
    assert names != (*expected[:-1], "x")
    assert names != "0123456789"
    assert names == RowNames(12)
    assert names != RowNames(11)
    assert (names[3], names[-1], names[2:5]) == ("3", "11", ("2", "3", "4"))
    with pytest.raises(IndexError):
        names[12]


def test_iteration_over_several_blocks():
    assert list(RowNames(150_000)) == [str(row) for row in range(150_000)]


def test_names_of_chosen_rows():
    names = RowNames(10).take([7, 2, 5])
    assert names == ("7", "2", "5")
    assert names.take(np.array([2, 0])) == ("5", "7")
    assert RowNames(10).take(range(10)) == RowNames(10)
    assert take_names(("a", "b", "c"), np.array([2, 0])) == ("c", "a")
    assert isinstance(take_names(RowNames(3), [1]), RowNames)
    with pytest.raises(IndexError):
        RowNames(3).take([3])


@pytest.mark.parametrize("name", ["0", "9", "12", "02", "-1", "x", "", "²", 3, None])
def test_contains(name):
    for names in (RowNames(10), RowNames(10).take([9, 0])):
        assert (name in names) == (name in tuple(names))
