"""Samples with their observed and predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .style import GIVEN, MISSED, RIGHT, WRONG, cut, image_at, new_sheet, save, text_at

SIDE, GAP, LINE, TITLE = 1.5, 0.14, 0.165, 0.42  # inches: an image, space, a line of text, a title
_MAX_LINES = 7
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


def example_sheet(
    path: Path,
    images: npt.NDArray[np.uint8],
    observed: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    truth: Sequence[Sequence[str]] | None,
) -> None:
    """Draw samples with the observed and the predicted labels and, if known, whether they are right.

    Args:
        path: PNG to write.
        images: (n, channels, H, W), grey or RGB; n at least 1.
        observed: Known positive labels of each sample.
        predicted: Predicted labels of each sample.
        truth: True labels of each sample, if they are known.

    Raises:
        SpmlError: The file could not be written.
    """
    count = len(images)
    lines = [_lines(observed[i], predicted[i], None if truth is None else truth[i]) for i in range(count)]
    columns = min(max(count, 4), 6)  # four, so that the legend has room
    heights = [
        SIDE + LINE * max(map(len, lines[first : first + columns])) + 0.22
        for first in range(0, count, columns)
    ]
    sheet = new_sheet(columns * (SIDE + GAP) + GAP, sum(heights) + TITLE)
    _legend(sheet, with_truth=truth is not None)
    interpolation = "nearest" if images.shape[3] < 100 else "antialiased"
    for number, image in enumerate(images):
        row, column = divmod(number, columns)
        x, y = GAP + column * (SIDE + GAP), TITLE + sum(heights[:row])
        image_at(sheet, x, y, SIDE, image, interpolation)
        for i, (text, colour, weight) in enumerate(lines[number]):
            text_at(sheet, x, y + SIDE + 0.05 + i * LINE, text, size=8.5, color=colour, weight=weight)
    save(sheet, path)


def _legend(sheet: Any, *, with_truth: bool) -> None:
    entries = [("observed label", GIVEN, "bold"), marked("open", "predicted")]
    if with_truth:
        entries[1:] = [
            marked("right", "predicted, true"),
            marked("wrong", "predicted, not true"),
            marked("missed", "missed"),
        ]
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


def _lines(observed: Sequence[str], predicted: Sequence[str], truth: Sequence[str] | None) -> list[Line]:
    """The lines under a sample."""
    lines: list[Line] = [(cut(name), GIVEN, "bold") for name in observed]
    lines = lines or [("no observed label", GIVEN, "normal")]
    if truth is None:
        lines += [marked("open", cut(name)) for name in predicted]
    else:
        true = set(truth)
        lines += [marked("right", cut(name)) for name in predicted if name in true]
        lines += [marked("wrong", cut(name)) for name in predicted if name not in true]
        lines += [marked("missed", cut(name)) for name in truth if name not in set(predicted)]
    return shortened(lines)
