"""Memory of an objective for each training sample: inferred labels and averaged predictions.

Both are buffers, so that they are in every checkpoint. The data set is never written to.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..labels import ObservedLabels
from .base import Batch, Outputs

_NOT_PREDICTED = 2.0
"""Stands for a missing average probability: larger than any, so that such a sample is ranked last."""


class LabelMemory(nn.Module):
    """Inferred labels of N training samples over C classes. An entry that has been written never changes.

    Known labels always win: no entry is written where a label is known, and `fill` leaves known labels
    unchanged.

    Args:
        observed: Labels of the training set, from which the shape (N, C) is taken.
        soft: Whether inferred labels are numbers in [0, 1], stored as float32, instead of 0 or 1, stored in
            one byte each.

    Attributes:
        inferred: Inferred labels of shape (N, C): 1 = positive, 0 = negative, values in between = soft,
            -1 = none.
    """

    inferred: Tensor

    def __init__(self, observed: ObservedLabels, *, soft: bool = False) -> None:
        super().__init__()
        shape = (len(observed), observed.num_classes)
        self.register_buffer("inferred", torch.full(shape, -1, dtype=torch.float32 if soft else torch.int8))

    def rows(self, index: Tensor) -> Tensor:
        """Return the inferred labels of some samples, of shape (B, C), with -1 where there is none.

        Args:
            index: Positions of the samples in the training set, int64 of shape (B,).
        """
        return self.inferred[index]

    def free(self, target: Tensor, index: Tensor) -> Tensor:
        """Return a mask, bool of shape (B, C), of the entries that are neither known nor inferred yet.

        Args:
            target: Labels of the samples at `index`: class indices, int64 of shape (B,), or integers in
                {-1, 0, +1} of shape (B, C).
            index: Positions of the samples in the training set, int64 of shape (B,).
        """
        empty = self.rows(index) < 0
        return empty.scatter(1, target[:, None], False) if target.ndim == 1 else empty & (target == 0)

    def fill(self, target: Tensor, index: Tensor) -> Tensor:
        """Replace unknown labels by inferred ones. Not for a soft memory.

        Args:
            target: Labels of the samples at `index`, as in `free`.
            index: Positions of the samples in the training set, int64 of shape (B,).

        Returns:
            Labels in {-1, 0, +1}, int8 of shape (B, C).
        """
        inferred = self.rows(index)
        return known_first(target, torch.where(inferred < 0, 0, 2 * inferred - 1))

    @torch.no_grad()
    def write(self, target: Tensor, index: Tensor, where: Tensor, value: Tensor | float) -> None:
        """Store `value` at those entries of the mask `where` that are free.

        Args:
            target: Labels of the samples at `index`, as in `free`.
            index: Positions of distinct samples in the training set, int64 of shape (B,).
            where: Mask of the entries to write, bool of shape (B, C).
            value: Number in [0, 1], or tensor (B, C) of such numbers.
        """
        before = self.rows(index)
        after = torch.where(where & self.free(target, index), value, before)
        self.inferred[index] = after.to(before.dtype)


class RunningAverage(nn.Module):
    """Predicted probabilities of each training sample, averaged over epochs.

    Args:
        observed: Labels of the training set, from which the shape (N, C) is taken.
        decay: Weight of the previous average in [0, 1]; with 0 the average is the last prediction.

    Attributes:
        average: Averages, float32 of shape (N, C), with a number above 1 where there is no prediction yet.
    """

    average: Tensor

    def __init__(self, observed: ObservedLabels, decay: float) -> None:
        super().__init__()
        self.decay = decay
        shape = (len(observed), observed.num_classes)
        self.register_buffer("average", torch.full(shape, _NOT_PREDICTED))

    def update(self, outputs: Outputs, batch: Batch) -> None:
        """Add the predictions of a step."""
        latest = torch.sigmoid(outputs.logits).to(self.average.dtype)
        before = self.average[batch.index]
        self.average[batch.index] = torch.where(
            before == _NOT_PREDICTED, latest, self.decay * before + (1 - self.decay) * latest
        )

    def rows(self, index: Tensor, otherwise: float | Tensor) -> Tensor:
        """Return the averages (B, C) of the samples at `index`; `otherwise` stands for a missing one."""
        average = self.average[index]
        return torch.where(average == _NOT_PREDICTED, otherwise, average)


def known_first(target: Tensor, inferred: Tensor) -> Tensor:
    """Combine known and inferred labels; where both exist, the known one is taken.

    Args:
        target: Class indices, int64 of shape (B,), or integers in {-1, 0, +1} of shape (B, C).
        inferred: Inferred labels in {-1, 0, +1}, int8 of shape (B, C), 0 = none.

    Returns:
        Labels in {-1, 0, +1}, int8 of shape (B, C).
    """
    if target.ndim == 1:
        return inferred.scatter(1, target[:, None], 1)
    return torch.where(target == 0, inferred, target).to(torch.int8)


def lowest(scores: Tensor, free: Tensor, counts: Sequence[int]) -> Tensor:
    """Select the free entries with the lowest scores of each class.

    Args:
        scores: Scores without NaN, of shape (N, C).
        free: Mask of the entries that may be selected, bool of shape (N, C).
        counts: Number of entries to select in each class; fewer are selected where fewer are free.

    Returns:
        Mask of the selected entries, bool of shape (N, C).
    """
    chosen = torch.zeros_like(free)
    for column, count in enumerate(counts):
        candidates = scores[:, column].where(free[:, column], torch.inf)
        chosen[candidates.topk(min(count, len(scores)), largest=False).indices, column] = True
    return chosen & free
