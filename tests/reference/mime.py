"""Liu et al. 2023: MIME's bottleneck."""

from __future__ import annotations

import torch

from spml.losses import mime_loss
from tests.goldens import Case


def _mime(case: Case) -> object:
    mean, std = case.tensor("masked_logits"), torch.sigmoid(case.tensor("est_logits"))
    beta = case.record["hp"]["beta"]
    return lambda logits: mime_loss(logits, case.tensor("obs"), mean, std, beta=beta, eps=case.eps(1e-5))


GOLDENS = [(r"mime_vib", _mime)]
