"""SHOW: the likelihood of the observed label."""

from __future__ import annotations

import torch
from torch import Tensor

from ..losses import expected_labels, show_loss
from ..losses._core.domains import check_non_negative, check_positive, check_share
from .base import Batch, Card, Facts, Needs, Objective, Outputs
from .registry import register


@register("show")
class ShownLabel(Objective):
    """The likelihood that, of all true labels, the observed one was shown; the number of true labels is held
    near the stated mean.

    Needs the mean labels per sample.

    Args:
        rho: Weight of the draw of the shown label, in [0, 1]; 1 is exact for a uniform draw.
        weight: lambda, weight of the term on the number of labels, >= 0. Where this number varies widely, use
            (rho, weight) = (1, 1).
        momentum: Share of the batch in the running mean of the number of labels, in (0, 1]; 1 = the batch
            alone. For small batches, use 0.1 with a smaller weight.
    """

    card = Card(
        title="Likelihood of the shown label (SHOW)",
        paper="none: developed with this project",
        year=2026,
        equations="see spml.losses.show_loss",
        formula="L = mean over B of [sum over P of l+ + rho log S] + weight log^2(k / K)\n"
        "S = sum over P and U of p, K = mean labels per sample\n"
        "k = momentum (mean over B of S) + (1 - momentum) (k of the step before)",
        state="running mean of the number of labels",
        head_bias="prior",
    )
    needs = Needs(batch_coupled=True)
    running: Tensor

    def __init__(self, *, rho: float = 0.5, weight: float = 10.0, momentum: float = 1.0) -> None:
        super().__init__()
        check_share(rho=rho, momentum=momentum)
        check_non_negative(weight=weight)
        check_positive(momentum=momentum)
        self.hp = {"rho": rho, "weight": weight, "momentum": momentum}
        self.momentum, self.mean_labels = momentum, 1.0

    @property
    def remembers(self) -> bool:
        return self.momentum < 1

    def on_fit_start(self, facts: Facts) -> None:
        self.mean_labels = facts.stated_mean_labels("'show'")
        self.register_buffer("running", torch.tensor(self.mean_labels))

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        stated = {"mean_labels": self.mean_labels, "shifted": False, **self.hp}
        return {"show": show_loss(outputs.logits, batch.target, running=self.running, **stated)}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        count = expected_labels(outputs.logits, batch.target, mean_labels=self.mean_labels, shifted=False)
        count = count.to(self.running.dtype).where(count.isfinite(), self.running)
        self.running.lerp_(count, self.momentum)
