"""PLC, the first stage of LAC (Xie et al. 2022)."""

from __future__ import annotations

from torch import Tensor

from ..losses import an_loss, plc_loss
from ..losses._core.domains import check_positive
from .base import Batch, Card, Needs, Objective, Outputs
from .registry import register


@register("plc")
class PseudoLabelConsistency(Objective):
    """A strongly augmented view is trained on the confident predictions for the ordinary view, on which
    unknown labels are assumed negatives.

    Args:
        weight: Weight of the strong view, > 0.
        tau: Threshold in [0.5, 1]: an unknown label is treated as positive where p >= tau and as negative
            where p < 1 - tau.
    """

    card = Card(
        title="Pseudo-label consistency (PLC)",
        paper="Xie et al., Label-Aware Global Consistency for Multi-Label Learning with Single Positive "
        "Labels, NeurIPS 2022",
        year=2022,
        equations="the loss of the first stage of LAC",
        formula="L = mean over B C of [l+ on P, l- on U] + weight (mean over M of [-log p' on P,\n"
        "-log p' on U where p >= tau, -log(1 - p') on U where p < 1 - tau])\n"
        "p' of the strong view, M = these three sets of labels; p is constant in the second mean",
        head_bias="prior",
    )
    needs = Needs(batch_coupled=True, views=("strong",))

    def __init__(self, *, weight: float = 1.0, tau: float = 0.6) -> None:
        super().__init__()
        check_positive(weight=weight)
        if not 0.5 <= tau <= 1:
            raise ValueError(f"tau must lie in [0.5, 1], got {tau}")
        self.weight, self.tau = weight, tau

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        (strong,) = outputs.views
        return {
            "an": an_loss(outputs.logits, batch.target),
            "plc": self.weight * plc_loss(outputs.logits, batch.target, strong, tau=self.tau),
        }
