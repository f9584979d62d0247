"""Names and paths that are made when they are asked for."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from spml.data.names import FilesBelow, PackedNames, RowNames, take


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
    assert take(("a", "b", "c"), np.array([2, 0])) == ("c", "a")
    assert isinstance(take(RowNames(3), [1]), RowNames)
    with pytest.raises(IndexError):
        RowNames(3).take([3])


@pytest.mark.parametrize("name", ["0", "9", "12", "02", "-1", "x", "", "²", 3, None])
def test_contains(name):
    for names in (RowNames(10), RowNames(10).take([9, 0])):
        assert (name in names) == (name in tuple(names))


NAMES = ("a/1.jpg", "", "Zürich/Ä.png", "a/1.jpg", "\U0001f98a.gif", "\udce9.png")


def test_packed_names_equal_a_tuple_of_strings():
    names = PackedNames.of(iter(NAMES))
    assert names == NAMES
    assert names == names.take(range(6))
    assert hash(names) == hash(NAMES)
    assert names != NAMES[:-1]
    assert names != (*NAMES[:-1], "x")
    assert (names[2], names[-1], names[1:3], names[::-2]) == (NAMES[2], NAMES[-1], NAMES[1:3], NAMES[::-2])
    assert "Zürich/Ä.png" in names
    assert "Ä.png" not in names
    assert pickle.loads(pickle.dumps(names)) == names
    assert PackedNames.of([]) == ()
    for wrong in (6, -7):
        with pytest.raises(IndexError):
            names[wrong]


def test_packed_names_of_chosen_rows():
    names = PackedNames.of(NAMES).take([4, 2, 0])
    assert names == (NAMES[4], NAMES[2], NAMES[0])
    assert names.take(np.array([2, 2, 1])) == (NAMES[0], NAMES[0], NAMES[2])
    with pytest.raises(IndexError):
        names.take([3])


def test_files_below_a_folder_equal_a_tuple_of_paths():
    files = FilesBelow(Path("photos"), PackedNames.of(["a/1.jpg", "b c.png", "d.gif"]))
    expected = (Path("photos/a/1.jpg"), Path("photos/b c.png"), Path("photos/d.gif"))
    assert files == expected
    assert list(files) == list(expected)
    assert (files[-1], files[:2]) == (expected[-1], expected[:2])
    assert isinstance(take(files, [2, 0]), FilesBelow)
    assert take(files, [2, 0]) == (expected[2], expected[0])
    assert FilesBelow(Path("."), ("a.jpg",))[0] == Path("a.jpg")
