"""Grad-CAM maps of predicted labels on images, with the labels that nobody had observed marked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional

from ...common.errors import InputError
from ...plots.examples import GAP, LINE, SIDE, TITLE, Line, marked, sheet_legend, shortened
from ...plots.style import GIVEN, axes_at, cut, image_at, new_sheet, text_at
from ..registry import register_figure
from ..result import Analysis, Column
from .grad_cam import grad_cam
from .opened import OpenedRun, Pictures, check_threshold, open_pictures, open_runs, predict_pictures

_PIXELS = 300  # least side of a drawn image
_COLOURS = "inferno"
_UNDER = 5  # lines under an image


class Panel(NamedTuple):
    """Map of one label on one image.

    Attributes:
        picture: Position of the image.
        column: Label.
        probability: Predicted probability of the label.
        values: Grad-CAM map, float32 (h, w).
    """

    picture: int
    column: int
    probability: float
    values: npt.NDArray[np.float32]


@register_figure(
    "maps",
    "Grad-CAM maps of predicted labels on images",
    needs="folders of runs on images, with a convolutional backbone or a vision transformer",
)
def maps(
    runs: Sequence[str | Path],
    *,
    data: str | None = None,
    split: Literal["train", "val", "test"] | None = None,
    images: int = 4,
    files: list[str] | None = None,
    top: int = 3,
    threshold: float | None = None,
    seed: int = 0,
) -> Analysis:
    """Draw where the evidence for each predicted label lies, and mark labels that were not observed.

    Each map is drawn relative to its own maximum. A predicted label that was observed is blue; one that was
    not is marked as right or wrong where the data is fully labelled, and as open otherwise.

    Args:
        runs: Folders of runs with the same classes.
        data: Data set to draw images from; by default the data of the first run, with its hidden labels.
        split: Split to draw images from; by default `val` of the run's own data, `test` of another data set.
        images: Number of images, drawn at random.
        files: Images or folders of images to show instead, about whose labels nothing is known; in brackets
            on the command line, such as `[a.jpg, photos]`.
        top: Largest number of maps per image, for the labels with the highest scores.
        threshold: Probability at and above which a label is predicted; by default the threshold of each run.
        seed: Seed of the draw of images.

    Returns:
        The figure; its table has a row for each position of each map, with the columns run, image, label,
        probability, observed (-1, 0, 1), true (-1, 0, 1; 0 = not known), row, column and value.

    Raises:
        InputError: A run has no feature maps or other classes, the data does not suit, nothing is predicted,
            or an option is out of its domain.

    Source: Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based
    Localization", ICCV 2017; Li et al., "Pushing One Pair of Labels Apart Each Time in Multi-Label
    Learning", Fig. 7.
    """
    check_threshold(threshold)
    if top < 1:
        raise InputError(f"--top must be at least 1, got {top}")
    opened = open_runs(runs)
    pictures = open_pictures(opened, data=data, split=split, images=images, files=files, seed=seed)
    panels = [_panels(each, pictures, opened[0].run.classes, top, threshold) for each in opened]
    if not any(panels):
        raise InputError(
            "no label reaches the threshold on any of the images: pass a lower one (--threshold 0.1), or "
            "draw more images (--images)"
        )
    return Analysis(_draw(opened, pictures, panels), _table(opened, pictures, panels))


def _panels(
    opened: OpenedRun, pictures: Pictures, classes: Sequence[str], top: int, threshold: float | None
) -> list[Panel]:
    """Maps of the labels that a run predicts, the highest score of an image first."""
    probabilities, chosen = predict_pictures(opened, pictures, classes, threshold)
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
    own = np.asarray([opened.run.classes.index(name) for name in classes])
    device = next(opened.classifier.top.parameters()).device
    images = torch.from_numpy(pictures.pixels(opened.run.spec))
    panels = []
    for picture, columns in enumerate(order):
        columns = columns[chosen[picture, columns]]
        if len(columns):
            labels = torch.from_numpy(own[columns])[None].to(device)
            values = grad_cam(opened.classifier, images[picture : picture + 1].to(device), labels)[0]
            panels += [
                Panel(picture, int(column), float(probabilities[picture, column]), values[k].cpu().numpy())
                for k, column in enumerate(columns)
            ]
    return panels


# -- the figure --------------------------------------------------------------------------------------------


def _draw(opened: Sequence[OpenedRun], pictures: Pictures, panels: Sequence[Sequence[Panel]]) -> Any:
    several, count = len(opened) > 1, len(pictures.ids)
    rows = [[[p for p in of_run if p.picture == n] for of_run in panels] for n in range(count)]
    widest = max(len(row) for block in rows for row in block)
    under = [_lines_under(opened[0], pictures, n) for n in range(count)]
    step = SIDE + LINE * (2 if several else 1) + 0.1
    heights = [max(step * len(opened), LINE + SIDE + LINE * len(lines) + 0.1) + 0.08 for lines in under]
    width = max((1 + widest) * (SIDE + GAP) + GAP, 6.6)
    sheet = new_sheet(width, sum(heights) + TITLE + 0.42)
    sheet_legend(sheet, _legend(pictures))
    _colour_bar(sheet, TITLE + 0.02, "" if several else f" of {opened[0].name}")
    pixels = pictures.pixels(opened[0].run.spec)
    y = TITLE + 0.42
    for number, block in enumerate(rows):
        text_at(sheet, GAP, y, cut(Path(pictures.ids[number]).name), size=8, color="black")
        image_at(sheet, GAP, y + LINE, SIDE, _enlarged(pixels[number]))
        for i, (text, colour, weight) in enumerate(under[number]):
            text_at(
                sheet, GAP, y + LINE + SIDE + 0.04 + i * LINE, text, size=8.5, color=colour, weight=weight
            )
        for line, row in enumerate(block):
            start = y + line * step
            if several:
                text_at(sheet, 2 * GAP + SIDE, start, cut(opened[line].name, 40), size=8.5, weight="bold")
                start += LINE
            own = pixels if not line else pictures.pixels(opened[line].run.spec)
            for k, panel in enumerate(row):
                x = GAP + (1 + k) * (SIDE + GAP)
                text, colour, weight = _title(opened[0], pictures, panel)
                text_at(sheet, x, start, text, size=8.5, color=colour, weight=weight)
                image_at(sheet, x, start + LINE, SIDE, overlay(own[number], panel.values))
            if not row:
                text_at(sheet, 2 * GAP + SIDE, start, "nothing predicted", size=8.5, color="black")
        y += heights[number]
    return sheet


def overlay(image: npt.NDArray[np.uint8], values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint8]:
    """Draw a map over an image in grey, relative to its maximum.

    Args:
        image: Image, uint8 (channels, H, W).
        values: Map, float32 (h, w), at least 0.

    Returns:
        RGB image, uint8 (3, H', W'), where H' and W' are H and W, or a multiple of them.
    """
    import matplotlib

    grey = _enlarged(image).mean(0)
    height, width = grey.shape
    share = torch.from_numpy(values / max(float(values.max()), np.finfo(np.float32).tiny))
    smooth = functional.interpolate(share[None, None], (height, width), mode="bilinear")[0, 0].numpy()
    colours = 255 * matplotlib.colormaps[_COLOURS](smooth)[..., :3].transpose(2, 0, 1)
    strength = 0.15 + 0.55 * smooth
    return np.asarray((1 - strength) * grey + strength * colours, np.uint8)


def _enlarged(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Repeat the pixels of a small image, so that a map over it is smooth."""
    times = -(-_PIXELS // min(image.shape[1:])) if min(image.shape[1:]) < _PIXELS / 2 else 1
    return image.repeat(times, 1).repeat(times, 2)


def _colour_bar(sheet: Any, y: float, of_run: str) -> None:
    axes = axes_at(sheet, GAP, y, SIDE, 0.1)
    axes.imshow(np.linspace(0, 1, 256)[None], cmap=_COLOURS, aspect="auto")
    text_at(sheet, SIDE + 2 * GAP, y - 0.025, f"Grad-CAM{of_run}, from 0 to its maximum", size=8.5)


def _legend(pictures: Pictures) -> list[Line]:
    if not pictures.observed.any() and pictures.truth is None:
        return [marked("open", "predicted")]
    entries: list[Line] = [("observed label", GIVEN, "bold")]
    if pictures.truth is None:
        return [*entries, marked("open", "predicted, not observed")]
    return [
        *entries,
        marked("right", "not observed, true"),
        marked("wrong", "not true"),
        marked("missed", "true, not observed"),
    ]


def _title(first: OpenedRun, pictures: Pictures, panel: Panel) -> Line:
    """Name and probability of the label of a map, with its mark."""
    text = f"{cut(first.run.classes[panel.column], 16)}  {panel.probability:.2f}"
    observed, truth = pictures.known(panel.picture, panel.column)
    if observed == 1:
        return text, GIVEN, "bold"
    if observed == -1 or truth == -1:
        return marked("wrong", text)
    return marked("right" if truth == 1 else "open", text)


def _lines_under(first: OpenedRun, pictures: Pictures, picture: int) -> list[Line]:
    """Observed labels of an image, then true ones that were not observed."""
    lines: list[Line] = []
    labels = [(column, *pictures.known(picture, column)) for column in range(len(first.run.classes))]
    lines += [(cut(first.run.classes[c]), GIVEN, "bold") for c, observed, _ in labels if observed == 1]
    lines += [marked("missed", cut(first.run.classes[c])) for c, o, truth in labels if truth == 1 and o != 1]
    return shortened(lines, _UNDER)


def _table(
    opened: Sequence[OpenedRun], pictures: Pictures, panels: Sequence[Sequence[Panel]]
) -> dict[str, Column]:
    names = "run", "image", "label", "probability", "observed", "true", "row", "column", "value"
    rows: list[tuple[Any, ...]] = []
    for each, of_run in zip(opened, panels, strict=True):
        for panel in of_run:
            label = opened[0].run.classes[panel.column]
            about = (
                *(each.name, pictures.ids[panel.picture], label, panel.probability),
                *pictures.known(panel.picture, panel.column),
            )
            rows += [(*about, *position, float(value)) for position, value in np.ndenumerate(panel.values)]
    return {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
