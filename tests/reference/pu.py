"""Kiryo et al. 2017: uPU and nnPU for every class."""

from __future__ import annotations

import math
from collections.abc import Callable

from spml.losses import pu_loss
from tests.goldens import Case


def surrogate_loss(z: float, surrogate: str) -> float:
    """Loss of a positive with logit z."""
    return 1 / (1 + math.exp(z)) if surrogate == "sigmoid" else math.log1p(math.exp(-z))


def risks(
    column: list[float],
    labels: list[int],
    prior: float,
    surrogate: str,
    unlabelled: str,
    observed: float | None = None,
) -> tuple[float, float, float]:
    """R+, R- and the mean loss of known negatives of one class."""
    pairs = list(zip(column, labels, strict=True))
    positives = [z for z, label in pairs if label == 1]
    others = [z for z, label in pairs if unlabelled == "all" or label != 1]
    negatives = [z for z, label in pairs if label == -1]
    number, rest = len(positives), len(others)
    if observed is not None:
        number = len(column) * observed
        rest = len(column) * (1.0 if unlabelled == "all" else 1 - observed)
    of_positives = sum(surrogate_loss(z, surrogate) for z in positives) / (number or 1)
    as_negatives = sum(surrogate_loss(-z, surrogate) for z in positives) / (number or 1)
    of_others = sum(surrogate_loss(-z, surrogate) for z in others) / (rest or 1)
    known = sum(surrogate_loss(-z, surrogate) for z in negatives) / max(len(negatives), 1)
    return prior * of_positives, of_others - prior * as_negatives, known


def pu(
    logits: list[list[float]],
    target: list[list[int]],
    prior: list[float],
    at: list[list[float]] | None = None,
    *,
    correction: str = "non_negative",
    surrogate: str = "logistic",
    unlabelled: str = "all",
    beta: float = 0.0,
    gamma: float | None = None,
    observed: list[float] | None = None,
    running: list[float] | None = None,
    momentum: float = 1.0,
) -> float:
    """Sum over classes of the risks.

    A class is corrected by R- at the logits `at`. With gamma, a corrected class has -gamma R-, which has the
    derivative of the loss, instead of its value.
    """
    total = 0.0
    for c, labels in enumerate(zip(*target, strict=True)):
        common = list(labels), prior[c], surrogate, unlabelled, observed[c] if observed else None
        positive, negative, known = risks([row[c] for row in logits], *common)
        _, estimate, _ = risks([row[c] for row in at or logits], *common)
        if running:
            estimate = momentum * estimate + (1 - momentum) * running[c]
        if correction == "none" or estimate >= -beta:
            total += positive + negative
        else:
            total += positive - beta if gamma is None else -gamma * negative
        total += known
    return total


def _pu(case: Case) -> Callable[..., object]:
    hp = dict(case.record["hp"])
    settings = {"beta": hp["beta"], "gamma": hp["gamma"], "surrogate": hp["surrogate"]}
    settings["correction"] = "none" if case.name.startswith("upu") else "non_negative"
    settings["unlabelled"] = hp.get("unlabelled", "rest")
    return lambda logits: pu_loss(logits, case.tensor("obs"), prior=case.tensor("prior"), **settings)


GOLDENS = [(r"(nn|u)pu_.*", _pu)]
