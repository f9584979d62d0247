"""Xu et al. 2022: SMILE."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import digamma, gammaln, polygamma

from spml.losses import beta_kl_loss, smile_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid


def smile(logits: Matrix, target: Labels, soft: Matrix, unknown_weight: float) -> float:
    """Sum: cross-entropy with the soft label on unknowns."""
    result = 0.0
    for row, labels, shares in zip(logits, target, soft, strict=True):
        for z, label, share in zip(row, labels, shares, strict=True):
            p = sigmoid(z)
            if label == 1:
                result += log_loss_pos(p)
            elif label == -1:
                result += log_loss_neg(p)
            else:
                result += unknown_weight * (share * log_loss_pos(p) + (1 - share) * log_loss_neg(p))
    return result


def soft_labels(predicted: list[Matrix], prior: float, mu: float, decay: float) -> Matrix:
    """mu D + (1 - mu) prior after some epochs, each with a matrix of predicted probabilities.

    D is the first prediction, then the moving average of the predictions.
    """
    average = [list(row) for row in predicted[0]]
    for matrix in predicted[1:]:
        for means, row in zip(average, matrix, strict=True):
            for column, p in enumerate(row):
                means[column] = decay * means[column] + (1 - decay) * p
    return [[mu * d + (1 - mu) * prior for d in row] for row in average]


def beta_kl(a: float, b: float) -> float:
    """Kullback-Leibler divergence of Beta(a, b) from Beta(1, 1)."""
    return float(
        gammaln(a + b)
        - gammaln(a)
        - gammaln(b)
        + (a - 1) * digamma(a)
        + (b - 1) * digamma(b)
        - (a + b - 2) * digamma(a + b)
    )


def _smile(case: Case) -> object:
    soft = torch.sigmoid(case.tensor("est_logits"))
    weight = 1 / (soft.shape[1] - 1) if case.record["hp"]["bias"] else 1.0
    return lambda logits: smile_loss(logits, case.tensor("obs"), soft, unknown_weight=weight, eps=1e-5)


def _beta_kl(case: Case) -> object:
    eps = case.record["hp"]["eps"]
    return lambda logits: beta_kl_loss(torch.sigmoid(logits) + eps, torch.sigmoid(-logits) + eps)


def _corrected_beta_kl(case: Case) -> tuple[float, np.ndarray]:
    """The released code adds log-gamma terms that the divergence subtracts, and omits those of a + b."""
    eps, logits = case.record["hp"]["eps"], case.inputs["logits"]
    losses, gradient = np.zeros_like(logits), np.zeros_like(logits)
    for entry, z in np.ndenumerate(logits):
        a, b = sigmoid(z) + eps, sigmoid(-z) + eps
        losses[entry] = beta_kl(a, b)
        slope = (a - 1) * polygamma(1, a) - (b - 1) * polygamma(1, b)
        gradient[entry] = slope * sigmoid(z) * sigmoid(-z) / logits.size
    return float(losses.mean()), gradient


GOLDENS = [
    (r"smile_wbce_bias(True|False)", _smile),
    (r"smile_beta_kl", _beta_kl, _corrected_beta_kl),
]
