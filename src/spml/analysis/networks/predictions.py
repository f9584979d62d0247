"""The same images with the predictions of several methods next to each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...plots.sheets import (
    GAP,
    KINDS,
    LINE,
    PREDICTED,
    SIDE,
    TITLE,
    Line,
    lines_at,
    marked,
    sheet_legend,
    shortened,
)
from ...plots.style import GIVEN, cut, image_at, new_sheet, text_at
from ...runs.run import Run
from ..registry import Analysis, register_figure
from .opened import Pictures, open_pictures, predict_pictures

_LINES, _OBSERVED = 7, 3  # lines for what a run predicts, and for observed labels


@register_figure(
    "predictions",
    "Predictions of several methods for the same images",
    needs="folders of runs on images, with the same classes",
)
def predictions(
    runs: Sequence[str | Path],
    *,
    data: str | None = None,
    split: Literal["train", "val", "test"] | None = None,
    images: int = 6,
    files: list[str] | None = None,
    threshold: float | None = None,
    seed: int = 0,
) -> Analysis:
    """Draw images with the labels that each run predicts, and say which are right, wrong or missed.

    Where the data is not fully labelled, a predicted label that was not observed is open: it may be right.

    Args:
        runs: Folders of runs with the same classes; their order may differ.
        data: Data set to draw images from; by default the data of the first run, with its hidden labels.
        split: Split to draw images from; by default `val` of the run's own data, `test` of another data set.
        images: Number of images, drawn at random.
        files: Images or folders of images to show instead, about whose labels nothing is known; in brackets
            on the command line, such as `[a.jpg, photos]`.
        threshold: Probability at and above which a label is predicted; by default the threshold of each run.
        seed: Seed of the draw of images.

    Returns:
        The figure; its table has a row for each run, image and label, with the columns run, image, label,
        probability, predicted (0, 1), observed (-1, 0, 1), true (-1, 0, 1; 0 = not known).

    Raises:
        InputError: The runs have different classes or take feature vectors, the data does not suit, or an
            option is out of its domain.

    Source: Zhou et al., "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels",
    ECCV 2022, qualitative results of the poster.
    """
    opened, pictures = open_pictures(
        runs, data=data, split=split, images=images, files=files, threshold=threshold, seed=seed
    )
    classes = opened[0].classes
    results = [predict_pictures(each, pictures, classes, threshold) for each in opened]
    paths = sorted({each.settings.data.path for each in opened})
    notes = []
    if data is None and not files and len(paths) > 1:
        notes = [
            f"The runs were trained on different data ({', '.join(paths)}); the images are those of "
            f"{opened[0].settings.data.path}, on which another run may have been trained."
        ]
    columns = ("run", "image", "label", "probability", "predicted", "observed", "true")
    rows = [
        (each.name, image, classes[c], float(probabilities[n, c]), int(chosen[n, c]), *pictures.known(n, c))
        for each, (probabilities, chosen) in zip(opened, results, strict=True)
        for n, image in enumerate(pictures.ids)
        for c in range(len(classes))
    ]
    return Analysis.from_rows(_draw(opened, pictures, results), columns, rows, notes)


Result = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]
"""Probabilities (n, C), and which labels are predicted (n, C)."""


def _draw(opened: Sequence[Run], pictures: Pictures, results: Sequence[Result]) -> Any:
    """Images in rows; under each its observed labels, then what each run predicts, at the same height."""
    classes, count = opened[0].classes, len(pictures.ids)
    columns = min(max(count, 4), 6)  # four, so that the legend has room
    blocks: list[list[list[Line]]] = []
    for n in range(count):
        observed = np.flatnonzero(pictures.observed[n] == 1)
        blocks.append([shortened([(cut(classes[c]), GIVEN, "bold") for c in observed], _OBSERVED)])
        for each, result in zip(opened, results, strict=True):
            title = (cut(each.name, 22), "black", "bold")
            blocks[n].append([title, *_lines(classes, pictures, n, result)])
    rows = [range(first, min(first + columns, count)) for first in range(0, count, columns)]
    depths = [
        [LINE * max(map(len, lines)) + 0.06 for lines in zip(*(blocks[n] for n in row), strict=True)]
        for row in rows
    ]
    heights = [SIDE + 2 * LINE + sum(row) + 0.2 for row in depths]
    sheet = new_sheet(columns * (SIDE + GAP) + GAP, sum(heights) + TITLE)
    sheet_legend(sheet, _legend(pictures))
    pixels = pictures.pixels(opened[0].spec)
    interpolation = "nearest" if pixels.shape[3] < 100 else "antialiased"
    for number, row in enumerate(rows):
        for column, n in enumerate(row):
            x, y = GAP + column * (SIDE + GAP), TITLE + sum(heights[:number])
            text_at(sheet, x, y, cut(Path(pictures.ids[n]).name), size=8)
            image_at(sheet, x, y + LINE, SIDE, pixels[n], interpolation)
            y += LINE + SIDE + 0.05
            for lines, depth in zip(blocks[n], depths[number], strict=True):
                lines_at(sheet, x, y, lines)
                y += depth
    return sheet


def _lines(classes: Sequence[str], pictures: Pictures, picture: int, result: Result) -> list[Line]:
    """Labels that a run predicts for an image, the highest score first, then those that it misses."""
    probabilities, chosen = result[0][picture], result[1][picture]
    lines: list[Line] = []
    missed: list[Line] = []
    for column in np.argsort(-probabilities, kind="stable"):
        observed, truth = pictures.known(picture, int(column))
        label = observed or truth
        text = f"{cut(classes[column], 15)}  {probabilities[column]:.2f}"
        weight = "bold" if observed == 1 else "normal"
        if chosen[column]:
            lines.append(marked(KINDS[label], text, weight))
        elif label == 1:
            missed.append(marked("missed", text, weight))
    return shortened([*lines, *missed] or [("nothing predicted", "black", "normal")], _LINES)


def _legend(pictures: Pictures) -> list[Line]:
    if not pictures.observed.any() and pictures.truth is None:
        return [marked("open", "predicted, with its score")]
    entries: list[Line] = [("observed label", GIVEN, "bold")]
    if pictures.truth is not None:
        return entries + PREDICTED
    return [
        *entries,
        marked("right", "predicted, observed", "bold"),
        marked("open", "predicted, not observed"),
        marked("missed", "observed, not predicted", "bold"),
    ]
