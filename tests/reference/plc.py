"""Xie et al. 2022: pseudo-label consistency."""

from __future__ import annotations

import math

from tests.loops import Labels, Matrix


def plc(weak: Matrix, target: Labels, strong: Matrix, tau: float) -> float:
    """Mean cross-entropy of the strong view with the labels of the confident weak view."""
    total, used = 0.0, 0
    for b, labels in enumerate(target):
        for c, label in enumerate(labels):
            p = 1 / (1 + math.exp(-weak[b][c]))
            if label == 0:
                label = 1 if p >= tau else -1 if p < 1 - tau else 0
            if label:
                total, used = total + math.log1p(math.exp(-label * strong[b][c])), used + 1
    return total / max(used, 1)


GOLDENS = []
