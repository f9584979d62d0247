"""AEVLP, ICCV 2025: GPR."""

from __future__ import annotations

import math

import torch

from spml.losses import gpr_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid
from tests.reference.gr import gr_unknown


def gpr(logits: Matrix, target: Labels, pseudo: Labels, hp: dict[str, float]) -> float:
    """Sum, without the regulariser; `hp` holds w, b, mu, sigma, q2, q3, lam1, lam2, rho."""
    result = 0.0
    for row, labels, others in zip(logits, target, pseudo, strict=True):
        for z, label, other in zip(row, labels, others, strict=True):
            p = sigmoid(z)
            v = math.exp(-((p - hp["mu"]) ** 2) / (2 * hp["sigma"] ** 2))
            if label == 1:
                result += log_loss_pos(p)
            elif label == -1:
                result += log_loss_neg(p)
            elif other == 1:
                trust = 1 - min(max(v, 1 - hp["lam1"]), 1 - hp["lam2"])
                result += trust * (hp["rho"] * log_loss_pos(p) + (1 - hp["rho"]) * log_loss_neg(p))
            elif other == -1:
                result += v * log_loss_neg(p)
            else:
                result += gr_unknown(z, z, "logistic", "gaussian", hp)
    return result


def _gpr(case: Case) -> object:
    hp = case.record["hp"]
    done, (mu0, sigma0, mu1, sigma1), (w0, w1, b0, b1) = hp["epoch"] / hp["E"], hp["alpha"], hp["beta"]
    before = (hp["epoch"] - 1) / hp["E"]
    settings = {
        "w": w0 + (w1 - w0) * before,
        "b": b0 + (b1 - b0) * before,
        "mu": mu0 + (mu1 - mu0) * done,
        "sigma": sigma0 + (sigma1 - sigma0) * done,
        "q2": hp["q2q3"][0],
        "q3": hp["q2q3"][1],
        "lam1": hp["lam"][0],
        "lam2": hp["lam"][1],
        "rho": hp["rho"],
        "eps": 1e-7,
    }
    pseudo = case.tensor("pseudo") * int(hp.get("use_pl", True))

    def loss(logits: torch.Tensor) -> torch.Tensor:
        expected = torch.sigmoid(logits).sum(1).mean()
        regulariser = ((expected - case.mean_labels) / logits.shape[1]) ** 2
        return gpr_loss(logits, case.tensor("obs"), pseudo, **settings) + hp["reg"] * regulariser

    return loss


GOLDENS = [(r"gpr_(voc|coco|cub)_ep[0-9]+(_nopl)?", _gpr)]
