"""Softmax cross-entropy, a forgotten baseline."""

from __future__ import annotations

from torch import Tensor

from ..common.errors import InputError
from ..losses import softmax_loss
from .base import Batch, Card, Facts, Objective, Outputs
from .registry import register


@register("softmax")
class SoftmaxCrossEntropy(Objective):
    """Multi-class logistic regression, as if the observed label were the only one.

    The loss compares the classes of one sample and does not constrain the logits of different samples
    relative to each other. The model therefore outputs log-probabilities (`--model.scores log_softmax`),
    which can be compared; they are not log-odds, so a threshold has to be chosen from data.
    """

    card = Card(
        title="Softmax cross-entropy on the observed label",
        paper="Theil, A Multinomial Extension of the Linear Logit Model, International Economic Review 1969",
        year=1969,
        equations="-log softmax",
        formula="L = mean over B of the mean over i in P of -log(e^z_i / (e^z_i + sum over U of e^z))\n"
        "known negatives are left out",
        scores="log_softmax",
    )

    def on_fit_start(self, facts: Facts) -> None:
        if facts.observed.full:
            raise InputError(
                "method 'softmax' contrasts the observed label with unknown ones, but this data has no "
                "unknown label. Choose 'bce', or hide labels (data.observe=single)."
            )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"softmax": softmax_loss(outputs.logits, batch.target)}
