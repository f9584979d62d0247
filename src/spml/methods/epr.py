"""EPR (Cole et al. 2021)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ..losses import epr_loss
from ..losses._core.domains import check_choice, check_non_negative
from .base import Batch, Card, Facts, Needs, Objective, Outputs
from .registry import register


@register("epr")
class ExpectedPositiveRegularisation(Objective):
    """Known positives only, with the expected number of positives per sample held near the stated mean.

    Needs the mean labels per sample.

    Args:
        weight: lambda, weight of the regulariser, >= 0.
        norm: Divisor of the sum over known labels: B * C (`elements`, released code) or B (`samples`, paper).
    """

    card = Card(
        title="Expected positive regularisation (EPR)",
        paper="Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021",
        year=2021,
        equations="the loss called EPR",
        formula="L = mean over B C of [l+ on P, 0 on U] + weight ((k - K) / C)^2\n"
        "k = mean over B of the sum of p, K = mean labels per sample",
        head_bias="prior",
        printed={"norm": "samples"},
    )
    needs = Needs(batch_coupled=True)

    def __init__(self, *, weight: float = 1.0, norm: Literal["elements", "samples"] = "elements") -> None:
        super().__init__()
        check_non_negative(weight=weight)
        check_choice("norm", norm, ("elements", "samples"))
        self.hp = {"weight": weight, "norm": norm}

    def on_fit_start(self, facts: Facts) -> None:
        self.hp["mean_labels"] = facts.stated_mean_labels("'epr'")

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"epr": epr_loss(outputs.logits, batch.target, **self.hp)}
