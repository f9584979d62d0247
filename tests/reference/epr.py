"""Cole et al. 2021: EPR."""

from __future__ import annotations

import math

from spml.losses import epr_loss, epr_regulariser_loss
from tests.goldens import Case


def regulariser(logits: list[list[float]], mean_labels: float) -> float:
    """((k - K) / C)^2 with k = sum of p over the batch / B."""
    total = sum(1 / (1 + math.exp(-z)) for row in logits for z in row)
    return ((total / len(logits) - mean_labels) / len(logits[0])) ** 2


def epr(
    logits: list[list[float]], target: list[list[int]], mean_labels: float, weight: float, norm: str
) -> float:
    """Known labels over B * C or B, plus weight times the regulariser."""
    total = 0.0
    for row, labels in zip(logits, target, strict=True):
        for z, label in zip(row, labels, strict=True):
            p = 1 / (1 + math.exp(-z))
            total += {1: -math.log(p), 0: 0.0, -1: -math.log(1 - p)}[label]
    count = len(logits) * (len(logits[0]) if norm == "elements" else 1)
    return total / count + weight * regulariser(logits, mean_labels)


def _epr(case: Case) -> object:
    hp = {"mean_labels": case.mean_labels, "eps": case.eps(1e-5)}
    return lambda logits: epr_loss(logits, case.tensor("obs"), **hp)


def _regulariser(case: Case) -> object:
    return lambda logits: epr_regulariser_loss(logits, mean_labels=case.mean_labels)


GOLDENS = [(r"epr", _epr), (r"epr_regulariser", _regulariser)]
