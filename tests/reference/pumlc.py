"""Yuan et al. 2023: PU-MLC, and the mixing of Chen et al. 2020."""

from __future__ import annotations

import math

import numpy as np

from spml.losses import pumlc_loss
from tests.goldens import Case, on_observed
from tests.loops import Labels, Matrix


def pumlc(logits: Matrix, target: Labels, gamma: float, alpha: float) -> tuple[float, Matrix]:
    """Sum over classes, and its gradient. A constant class has the temperature 1."""
    rows, classes = len(logits), len(logits[0])
    total, gradient = 0.0, [[0.0] * classes for _ in range(rows)]
    for c in range(classes):
        column, labels = [row[c] for row in logits], [row[c] for row in target]
        mean = sum(column) / rows
        spread = math.sqrt(sum((z - mean) ** 2 for z in column) / (rows - 1)) if rows > 1 else 0.0
        temperature = min(alpha * spread, 1.0) if spread > 0 else 1.0
        scores = [1 / (1 + math.exp(-z / temperature)) for z in column]
        average = sum(scores) / rows
        total += average**gamma * math.log(average)
        for b, p in enumerate(scores):
            gradient[b][c] += average ** (gamma - 1) * p * (1 - p) / rows / temperature
        for sign in (1, -1):
            known = [b for b in range(rows) if labels[b] == sign]
            for b in known:
                z = sign * column[b] / temperature
                total += math.log1p(math.exp(-z)) / len(known)
                gradient[b][c] -= sign / (1 + math.exp(z)) / len(known) / temperature
    return total, gradient


def mixed_labels(logits: Matrix, target: Labels, partner: list[int], share: list[float]) -> Matrix:
    """Labels of mixed samples: 1 on known positives, p elsewhere."""

    def label(row: int, column: int) -> float:
        return 1.0 if target[row][column] == 1 else 1 / (1 + math.exp(-logits[row][column]))

    return [
        [a * label(row, c) + (1 - a) * label(other, c) for c in range(len(logits[0]))]
        for row, (other, a) in enumerate(zip(partner, share, strict=True))
    ]


def mixed(logits: Matrix, labels: Matrix) -> float:
    """Squared differences of logarithms: sum over classes, mean over samples."""
    total = 0.0
    for row, row_labels in zip(logits, labels, strict=True):
        for z, label in zip(row, row_labels, strict=True):
            total += (math.log(label) + math.log1p(math.exp(-z))) ** 2
    return total / len(logits)


def _finite(case: Case) -> tuple[float, np.ndarray] | None:
    """The released code returns NaN if a class is constant over the batch, as all are in `extreme`."""
    if case.record["input"] != "extreme":
        return None
    hp = case.record["hp"]
    loss, gradient = pumlc(
        case.inputs["logits"].tolist(), case.inputs["obs"].tolist(), hp["gamma"], hp["alpha"]
    )
    return loss, np.array(gradient)


GOLDENS = [(r"pumlc_g[0-9.]+_a[0-9.]+", on_observed(pumlc_loss, gamma="gamma", alpha="alpha"), _finite)]
