"""Zhou et al. 2022: EM, and EntMin."""

from __future__ import annotations

import math

from spml.losses import em_loss, entmin_loss
from tests.goldens import Case


def em(logits: list[list[float]], target: list[list[int]], alpha: float) -> float:
    """Mean over B * C: -log p on positives, -alpha H(p) on unknowns, -log(1 - p) on negatives."""
    total, count = 0.0, 0
    for row, labels in zip(logits, target, strict=True):
        for z, label in zip(row, labels, strict=True):
            p = 1 / (1 + math.exp(-z))
            if label == 1:
                total += -math.log(p)
            elif label == -1:
                total += -math.log(1 - p)
            else:
                total += alpha * (p * math.log(p) + (1 - p) * math.log(1 - p))
            count += 1
    return total / count


def _em(case: Case) -> object:
    alpha = case.record["hp"]["alpha"]
    return lambda logits: em_loss(logits, case.tensor("obs"), alpha=alpha, eps=case.eps(1e-5))


def _entmin(case: Case) -> object:
    alpha = case.record["hp"]["alpha"]
    return lambda logits: entmin_loss(logits, case.tensor("obs"), alpha=alpha)


GOLDENS = [(r"(exact_)?em_alpha[0-9.]+", _em), (r"exact_entmin_alpha[0-9.]+", _entmin)]
