"""Figures that compare methods or models, read back from their pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from spml.plots import tie_set
from spml.plots.style import COLOURS, MISSED
from tests.plots.reading import pixels, positions


def test_the_tie_set_looks_different_and_the_highest_score_stands_on_top(tmp_path: Path) -> None:
    def candidate(run: str, score: float, tied: bool) -> dict[str, Any]:
        return {"run": run, "SP": score, "SP_interval": [score - 0.1, score + 0.1], "in_tie_set": tied}

    low, middle, high = (
        candidate("$a$", 0.3, False),
        candidate("b" * 99, 0.5, True),
        candidate("c", 0.6, True),
    )
    tie_set(tmp_path / "one.png", [low, high, middle])
    image = pixels(tmp_path / "one.png")

    def lines(colour: str) -> npt.NDArray[np.int64]:
        """Row, first and last column of each horizontal line of a colour; text of that colour has gaps."""
        pixels_of_colour = positions(image, colour)
        rows = np.unique(pixels_of_colour[:, 0])
        columns = {row: pixels_of_colour[pixels_of_colour[:, 0] == row][:, 1] for row in rows}
        return np.array(
            [
                (row, c.min(), c.max())
                for row, c in columns.items()
                if np.ptp(c) > 200 and len(c) > 0.8 * np.ptp(c)
            ]
        )

    tied, other = lines(COLOURS[0]), lines(MISSED)
    assert tied[:, 0].max() < other[:, 0].min()
    highest, lowest = tied[tied[:, 0] == tied[:, 0].min()][0], other[0]
    width = highest[2] - highest[1]  # of an interval of .2
    assert lowest[2] - lowest[1] == pytest.approx(width, abs=3)
    assert highest[1] - lowest[1] == pytest.approx(1.5 * width, rel=0.05)
    tie_set(tmp_path / "two.png", [middle, low, high])
    assert (tmp_path / "two.png").read_bytes() == (tmp_path / "one.png").read_bytes()


def test_a_score_above_100_percent_is_drawn_at_100(tmp_path: Path) -> None:
    def draw(name: str, value: float, high: float) -> bytes:
        rows = [
            {"run": "a", "x": value, "x_interval": [0.9, high], "in_tie_set": True},
            {"run": "b", "x": 0.7, "x_interval": [0.6, 0.8], "in_tie_set": False},
        ]
        tie_set(tmp_path / name, rows, score="x", axis="x, %")
        return (tmp_path / name).read_bytes()

    assert draw("one.png", 1.2, 1.5) == draw("two.png", 1.0, 1.0) != draw("three.png", 0.95, 1.0)
