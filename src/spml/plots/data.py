"""A picture of what data holds: examples with their labels, and how often each class occurs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..data.inspection.report import ClassCounts, Inspection
from .figures import COLOURS, GIVEN, MISSED, cut, new_figure, save

MOST_BARS = 300  # classes of which more are not drawn
LAST_BARS = 60  # how many of the least frequent classes are drawn then
_PER_COLUMN = 75
_PER_ROW = 6
_LINES = 4  # labels under an example
_SIDE, _GAP, _LINE, _BAR, _TITLE = 1.5, 0.14, 0.165, 0.155, 0.42  # inches


def inspection_sheet(path: Path, found: Inspection) -> None:
    """Examples with their known labels above the known positives of each class, sorted.

    Of more than 300 classes the 240 most and the 60 least frequent are drawn.

    Args:
        path: PNG to write.
        found: what `spml.data.inspect` returned.

    Raises:
        SpmlError: the file could not be written.
    """
    ranked = sorted(found.classes, key=lambda c: -c.positive)
    drawn = ranked if len(ranked) <= MOST_BARS else ranked[: MOST_BARS - LAST_BARS] + ranked[-LAST_BARS:]
    columns = -(-len(drawn) // _PER_COLUMN)
    per_column = -(-len(drawn) // columns)
    examples = 0 if found.thumbnails is None else len(found.thumbnails)
    lines = [min(len(names), _LINES) for _, names in found.examples]
    cells = [
        _SIDE + _LINE * max(lines[start : start + _PER_ROW]) + 2 * _GAP
        for start in range(0, examples, _PER_ROW)
    ]
    width = max(_PER_ROW * (_SIDE + _GAP) + _GAP, columns * 3.6)
    top = _TITLE + sum(cells)
    height = top + _TITLE + per_column * _BAR + 0.2
    figure = new_figure(width, height)
    figure.set_layout_engine("none")
    _text(figure, _GAP, 0.14, _headline(found), size=10.5, weight="bold")
    for number in range(examples):
        row, column = divmod(number, _PER_ROW)
        _example(figure, found, number, _GAP + column * (_SIDE + _GAP), _TITLE + sum(cells[:row]))
    _text(figure, _GAP, top + 0.1, _bars_title(found, len(drawn)), size=9.5)
    most = max(1, ranked[0].positive)
    for column in range(columns):
        part = drawn[column * per_column : (column + 1) * per_column]
        x = column * (width - _GAP) / columns + _GAP
        _bars(figure, part, most, (x, top + _TITLE), (width - _GAP) / columns - _GAP)
    save(figure, path)


def _headline(found: Inspection) -> str:
    return (
        f"{cut(found.name, 40)}: {found.samples:,} samples, {len(found.classes):,} classes, "
        f"{found.mean_labels:.2f} known positive labels per sample"
    )


def _bars_title(found: Inspection, drawn: int) -> str:
    title = "known positives of each class"
    count = len(found.classes)
    if drawn < count:
        title += f" (the {drawn - LAST_BARS} most and the {LAST_BARS} least frequent of {count:,})"
    return title


def _example(figure: Any, found: Inspection, number: int, x: float, y: float) -> None:
    assert found.thumbnails is not None
    width, height = figure.get_size_inches()
    axes = figure.add_axes((x / width, 1 - (y + _SIDE) / height, _SIDE / width, _SIDE / height))
    axes.set_axis_off()
    image = found.thumbnails[number].transpose(1, 2, 0)
    grey = image.shape[2] == 1
    axes.imshow(image[..., 0] if grey else image, cmap="gray", vmin=0, vmax=255)
    names = found.examples[number][1]
    if len(names) > _LINES:
        names = (*names[: _LINES - 1], f"... {len(names) - _LINES + 1} more")
    for place, name in enumerate(names):
        _text(figure, x, y + _SIDE + 0.04 + place * _LINE, cut(name), size=8.5, color=GIVEN, weight="bold")


def _bars(
    figure: Any, part: Sequence[ClassCounts], most: int, place: tuple[float, float], width: float
) -> None:
    """Names on the left, bars on a common scale, numbers at their ends."""
    whole_width, whole_height = figure.get_size_inches()
    names, numbers = 1.45, 0.5  # inches
    x, y = place
    height = len(part) * _BAR
    axes = figure.add_axes(
        (
            (x + names) / whole_width,
            1 - (y + height) / whole_height,
            (width - names - numbers) / whole_width,
            height / whole_height,
        )
    )
    counts = [c.positive for c in part]
    axes.barh(range(len(part)), counts, height=0.72, color=COLOURS[0])
    axes.set_xlim(0, most)
    axes.set_ylim(len(part) - 0.5, -0.5)
    axes.set_axis_off()
    for row, c in enumerate(part):
        axes.annotate(
            f"{c.positive:,}",
            (c.positive, row),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color=COLOURS[1] if c.positive == 0 else "black",
            annotation_clip=False,
        )
        middle = y + (row + 0.5) * _BAR
        _text(figure, x, middle, cut(c.name, 24), size=7, va="center")
    axes.axvline(0, color=MISSED, linewidth=0.8)


def _text(figure: Any, x: float, y: float, text: str, *, size: float, va: str = "top", **style: Any) -> None:
    """Text at a place in inches from the upper left corner."""
    width, height = figure.get_size_inches()
    figure.text(x / width, 1 - y / height, text, fontsize=size, va=va, parse_math=False, **style)
