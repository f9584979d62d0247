"""Cui et al.: LAS, LASD."""

from __future__ import annotations

import pytest

from spml.losses import balanced_weight, consistency_loss, las_loss, lasd_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid, total


def las(logits: Matrix, target: Labels, weight: float, gamma_pos: float, gamma_neg: float) -> float:
    """Sum: weight p^gamma_neg l- on unknowns."""
    return total(
        logits,
        target,
        lambda p: (1 - p) ** gamma_pos * log_loss_pos(p),
        lambda p: weight * p**gamma_neg * log_loss_neg(p),
    )


def lasd(
    logits: Matrix,
    target: Labels,
    weight_pos: float,
    weight_neg: float,
    tau: float,
    gamma_pos: float,
    gamma_neg: float,
) -> float:
    """Sum: unknowns with p > tau are positives with their own weight."""

    def positive(p: float) -> float:
        return (1 - p) ** gamma_pos * log_loss_pos(p)

    def unknown(p: float) -> float:
        return weight_pos * positive(p) if p > tau else weight_neg * p**gamma_neg * log_loss_neg(p)

    return total(logits, target, positive, unknown)


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
