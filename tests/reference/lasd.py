"""Cui et al.: LAS, LASD."""

from __future__ import annotations

import pytest

from spml.losses import balanced_weight, consistency_loss, las_loss, lasd_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid, total


def las(
    logits: Matrix, target: Labels, weight: float, gamma_pos: float, gamma_neg: float, own: bool = False
) -> float:
    """Sum: weight p^gamma_neg l- on unknowns, and with `own` on negatives."""

    def unknown(p: float) -> float:
        return weight * p**gamma_neg * log_loss_neg(p)

    def positive(p: float) -> float:
        return (1 - p) ** gamma_pos * log_loss_pos(p)

    return total(logits, target, positive, unknown, unknown if own else log_loss_neg)


def lasd(
    logits: Matrix,
    target: Labels,
    weight_pos: float,
    weight_neg: float,
    tau: float,
    gamma_pos: float,
    gamma_neg: float,
    own: bool = False,
) -> float:
    """Sum: unknowns with p > tau are positives with their own weight.

    Negatives have l-, or with `own` the loss of unknowns that count as negatives.
    """

    def positive(p: float) -> float:
        return (1 - p) ** gamma_pos * log_loss_pos(p)

    def negative(p: float) -> float:
        return weight_neg * p**gamma_neg * log_loss_neg(p)

    def unknown(p: float) -> float:
        return weight_pos * positive(p) if p > tau else negative(p)

    return total(logits, target, positive, unknown, negative if own else log_loss_neg)


def lasd_full(
    logits: Matrix,
    target: Labels,
    weight_pos: float,
    weight_neg: float,
    gamma_pos: float,
    gamma_neg: float,
) -> float:
    """Sum of Eq. 11 over samples, as printed; what is no positive is a negative."""
    result = 0.0
    for row, labels in zip(logits, target, strict=True):
        size = labels.count(1)
        for z, label in zip(row, labels, strict=True):
            p = sigmoid(z)
            if label == 1:
                weight = 1 / size + weight_pos * (1 - 1 / size)
                result += weight * (1 - p) ** gamma_pos * log_loss_pos(p)
            else:
                result += weight_neg * p**gamma_neg * log_loss_neg(p)
    return result


def cost_sensitive(logits: Matrix, target: Labels, gamma_pos: float, gamma_neg: float) -> float:
    """Sum of Eq. 12 over samples, with losses in place of the indicators of wrong predictions."""
    result = 0.0
    for row, labels in zip(logits, target, strict=True):
        size = labels.count(1)
        for z, label in zip(row, labels, strict=True):
            p = sigmoid(z)
            if label == 1:
                result += (1 - p) ** gamma_pos * log_loss_pos(p) / size
            else:
                result += p**gamma_neg * log_loss_neg(p) / (len(row) - size)
    return result


def consistency(views: list[Matrix]) -> float:
    """Squared differences of probabilities over all pairs of views, mean over samples."""
    result = 0.0
    for rows in zip(*views, strict=True):
        for entry in zip(*rows, strict=True):
            a, b, c = (sigmoid(z) for z in entry)
            result += (a - b) ** 2 + (a - c) ** 2 + (b - c) ** 2
    return result / len(views[0])


def _las(case: Case) -> object:
    weight = case.record["hp"]["lambda"]
    return lambda logits: las_loss(logits, case.tensor("obs"), weight=weight, reduction="sum") / len(logits)


def _lasd(case: Case) -> object:
    hp = case.record["hp"]
    weight_neg = balanced_weight(hp["lambda_plus"], hp["k"], hp["K_for_lambda"])
    assert weight_neg == pytest.approx(hp["lambda_minus"], rel=1e-12)
    settings = {"weight_pos": hp["lambda_plus"], "weight_neg": weight_neg, "tau": hp["tau"]}
    return lambda logits: lasd_loss(logits, case.tensor("obs"), reduction="sum", **settings) / len(logits)


def _consistency(case: Case) -> object:
    others = case.tensor("strong_logits"), case.tensor("masked_logits")
    return lambda logits: consistency_loss(logits, *others)


GOLDENS = [
    (r"las_lambda0.05", _las),
    (r"lasd_(voc|coco|nus|cub)", _lasd),
    (r"lasd_consistency", _consistency),
]
