"""Lin et al. 2017: focal loss. Ridnik et al. 2021: ASL."""

from __future__ import annotations

import math

from spml.losses import asl_loss, focal_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid, total


def logit(p: float) -> float:
    return math.log(p / (1 - p))


def focal(logits: Matrix, target: Labels, gamma: float, margin: float, own: bool = False) -> float:
    """Sum: (1 - p_m)^gamma l+(p_m) on positives with p_m = sigmoid(z - margin), p^gamma l- on unknowns.

    Negatives have l-, or with `own` the loss of unknowns.
    """

    def positive(p: float) -> float:
        shifted = sigmoid(logit(p) - margin)
        return (1 - shifted) ** gamma * log_loss_pos(shifted)

    def unknown(p: float) -> float:
        return p**gamma * log_loss_neg(p)

    return total(logits, target, positive, unknown, unknown if own else log_loss_neg)


def asl(
    logits: Matrix, target: Labels, gamma_pos: float, gamma_neg: float, clip: float, own: bool = False
) -> float:
    """Sum: (1 - p)^gamma_pos l+ on positives, p_m^gamma_neg l-(p_m) on unknowns, p_m = max(p - clip, 0).

    Negatives have l-, or with `own` the loss of unknowns.
    """

    def unknown(p: float) -> float:
        shifted = max(p - clip, 0.0)
        return shifted**gamma_neg * log_loss_neg(shifted)

    def positive(p: float) -> float:
        return (1 - p) ** gamma_pos * log_loss_pos(p)

    return total(logits, target, positive, unknown, unknown if own else log_loss_neg)


def _asl(case: Case) -> object:
    hp = case.record["hp"]
    settings = {
        "gamma_pos": hp["gamma_pos"],
        "gamma_neg": hp["gamma_neg"],
        "clip": hp.get("clip", hp.get("m")),
        "detach_weights": case.name.endswith("wdetached"),
        "eps": case.eps(1e-8),
    }
    return lambda logits: asl_loss(logits, case.tensor("obs"), reduction="sum", **settings)


def _focal(case: Case) -> object:
    detach = case.name.endswith("wdetached")
    return lambda logits: focal_loss(
        logits, case.tensor("obs"), gamma=2, detach_weights=detach, eps=case.eps(1e-8), reduction="sum"
    )


GOLDENS = [
    (r"(asl|aslopt)_focal_g2_(wdetached|wgrad)|exact_focal_g2(_wdetached)?", _focal),
    (r"(asl|aslopt)_.*_(wdetached|wgrad)", _asl),
    (r"exact_asl_(ps_)?gp[0-9]_gn[0-9](_m0.05)?(_wdetached)?", _asl),
]
