"""Labels that an objective has inferred for training samples. The data set is never written to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..labels import ObservedLabels


class LabelMemory(nn.Module):
    """Inferred labels of N training samples over C classes; what is written once stays.

    A buffer, so that it is in every checkpoint and moves with its objective. What the user observed always
    wins: nothing is written where a label is known, and `fill` leaves known labels as they are.

    Args:
        observed: labels of the training set; their number of samples and classes counts here.
        soft: inferred labels are any number in [0, 1], as float32; otherwise 0 or 1, one byte each.

    Attributes:
        inferred: (N, C), 1 = positive, 0 = negative, between them = soft, -1 = nothing inferred.
    """

    inferred: Tensor

    def __init__(self, observed: ObservedLabels, *, soft: bool = False) -> None:
        super().__init__()
        shape = (len(observed), observed.num_classes)
        self.register_buffer("inferred", torch.full(shape, -1, dtype=torch.float32 if soft else torch.int8))

    def rows(self, index: Tensor) -> Tensor:
        """What is inferred for samples, (B, C), -1 where nothing is.

        Args:
            index: int64 (B,), positions of the samples in the training set.
        """
        return self.inferred[index]

    def free(self, target: Tensor, index: Tensor) -> Tensor:
        """Where nothing is known and nothing inferred yet, bool (B, C).

        Args:
            target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}, of the samples at `index`.
            index: int64 (B,).
        """
        nothing = self.rows(index) < 0
        return nothing.scatter(1, target[:, None], False) if target.ndim == 1 else nothing & (target == 0)

    def fill(self, target: Tensor, index: Tensor) -> Tensor:
        """The target with inferred labels in place of unknown ones, int8 (B, C) in {-1, 0, +1}; not for a
        soft memory. Arguments as in `free`.
        """
        inferred = self.rows(index)
        return known_first(target, torch.where(inferred < 0, 0, 2 * inferred - 1))

    @torch.no_grad()
    def write(self, target: Tensor, index: Tensor, where: Tensor, value: Tensor | float) -> None:
        """Infer `value` at the entries `where`, those that are not free excepted.

        Args:
            target, index: as in `free`; no sample twice.
            where: bool (B, C).
            value: (B, C) or a number, in [0, 1].
        """
        before = self.rows(index)
        after = torch.where(where & self.free(target, index), value, before)
        self.inferred[index] = after.to(before.dtype)


def known_first(target: Tensor, inferred: Tensor) -> Tensor:
    """Known labels where there are any, inferred ones elsewhere, int8 (B, C) in {-1, 0, +1}.

    Args:
        target: int64 (B,) class indices, or integer (B, C) in {-1, 0, +1}.
        inferred: int8 (B, C) in {-1, 0, +1}, 0 = nothing inferred.
    """
    if target.ndim == 1:
        return inferred.scatter(1, target[:, None], 1)
    return torch.where(target == 0, inferred, target).to(torch.int8)


def lowest(scores: Tensor, free: Tensor, counts: Sequence[int]) -> Tensor:
    """The free entries with the lowest scores of each class, bool (N, C).

    Args:
        scores: (N, C), not NaN.
        free: bool (N, C), which entries may be chosen.
        counts: how many of each class; fewer where fewer are free.
    """
    chosen = torch.zeros_like(free)
    for column, count in enumerate(counts):
        candidates = scores[:, column].where(free[:, column], torch.inf)
        chosen[candidates.topk(min(count, len(scores)), largest=False).indices, column] = True
    return chosen & free
