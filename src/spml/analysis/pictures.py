"""Figures of images: what runs predict on them, and Grad-CAM maps of the predicted labels."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..common.draws import permutation
from ..common.errors import InputError
from ..config import DataConfig
from ..data import Dataset, Inputs, Opening, Samples, start_opening
from ..labels import ObservedLabels
from ..models import Backbone, BackboneSpec, Classifier
from ..models.backbones.backbone import resized
from ..models.spec import NONE
from ..models.top import LOGITS
from ..plots.sheets import (
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
    window_at,
)
from ..plots.style import GIVEN, axes_at, cut, image_at, new_sheet, text_at
from ..runs.evaluate import check_classes
from ..runs.predict.batches import Engine
from ..runs.run import Run, load_each
from .registry import Analysis, register_figure

Ternary = npt.NDArray[np.int8]


def open_runs(folders: Sequence[str | Path]) -> list[Run]:
    """Load finished runs. Where the folders of several end in the same name, their names are whole paths."""
    if not folders:
        raise InputError("no run to draw: name the folder of at least one")
    runs = load_each(folders)
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            run.name = str(run.folder)
    return runs


def open_training_data(run: Run) -> Dataset:
    """Open the data of a run as in its training: the same hidden labels, the same splits."""
    opening = start_opening(replace(run.settings.data, size=0))
    _check_kind(run, opening)
    if opening.classes != run.classes:
        raise InputError(
            f"{run.settings.data.path}: has other classes than when {run.folder} was trained on it. "
            "Restore the data, or train again."
        )
    return _finish(opening, run.spec)


class Pictures(NamedTuple):
    """Images to draw, with labels in the order of the classes of the first run.

    Attributes:
        ids: Names of n images.
        observed: Observed labels in {-1, 0, +1}, int8 (n, C).
        truth: True labels in {-1, +1}, or 0 for a class that the data does not have, int8 (n, C); None if the
            data is not fully labelled.
        load: Loads the images for a backbone.
    """

    ids: tuple[str, ...]
    observed: Ternary
    truth: Ternary | None
    load: Callable[[BackboneSpec], Inputs]

    def known(self, picture: int, column: int) -> tuple[int, int]:
        """Observed and true label of a class on an image, each in {-1, 0, +1}; 0 = not known."""
        truth = 0 if self.truth is None else int(self.truth[picture, column])
        return int(self.observed[picture, column]), truth

    def pixels(self, spec: BackboneSpec) -> npt.NDArray[np.uint8]:
        """Images as a backbone sees them, uint8 (n, channels, H, W)."""
        return self.load(spec).fetch(range(len(self.ids)), None).numpy()


def open_pictures(
    folders: Sequence[str | Path],
    *,
    data: str | None,
    split: str | None,
    images: int,
    threshold: float | None,
    seed: int,
) -> tuple[list[Run], Pictures]:
    """Open runs with the same classes, and the images for them; the options are those of `predictions`."""
    if threshold is not None and not 0 <= threshold <= 1:
        raise InputError(f"`threshold` is a probability from 0 to 1, got {threshold:g}")
    runs = open_runs(folders)
    check_classes({str(run.folder): run for run in runs})
    for run in runs:
        if run.spec.kind != "image":
            raise InputError(
                f"{run.folder}: takes {run.spec.kind}s, which can't be drawn. Name runs that were "
                "trained on images; a pretrained backbone may be frozen (model.frozen=yes)."
            )
    if images < 1:
        raise InputError(f"`images` must be at least 1, got {images}")
    run = runs[0]
    own = run.settings.data
    if data is None:
        opening = start_opening(replace(own, size=0))
    else:
        kept = ("unlisted", "rename", "separator", "draft", "decoder", "workers")
        config = DataConfig(path=data, **{name: getattr(own, name) for name in kept})
        opening = start_opening(config, purpose="evaluate")
    _check_kind(run, opening)
    columns = run.columns(opening.config.path, opening.classes)
    first = _finish(opening, run.spec)
    part = split or ("val" if data is None else "test")
    if part not in first.splits:
        raise InputError(
            f"{opening.config.path}: has no {part!r} split, but {', '.join(first.splits)} (`split`)."
        )
    samples, truth = first.splits[part], first.truth.get(part)
    rows = np.sort(permutation(len(samples), "pictures", seed)[:images])

    def ternary(labels: ObservedLabels) -> Ternary:
        # A class that the data does not list is unknown in it, not absent.
        result = np.zeros((len(rows), len(run.classes)), np.int8)
        result[:, columns] = labels.take(rows).to_ternary()
        return result

    def load(spec: BackboneSpec) -> Inputs:
        dataset = first if spec == run.spec else _finish(opening, spec)
        return dataset.splits[part].inputs.take(rows)

    ids = tuple(samples.ids[row] for row in rows)
    return runs, Pictures(ids, ternary(samples.observed), None if truth is None else ternary(truth), load)


def predict_pictures(
    run: Run, pictures: Pictures, classes: Sequence[str], threshold: float | None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Probabilities (n, C) of a run, and which labels it predicts, bool (n, C); columns as `classes`."""
    unlabelled = ObservedLabels.from_ternary(np.zeros_like(pictures.observed))
    logits = run.logits(Samples(pictures.ids, pictures.load(run.spec), unlabelled), Engine())
    order = [run.classes.index(name) for name in classes]
    probabilities = run.probabilities(logits[:, order])
    if threshold is None:
        return probabilities, run.decision()(logits)[:, order]
    return probabilities, probabilities >= threshold


def _finish(opening: Opening, spec: BackboneSpec) -> Dataset:
    return opening.finish(size=spec.size or 1, interpolation=spec.interpolation)


def _check_kind(run: Run, opening: Opening) -> None:
    kind = run.spec.kind
    if opening.kind != kind:
        raise InputError(
            f"{opening.config.path}: holds {opening.kind}s, but the model in {run.folder} takes "
            f"{kind}s. Name other data."
        )


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
        runs, data=data, split=split, images=images, threshold=threshold, seed=seed
    )
    classes = opened[0].classes
    results = [predict_pictures(each, pictures, classes, threshold) for each in opened]
    paths = sorted({each.settings.data.path for each in opened})
    notes = []
    if data is None and len(paths) > 1:
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
    return Analysis.from_rows(_draw_predictions(opened, pictures, results), columns, rows, notes)


Result = tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]
"""Probabilities (n, C), and which labels are predicted (n, C)."""


def _draw_predictions(opened: Sequence[Run], pictures: Pictures, results: Sequence[Result]) -> Any:
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
    observed_entry: Line = ("observed label", GIVEN, "bold")
    if pictures.truth is not None:
        legend = [observed_entry, *PREDICTED]
    elif pictures.observed.any():
        right = marked("right", "predicted, observed", "bold")
        missed = marked("missed", "observed, not predicted", "bold")
        legend = [observed_entry, right, marked("open", "predicted, not observed"), missed]
    else:
        legend = [marked("open", "predicted, with its score")]
    sheet_legend(sheet, legend)
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
        raise InputError(f"`top` must be at least 1, got {top}")
    opened, pictures = open_pictures(
        runs, data=data, split=split, images=images, threshold=threshold, seed=seed
    )
    panels = [_panels(each, pictures, opened[0].classes, top, threshold) for each in opened]
    if not any(panels):
        raise InputError(
            "no label reaches the threshold on any of the images: pass a lower one (threshold=0.1), or "
            "draw more images (`images`)"
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
            if opened.classifier.locates:
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
    under = []  # observed labels of an image, then true ones that were not observed
    for n in range(count):
        known = [(cut(name), *pictures.known(n, c)) for c, name in enumerate(opened[0].classes)]
        observed_lines: list[Line] = [(name, GIVEN, "bold") for name, given, _ in known if given == 1]
        missed = [marked("missed", name) for name, given, true in known if given != 1 and true == 1]
        under.append(shortened([*observed_lines, *missed], _UNDER))
    step = SIDE + LINE * (2 if several else 1) + 0.1
    heights = [max(step * len(opened), LINE + SIDE + LINE * len(lines) + 0.1) + 0.08 for lines in under]
    width = max((1 + widest) * (SIDE + GAP) + GAP, 5.5)  # at least as wide as the legend
    sheet = new_sheet(width, sum(heights) + TITLE + 0.42)
    legend: list[Line] = [("observed label", GIVEN, "bold")]
    if pictures.truth is not None:
        legend += [marked("right", "not observed, true"), marked("wrong", "not true")]
        legend.append(marked("missed", "true, not observed"))
    elif pictures.observed.any():
        legend.append(marked("open", "predicted, not observed"))
    else:
        legend = [marked("open", "predicted")]
    sheet_legend(sheet, legend)
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
    if classifier.sizes:  # that with the largest weight is explained
        classifier, images = classifier.of_one_size(), resized(images, classifier.sizes[0].size)
    top = copy.copy(classifier.top)
    top.scores = LOGITS  # explained is the score before a softmax, as in the paper
    backbone: Backbone = classifier.backbone
    network: Any = backbone.network
    with torch.enable_grad():
        maps = None if backbone.spec.name == NONE else backbone.unpooled(images)
        if isinstance(maps, Tensor) and maps.ndim == 4:
            activations = maps.detach().requires_grad_()
            pool = backbone.features_by_position if top.takes_maps else backbone.pool_unpooled
            features = pool(activations)
            is_nhwc = getattr(network, "output_fmt", "NCHW") == "NHWC"

            def as_maps(part: Tensor) -> Tensor:
                return part.permute(0, 3, 1, 2) if is_nhwc else part

        else:
            grid = getattr(getattr(network, "patch_embed", None), "grid_size", None)
            blocks = getattr(network, "blocks", None)
            if grid is None or not blocks or not hasattr(blocks[-1], "norm1"):
                raise InputError(
                    f"backbone {classifier.spec.name} has neither a feature map nor a grid of tokens that "
                    "Grad-CAM could show: name a run on images with a convolutional backbone, "
                    "such as resnet50, or a vision transformer (model.backbone)."
                )
            tokens: list[Tensor] = []

            def replace_tokens(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
                tokens.append(output.detach().requires_grad_())
                return tokens[0]

            with blocks[-1].norm1.register_forward_hook(replace_tokens):
                features = backbone(images)
            (activations,) = tokens

            def as_maps(part: Tensor) -> Tensor:
                patches = part[:, part.shape[1] - grid[0] * grid[1] :]  # class and register tokens come first
                return patches.reshape(len(part), *grid, -1).permute(0, 3, 1, 2)

        logits = top.whole(features).logits
        explained = []
        for column in labels.T:
            score = logits.gather(1, column[:, None]).sum()
            (gradient,) = torch.autograd.grad(score, activations, retain_graph=True)
            weights = as_maps(gradient).mean((2, 3), keepdim=True)
            explained.append((weights * as_maps(activations.detach())).sum(1).clamp(min=0).float())
    return torch.stack(explained, 1)
