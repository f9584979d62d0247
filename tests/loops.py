"""The loop that the slow references of element-wise losses share."""

from __future__ import annotations

import math
from collections.abc import Callable

Matrix = list[list[float]]
Labels = list[list[int]]
Element = Callable[[float], float]


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def log_loss_pos(p: float) -> float:
    return -math.log(p)


def log_loss_neg(p: float) -> float:
    return -math.log(1 - p)


def total(
    logits: Matrix, target: Labels, positive: Element, unknown: Element, negative: Element = log_loss_neg
) -> float:
    """Sum over all elements; each function takes a probability."""
    chosen = {1: positive, 0: unknown, -1: negative}
    result = 0.0
    for row, labels in zip(logits, target, strict=True):
        for z, label in zip(row, labels, strict=True):
            result += chosen[label](sigmoid(z))
    return result
