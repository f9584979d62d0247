"""Softmax cross-entropy on the observed label."""

from __future__ import annotations

import math

from tests.loops import Labels, Matrix


def softmax(logits: Matrix, target: Labels) -> float:
    """Mean over rows of the mean over known positives, each against the unknown labels."""
    total = 0.0
    for row, labels in zip(logits, target, strict=True):
        positives = [z for z, label in zip(row, labels, strict=True) if label == 1]
        rivals = sum(math.exp(z) for z, label in zip(row, labels, strict=True) if label == 0)
        for z in positives:
            total += -math.log(math.exp(z) / (math.exp(z) + rivals)) / len(positives)
    return total / len(logits)


GOLDENS = []
