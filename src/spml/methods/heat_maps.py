"""Running averages of class maps of each training sample, in the coordinates of its image."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..common.errors import InputError
from ..labels import ObservedLabels
from .base import Batch

_UNSEEN = -1.0
"""Stands for a cell that no region has shown yet: less than any probability."""
_SEEN = 1 - 1e-3
"""Least weight of cells that were seen, of those that a value is interpolated from."""


class HeatMaps(nn.Module):
    """Probabilities of each class at W x W cells of each training image, averaged over the epochs.

    A view shows a region of the image (`Batch.regions`), and its class maps have G x G positions. Both grids
    are read by bilinear interpolation between the centres of their cells; outside of the outermost centres
    the values at the edge are repeated.

    Args:
        observed: Labels of the training set, from which the shape (N, C) is taken.
        width: Cells W of a side.
        decay: Weight of the previous average, in [0, 1].
        gigabytes: Most memory that the maps may take, 2 N C W^2 bytes.

    Raises:
        InputError: They would take more.

    Attributes:
        maps: Averages, float16 of shape (N, C, W, W), with -1 where no region has shown a cell yet.
    """

    maps: Tensor

    def __init__(self, observed: ObservedLabels, width: int, decay: float, gigabytes: float) -> None:
        super().__init__()
        self.decay = decay
        shape = (len(observed), observed.num_classes, width, width)
        size = 2 * shape[0] * shape[1] * width**2 / 1e9
        if size > gigabytes:
            raise InputError(
                f"heat maps of {shape[0]:,} samples x {shape[1]:,} classes with {width} x {width} cells take "
                f"{size:,.1f} GB, and as much again for the best epoch, but hp.gigabytes is {gigabytes:g}: "
                f"pass hp.gigabytes={math.ceil(10 * size) / 10:g} if the device has them, or fewer cells "
                f"(hp.width={max(1, int(width * (gigabytes / size) ** 0.5))})."
            )
        self.register_buffer("maps", torch.full(shape, _UNSEEN, dtype=torch.float16))

    def expected(self, probabilities: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the averages as the views of a batch show them.

        Args:
            probabilities: Class maps (B, C, G, G) of the views, for their size and dtype.
            batch: Samples and the regions that their views show.

        Returns:
            Averages (B, C, G, G), and a mask (B, 1, G, G) of the positions at which all cells that they are
            interpolated from have been seen.
        """
        averages = self.maps[batch.index].to(probabilities.dtype)
        seen = (averages[:, :1] != _UNSEEN).to(averages.dtype)
        left, top, right, bottom, mirrored = _regions(batch, averages)
        y, x = (_centres(cells, averages) for cells in probabilities.shape[2:])
        x = torch.where(mirrored, 1 - x, x)
        x, y = left + x * (right - left), top + y * (bottom - top)
        known = interpolated(seen, x, y) > _SEEN
        return interpolated(averages.clamp(min=0), x, y), known

    def update(self, probabilities: Tensor, batch: Batch) -> None:
        """Add the probabilities (B, C, G, G) of a step to those cells whose centres the views show."""
        before = self.maps[batch.index].to(probabilities.dtype)
        left, top, right, bottom, mirrored = _regions(batch, probabilities)
        centres = _centres(before.shape[2], probabilities)
        x, y = (centres - left) / (right - left), (centres - top) / (bottom - top)
        inside = ((y >= 0) & (y <= 1))[:, None, :, None] & ((x >= 0) & (x <= 1))[:, None, None, :]
        latest = interpolated(probabilities, torch.where(mirrored, 1 - x, x), y)
        after = torch.where(before == _UNSEEN, latest, self.decay * before + (1 - self.decay) * latest)
        self.maps[batch.index] = torch.where(inside, after, before).to(self.maps.dtype)


def interpolated(maps: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Interpolate maps (B, C, h, w) at the points of a grid.

    Args:
        maps: Values at the centres of cells.
        x, y: Coordinates of the columns (B, m) and of the rows (B, n), as shares of width and height.

    Returns:
        Values (B, C, n, m), bilinear between centres; those at the edge are repeated outside of them.
    """
    rows, columns = y[:, :, None].expand(-1, -1, x.shape[1]), x[:, None, :].expand(-1, y.shape[1], -1)
    grid = 2 * torch.stack([columns, rows], -1) - 1
    return functional.grid_sample(maps, grid, padding_mode="border", align_corners=False)


def _regions(batch: Batch, like: Tensor) -> tuple[Tensor, ...]:
    """Return the edges of the regions, and whether they are mirrored, each (B, 1)."""
    regions = batch.regions
    if regions is None:
        regions = like.new_zeros(len(batch.index), 5)
        regions[:, 2:4] = 1
    *edges, mirrored = torch.split(regions.to(like.dtype), 1, 1)
    return (*edges, mirrored > 0)


def _centres(cells: int, like: Tensor) -> Tensor:
    """Return the centres of some cells along a side, (1, cells)."""
    return ((torch.arange(cells, device=like.device, dtype=like.dtype) + 0.5) / cells)[None]
