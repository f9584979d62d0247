"""ROLE (Cole et al. 2021)."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..losses import role_loss
from ..losses._core.domains import check_choice, check_non_negative, check_positive
from .base import Batch, Card, Facts, Needs, Objective, Outputs
from .registry import register

_UNKNOWN, _KNOWN = math.log(0.6 / 0.4), math.log(0.995 / 0.005)
"""Initial logits of the estimates: known labels at 0.995 or 0.005, unknown ones between 0.4 and 0.6."""


@register("role")
class OnlineLabelEstimation(Objective):
    """The labels of all training samples are parameters, trained together with the classifier.

    Needs the mean labels per sample.

    Args:
        weight: Weight of the regulariser on the expected number of positives, >= 0.
        lr_factor: Learning rate of the estimated labels, relative to that of the model, > 0.
        norm: Divisor of the sum over known labels: B * C (`elements`, released code) or B (`samples`, paper).
    """

    card = Card(
        title="Regularised online label estimation (ROLE)",
        paper="Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021",
        year=2021,
        equations="the loss called ROLE",
        formula="L = (M(p | q) + M(q | p)) / 2, q = sigmoid(estimates); what follows a | is constant\n"
        "M(p | q) = mean over B C of [l+ on P, 0 on U] + mean over B C of [-q log p - (1 - q) log(1 - p)]\n"
        "+ weight ((k - K) / C)^2, k = mean over B of the sum of p, K = mean labels per sample",
        state="estimated labels (parameters, N x C)",
        head_bias="prior",
        printed={"norm": "samples"},
    )
    needs = Needs(batch_coupled=True)
    estimates: nn.Parameter

    def __init__(
        self,
        *,
        weight: float = 1.0,
        lr_factor: float = 10.0,
        norm: Literal["elements", "samples"] = "elements",
    ) -> None:
        super().__init__()
        check_non_negative(weight=weight)
        check_positive(lr_factor=lr_factor)
        check_choice("norm", norm, ("elements", "samples"))
        self.lr_factor, self.hp = lr_factor, {"weight": weight, "norm": norm}

    def on_fit_start(self, facts: Facts) -> None:
        self.hp["mean_labels"] = facts.stated_mean_labels("'role'")
        known = torch.from_numpy(facts.observed.to_ternary())
        start = torch.empty(known.shape)
        for column, name in enumerate(facts.classes):
            # Seeded by name, so that the order of classes does not matter.
            seed = hashlib.sha256(f"{torch.initial_seed()} {name}".encode()).digest()[:8]
            generator = torch.Generator().manual_seed(int.from_bytes(seed, "little"))
            start[:, column].uniform_(-_UNKNOWN, _UNKNOWN, generator=generator)
        self.estimates = nn.Parameter(torch.where(known == 0, start, known * _KNOWN))

    def param_groups(self) -> list[dict[str, Any]]:
        return [{"params": [self.estimates], "lr_factor": self.lr_factor}]

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"role": role_loss(outputs.logits, batch.target, self.estimates[batch.index], **self.hp)}
