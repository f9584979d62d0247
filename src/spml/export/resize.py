"""Pillow's resizing as tensor operations, so that a graph can hold it: equal to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

_BITS = 22
"""Binary digits after the point of Pillow's coefficients of 8-bit images."""

_BLOCK = 8
"""Neighbouring output pixels that are computed by one product of matrices.

They share most of their input pixels. Larger blocks multiply by more zeros, smaller ones copy more pixels.
"""


class PillowResize(nn.Module):
    """Resize RGB images of any size to a square, as images are resized before a network sees them.

    Pillow resizes the rows, then the columns, and rounds to 8 bits after each pass. Its coefficients are
    integers, so that sums of products are exact in float64 and do not depend on their order.

    Args:
        size: Side of the result in pixels; the aspect ratio is not kept.
        interpolation: `nearest`, `bilinear`, `bicubic` or `lanczos`.

    Source:
        libImaging/Resample.c and libImaging/Geometry.c of Pillow.
    """

    pi: Tensor

    def __init__(self, size: int, interpolation: str) -> None:
        super().__init__()
        self.size, self.interpolation = size, interpolation
        # As a tensor, because the exporter to ONNX rounds numbers of Python to float32.
        self.register_buffer("pi", torch.tensor(math.pi, dtype=torch.float64), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Resize a batch.

        Args:
            images: uint8 (B, H, W, 3), with any H and W.

        Returns:
            uint8 (B, 3, size, size).
        """
        if self.interpolation == "nearest":
            return self._picked(images)
        height, width = images.shape[1:3]
        batch, channels = images.shape[0], images.shape[3]
        by_column = images.permute(2, 0, 1, 3)
        narrow = self._weighed(by_column.reshape(width, -1), *self._coefficients(width))
        by_row = narrow.reshape(self.size, batch, height, channels).permute(2, 1, 0, 3)
        small = self._weighed(by_row.reshape(height, -1), *self._coefficients(height))
        return small.reshape(self.size, batch, self.size, channels).permute(1, 3, 0, 2).contiguous()

    def _picked(self, images: Tensor) -> Tensor:
        rows, columns = (self._nearest(length) for length in images.shape[1:3])
        return images[:, rows][:, :, columns].permute(0, 3, 1, 2).contiguous()

    def _nearest(self, length: int) -> Tensor:
        scale = torch.full((self.size,), length, dtype=torch.float64) / self.size
        # Pillow adds up steps, whose rounding decides where a position falls on the edge of two pixels.
        steps = torch.cat([scale[:1] * 0.5, scale[1:]])
        return steps.cumsum(0).long().clamp(max=length - 1)

    def _coefficients(self, length: int) -> tuple[Tensor, Tensor]:
        """Coefficients, float64 (blocks, block, width), and the pixels that they are for, (blocks, width)."""
        kernel, support = _KERNELS[self.interpolation]
        size = self.size
        blocks = -(-size // _BLOCK)
        outputs = torch.arange(blocks * _BLOCK).double().reshape(blocks, _BLOCK)
        # The length as a tensor, because it is not known when the graph is made.
        scale = torch.full((), length, dtype=torch.float64) / size
        stretch = scale.clamp(min=1.0)
        centre = (outputs + 0.5) * scale
        first = (centre - support * stretch + 0.5).clamp(min=0).floor()
        last = (centre + support * stretch + 0.5).floor().clamp(max=length)
        width = (_BLOCK - 1 + 2 * support) * length // size + 2 * support + 2
        used = first[:, :1] + torch.arange(width).double()
        at = used[:, None]
        weights = kernel((at - centre[..., None] + 0.5) * (1.0 / stretch), self.pi)
        weights = torch.where((at >= first[..., None]) & (at < last[..., None]), weights, 0.0)
        total = weights.sum(2, keepdim=True)
        weights = weights / torch.where(total == 0, 1.0, total) * 2**_BITS
        weights = torch.where(weights < 0, (weights - 0.5).ceil(), (weights + 0.5).floor())
        return weights, used.long().clamp(max=length - 1)

    def _weighed(self, lines: Tensor, weights: Tensor, used: Tensor) -> Tensor:
        """Weigh lines (L, N) to `size` lines (size, N), both uint8."""
        sums = torch.matmul(weights, lines[used].double())  # (blocks, block, N)
        rounded = ((sums + 2 ** (_BITS - 1)) * 2.0**-_BITS).floor().clamp(0, 255)
        result: Tensor = rounded.to(torch.uint8).flatten(0, 1)[: self.size]
        return result


def _bilinear(x: Tensor, _: Tensor) -> Tensor:
    return (1.0 - x.abs()).clamp(min=0)


def _bicubic(x: Tensor, _: Tensor) -> Tensor:
    x, a = x.abs(), -0.5
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def _lanczos(x: Tensor, pi: Tensor) -> Tensor:
    return torch.where((x >= -3) & (x < 3), _sinc(x, pi) * _sinc(x / 3, pi), 0.0)


def _sinc(x: Tensor, pi: Tensor) -> Tensor:
    angle = torch.where(x == 0, 1.0, x * pi)
    return torch.where(x == 0, 1.0, angle.sin() / angle)


_KERNELS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], int]] = {
    "bilinear": (_bilinear, 1),
    "bicubic": (_bicubic, 2),
    "lanczos": (_lanczos, 3),
}
"""Weight by distance in output pixels (input pixels where an image grows), and where it becomes 0."""
