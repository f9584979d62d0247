"""Baselines: binary cross-entropy on full labels (the ceiling) and assume-negative on observed ones."""

from __future__ import annotations

from torch import Tensor

from ..errors import InputError
from ..losses import an_loss
from ..objective import Batch, Card, Facts, Objective, Outputs, register

_COLE = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021"


@register("an")
class AssumeNegative(Objective):
    """Every unknown label counts as a negative."""

    card = Card(title="Assume negative (AN)", paper=_COLE, year=2021, equations="Eq. 5", head_bias="prior")

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"an": an_loss(outputs.logits, batch.target)}


@register("bce")
class FullLabels(Objective):
    """Binary cross-entropy on fully labelled data: the ceiling that other methods are measured against."""

    card = Card(
        title="Binary cross-entropy on full labels (BCE)",
        paper=_COLE,
        year=2021,
        equations="Eq. 1",
        head_bias="prior",
    )

    def on_fit_start(self, facts: Facts) -> None:
        if not facts.observed.full:
            raise InputError(
                "method 'bce' is the ceiling on full labels, but these data have unknown labels. If a label "
                "that is not listed is absent in your data, say --data.unlisted negative and do not hide "
                "labels (--data.observe none); otherwise choose another method."
            )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"bce": an_loss(outputs.logits, batch.target)}
