"""Xu et al. 2022: SMILE."""

from __future__ import annotations

import numpy as np
import torch
from scipy.special import digamma, gammaln, polygamma
from torch.nn.functional import linear

from spml.losses import beta_kl_loss, smile_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, sigmoid


def smile(
    logits: Matrix, target: Labels, soft: Matrix, unknown_weight: float, known_positives: str = "soft"
) -> float:
    """Sum: cross-entropy with the soft label on known positives and, weighted, on unknowns."""
    result = 0.0
    for row, labels, shares in zip(logits, target, soft, strict=True):
        for z, label, share in zip(row, labels, shares, strict=True):
            p = sigmoid(z)
            mixed = share * log_loss_pos(p) + (1 - share) * log_loss_neg(p)
            if label == 1:
                result += mixed if known_positives == "soft" else log_loss_pos(p)
            elif label == -1:
                result += log_loss_neg(p)
            else:
                result += unknown_weight * mixed
    return result


def soft_labels(predicted: list[Matrix], target: Labels, prior: float, mu: float, decay: float) -> Matrix:
    """mu D + (1 - mu) d0 after some epochs, each with a matrix of predicted probabilities.

    D is the first prediction, then the moving average of the predictions. d0 is 1 for known positives, and
    the prior otherwise.
    """
    constant = [[1.0 if label == 1 else prior for label in row] for row in target]
    if not predicted:
        return constant
    average = [list(row) for row in predicted[0]]
    for matrix in predicted[1:]:
        for means, row in zip(average, matrix, strict=True):
            for column, p in enumerate(row):
                means[column] = decay * means[column] + (1 - decay) * p
    return [
        [mu * d + (1 - mu) * d0 for d, d0 in zip(row, start, strict=True)]
        for row, start in zip(average, constant, strict=True)
    ]


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
    hp = {"unknown_weight": weight, "known_positives": "one", "eps": 1e-5}
    return lambda logits: smile_loss(logits, case.tensor("obs"), soft, **hp)


def _classifier(case: Case) -> object:
    """The loss of the released training, as a function of a parameter of its classifier."""
    hp, rows = case.record["hp"], case.inputs["idx"]
    features, target = case.tensor("x")[rows], case.tensor("obs")[rows]
    soft = torch.from_numpy(case.outputs["soft"])
    weight = 1 / (soft.shape[1] - 1) if hp["bias"] else hp["rate"]
    names = [f"clf.fc{layer}.{part}" for layer in (1, 2) for part in ("weight", "bias")]

    def loss(parameter: torch.Tensor) -> torch.Tensor:
        values = [parameter if name == case.record["wrt"] else case.tensor(name) for name in names]
        logits = linear(linear(features, *values[:2]).relu(), *values[2:])
        return smile_loss(logits, target, soft, unknown_weight=weight, eps=1e-5)

    return loss


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
    (r"smile_tab_clf_.*", _classifier),
    (r"smile_beta_kl", _beta_kl, _corrected_beta_kl),
]
