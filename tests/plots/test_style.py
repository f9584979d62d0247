"""Properties that all figures share."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from spml.common.errors import SpmlError
from spml.plots import ExampleLabel, example_sheet, fit_curves
from spml.plots.style import colours_of
from tests.plots.reading import scenes

HISTORY = [{"epoch": epoch, "train/loss": 1 / epoch, "val/SP": 0.2 * epoch} for epoch in (1, 2, 3)]


@pytest.mark.parametrize("draw", ["learning", "sheet"])
def test_equal_figures_are_equal_files(tmp_path: Path, draw: str) -> None:
    def write(path: Path) -> bytes:
        if draw == "learning":
            fit_curves(path, HISTORY, metric="val/SP", best=1)
        else:
            example_sheet(path, scenes(1), [[ExampleLabel("a", 0.5, True, True, None)]], with_truth=False)
        return path.read_bytes()

    assert write(tmp_path / "one.png") == write(tmp_path / "two.png")


def test_any_class_name_can_be_drawn(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    names = ["a$b$c", "$\\frac{$", "犬", "_", ""]
    labels = [ExampleLabel(name, 0.5, True, True, None) for name in names]
    example_sheet(tmp_path / "s.png", scenes(2), [labels] * 2, with_truth=False)
    assert len(recwarn) == 0


def test_a_figure_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpmlError, match=r"nowhere.*could not be written"):
        example_sheet(tmp_path / "nowhere" / "s.png", scenes(1), [[]], with_truth=False)


def test_matplotlib_is_imported_when_a_figure_is_drawn() -> None:
    script = "import sys, spml.plots; assert not {'matplotlib', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_method_has_one_colour_in_all_figures():
    papers = ["an", "em", "gr", "em_apl", "lasd", "opml", "role"]
    colours = dict(zip(papers, colours_of(papers), strict=True))
    assert len({*colours.values()}) == 7
    assert colours_of(["gr:q3=1.5", "an, known positive"]) == [colours["gr"], colours["an"]]
    several = colours_of(["gr, w 2", "gr, w 10", "an"])
    assert (several[0], len({*several})) == (colours["gr"], 3)
    assert len(colours_of([f"m{number}" for number in range(20)])) == 20
