"""Liu et al. 2023: MIME's bottleneck."""

from __future__ import annotations

import math

import torch

from spml.losses import mime_loss
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, total


def mime(logits: Matrix, target: Labels, mean: Matrix, std: Matrix, beta: float) -> float:
    """Mean of the assume-negative loss + beta * mean divergence of the code from N(0, 1)."""
    codes = [pair for rows in zip(mean, std, strict=True) for pair in zip(*rows, strict=True)]
    divergence = sum((m * m + s * s - 1) / 2 - math.log(s) for m, s in codes)
    labels = total(logits, target, log_loss_pos, log_loss_neg)
    return labels / (len(logits) * len(logits[0])) + beta * divergence / len(codes)


def pseudo_labels(target: Labels, scores: list[Matrix], theta: float, warmup: int) -> Labels:
    """Known labels, and unknown labels above theta in the probabilities of the epochs that count."""
    found = [list(row) for row in target]
    for epoch, matrix in enumerate(scores, start=1):
        if epoch < warmup:
            continue
        for row, p in zip(found, matrix, strict=True):
            for column, label in enumerate(row):
                if label == 0 and p[column] > theta:
                    row[column] = 1
    return found


def _mime(case: Case) -> object:
    mean, std = case.tensor("masked_logits"), torch.sigmoid(case.tensor("est_logits"))
    beta = case.record["hp"]["beta"]
    return lambda logits: mime_loss(logits, case.tensor("obs"), mean, std, beta=beta, eps=case.eps(1e-5))


def _with_class_codes(case: Case) -> object:
    """One code per class; the gradient with respect to logits, means or deviations."""
    names, hp = ("vib_logits", "vib_mus", "vib_stds"), case.record["hp"]

    def loss(variable: torch.Tensor) -> torch.Tensor:
        own = {name: case.tensor(name) for name in names} | {case.record["wrt"]: variable}
        logits, mean, std = (own[name] for name in names)
        target = case.tensor("obs")
        return mime_loss(logits / hp["T"], target, mean, std, beta=hp["beta"], eps=case.eps(1e-5))

    return loss


GOLDENS = [(r"mime_vib", _mime), (r"mime_loss_.*", _with_class_codes)]
