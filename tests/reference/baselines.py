"""Cole et al. 2021: AN, and binary cross-entropy on full labels."""

from __future__ import annotations

import math

from spml.losses import an_loss
from tests.goldens import Case, ternary


def an(logits: list[list[float]], target: list[list[int]]) -> float:
    """Mean over B * C of -log p on positives and -log(1 - p) on everything else."""
    total, count = 0.0, 0
    for row, labels in zip(logits, target, strict=True):
        for z, label in zip(row, labels, strict=True):
            p = 1 / (1 + math.exp(-z))
            total += -math.log(p) if label == 1 else -math.log(1 - p)
            count += 1
    return total / count


def _an(case: Case) -> object:
    return lambda logits: an_loss(logits, case.tensor("obs"), eps=case.eps(1e-5))


def _bce(case: Case) -> object:
    full = ternary(case.tensor("true"), unlisted=-1)
    return lambda logits: an_loss(logits, full, eps=case.eps(1e-5))


GOLDENS = [(r"(exact_)?an", _an), (r"(exact_)?bce_full", _bce)]
