"""Liu et al. 2023: MIME's bottleneck."""

from __future__ import annotations

import math

import numpy as np
import torch

from spml.losses import mime_loss
from spml.models.heads import CodeSettings, GaussianPerClassHead
from tests.goldens import Case
from tests.loops import Labels, Matrix, log_loss_neg, log_loss_pos, total
from tests.reference.smile import drawn, put


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


def _pooled(case: Case) -> object:
    """The head for pooled features; the released weights of the classes lie one after the other in ours."""

    def loss(parameter: torch.Tensor) -> torch.Tensor:
        def value(name: str) -> torch.Tensor:
            return parameter if name == case.record["wrt"] else case.tensor(name)

        def of_classes(name: str) -> torch.Tensor:
            return torch.cat([value(f"pooled.encoder_z.{column}.{name}") for column in range(classes)])

        features, target = value("features"), case.tensor("obs")
        classes, elements = target.shape[1], case.inputs["eps_pooled"].shape[2]
        hidden = len(case.inputs["pooled.encoder_z.0.0.bias"])
        head = GaussianPerClassHead(features.shape[1], classes, hidden, CodeSettings(elements))
        put(head.hidden, of_classes("0.weight"), of_classes("0.bias"))
        put(head.code, of_classes("2.weight"), of_classes("2.bias"))
        put(head.last, value("pooled.linear_classifier.weight"), value("pooled.linear_classifier.bias"))
        with drawn(features, case.tensor("eps_pooled").transpose(0, 1)):
            logits, code, _, _ = head(features)
        for name, tensor in zip(("logits", "mu", "std"), (logits, *code), strict=True):
            values = tensor.detach().flatten(1)
            np.testing.assert_allclose(values, case.outputs[name], rtol=1e-9, err_msg=name)
        return mime_loss(logits, target, *code, beta=case.record["hp"]["beta"], eps=1e-5)

    return loss


GOLDENS = [
    (r"mime_vib", _mime),
    (r"mime_loss_.*", _with_class_codes),
    (r"mime_pooled@.*", _pooled),
]
