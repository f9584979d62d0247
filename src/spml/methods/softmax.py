"""Softmax cross-entropy, a forgotten baseline."""

from __future__ import annotations

from torch import Tensor

from ..errors import InputError
from ..losses import softmax_loss
from .base import Batch, Card, Facts, Objective, Outputs
from .registry import register


@register("softmax")
class SoftmaxCrossEntropy(Objective):
    """The observed label as if it were the only one: multi-class logistic regression.

    The loss compares the classes of a sample and says nothing of how the logits of two samples lie to each
    other. So the model answers log-probabilities (`--model.scores log_softmax`), which can be compared; they
    are no log-odds, so a threshold has to be found from data.
    """

    card = Card(
        title="Softmax cross-entropy on the observed label",
        paper="none: multi-class logistic regression",
        year=1958,
        equations="-log softmax",
        formula="L = mean over B of the mean over i in P of -log(e^z_i / (e^z_i + sum over U of e^z))\n"
        "known negatives have no part in it",
        scores="log_softmax",
        deviations=("mean over samples; several known positives of a sample don't compete",),
    )

    def on_fit_start(self, facts: Facts) -> None:
        if facts.observed.full:
            raise InputError(
                "method 'softmax' sets the observed label against unknown ones, but these data have no "
                "unknown label. Choose 'bce', or hide labels (--data.observe single)."
            )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"softmax": softmax_loss(outputs.logits, batch.target)}
