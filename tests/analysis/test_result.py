"""Figures and their numbers on disk."""

from __future__ import annotations

import csv
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from spml.analysis import Analysis
from spml.common.errors import InputError


def drawing(values=(0.1, 1e-17)):
    figure = Figure()
    figure.subplots().plot(values)
    return Analysis(figure, {"name": ["a", "b;c"], "value": np.array(values)})


def test_picture_and_numbers_are_written(tmp_path):
    files = drawing().write(tmp_path / "new" / "folder", "curve")
    assert [file.name for file in files] == ["curve.png", "curve.svg", "curve.csv"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(files[1]).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    rows = list(csv.DictReader(files[2].open()))
    assert [(row["name"], float(row["value"])) for row in rows] == [("a", 0.1), ("b;c", 1e-17)]


def test_the_same_figure_is_the_same_file(tmp_path):
    first, second = (drawing().write(tmp_path, name) for name in ("first", "second"))
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("suffix", [".png", ".svg", ".csv"])
def test_nothing_is_replaced_without_being_asked(tmp_path, suffix):
    (tmp_path / f"curve{suffix}").write_text("mine")
    with pytest.raises(InputError, match=rf"curve\{suffix}: exists already. Replace it \(--overwrite\)"):
        drawing().write(tmp_path, "curve")
    assert [file.name for file in tmp_path.iterdir()] == [f"curve{suffix}"]
    drawing().write(tmp_path, "curve", overwrite=True)
    assert (tmp_path / f"curve{suffix}").read_bytes() != b"mine"


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "/tmp/x"])
def test_a_name_is_that_of_a_file_in_the_folder(tmp_path, name):
    with pytest.raises(InputError, match="--name must be the name of a file without a folder"):
        drawing().write(tmp_path, name)


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; --output must name a folder"):
        drawing().write(tmp_path / "file", "curve")


def test_columns_have_one_length():
    with pytest.raises(ValueError, match=r"same length, got \{'a': 1, 'b': 2\}"):
        Analysis(Figure(), {"a": [1], "b": [1, 2]})
