"""Registered figures: the built-in ones, and one of another package."""

from __future__ import annotations

import csv
import inspect
import subprocess
import sys

import pytest

import spml.analysis
from spml.analysis import draw_figure, figures, register_figure
from spml.common.errors import InputError

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


def test_a_figure_of_another_package_is_found_by_its_entry_point(tmp_path):
    (tmp_path / "their_figure.py").write_text(CONSTANT)
    info = tmp_path / "their_figure-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-figure\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[spml.figures]\nconstant = their_figure\n")
    script = (
        f"import os, sys; sys.path.insert(0, {str(tmp_path)!r}); os.chdir({str(tmp_path)!r})\n"
        "from spml.cli.main import main\n"
        "main(['analyse', 'constant', '1', '2.5', '--times', '2', '--output', 'out'])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "note: only numbers\nout: constant.png, constant.svg, constant.csv written\n"
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
