"""Su et al. 2022: ZLPR."""

from __future__ import annotations

import math

from spml.losses import zlpr_loss
from tests.goldens import Case, on_observed, ternary
from tests.loops import Labels, Matrix


def zlpr(logits: Matrix, target: Labels) -> float:
    """Mean over rows. A row without a known positive contributes only its known negatives."""
    total = 0.0
    for row, labels in zip(logits, target, strict=True):
        positives = [z for z, label in zip(row, labels, strict=True) if label == 1]
        others = [
            z for z, label in zip(row, labels, strict=True) if label == -1 or (label == 0 and positives)
        ]
        total += math.log(1 + sum(math.exp(-z) for z in positives))
        total += math.log(1 + sum(math.exp(z) for z in others))
    return total / len(logits)


def soft_zlpr(logits: Matrix, soft: Matrix) -> float:
    """Mean over rows, with a soft target for every label."""
    total = 0.0
    for row, targets in zip(logits, soft, strict=True):
        total += math.log(1 + sum(t * math.exp(-z) for z, t in zip(row, targets, strict=True)))
        total += math.log(1 + sum((1 - t) * math.exp(z) for z, t in zip(row, targets, strict=True)))
    return total / len(logits)


def _zlpr_full(case: Case) -> object:
    full = ternary(case.tensor("true"), unlisted=-1)
    return lambda logits: zlpr_loss(logits, full)


GOLDENS = [(r"zlpr", on_observed(zlpr_loss)), (r"zlpr_full", _zlpr_full)]
