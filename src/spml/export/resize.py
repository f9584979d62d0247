"""Pillow's resizing as tensor operations, so that a graph can hold it: equal to the bit."""

from __future__ import annotations

import math
from collections.abc import Callable

import PIL
import torch
from torch import Tensor, nn

_BITS = 22
"""Binary digits after the point of Pillow's coefficients of 8-bit images."""

PILLOW = tuple(map(int, PIL.__version__.split(".")[:2]))
"""Version of Pillow that is installed, whose pixels are computed."""

_BLOCK = 8
"""Neighbouring output pixels that are computed by one product of matrices.

They share most of their input pixels. Larger blocks multiply by more zeros, smaller ones copy more pixels.
"""


class PillowResize(nn.Module):
    """Resize RGB images of any size to a square, as `PIL.Image.resize` does.

    Pillow makes two passes, over the rows and then over the columns, and rounds to 8 bits after each. Its
    coefficients are integers, so that sums of products are exact in float64 and do not depend on their order.

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
        rows, columns = height - self.size, width - self.size
        farthest = torch.sym_max(torch.sym_max(rows, -rows), torch.sym_max(columns, -columns))
        # The columns come first for some tall images. The pixels of the two orders differ, mostly by 1.
        further: int | torch.SymInt = 0
        if PILLOW >= (13, 0):
            further = rows - torch.sym_max(2 * columns, 0)
        elif PILLOW >= (12, 2):
            further = torch.sym_min(height - 100 * width, rows)
        tall = torch.sym_max(torch.sym_min(further, 1), 0)
        inputs = (images, *self._coefficients(height), *self._coefficients(width))
        # Numbers, because the size of the images is not known before the graph runs.
        branches = (
            (1 - farthest, self._picked),
            (tall, self._columns_first),
            (torch.sym_min(farthest, 1) - tall, self._rows_first),
        )
        if not torch.compiler.is_compiling():
            return next(resize for positive, resize in branches if positive > 0)(*inputs)
        # One after the other, because torch.export fails at a condition inside another; the sum has one term.
        parts = [
            torch.cond(torch.full((), positive) > 0, resize, self._nothing, inputs)
            for positive, resize in branches
        ]
        total: Tensor = parts[0] + parts[1] + parts[2]
        return total

    def _nothing(self, images: Tensor, *coefficients: Tensor) -> Tensor:
        return torch.zeros(images.shape[0], 3, self.size, self.size, dtype=torch.uint8)

    def _picked(self, images: Tensor, *coefficients: Tensor) -> Tensor:
        """Take the nearest pixels; those of images that have the size already stay as they are."""
        rows, columns = (self._nearest(length) for length in images.shape[1:3])
        return images[:, rows][:, :, columns].permute(0, 3, 1, 2).contiguous()

    def _nearest(self, length: int) -> Tensor:
        scale = torch.full((self.size,), length, dtype=torch.float64) / self.size
        # Pillow adds up steps, whose rounding decides where a position falls on the edge of two pixels.
        steps = torch.cat([scale[:1] * 0.5, scale[1:]])
        return steps.cumsum(0).long().clamp(max=length - 1)

    def _columns_first(self, images: Tensor, *coefficients: Tensor) -> Tensor:
        swapped = (*coefficients[2:], *coefficients[:2])
        return self._rows_first(images.transpose(1, 2), *swapped).transpose(2, 3).contiguous()

    def _rows_first(self, images: Tensor, *coefficients: Tensor) -> Tensor:
        batch, height, _, channels = images.shape
        by_column = images.permute(2, 0, 1, 3)
        narrow = self._weighed(by_column.reshape(by_column.shape[0], -1), *coefficients[2:])
        by_row = narrow.reshape(self.size, batch, height, channels).permute(2, 1, 0, 3)
        small = self._weighed(by_row.reshape(by_row.shape[0], -1), *coefficients[:2])
        return small.reshape(self.size, batch, self.size, channels).permute(1, 3, 0, 2).contiguous()

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
        width = ((_BLOCK - 1) * length + 2 * support * torch.sym_max(length, size)) // size + 2
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
