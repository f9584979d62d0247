"""Zhou et al. 2022: EM with asymmetric pseudo-labelling."""

from __future__ import annotations

import math

import torch

from spml.losses import em_apl_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix


def em_apl(logits: Matrix, target: Labels, soft: Matrix, alpha: float, beta: float) -> float:
    """Mean over B * C; an unknown label with soft >= 0 is a pseudo-negative with that target."""
    total, count = 0.0, 0
    for row, labels, targets in zip(logits, target, soft, strict=True):
        for z, label, q in zip(row, labels, targets, strict=True):
            p = 1 / (1 + math.exp(-z))
            if label == 1:
                total += -math.log(p)
            elif label == -1:
                total += -math.log(1 - p)
            elif q >= 0:
                total += beta * (-q * math.log(p) - (1 - q) * math.log(1 - p))
            else:
                total += alpha * (p * math.log(p) + (1 - p) * math.log(1 - p))
            count += 1
    return total / count


def lowest(scores: Matrix, free: list[list[bool]], counts: list[int]) -> set[tuple[int, int]]:
    """(row, column) of the counts[c] lowest scores of each column c among free labels."""
    chosen = set()
    for column, count in enumerate(counts):
        rows = [row for row in range(len(scores)) if free[row][column]]
        rows.sort(key=lambda row: scores[row][column])
        chosen |= {(row, column) for row in rows[:count]}
    return chosen


def _em_apl(case: Case) -> object:
    stored = case.tensor("apl_obs")
    target = (stored == 1).to(torch.int8)
    soft = torch.where(stored < 0, -stored, -1.0)
    hp = case.record["hp"]
    return lambda logits: em_apl_loss(
        logits, target, soft, alpha=hp["alpha"], beta=hp["beta"], eps=case.eps(1e-5)
    )


GOLDENS = [(r"(exact_)?em_apl_a[0-9.]+_b[0-9.]+", _em_apl)]
