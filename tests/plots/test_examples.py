"""Samples with their labels, read back from the pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spml.plots import example_sheet
from spml.plots.examples import _lines
from spml.plots.style import GIVEN, MISSED, RIGHT, WRONG
from tests.plots.reading import pixels, positions, scenes


def test_lines_under_a_scene() -> None:
    assert _lines(["one"], ["one", "two"], ["one", "six"]) == [
        ("one", GIVEN, "bold"),
        ("✓ one", RIGHT, "normal"),
        ("✗ two", WRONG, "normal"),
        ("– six", MISSED, "normal"),
    ]
    assert _lines(["one"], ["two"], None) == [("one", GIVEN, "bold"), ("• two", "black", "normal")]
    assert _lines([], [], None) == [("no observed label", GIVEN, "normal")]
    many = _lines(["a"], [f"class {number}" for number in range(9)], None)
    assert len(many) == 7
    assert many[-1][0] == "... 4 more"
    assert _lines(["a" * 30], [], None)[0][0] == "a" * 19 + "…"


@pytest.mark.parametrize(
    ("predicted", "truth", "colours"),
    [
        (["a"], ["a"], {RIGHT}),
        (["b"], [], {WRONG}),
        ([], ["a"], {MISSED}),
        (["a", "b"], ["a", "c"], {RIGHT, WRONG, MISSED}),
        (["a"], None, set()),
    ],
)
def test_the_sheet_colours_what_is_right_wrong_and_missed(
    tmp_path: Path, predicted: list[str], truth: list[str] | None, colours: set[str]
) -> None:
    example_sheet(tmp_path / "s.png", scenes(1), [["a"]], [predicted], None if truth is None else [truth])
    image = pixels(tmp_path / "s.png")
    below = image[290:]  # the legend and the scene lie above
    assert {c for c in (RIGHT, WRONG, MISSED) if len(positions(below, c))} == colours
    assert len(positions(below, GIVEN))


def test_the_sheet_shows_the_scenes(tmp_path: Path) -> None:
    images = np.zeros((7, 3, 20, 20), np.uint8)
    images[:, 0] = 200
    example_sheet(tmp_path / "s.png", images, [["a"]] * 7, [["a"]] * 7, [["a"]] * 7)
    image = pixels(tmp_path / "s.png")
    red = (image == [200, 0, 0]).all(-1)
    assert red.sum() == pytest.approx(7 * (1.5 * 150) ** 2, rel=0.02)
    rows = np.flatnonzero(red.any(1))
    assert (np.diff(rows) > 1).sum() == 1  # seven scenes stand in two rows
