"""SHOW: likelihood of the observed label."""

from __future__ import annotations

import math

from tests.loops import Labels, Matrix


def show(logits: Matrix, target: Labels, mean_labels: float, rho: float, weight: float) -> float:
    """Mean over rows of [-log p_o + rho log sum p] + weight log^2(k / K)."""
    classes = len(logits[0])
    shift = math.log(mean_labels / (classes - mean_labels))
    total, count, labelled = 0.0, 0.0, 0
    for row, labels in zip(logits, target, strict=True):
        scores = [1 / (1 + math.exp(-z - shift)) for z in row]
        total -= sum(math.log(p) for p, label in zip(scores, labels, strict=True) if label == 1)
        total -= sum(math.log(1 - p) for p, label in zip(scores, labels, strict=True) if label == -1)
        if 1 in labels:
            possible = sum(p for p, label in zip(scores, labels, strict=True) if label != -1)
            total += rho * math.log(possible)
            count += possible
            labelled += 1
    if not labelled:
        return total / len(logits)
    return total / len(logits) + weight * math.log(count / labelled / mean_labels) ** 2


GOLDENS = []
