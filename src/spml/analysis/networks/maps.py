"""Grad-CAM maps of predicted labels on images, with the labels that nobody had observed marked."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...common.errors import InputError
from ...models import Backbone, Classifier
from ...models.spec import NONE
from ...models.top import LOGITS
from ...plots.sheets import (
    GAP,
    KINDS,
    LINE,
    SIDE,
    TITLE,
    Line,
    lines_at,
    marked,
    sheet_legend,
    shortened,
    window_at,
)
from ...plots.style import GIVEN, axes_at, cut, image_at, new_sheet, text_at
from ...runs.run import Run
from ..registry import Analysis, register_figure
from .opened import Pictures, open_pictures, predict_pictures

_PIXELS = 300  # least side of a drawn image
_COLOURS = "inferno"
_UNDER = 5  # lines under an image


class Panel(NamedTuple):
    """Grad-CAM map, float32 (h, w), of one label on one image, and its window if the run scores windows."""

    picture: int
    column: int
    probability: float
    values: npt.NDArray[np.float32]
    window: Sequence[float]


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
    not is marked as right or wrong where the data is fully labelled, and as open otherwise. Of a run that
    scores windows, the one that speaks most for the label is outlined.

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
    if top < 1:
        raise InputError(f"--top must be at least 1, got {top}")
    opened, pictures = open_pictures(
        runs, data=data, split=split, images=images, files=files, threshold=threshold, seed=seed
    )
    panels = [_panels(each, pictures, opened[0].classes, top, threshold) for each in opened]
    if not any(panels):
        raise InputError(
            "no label reaches the threshold on any of the images: pass a lower one (--threshold 0.1), or "
            "draw more images (--images)"
        )
    columns = ("run", "image", "label", "probability", "observed", "true", "row", "column", "value")
    rows: list[tuple[Any, ...]] = []
    for each, of_run in zip(opened, panels, strict=True):
        for panel in of_run:
            label = opened[0].classes[panel.column], panel.probability
            known = pictures.known(panel.picture, panel.column)
            about = (each.name, pictures.ids[panel.picture], *label, *known)
            rows += [(*about, *position, float(value)) for position, value in np.ndenumerate(panel.values)]
    return Analysis.from_rows(_draw(opened, pictures, panels), columns, rows)


def _panels(
    opened: Run, pictures: Pictures, classes: Sequence[str], top: int, threshold: float | None
) -> list[Panel]:
    """Maps of the labels that a run predicts, the highest score of an image first."""
    probabilities, chosen = predict_pictures(opened, pictures, classes, threshold)
    order = np.argsort(-probabilities, axis=1, kind="stable")[:, :top]
    own = np.asarray([opened.classes.index(name) for name in classes])
    device = next(opened.classifier.top.parameters()).device
    images = torch.from_numpy(pictures.pixels(opened.spec))
    panels = []
    for picture, columns in enumerate(order):
        columns = columns[chosen[picture, columns]]
        if len(columns):
            labels = torch.from_numpy(own[columns])[None].to(device)
            image = images[picture : picture + 1].to(device)
            values = grad_cam(opened.classifier, image, labels)[0].cpu().numpy()
            windows: Sequence[Sequence[float]] = [()] * len(columns)
            if opened.classifier.top.local:
                with torch.inference_mode():
                    numbers = opened.classifier(image).windows[0, labels[0]]
                windows = opened.places[numbers.cpu().numpy()].tolist()
            panels += [
                Panel(picture, int(column), float(probabilities[picture, column]), values[k], windows[k])
                for k, column in enumerate(columns)
            ]
    return panels


def _draw(opened: Sequence[Run], pictures: Pictures, panels: Sequence[Sequence[Panel]]) -> Any:
    several, count = len(opened) > 1, len(pictures.ids)
    rows = [[[p for p in of_run if p.picture == n] for of_run in panels] for n in range(count)]
    widest = max(len(row) for block in rows for row in block)
    under = [_lines_under(opened[0], pictures, n) for n in range(count)]
    step = SIDE + LINE * (2 if several else 1) + 0.1
    heights = [max(step * len(opened), LINE + SIDE + LINE * len(lines) + 0.1) + 0.08 for lines in under]
    width = max((1 + widest) * (SIDE + GAP) + GAP, 6.6)
    sheet = new_sheet(width, sum(heights) + TITLE + 0.42)
    sheet_legend(sheet, _legend(pictures))
    y = TITLE + 0.02
    axes_at(sheet, GAP, y, SIDE, 0.1).imshow(np.linspace(0, 1, 256)[None], cmap=_COLOURS, aspect="auto")
    of_run = "" if several else f" of {opened[0].name}"
    text_at(sheet, SIDE + 2 * GAP, y - 0.025, f"Grad-CAM{of_run}, from 0 to its maximum", size=8.5)
    pixels = pictures.pixels(opened[0].spec)
    y = TITLE + 0.42
    for number, block in enumerate(rows):
        text_at(sheet, GAP, y, cut(Path(pictures.ids[number]).name), size=8, color="black")
        image_at(sheet, GAP, y + LINE, SIDE, _enlarged(pixels[number]))
        lines_at(sheet, GAP, y + LINE + SIDE + 0.04, under[number])
        for line, row in enumerate(block):
            start = y + line * step
            if several:
                text_at(sheet, 2 * GAP + SIDE, start, cut(opened[line].name, 40), size=8.5, weight="bold")
                start += LINE
            own = pixels if not line else pictures.pixels(opened[line].spec)
            for k, panel in enumerate(row):
                x = GAP + (1 + k) * (SIDE + GAP)
                text = f"{cut(opened[0].classes[panel.column], 16)}  {panel.probability:.2f}"
                observed, truth = pictures.known(panel.picture, panel.column)
                title = (text, GIVEN, "bold") if observed == 1 else marked(KINDS[observed or truth], text)
                lines_at(sheet, x, start, [title])
                image_at(sheet, x, start + LINE, SIDE, overlay(own[number], panel.values))
                if panel.window:
                    window_at(sheet, x, start + LINE, panel.window)
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


def _legend(pictures: Pictures) -> list[Line]:
    observed: list[Line] = [("observed label", GIVEN, "bold")]
    if pictures.truth is not None:
        right, wrong = marked("right", "not observed, true"), marked("wrong", "not true")
        return [*observed, right, wrong, marked("missed", "true, not observed")]
    known = pictures.observed.any()
    return [*observed, marked("open", "predicted, not observed")] if known else [marked("open", "predicted")]


def _lines_under(first: Run, pictures: Pictures, picture: int) -> list[Line]:
    """Observed labels of an image, then true ones that were not observed."""
    observed: list[Line] = []
    missed: list[Line] = []
    for column, name in enumerate(map(cut, first.classes)):
        given, truth = pictures.known(picture, column)
        if given == 1:
            observed.append((name, GIVEN, "bold"))
        elif truth == 1:
            missed.append(marked("missed", name))
    return shortened([*observed, *missed], _UNDER)


def grad_cam(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    """Compute Grad-CAM of labels on images.

    weight_k = mean over positions of d(logit) / d(A_k);  map = max(0, sum over k of weight_k A_k)

    A is the last feature map of the backbone before pooling. For a linear head on averaged features this is
    the class activation map without its negative part, divided by the number of positions. In a vision
    transformer A is what the last attention layer reads, arranged as the grid of its patches, without class
    and register tokens: behind that layer, the logit may depend on the class token alone. Of a model that
    scores windows, the logit is that of the whole image.

    Args:
        classifier: Classifier in evaluation mode; neither its weights nor their gradients change.
        images: Images, uint8 of shape (B, channels, H, W), on the device of the classifier.
        labels: Columns of the labels to explain, int64 of shape (B, K).

    Returns:
        Maps, float32 of shape (B, K, h, w), at least 0 and not scaled.

    Raises:
        InputError: The backbone has neither feature maps nor a grid of tokens.

    Source: Selvaraju, Cogswell, Das, Vedantam, Parikh, Batra. Grad-CAM: Visual Explanations from Deep
    Networks via Gradient-based Localization. ICCV 2017, Eq. 1 and 2.
    """
    top = copy.copy(classifier.top)
    top.scores = LOGITS  # explained is the score before a softmax, as in the paper
    with torch.enable_grad():
        found = _feature_maps(classifier, images) or _tokens(classifier.backbone, images)
        if found is None:
            raise InputError(
                f"backbone {classifier.spec.name} has neither a feature map nor a grid of tokens that "
                "Grad-CAM could show: name a run on images with a convolutional backbone, "
                "such as resnet50, or a vision transformer (--model.backbone)."
            )
        activations, features = found
        logits = top.whole(features).logits
        maps = []
        for column in labels.T:
            score = logits.gather(1, column[:, None]).sum()
            (gradient,) = torch.autograd.grad(score, activations, retain_graph=True)
            maps.append(_weighted(classifier.backbone, activations.detach(), gradient))
    return torch.stack(maps, 1)


def _feature_maps(classifier: Classifier, images: Tensor) -> tuple[Tensor, Tensor] | None:
    """Feature maps, and the input of the top as a function of them."""
    backbone = classifier.backbone
    maps = None if backbone.spec.name == NONE else backbone.unpooled(images)
    if not isinstance(maps, Tensor) or maps.ndim != 4:
        return None
    maps = maps.detach().requires_grad_()
    pool = backbone.features_by_position if classifier.top.takes_maps else backbone.pool_unpooled
    return maps, pool(maps)


def _tokens(backbone: Backbone, images: Tensor) -> tuple[Tensor, Tensor] | None:
    """Tokens that the last attention layer reads, and the features as a function of them."""
    if _grid(backbone) is None:
        return None
    tokens: list[Tensor] = []

    def replace(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        tokens.append(output.detach().requires_grad_())
        return tokens[0]

    network: Any = backbone.network
    with network.blocks[-1].norm1.register_forward_hook(replace):
        features = backbone(images)
    return tokens[0], features


def _grid(backbone: Backbone) -> tuple[int, int] | None:
    """Rows and columns of the patches of a vision transformer; None for other networks."""
    network: Any = backbone.network
    grid = getattr(getattr(network, "patch_embed", None), "grid_size", None)
    blocks = getattr(network, "blocks", None)
    if grid is None or not blocks or not hasattr(blocks[-1], "norm1"):
        return None
    return int(grid[0]), int(grid[1])


def _weighted(backbone: Backbone, activations: Tensor, gradient: Tensor) -> Tensor:
    """Sum of the activations over channels, weighted by their mean gradients, without its negative part."""
    if activations.ndim == 3:
        height, width = _grid(backbone) or (0, 0)
        first = activations.shape[1] - height * width  # class and register tokens come first
        activations, gradient = (
            tensor[:, first:].reshape(len(tensor), height, width, -1).permute(0, 3, 1, 2)
            for tensor in (activations, gradient)
        )
    elif getattr(backbone.network, "output_fmt", "NCHW") == "NHWC":
        activations, gradient = (tensor.permute(0, 3, 1, 2) for tensor in (activations, gradient))
    weights = gradient.mean((2, 3), keepdim=True)
    return (weights * activations).sum(1).clamp(min=0).float()
