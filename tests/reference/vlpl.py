"""Xing et al. 2024: VLPL."""

from __future__ import annotations

import math

from spml.losses import vlpl_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid


def vlpl(logits: Matrix, target: Labels, pseudo: Labels, hp: dict[str, float]) -> float:
    """Sum; `hp` holds alpha, beta_pos, beta_neg, smoothing, gamma_pos, gamma_neg, gamma_unknown."""
    result = 0.0
    for row, labels, others in zip(logits, target, pseudo, strict=True):
        for z, label, other in zip(row, labels, others, strict=True):
            p = sigmoid(z)
            positive = (1 - p) ** hp["gamma_pos"] * log_loss_pos(p)
            negative = p ** hp["gamma_neg"] * log_loss_neg(p)
            if label == 1:
                result += positive
            elif label == -1:
                result += log_loss_neg(p)
            elif other == 1:
                share = hp["smoothing"]
                result += hp["beta_pos"] * ((1 - share) * positive + share * negative)
            elif other == -1:
                result += hp["beta_neg"] * negative
            else:
                entropy = -p * math.log(p) - (1 - p) * math.log(1 - p)
                result -= hp["alpha"] * (1 - p) ** hp["gamma_unknown"] * entropy
    return result


def _vlpl(case: Case) -> object:
    hp = case.record["hp"]
    settings = {"alpha": hp["alpha"], "beta_pos": hp["beta_pos"], "eps": 1e-5}
    return lambda logits: vlpl_loss(logits, case.tensor("obs"), case.tensor("pseudo"), **settings)


def _asymmetric(case: Case) -> object:
    settings = {name: case.record["hp"][name] for name in ("gamma_pos", "gamma_neg", "gamma_unknown")}
    settings |= {"alpha": 1.0, "beta_pos": 1.0, "beta_neg": 1.0, "smoothing": 0.0, "eps": 1e-5}
    return lambda logits: vlpl_loss(logits, case.tensor("obs"), case.tensor("pseudo"), **settings)


GOLDENS = [(r"vlpl_em_pl_a0.[0-9]+", _vlpl), (r"vlpl_em_pl_asl", _asymmetric)]
