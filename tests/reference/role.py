"""Cole et al. 2021: ROLE."""

from __future__ import annotations

import math

from spml.losses import role_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix
from tests.reference.epr import regulariser


def explain(logits: Matrix, target: Labels, teacher: Matrix, mean_labels: float, norm: str) -> float:
    """L(p | q): cross-entropy to q = sigmoid(teacher), mean over B * C, and known labels, over B * C or B."""
    total, count = 0.0, len(logits) * len(logits[0])
    weight = len(logits[0]) if norm == "samples" else 1
    for row, labels, other in zip(logits, target, teacher, strict=True):
        for z, label, t in zip(row, labels, other, strict=True):
            p, q = 1 / (1 + math.exp(-z)), 1 / (1 + math.exp(-t))
            total += weight * {1: -math.log(p), 0: 0.0, -1: -math.log(1 - p)}[label]
            total += -q * math.log(p) - (1 - q) * math.log(1 - p)
    return total / count + regulariser(logits, mean_labels)


def role(
    logits: Matrix, target: Labels, estimates: Matrix, mean_labels: float, norm: str = "elements"
) -> float:
    """Half of each side explaining the other."""
    return 0.5 * (
        explain(logits, target, estimates, mean_labels, norm)
        + explain(estimates, target, logits, mean_labels, norm)
    )


def _role(case: Case) -> object:
    hp = {"mean_labels": case.mean_labels, "eps": case.eps(1e-5)}
    if case.record["wrt"] == "est_logits":
        return lambda estimates: role_loss(case.tensor("logits"), case.tensor("obs"), estimates, **hp)
    return lambda logits: role_loss(logits, case.tensor("obs"), case.tensor("est_logits"), **hp)


GOLDENS = [(r"role_wrt_(est_)?logits", _role)]
