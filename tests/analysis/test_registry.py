"""Registered figures, the built-in ones and one of another package; and their numbers on disk."""

from __future__ import annotations

import csv
import inspect
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

import spml.analysis
from spml.analysis import Analysis, draw_figure, figures, register_figure, registry
from spml.cli.main import main
from spml.common.errors import InputError
from spml.common.plugins import import_plugins

CONSTANT = '''
from matplotlib.figure import Figure

from spml.analysis import Analysis, register_figure


@register_figure("constant", "A constant", needs="numbers")
def constant(numbers, *, times: float = 1.0):
    """Draw numbers.

    Args:
        numbers: Numbers to draw.
        times: Factor.
    """
    figure = Figure()
    values = [float(number) * times for number in numbers]
    figure.subplots().plot(values)
    return Analysis(figure, {"value": values}, notes=("only numbers",))
'''


def test_a_figure_of_another_package_is_found_by_its_entry_point(tmp_path, monkeypatch, capsys):
    (tmp_path / "their_figure.py").write_text(CONSTANT)
    info = tmp_path / "their_figure-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-figure\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[spml.figures]\nconstant = their_figure\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    figures()
    monkeypatch.setattr(registry._REGISTRY, "entries", {**registry._REGISTRY.entries})
    import_plugins.cache_clear()  # as in a process that begins
    try:
        main(["analyse", "constant", "1", "2.5", "--times", "2", "--output", "out"])
    finally:
        import_plugins.cache_clear()
    said = capsys.readouterr()
    assert said.out == "note: only numbers\nout: constant.png, constant.svg, constant.csv written\n"
    assert said.err == ""
    rows = list(csv.reader((tmp_path / "out" / "constant.csv").open()))
    assert rows == [["value"], ["2.0"], ["5.0"]]


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match=r"figure 'losses' is already registered by spml\.analysis\."):
        register_figure("losses", "", "")(lambda sources: None)


def test_an_unknown_figure_names_the_nearest():
    with pytest.raises(InputError, match=r"there is no figure 'loses'\. Did you mean losses\?"):
        draw_figure("loses", [])


@pytest.mark.parametrize("name", figures())
def test_figures_are_functions_of_the_package_with_options_by_keyword(name):
    figure = figures()[name]
    function = getattr(spml.analysis, name.replace("-", "_"))
    assert function is figure.draw
    assert name.replace("-", "_") in spml.analysis.__all__
    first, *options = inspect.signature(function).parameters.values()
    assert first.kind is first.POSITIONAL_OR_KEYWORD
    assert all(option.kind is option.KEYWORD_ONLY for option in options)
    assert not figure.title.endswith(".")


# -- figures and their numbers on disk ------------------------------------------------------------------


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


def test_a_title_and_other_formats(tmp_path):
    analysis = drawing()
    files = analysis.write(tmp_path, "curve", formats=["pdf", "png"], title="A $title")
    assert [file.name for file in files] == ["curve.pdf", "curve.png", "curve.csv"]
    assert analysis.figure.get_suptitle() == "A $title"
    again = drawing().write(tmp_path, "again", formats=["pdf"], title="A $title")
    assert [file.name for file in again] == ["again.pdf", "again.csv"]
    assert again[0].read_bytes() == files[0].read_bytes()


@pytest.mark.parametrize("suffix", [".png", ".svg", ".csv"])
def test_nothing_is_replaced_without_being_asked(tmp_path, suffix):
    (tmp_path / f"curve{suffix}").write_text("mine")
    with pytest.raises(InputError, match=rf"curve\{suffix}: already exists. Replace it \(`overwrite`\)"):
        drawing().write(tmp_path, "curve")
    assert [file.name for file in tmp_path.iterdir()] == [f"curve{suffix}"]
    drawing().write(tmp_path, "curve", overwrite=True)
    assert (tmp_path / f"curve{suffix}").read_bytes() != b"mine"


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "/tmp/x"])
def test_a_name_is_that_of_a_file_in_the_folder(tmp_path, name):
    with pytest.raises(InputError, match="`name` must be the name of a file without a folder"):
        drawing().write(tmp_path, name)


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; `output` must name a folder"):
        drawing().write(tmp_path / "file", "curve")


def test_columns_have_one_length():
    with pytest.raises(ValueError, match=r"same length, got \{'a': 1, 'b': 2\}"):
        Analysis(Figure(), {"a": [1], "b": [1, 2]})
