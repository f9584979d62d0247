"""SMILE's classifier loss (Xu et al. 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..losses import smile_loss
from ..losses._core.domains import check_choice, check_non_negative, check_share
from ..losses.smile import KnownPositives
from .base import Batch, Card, Facts, Objective, Outputs
from .memory import RunningAverage, known_first
from .registry import register


@register("smile")
class WeightedLabelEnhancement(Objective):
    """Labels have soft targets: a mixture of a constant, 1 for known positives and a prior for unknown
    labels, and the model's averaged predictions.

    Args:
        prior: Initial soft target of an unknown label, in [0, 1].
        mu: Share of the averaged predictions in the soft target, in [0, 1]; 0 = none.
        rate: Weight of unknown labels, >= 0.
        bias: Whether the weight of unknown labels is 1 / (C - 1) instead.
        decay: Weight of the previous value in the average of a sample's predictions over epochs, in [0, 1];
            0 = the last prediction alone.
        known_positives: Target of known positives: `soft`, or always `one`.
    """

    card = Card(
        title="SMILE's weighted BCE, without its label-enhancement network",
        paper="Xu et al., One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label "
        "Enhancement, NeurIPS 2022",
        year=2022,
        equations="the classifier loss, as in the released training",
        formula="L = mean over B C of [d l+ + (1 - d) l- on P, rate (d l+ + (1 - d) l-) on U]\n"
        "d = mu D + (1 - mu) d0, d0 = 1 on P, prior on U\n"
        "D = decay D + (1 - decay) p in each step, d0 before the first",
        state="average prediction (float, N x C)",
        deviations=(
            "in the paper D comes from a variational autoencoder on a graph of similar samples, which is "
            "trained together with the classifier. It is not included. Here D is a running average of the "
            "classifier's own predictions; an ablation in the released code takes the current one",
            "the released code also holds a function, which is not called, with l+ on known positives "
            "(known_positives = one)",
            "the released values (prior .001-.1, mu .01-.9, rate .1-.7) are for tables, not for images; the "
            "defaults lie within these ranges and were tried on the embedded digits only",
            "the released code adds 1e-5 inside logarithms (smile_loss(eps=1e-5)); the default has none",
        ),
    )

    def __init__(
        self,
        *,
        prior: float = 0.1,
        mu: float = 0.9,
        rate: float = 0.3,
        bias: bool = False,
        decay: float = 0.5,
        known_positives: KnownPositives = "soft",
    ) -> None:
        super().__init__()
        check_share(prior=prior, mu=mu, decay=decay)
        check_non_negative(rate=rate)
        check_choice("known_positives", known_positives, ("soft", "one"))
        self.known_positives = known_positives
        self.prior, self.mu, self.rate, self.bias, self.decay = prior, mu, rate, bias, decay

    def on_fit_start(self, facts: Facts) -> None:
        self.averages = RunningAverage(facts.observed, self.decay)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        logits, target = outputs.logits, batch.target
        known = known_first(target, torch.zeros_like(logits, dtype=torch.int8)) == 1
        constant = torch.full_like(self.averages.average[batch.index], self.prior).masked_fill(known, 1.0)
        soft = self.mu * self.averages.rows(batch.index, constant) + (1 - self.mu) * constant
        weight = 1 / max(soft.shape[1] - 1, 1) if self.bias else self.rate
        soft = soft.clamp(max=1)  # rounding may exceed it
        how = self.known_positives
        return {"smile": smile_loss(logits, target, soft, unknown_weight=weight, known_positives=how)}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        self.averages.update(outputs, batch)
