"""Sheets of samples with their labels: those of a data set, and those that a model predicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .style import (
    COLOURS,
    GIVEN,
    MISSED,
    RIGHT,
    WRONG,
    axes_at,
    cut,
    image_at,
    new_sheet,
    picture,
    save,
    text_at,
    text_width,
)

if TYPE_CHECKING:
    from ..data.inspection import Inspection

SIDE, GAP, LINE, TITLE = 1.5, 0.14, 0.165, 0.42  # inches: an image, space, a line of text, a title
MAX_BARS = 300  # of more classes only some are drawn
LAST_BARS = 60  # how many of the least frequent classes are drawn then
_BARS_PER_COLUMN = 75
_IMAGES_PER_ROW = 6
_KNOWN_LINES = 4  # labels under an example
_BAR = 0.155  # inches per bar
_MAX_LINES = 7
_WINDOWS, _NAME, _OUTLINE = 3, 12, "#ffd60a"  # predicted labels that are outlined, characters of their names
_SIZE = 8.5  # points
_WIDEST, _SHEET, _LEGEND = 3.0, 10.0, 7.6  # inches: a column of text, all columns, what the legend needs
_MARKS = {
    "right": ("\N{CHECK MARK}", RIGHT),
    "wrong": ("\N{BALLOT X}", WRONG),
    "open": ("\N{BULLET}", "black"),
    "missed": ("\N{EN DASH}", MISSED),
}

Kind = Literal["right", "wrong", "open", "missed"]
"""Mark of a predicted label (right, wrong, or open if nothing is known), or of one not predicted."""

KINDS: dict[int, Kind] = {1: "right", -1: "wrong", 0: "open"}
"""Kind of a predicted label by its true value; 0 = not known."""

Line = tuple[str, str, str]
"""Text, colour and weight of a line."""


class ExampleLabel(NamedTuple):
    """Known and predicted state of a class of a sample."""

    name: str
    score: float  # in [0, 1]
    observed: bool  # whether it is a known positive label that the user gave
    predicted: bool
    true: bool | None  # None if it is not known
    window: Sequence[float] = ()  # where it is: left, top, width and height as shares of the image


@picture
def example_sheet(
    path: Path, images: npt.NDArray[np.uint8], labels: Sequence[Sequence[ExampleLabel]], *, with_truth: bool
) -> None:
    """Draw samples, each with its observed, predicted and missed labels in descending order of their scores.

    Args:
        path: PNG to write.
        images: (n, channels, H, W), grey or RGB; n at least 1.
        labels: Labels of each sample that are observed, predicted or true, in any order.
        with_truth: Whether the true labels are known.
    """
    count = len(images)
    chosen = [_chosen(sample) for sample in labels]
    needed = [_width(label, _text(label, label.name)) for shown, _ in chosen for label in shown]
    width = min(max([SIDE, *needed]), _WIDEST)
    lines = [_lines(shown, more, width) for shown, more in chosen]
    # At least four columns, so that the legend has room; fewer where names are long.
    columns = min(max(count, 4), 6, int(_SHEET / (width + GAP)))
    heights = [
        SIDE + LINE * max(map(len, lines[first : first + columns])) + 0.22
        for first in range(0, count, columns)
    ]
    sheet = new_sheet(max(columns * (width + GAP) + GAP, _LEGEND), sum(heights) + TITLE)
    right, missed = _MARKS["right"][0], _MARKS["missed"][0]
    legend = [(f"observed label: {right} predicted, {missed} missed", GIVEN, "bold")]
    sheet_legend(sheet, legend + (PREDICTED if with_truth else [marked("open", "predicted, not observed")]))
    interpolation = "nearest" if images.shape[3] < 100 else "antialiased"
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        x, y = GAP + column * (width + GAP), TITLE + sum(heights[:row])
        image_at(sheet, x, y, SIDE, image, interpolation)
        predicted = [label for label in chosen[number][0] if label.predicted and label.window]
        for label in predicted[:_WINDOWS]:
            window_at(sheet, x, y, label.window, cut(label.name, _NAME))
        lines_at(sheet, x, y + SIDE + 0.05, lines[number])
    save(sheet, path)


def window_at(sheet: Any, x: float, y: float, window: Sequence[float], name: str = "") -> None:
    """Outline a window, left, top, width and height as shares, of an image that was drawn at this place."""
    from matplotlib.patches import Rectangle

    inches = sheet.get_size_inches()
    left, top, width, height = (SIDE * share for share in window)
    place = (x + left) / inches[0], 1 - (y + top + height) / inches[1]
    size = width / inches[0], height / inches[1]
    sheet.add_artist(Rectangle(place, *size, fill=False, edgecolor=_OUTLINE, linewidth=1.2))
    if name:
        text_at(
            sheet, x + left + 0.03, y + top + 0.03, name, size=6,
            bbox={"facecolor": _OUTLINE, "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip


def sheet_legend(sheet: Any, entries: Sequence[Line]) -> None:
    """Write the meaning of colours and marks at the top of a sheet, one entry after the other."""
    width, height = sheet.get_size_inches()
    axes = sheet.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    previous: Any = None
    for text, colour, weight in entries:
        # Each entry starts where the previous one ends.
        previous = axes.annotate(
            text,
            (GAP / width, 1 - 0.2 / height) if previous is None else (1, 0.5),
            xycoords=previous or "axes fraction",
            xytext=(0 if previous is None else 16, 0),
            textcoords="offset points",
            color=colour,
            weight=weight,
            fontsize=9.5,
            va="center",
        )


def marked(kind: Kind, text: str, weight: str = "normal") -> Line:
    """Put the mark of a kind of prediction before a text, and give it its colour."""
    mark, colour = _MARKS[kind]
    return f"{mark} {text}", colour, weight


PREDICTED = [
    marked("right", "predicted, true"),
    marked("wrong", "predicted, not true"),
    marked("missed", "missed"),
]
"""Legend of predicted labels where the true labels are known."""


def lines_at(sheet: Any, x: float, y: float, lines: Sequence[Line]) -> None:
    """Write lines on a sheet below each other, from a place in inches."""
    for number, (text, colour, weight) in enumerate(lines):
        text_at(sheet, x, y + number * LINE, text, size=_SIZE, color=colour, weight=weight)


def shortened(lines: Sequence[Line], limit: int = _MAX_LINES) -> list[Line]:
    """Lines that fit under an image: where there are more than `limit`, the last one counts the rest."""
    if len(lines) <= limit:
        return list(lines)
    return [*lines[: limit - 1], (f"... {len(lines) - limit + 1} more", MISSED, "normal")]


def _chosen(labels: Sequence[ExampleLabel]) -> tuple[list[ExampleLabel], int]:
    """Labels that fit under an image, the highest score first, and the number of others.

    Observed labels come before others where there is no room for all.
    """
    ranked = sorted(labels, key=lambda label: -label.score)
    if len(ranked) <= _MAX_LINES:
        return ranked, 0
    kept = sorted(range(len(ranked)), key=lambda i: not ranked[i].observed)[: _MAX_LINES - 1]
    return [ranked[i] for i in sorted(kept)], len(ranked) - len(kept)


def _lines(labels: Sequence[ExampleLabel], more: int, width: float) -> list[Line]:
    """The lines under a sample, at most `width` inches wide."""
    lines: list[Line] = []
    if not any(label.observed for label in labels):
        lines.append(("no observed label", GIVEN, "normal"))
    for label in labels:
        text = _fitted(label, width)
        lines.append((text, GIVEN, "bold") if label.observed else (text, _MARKS[_kind(label)][1], "normal"))
    if more:
        lines.append((f"... {more} more", MISSED, "normal"))
    return lines


def _kind(label: ExampleLabel) -> Kind:
    if not label.predicted:
        return "missed"
    if label.observed or label.true:
        return "right"
    return "open" if label.true is None else "wrong"


def _text(label: ExampleLabel, name: str) -> str:
    return f"{_MARKS[_kind(label)][0]} {label.score:.2f}  {name}"


def _width(label: ExampleLabel, text: str) -> float:
    return text_width(text, _SIZE, "bold" if label.observed else "normal")


def _fitted(label: ExampleLabel, width: float) -> str:
    """Text of a label. A name that is too wide loses its middle, since its end often tells it from others."""
    text, name = _text(label, label.name), label.name
    for length in range(len(name) - 1, 0, -1):
        if _width(label, text) <= width:
            break
        end = length // 3
        text = _text(label, name[: length - end] + "\N{HORIZONTAL ELLIPSIS}" + name[len(name) - end :])
    return text


@picture
def inspection_sheet(path: Path, inspection: Inspection) -> None:
    """Draw examples with their known labels, and below them the known positives of each class, sorted.

    Of more than 300 classes the 240 most and the 60 least frequent are drawn.

    Args:
        path: PNG to write.
        inspection: Report that `spml.data.inspect` returned.
    """
    ranked = sorted(inspection.classes, key=lambda c: -c.positive)
    drawn = ranked if len(ranked) <= MAX_BARS else ranked[: MAX_BARS - LAST_BARS] + ranked[-LAST_BARS:]
    columns = -(-len(drawn) // _BARS_PER_COLUMN)
    per_column = -(-len(drawn) // columns)
    depths = [min(len(names), _KNOWN_LINES) for _, names in inspection.examples]
    starts = range(0, len(depths), _IMAGES_PER_ROW)
    heights = [SIDE + LINE * max(depths[start : start + _IMAGES_PER_ROW]) + 2 * GAP for start in starts]
    width = max(_IMAGES_PER_ROW * (SIDE + GAP) + GAP, columns * 3.6)
    top = TITLE + sum(heights)
    sheet = new_sheet(width, top + TITLE + per_column * _BAR + 0.2)
    headline = (
        f"{cut(inspection.name, 40)}: {inspection.samples:,} samples, {len(ranked):,} classes, "
        f"{inspection.mean_labels:.2f} known positive labels per sample"
    )
    text_at(sheet, GAP, 0.14, headline, size=10.5, weight="bold")
    for number, (_, names) in enumerate(inspection.examples):
        assert inspection.thumbnails is not None
        row, column = divmod(number, _IMAGES_PER_ROW)
        x, y = GAP + column * (SIDE + GAP), TITLE + sum(heights[:row])
        image_at(sheet, x, y, SIDE, inspection.thumbnails[number])
        if len(names) > _KNOWN_LINES:
            names = (*names[: _KNOWN_LINES - 1], f"... {len(names) - _KNOWN_LINES + 1} more")
        lines_at(sheet, x, y + SIDE + 0.04, [(cut(name), GIVEN, "bold") for name in names])
    title = "known positives of each class"
    if len(drawn) < len(ranked):
        most = len(drawn) - LAST_BARS
        title += f" (the {most} most and the {LAST_BARS} least frequent of {len(ranked):,})"
    text_at(sheet, GAP, top + 0.1, title, size=9.5)
    scale = max(1, ranked[0].positive)
    for column in range(columns):
        part = drawn[column * per_column : (column + 1) * per_column]
        x = column * (width - GAP) / columns + GAP
        # Names on the left, bars on a scale that all columns share, and numbers at their ends.
        names_width, numbers_width, y = 1.45, 0.5, top + TITLE
        bars_width = (width - GAP) / columns - GAP - names_width - numbers_width
        axes = axes_at(sheet, x + names_width, y, bars_width, len(part) * _BAR)
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
    save(sheet, path)
