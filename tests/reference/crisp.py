"""Liu et al. 2023: CRISP."""

from __future__ import annotations

import math
from collections.abc import Callable

from spml.losses import crisp_loss
from tests.goldens import Case


def crisp(
    logits: list[list[float]],
    target: list[list[int]],
    prior: list[float],
    observed: list[float] | None = None,
    signs: list[int] | None = None,
) -> float:
    """Sum over classes of 2 prior mean_P (1 - p) + |mean of p - prior|, or + sign (mean of p - prior)."""
    total = 0.0
    for c, labels in enumerate(zip(*target, strict=True)):
        p = [1 / (1 + math.exp(-row[c])) for row in logits]
        positives = [value for value, label in zip(p, labels, strict=True) if label == 1]
        negatives = [value for value, label in zip(p, labels, strict=True) if label == -1]
        number = len(p) * observed[c] if observed else len(positives)
        distance = sum(p) / len(p) - prior[c]
        total += 2 * prior[c] * sum(1 - value for value in positives) / (number or 1)
        total += signs[c] * distance if signs else abs(distance)
        total += sum(negatives) / max(len(negatives), 1)
    return total


def estimated_prior(scores: list[float], known: list[bool], delta: float, tau: float) -> float:
    """q / q+ at the score that minimises the bound; NaN without a known positive."""
    rows, count = len(scores), sum(known)
    best = (math.inf, math.nan)
    for threshold in scores if count else []:
        share = sum(score >= threshold for score in scores) / rows
        found = sum(score >= threshold for score, own in zip(scores, known, strict=True) if own) / count
        if found:
            width = sum(math.sqrt(math.log(4 / delta) / (2 * number)) for number in (rows, count))
            best = min(best, (share / found + (1 + tau) / found * width, share / found))
    return best[1]


def _crisp(case: Case) -> Callable[..., object]:
    return lambda logits: crisp_loss(logits, case.tensor("obs"), prior=case.tensor("prior"))


GOLDENS = [(r"crisp", _crisp)]
