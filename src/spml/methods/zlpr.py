"""ZLPR (Su et al. 2022)."""

from __future__ import annotations

from torch import Tensor

from ..losses import zlpr_loss
from .base import Batch, Card, Objective, Outputs
from .registry import register


@register("zlpr")
class ZeroBoundedRanking(Objective):
    """Positives are pushed above zero and all other labels below zero, by logarithms of sums."""

    card = Card(
        title="Zero-bounded log-sum-exp pairwise ranking (ZLPR)",
        paper="Su et al., ZLPR: A Novel Loss for Multi-label Classification, arXiv 2208.02955",
        year=2022,
        equations="the loss called ZLPR",
        formula="L = mean over B of [log(1 + sum over P of e^-z) + log(1 + sum over N of e^z)]\n"
        "N = U and known negatives",
    )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"zlpr": zlpr_loss(outputs.logits, batch.target)}
