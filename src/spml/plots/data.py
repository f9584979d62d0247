"""Picture of a data set: examples with their labels, and how often each class occurs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .examples import GAP, LINE, SIDE, TITLE
from .style import COLOURS, GIVEN, MISSED, axes_at, cut, image_at, new_sheet, save, text_at

if TYPE_CHECKING:
    from ..data.inspection.report import ClassCounts, Inspection

MAX_BARS = 300  # of more classes only some are drawn
LAST_BARS = 60  # how many of the least frequent classes are drawn then
_BARS_PER_COLUMN = 75
_IMAGES_PER_ROW = 6
_MAX_LINES = 4  # labels under an example
_BAR = 0.155  # inches per bar


def inspection_sheet(path: Path, inspection: Inspection) -> None:
    """Draw examples with their known labels, and below them the known positives of each class, sorted.

    Of more than 300 classes the 240 most and the 60 least frequent are drawn.

    Args:
        path: PNG to write.
        inspection: Report that `spml.data.inspect` returned.

    Raises:
        SpmlError: The file could not be written.
    """
    ranked = sorted(inspection.classes, key=lambda c: -c.positive)
    drawn = ranked if len(ranked) <= MAX_BARS else ranked[: MAX_BARS - LAST_BARS] + ranked[-LAST_BARS:]
    columns = -(-len(drawn) // _BARS_PER_COLUMN)
    per_column = -(-len(drawn) // columns)
    heights = _row_heights(inspection)
    width = max(_IMAGES_PER_ROW * (SIDE + GAP) + GAP, columns * 3.6)
    top = TITLE + sum(heights)
    sheet = new_sheet(width, top + TITLE + per_column * _BAR + 0.2)
    text_at(sheet, GAP, 0.14, _headline(inspection), size=10.5, weight="bold")
    for number in range(len(inspection.examples)):
        row, column = divmod(number, _IMAGES_PER_ROW)
        _example(sheet, inspection, number, GAP + column * (SIDE + GAP), TITLE + sum(heights[:row]))
    text_at(sheet, GAP, top + 0.1, _bars_title(len(inspection.classes), len(drawn)), size=9.5)
    scale = max(1, ranked[0].positive)
    for column in range(columns):
        part = drawn[column * per_column : (column + 1) * per_column]
        x = column * (width - GAP) / columns + GAP
        _bars(sheet, part, scale, x, top + TITLE, (width - GAP) / columns - GAP)
    save(sheet, path)


def _row_heights(inspection: Inspection) -> list[float]:
    """Height of each row of examples, in inches."""
    lines = [min(len(names), _MAX_LINES) for _, names in inspection.examples]
    starts = range(0, len(lines), _IMAGES_PER_ROW)
    return [SIDE + LINE * max(lines[start : start + _IMAGES_PER_ROW]) + 2 * GAP for start in starts]


def _headline(inspection: Inspection) -> str:
    return (
        f"{cut(inspection.name, 40)}: {inspection.samples:,} samples, {len(inspection.classes):,} classes, "
        f"{inspection.mean_labels:.2f} known positive labels per sample"
    )


def _bars_title(classes: int, drawn: int) -> str:
    title = "known positives of each class"
    if drawn < classes:
        title += f" (the {drawn - LAST_BARS} most and the {LAST_BARS} least frequent of {classes:,})"
    return title


def _example(sheet: Any, inspection: Inspection, number: int, x: float, y: float) -> None:
    assert inspection.thumbnails is not None
    image_at(sheet, x, y, SIDE, inspection.thumbnails[number])
    names = inspection.examples[number][1]
    if len(names) > _MAX_LINES:
        names = (*names[: _MAX_LINES - 1], f"... {len(names) - _MAX_LINES + 1} more")
    for i, name in enumerate(names):
        text_at(sheet, x, y + SIDE + 0.04 + i * LINE, cut(name), size=8.5, color=GIVEN, weight="bold")


def _bars(sheet: Any, part: Sequence[ClassCounts], scale: int, x: float, y: float, width: float) -> None:
    """Draw names on the left, bars on a scale that all columns share, and numbers at their ends."""
    names, numbers = 1.45, 0.5  # inches
    axes = axes_at(sheet, x + names, y, width - names - numbers, len(part) * _BAR)
    axes.barh(range(len(part)), [c.positive for c in part], height=0.72, color=COLOURS[0])
    axes.set_xlim(0, scale)
    axes.set_ylim(len(part) - 0.5, -0.5)
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
        text_at(sheet, x, y + (row + 0.5) * _BAR, cut(c.name, 24), size=7, va="center")
    axes.axvline(0, color=MISSED, linewidth=0.8)
