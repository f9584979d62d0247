"""Local evidence: scores of windows of the feature map, of which the highest counts.

A head that is fitted to one label per image is a classifier of one thing. A window mostly holds one thing, so
that its score there is right, and the highest one over all windows says whether the image has it anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..common.errors import InputError
from .backbones import Backbone
from .solved.members import class_logits, relative_weights

_FEWEST = 2  # positions along a side below which there are no windows
_STEPS = 10  # most steps of windows along a side
_SHARES = 0.45, 0.6, 0.75  # sides of windows, as shares of the side of the map
CROPS = (2, 3)
"""Crops along a side."""

_SMALLEST_SPREAD = 1e-6
_ENOUGH = 0.5  # relative weight of windows by their score, below which they are not used
_LARGE = 0.4  # share of the image; beside windows from this size on, the whole image does not count
_MEAN_TOLERANCE = 1e-3

_Side = Annotated[int, msgspec.Meta(ge=1, le=8192)]


class Windows(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, frozen=True):
    """Windows of a feature map, or crops of an image that go through the network by themselves.

    Attributes:
        height, width: Size of the map. Of crops, the image counts as a map in which all of them have whole
            sides.
        sides: Side of the windows of each size, in positions of the map.
        step: Number of positions from one to the next, in both directions. Crops lie side by side.
        crops: Whether they are crops.
    """

    height: _Side
    width: _Side
    sides: Annotated[list[_Side], msgspec.Meta(min_length=1, max_length=20)]
    step: _Side = 1
    crops: bool = False

    def __post_init__(self) -> None:
        if not self.crops and any(side % self.step for side in self.sides):
            raise ValueError(f"windows of {self.sides} in steps of {self.step}")
        if max(self.sides) > min(self.height, self.width):
            raise ValueError(f"a window of {max(self.sides)} on a map of {self.height} x {self.width}")
        if self.crops and any(self.height % side or self.height // side > max(CROPS) for side in self.sides):
            raise ValueError(f"crops of {self.sides} on an image of {self.height}")

    @classmethod
    def of_map(cls, height: int, width: int) -> Windows:
        """Windows for maps of this size: 1, 2, 3, .45 n, .6 n and .75 n positions wide, for n along the
        shorter side. Maps with more than 10 of them are treated as if 2 x 2 or more positions were one."""
        side = min(height, width)
        step = -(-side // _STEPS)
        steps = side // step
        sizes = {1, 2, 3, *(round(share * steps) for share in _SHARES)}
        sides = [step * size for size in sorted(sizes) if 0 < size < max(steps, 2)]
        return cls(height, width, sides, step)

    def features(self, backbone: Backbone, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Features of images, and of their windows.

        Args:
            backbone: Network.
            inputs: Images uint8 (B, channels, H, W), or what `rows` returned of them.

        Returns:
            Features (B, D) of the images, and (B, n, D) of the n windows of each size.

        Raises:
            InputError: The map of the backbone has another size.
        """
        if self.crops:
            return backbone(inputs), [
                self._crops(backbone, inputs, self.height // side) for side in self.sides
            ]
        rows = inputs if inputs.ndim == 3 and backbone.spec.size else self.rows(backbone, inputs)
        shape = self.height // self.step, self.width // self.step
        grid = rows[:, 1:].transpose(1, 2).reshape(rows.shape[0], rows.shape[2], *shape)
        windows = []
        for side in self.sides:
            means = nn.functional.avg_pool2d(grid, side // self.step, 1)
            windows.append(backbone.features_by_position(means).flatten(2).transpose(1, 2))
        return rows[:, 0], windows

    def rows(self, backbone: Backbone, inputs: Tensor) -> Tensor:
        """All that `features` needs of images, float32 (B, 1 + P, D): their features, and the map, of whose
        P positions each is the mean of `step` x `step`.

        Raises:
            InputError: The map of the backbone has another size.
        """
        maps = backbone.maps(inputs)
        if maps.shape[2:] != (self.height, self.width):
            raise InputError(
                f"the model scores windows of maps of {self.height} x {self.width} positions, but those of "
                f"backbone {backbone.spec.name} have {maps.shape[2]} x {maps.shape[3]}. Train again."
            )
        grid = nn.functional.avg_pool2d(maps, self.step, self.step)
        return torch.cat([backbone.pool(maps)[:, None], grid.flatten(2).transpose(1, 2)], 1)

    @property
    def positions(self) -> int:
        """Number of positions P in `rows`."""
        return (self.height // self.step) * (self.width // self.step)

    @staticmethod
    def _crops(backbone: Backbone, inputs: Tensor, grid: int) -> Tensor:
        """Features (B, n, D) of the crops of a grid, each enlarged to the size of the image."""
        samples, channels, *sides = inputs.shape
        height, width = (side // grid for side in sides)
        whole = inputs[:, :, : grid * height, : grid * width]
        cells = whole.reshape(samples, channels, grid, height, grid, width)
        crops = cells.permute(0, 2, 4, 1, 3, 5).flatten(0, 2)
        large = nn.functional.interpolate(crops.float(), inputs.shape[2:], mode="bilinear", antialias=False)
        features: Tensor = backbone(large)
        return features.reshape(samples, grid * grid, -1)

    def _step(self, side: int) -> int:
        return side if self.crops else self.step

    @property
    def counts(self) -> list[int]:
        """Number of windows of each size."""
        steps = [(side, self._step(side)) for side in self.sides]
        return [((self.height - side) // at + 1) * ((self.width - side) // at + 1) for side, at in steps]

    def places(self) -> npt.NDArray[np.float32]:
        """Left, top, width and height of all windows, as shares of the image.

        Returns:
            float32 (n, 4): the windows of the first size, row by row, then those of the next.
        """
        places = []
        for side in self.sides:
            rows = np.arange(0, self.height - side + 1, self._step(side)) / self.height
            columns = np.arange(0, self.width - side + 1, self._step(side)) / self.width
            top, left = (each.ravel() for each in np.meshgrid(rows, columns, indexing="ij"))
            size = [np.full(len(top), side / self.width), np.full(len(top), side / self.height)]
            places.append(np.stack([left, top, *size], 1))
        return np.concatenate(places).astype(np.float32)


class LocalSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Structure of `LocalScores`, as in model.json.

    Attributes:
        windows: Windows that are scored.
        weights: Weights of the whole image, of the windows of each size, and of the mean over the sizes; all
            sum to 1.
    """

    windows: Windows
    weights: list[Annotated[float, msgspec.Meta(ge=0, le=1)]]

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.windows.sides) + 2:
            raise ValueError(f"{len(self.weights)} weights for {len(self.windows.sides)} sizes of windows")


class LocalScores(nn.Module):
    """Weighted sum of the scores of an image, of its best windows of each size, and of the mean of these.

    With v_1 = the score of class c of the whole image, v_2 ... v_{S+1} = the highest one over the windows of
    each size, and v_{S+2} = the mean of these S numbers:
    logit_c = offset_c + scale_c sum_i weight_i (v_ic - centre_ic) / spread_ic.

    Args:
        num_classes: Number of classes C.
        settings: Its structure.
    """

    weight: Tensor
    unused: Tensor
    centre: Tensor
    spread: Tensor
    offset: Tensor
    scale: Tensor

    def __init__(self, num_classes: int, settings: LocalSettings) -> None:
        super().__init__()
        self.settings = settings
        self.register_buffer("weight", torch.tensor(settings.weights), persistent=False)
        own = settings.weights[1:-1]
        unused = torch.tensor([not weight and any(own) for weight in own])
        self.register_buffer("unused", unused, persistent=False)
        for name in ("centre", "spread"):
            self.register_buffer(name, torch.ones(len(settings.weights), num_classes))
        for name in ("offset", "scale"):
            self.register_buffer(name, torch.ones(num_classes))

    def forward(self, variants: Tensor) -> Tensor:
        """Return the logits (B, C) of the scores (V, B, C) that `variants` gives."""
        standardised = (variants - self.centre[:, None]) / self.spread[:, None]
        logits: Tensor = self.offset + self.scale * torch.einsum("v,vbc->bc", self.weight, standardised)
        return logits

    def strongest(self, variants: Tensor, numbers: Sequence[Tensor]) -> Tensor:
        """The window that speaks most for each class: of the best ones of the sizes that have a weight of
        their own (of all, if none has), the one whose score is most deviations above the mean of its size.

        Args:
            variants: Scores (V, B, C) of `variants`.
            numbers: Best window (B, C) of each size, counted within its size.

        Returns:
            int64 (B, C), counted over the windows of all sizes, as in `Windows.places`.
        """
        above = (variants - self.centre[:, None]) / self.spread[:, None]
        sizes = above[1:-1].masked_fill(self.unused[:, None, None], -math.inf).argmax(0)
        starts = list(accumulate(self.settings.windows.counts, initial=0))[:-1]
        overall = torch.stack([number + start for number, start in zip(numbers, starts, strict=True)])
        return overall.gather(0, sizes[None])[0]


def variants(whole: Tensor, best: Sequence[Tensor]) -> Tensor:
    """Scores that are weighed, (V, B, C): of the whole image (B, C), of the best window of each size (B, C),
    and the mean of these."""
    return torch.stack([whole, *best, torch.stack(list(best)).mean(0)])


def fit_local(
    held_out: Tensor,
    known: Tensor,
    windows: Windows,
    score: Callable[[Tensor], float],
    *,
    mean_labels: float,
    required: bool = False,
) -> tuple[LocalScores | None, dict[str, float], Tensor | None]:
    """Score windows instead of the whole image, where held-out samples do not say that it is clearly better.

    The score is the mean of the best windows of all sizes. If the largest windows are less than two fifths of
    the image, as parts of samples, crops and windows of small maps are, the whole image counts as one more
    size. Held-out samples don't weigh the sizes: they have one known label each, and by it the whole image is
    close to windows where it is several points of mAP behind. They tell whether it is clearly better: then
    exp((score - that of the whole image) / (.03 that of the whole image)) < .5 for each size and the mean.

    Args:
        held_out: Scores of `variants` (V, H, C) of samples that the head was not fitted to.
        known: Whether each class is a known positive of them, bool (H, C).
        windows: The windows that were scored.
        score: Score of (H, C), higher is better.
        mean_labels: Mean labels per sample K, for the scale of the logits.
        required: Use windows all the same.

    Returns:
        What turns the scores of `variants` into logits, None where the whole image is clearly better; name
        and score of each variant; and logits (H, C) of the held-out samples, as in `ClassLogits`.
    """
    what = "crops" if windows.crops else "windows"
    names = ["whole image", *(f"{what} of {side}" for side in windows.sides), "mean of the sizes"]
    values = [score(each) for each in held_out]
    tried = dict(zip(names, values, strict=True))
    if not required and max(relative_weights(values)[1:]) < _ENOUGH:
        return None, tried, None
    sizes = len(windows.sides)
    large = max(windows.sides) ** 2 >= _LARGE * windows.height * windows.width
    whole = 0.0 if large else 1 / (sizes + 1)
    weights = [whole, *[0.0] * sizes, 1 - whole]
    local = _standardising(held_out, LocalSettings(windows, weights))
    offset, scale, logits = class_logits(local(held_out), known, mean_labels)
    local.offset.copy_(offset)
    local.scale.copy_(scale)
    return local, tried, logits


def weigh_alike(scores: Tensor, windows: Windows) -> LocalScores:
    """Weigh the whole image and windows of each size alike, where no label can tell which is better.

    Each has mean 0 and deviation 1 in every class before; the sum has those of the logits of the whole image.

    Args:
        scores: Log-probabilities of `variants` (V, H, C).
        windows: The windows that were scored.

    Source:
        Standardisation of each over images: Miller et al. SPARC: Score Prompting and Adaptive Fusion for
        Zero-Shot Multi-Label Recognition in Vision-Language Models. CVPR 2025.
    """
    count = len(windows.sides)
    weights = [1 / (count + 1)] * (count + 1) + [0.0]
    local = _standardising(scores, LocalSettings(windows, weights))
    sums = local(scores).double()
    deviation, mean = torch.std_mean(scores[0].double().exp().logit(_SMALLEST_SPREAD), 0, correction=0)
    own, middle = torch.std_mean(sums, 0, correction=0)
    local.scale.copy_(deviation / own.clamp_min(_SMALLEST_SPREAD))
    local.offset.copy_(mean - local.scale * middle)
    return local


def _standardising(scores: Tensor, settings: LocalSettings) -> LocalScores:
    """Weighted sum of scores (V, H, C), each with mean 0 and deviation 1 in every class."""
    local = LocalScores(scores.shape[2], settings)
    spread, centre = torch.std_mean(scores.double(), 1, correction=0)
    local.centre.copy_(centre)
    local.spread.copy_(spread.clamp_min(_SMALLEST_SPREAD))
    local.offset.zero_()
    return local


def crops() -> Windows:
    """A half and a third of the sides of the image, 4 and 9 crops."""
    side = math.lcm(*CROPS)
    return Windows(side, side, [side // number for number in CROPS], crops=True)


@torch.no_grad()
def windows_of(backbone: Backbone) -> Windows:
    """Windows of the maps of a backbone.

    Raises:
        InputError: It has no maps, they are of one position, or the features are not their mean.
    """
    spec = backbone.spec
    was_training = backbone.training
    backbone.eval()
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (1, max(len(spec.mean), 1), spec.size, spec.size), dtype=np.uint8)
    try:
        maps = backbone.maps(torch.from_numpy(pixels).to(backbone.device))
        height, width = maps.shape[2:]
        if min(height, width) < _FEWEST:
            raise InputError(
                f"backbone {spec.name} turns images of {spec.size} pixels into maps of {height} x {width} "
                "positions, which have no windows: choose larger images (data.size)."
            )
        whole = backbone.pool(maps)
        of_mean = backbone.features_by_position(maps.mean((2, 3), keepdim=True)).flatten(1)
    finally:
        backbone.train(was_training)
    if not torch.allclose(whole, of_mean, rtol=0, atol=_MEAN_TOLERANCE * float(whole.abs().max())):
        raise InputError(
            f"the features of backbone {spec.name} are not the mean of its map, so a head on them can't be "
            "applied to windows."
        )
    return Windows.of_map(height, width)
