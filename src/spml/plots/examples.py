"""Samples with their observed and predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from .style import GIVEN, MISSED, RIGHT, WRONG, image_at, new_sheet, save, text_at, text_width

SIDE, GAP, LINE, TITLE = 1.5, 0.14, 0.165, 0.42  # inches: an image, space, a line of text, a title
_MAX_LINES = 7
_SIZE = 8.5  # points
_WIDEST, _SHEET, _LEGEND = 3.0, 10.0, 7.6  # inches: a column of text, all columns, what the legend needs
_MARKS = {
    "right": ("\N{CHECK MARK}", RIGHT),
    "wrong": ("\N{BALLOT X}", WRONG),
    "open": ("\N{BULLET}", "black"),
    "missed": ("\N{EN DASH}", MISSED),
}

Kind = Literal["right", "wrong", "open", "missed"]
"""What is known of a predicted label (right, wrong, or open if nothing is known), or of one not predicted."""

Line = tuple[str, str, str]
"""Text, colour and weight of a line."""


class ExampleLabel(NamedTuple):
    """What is known of a class of a sample, and what is predicted.

    Attributes:
        name: Name of the class.
        score: Score in [0, 1].
        observed: Whether it is a known positive label that the user gave.
        predicted: Whether it is predicted.
        true: Whether it is a true label; None if that is not known.
    """

    name: str
    score: float
    observed: bool
    predicted: bool
    true: bool | None


def example_sheet(
    path: Path, images: npt.NDArray[np.uint8], labels: Sequence[Sequence[ExampleLabel]], *, with_truth: bool
) -> None:
    """Draw samples, each with its observed, predicted and missed labels in descending order of their scores.

    Args:
        path: PNG to write.
        images: (n, channels, H, W), grey or RGB; n at least 1.
        labels: Labels of each sample that are observed, predicted or true, in any order.
        with_truth: Whether the true labels are known.

    Raises:
        SpmlError: The file could not be written.
    """
    count = len(images)
    chosen = [_chosen(sample) for sample in labels]
    needed = [_width(_text(label, label.name), label.observed) for shown, _ in chosen for label in shown]
    width = min(max([SIDE, *needed]), _WIDEST)
    lines = [_lines(shown, more, width) for shown, more in chosen]
    # At least four columns, so that the legend has room; fewer where names are long.
    columns = min(max(count, 4), 6, int(_SHEET / (width + GAP)))
    heights = [
        SIDE + LINE * max(map(len, lines[first : first + columns])) + 0.22
        for first in range(0, count, columns)
    ]
    sheet = new_sheet(max(columns * (width + GAP) + GAP, _LEGEND), sum(heights) + TITLE)
    _legend(sheet, with_truth=with_truth)
    interpolation = "nearest" if images.shape[3] < 100 else "antialiased"
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        x, y = GAP + column * (width + GAP), TITLE + sum(heights[:row])
        image_at(sheet, x, y, SIDE, image, interpolation)
        for i, (text, colour, weight) in enumerate(lines[number]):
            text_at(sheet, x, y + SIDE + 0.05 + i * LINE, text, size=_SIZE, color=colour, weight=weight)
    save(sheet, path)


def _legend(sheet: Any, *, with_truth: bool) -> None:
    right, missed = _MARKS["right"][0], _MARKS["missed"][0]
    entries = [(f"observed label: {right} predicted, {missed} missed", GIVEN, "bold")]
    if with_truth:
        entries += [
            marked("right", "predicted, true"),
            marked("wrong", "predicted, not true"),
            marked("missed", "missed"),
        ]
    else:
        entries.append(marked("open", "predicted, not observed"))
    sheet_legend(sheet, entries)


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


def _width(text: str, observed: bool) -> float:
    return text_width(text, _SIZE, "bold" if observed else "normal")


def _fitted(label: ExampleLabel, width: float) -> str:
    """Text of a label. A name that is too wide loses its middle, since its end often tells it from others."""
    text, name = _text(label, label.name), label.name
    for length in range(len(name) - 1, 0, -1):
        if _width(text, label.observed) <= width:
            break
        end = length // 3
        text = _text(label, name[: length - end] + "\N{HORIZONTAL ELLIPSIS}" + name[len(name) - end :])
    return text
