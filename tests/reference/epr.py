"""Cole et al. 2021: EPR."""

from __future__ import annotations

import math

from spml.losses import epr_loss, epr_regulariser_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_pos, total


def regulariser(logits: Matrix, mean_labels: float) -> float:
    """((k - K) / C)^2 with k = sum of p over the batch / B."""
    expected = sum(1 / (1 + math.exp(-z)) for row in logits for z in row)
    return ((expected / len(logits) - mean_labels) / len(logits[0])) ** 2


def epr(logits: Matrix, target: Labels, mean_labels: float, weight: float, norm: str) -> float:
    """Known labels over B * C or B, plus weight times the regulariser."""
    known = total(logits, target, log_loss_pos, lambda p: 0.0)
    count = len(logits) * (len(logits[0]) if norm == "elements" else 1)
    return known / count + weight * regulariser(logits, mean_labels)


def _epr(case: Case) -> object:
    hp = {"mean_labels": case.mean_labels, "eps": case.eps(1e-5)}
    return lambda logits: epr_loss(logits, case.tensor("obs"), **hp)


def _regulariser(case: Case) -> object:
    return lambda logits: epr_regulariser_loss(logits, mean_labels=case.mean_labels)


GOLDENS = [(r"epr", _epr), (r"epr_regulariser", _regulariser)]
