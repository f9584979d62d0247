"""Li et al. 2023: OPML, its soft form, the high-rank term."""

from __future__ import annotations

import math

import numpy as np

from spml.losses import high_rank_loss, opml_loss, soft_opml_loss
from tests.goldens import Case, on_observed
from tests.loops import Labels, Matrix


def opml(logits: Matrix, target: Labels, alpha: float, beta: float, share: Matrix | None = None) -> float:
    """Mean over rows; unknown labels are positives with the given `share`.

    A row without a known positive contributes only its known negatives and the constants.
    """
    total = 0.0
    for b, (row, labels) in enumerate(zip(logits, target, strict=True)):
        first, second, labelled = alpha, beta, 1 in labels
        for c, (z, label) in enumerate(zip(row, labels, strict=True)):
            e = {1: 1.0, 0: share[b][c] if share else 0.0, -1: 0.0}[label]
            if label or labelled:
                first += e * math.exp(-z)
                second += (1 - e) * math.exp(z)
        total += sum(math.log(whole) for whole in (first, second) if whole)
    return total / len(logits)


def hard_opml(logits: Matrix, target: Labels) -> float:
    """Mean over rows of the highest score of a negative minus the lowest of a positive.

    A row without a known positive has only its known negatives; a side without labels contributes 0.
    """
    total = 0.0
    for row, labels in zip(logits, target, strict=True):
        positives = [z for z, label in zip(row, labels, strict=True) if label == 1]
        others = [
            z for z, label in zip(row, labels, strict=True) if label == -1 or (label == 0 and positives)
        ]
        total += max(others, default=0.0) - min(positives, default=0.0)
    return total / len(logits)


def smoothing(logits: Matrix, ap: list[float], gamma: float, kind: str) -> Matrix:
    """(p AP)^gamma or p AP^gamma."""
    shares = []
    for row in logits:
        scores = [1 / (1 + math.exp(-z)) for z in row]
        if kind == "product":
            shares.append([(p * a) ** gamma for p, a in zip(scores, ap, strict=True)])
        else:
            shares.append([p * a**gamma for p, a in zip(scores, ap, strict=True)])
    return shares


def high_rank(logits: Matrix, form: str, delta: float) -> float:
    """Minus the sum of log(1 + s^2), log(s + delta) or sqrt(s^2 + delta^2), s the singular values of P."""
    probabilities = 1 / (1 + np.exp(-np.array(logits)))
    values = np.linalg.svd(probabilities, compute_uv=False)
    if form == "trace":
        return -sum(math.sqrt(s * s + delta * delta) for s in values)
    return -sum(math.log(1 + s * s if form == "determinant" else s + delta) for s in values)


def _high_rank(case: Case) -> object:
    return lambda logits: high_rank_loss(logits, form="determinant")


def _trace(case: Case) -> object:
    return lambda logits: high_rank_loss(logits, form="trace", delta=case.record["hp"].get("delta", 0.0))


GOLDENS = [
    (r"opml_a[0-9.]+_b[0-9.]+", on_observed(opml_loss, alpha="alpha", beta="beta")),
    (r"soft_opml_eps0.1", on_observed(soft_opml_loss, share="eps_j")),
    (r"highrank_logdet_I_plus_PtP", _high_rank),
    (r"trace_norm(_smooth_delta0.001)?", _trace),
]
