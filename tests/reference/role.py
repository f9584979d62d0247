"""Cole et al. 2021: ROLE."""

from __future__ import annotations

import math

from spml.losses import role_loss
from tests.goldens import Case
from tests.reference.epr import regulariser


def explain(
    logits: list[list[float]], target: list[list[int]], teacher: list[list[float]], mean_labels: float
) -> float:
    """L(p | q): known labels and cross-entropy to q = sigmoid(teacher), mean over B * C, plus R(p)."""
    total, count = 0.0, 0
    for row, labels, other in zip(logits, target, teacher, strict=True):
        for z, label, t in zip(row, labels, other, strict=True):
            p, q = 1 / (1 + math.exp(-z)), 1 / (1 + math.exp(-t))
            total += {1: -math.log(p), 0: 0.0, -1: -math.log(1 - p)}[label]
            total += -q * math.log(p) - (1 - q) * math.log(1 - p)
            count += 1
    return total / count + regulariser(logits, mean_labels)


def role(
    logits: list[list[float]], target: list[list[int]], estimates: list[list[float]], mean_labels: float
) -> float:
    """Half of each side explaining the other."""
    return 0.5 * (
        explain(logits, target, estimates, mean_labels) + explain(estimates, target, logits, mean_labels)
    )


def _role(case: Case) -> object:
    hp = {"mean_labels": case.mean_labels, "eps": case.eps(1e-5)}
    if case.record["wrt"] == "est_logits":
        return lambda estimates: role_loss(case.tensor("logits"), case.tensor("obs"), estimates, **hp)
    return lambda logits: role_loss(logits, case.tensor("obs"), case.tensor("est_logits"), **hp)


GOLDENS = [(r"role_wrt_(est_)?logits", _role)]
