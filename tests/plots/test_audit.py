"""The picture of an audit, read back from its pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spml.plots import ClassBar, audit_sheet
from spml.plots.style import COLOURS, GIVEN, MISSED
from tests.plots.reading import pixels, positions

CLASSES = [ClassBar("cat", 30, 10.0, True), ClassBar("dog", 10, 40.0, True), ClassBar("owl", 2, 0.0, False)]
PRECISION = np.linspace(1, 0.5, 200)


def grey(image):
    """Number of pixels of each column that have the colour of the mark; text has a few of them, too."""
    return np.bincount(positions(image, MISSED)[:, 1], minlength=image.shape[1])


def test_bars_are_as_long_as_the_classes_have_labels(tmp_path: Path) -> None:
    audit_sheet(tmp_path / "a.png", CLASSES, PRECISION, 100)
    image = pixels(tmp_path / "a.png")
    known, hidden = (positions(image[:, : image.shape[1] // 2], colour) for colour in (GIVEN, COLOURS[1]))
    counts = np.bincount(known[:, 0])
    first, second = counts[counts > 0][0], counts.max()
    # The class with the most hidden labels is at the top: 10 known, then 30 known.
    assert abs(second / first - 3) < 0.1
    widest = np.bincount(hidden[:, 0]).max()
    assert abs(widest / first - 4) < 0.15


def test_the_curve_falls_and_the_end_of_the_list_is_marked(tmp_path: Path) -> None:
    columns = []
    for listed in (50, 150):
        audit_sheet(tmp_path / "a.png", CLASSES, PRECISION, listed)
        image = pixels(tmp_path / "a.png")
        right = image[:, image.shape[1] // 2 :]
        curve = positions(right, COLOURS[1])
        start, end = curve[curve[:, 1].argmin(), 0], curve[curve[:, 1].argmax(), 0]
        assert start < end
        columns.append(grey(right).argmax())
    assert columns[0] < right.shape[1] * 0.45 < right.shape[1] * 0.6 < columns[1]


def test_an_empty_list_and_many_classes_are_drawn(tmp_path: Path) -> None:
    many = [ClassBar(f"class {number} of a long name", number, float(number), True) for number in range(90)]
    audit_sheet(tmp_path / "a.png", many, np.empty(0), 0)
    image = pixels(tmp_path / "a.png")
    assert image.shape[0] > image.shape[1] * 0.6
    assert grey(image[:, image.shape[1] // 2 :]).max() < 10
