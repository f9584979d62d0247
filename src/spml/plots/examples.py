"""Samples with their observed and predicted labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .style import GIVEN, MISSED, RIGHT, WRONG, cut, image_at, new_sheet, save, text_at

SIDE, GAP, LINE, TITLE = 1.5, 0.14, 0.165, 0.42  # inches: an image, space, a line of text, a title
_MAX_LINES = 7


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
    entries = [("observed label", GIVEN, "bold"), ("\N{BULLET} predicted", "black", "normal")]
    if with_truth:
        entries[1:] = [
            ("\N{CHECK MARK} predicted, true", RIGHT, "normal"),
            ("\N{BALLOT X} predicted, not true", WRONG, "normal"),
            ("\N{EN DASH} missed", MISSED, "normal"),
        ]
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


def _lines(
    observed: Sequence[str], predicted: Sequence[str], truth: Sequence[str] | None
) -> list[tuple[str, str, str]]:
    """(text, colour, weight) of the lines under a sample; the last line counts those that are too many."""
    lines = [(cut(name), GIVEN, "bold") for name in observed] or [("no observed label", GIVEN, "normal")]
    if truth is None:
        lines += [(f"\N{BULLET} {cut(name)}", "black", "normal") for name in predicted]
    else:
        true = set(truth)
        lines += [(f"\N{CHECK MARK} {cut(n)}", RIGHT, "normal") for n in predicted if n in true]
        lines += [(f"\N{BALLOT X} {cut(n)}", WRONG, "normal") for n in predicted if n not in true]
        lines += [(f"\N{EN DASH} {cut(n)}", MISSED, "normal") for n in truth if n not in set(predicted)]
    if len(lines) > _MAX_LINES:
        left = len(lines) - _MAX_LINES + 1
        lines[_MAX_LINES - 1 :] = [(f"... {left} more", MISSED, "normal")]
    return lines
