"""CRISP (Liu et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from ..losses import an_loss, crisp_loss, crisp_priors
from ..losses._core.domains import (
    check_choice,
    check_epochs,
    check_non_negative,
    check_positive,
    check_share,
)
from .base import Batch, Card, Facts, Needs, Objective, Outputs, Progress
from .class_priors import check_priors, class_priors
from .registry import register


@register("crisp")
class ClassPriorsInduced(Objective):
    """The known positives of each class get high scores, and the mean score of all samples is held near the
    share of samples in which the class is present, which is estimated from the scores after each epoch.

    Args:
        priors: Shares of samples in which the classes are present: `estimated` after each epoch, `stated`
            through the mean labels per sample, or a number between 0 and 1 for each class, in their order.
        delta: Probability with which the bound that the estimate minimises does not hold, in (0, 1].
        tau: Margin of this bound, >= 0.
        warmup: Epochs of AN before the risk, >= 0.
        momentum: Share of the batch in the running mean of scores that decides the sign of their distance
            from the prior, in (0, 1]; 1 = the batch alone.
    """

    card = Card(
        title="Class-priors induced single-positive multi-label learning (CRISP)",
        paper="Liu et al., Can Class-Priors Help Single-Positive Multi-Label Learning?, arXiv 2309.13886",
        year=2023,
        equations="Eq. 2, 5-7 and Theorem 4.1",
        formula="L = sum over C of [2 w (sum over P of (1 - p)) + sign(r - prior) (m - prior)]\n"
        "m = mean over B of p, r = momentum m + (1 - momentum) (r of the step before)\n"
        "w = prior N / (n B), with n known positives of the class among N samples\n"
        "known negatives add their mean of p; in the first warmup epochs L is that of AN\n"
        "prior = q / q+ after each epoch: shares of all samples and of known positives above the threshold\n"
        "where [q + (1 + tau) (sqrt(log(4 / delta) / (2 N)) + sqrt(log(4 / delta) / (2 n)))] / q+ is lowest",
        state="prior and running mean of the scores of each class",
        head_bias="prior",
    )
    prior: Tensor
    share: Tensor
    running: Tensor

    def __init__(
        self,
        *,
        priors: Literal["estimated", "stated"] | Sequence[float] = "estimated",
        delta: float = 0.01,
        tau: float = 0.01,
        warmup: int = 1,
        momentum: float = 0.1,
    ) -> None:
        super().__init__()
        if isinstance(priors, str):
            check_choice("priors", priors, ("estimated", "stated"))
        else:
            check_priors(priors)
        check_positive(delta=delta, momentum=momentum)
        check_share(delta=delta, momentum=momentum)
        check_non_negative(tau=tau)
        check_epochs(warmup=warmup)
        self.priors, self.bound = priors, {"delta": delta, "tau": tau}
        self.warmup, self.momentum, self.active = warmup, momentum, True
        self.needs = Needs(batch_coupled=True, train_pass=priors == "estimated")

    def on_fit_start(self, facts: Facts) -> None:
        self.observed = facts.observed
        share = torch.from_numpy(facts.observed.positives_per_class() / len(facts.observed)).float()
        # Before the first estimate, the least that the prior can be.
        prior = share
        if self.priors == "stated":
            prior = class_priors(facts, "'crisp' with priors = 'stated'").float()
        elif not isinstance(self.priors, str):
            prior = class_priors(facts, "'crisp'", self.priors).float()
        self.register_buffer("prior", prior.clone())
        self.register_buffer("share", share, persistent=False)
        self.register_buffer("running", prior.clone())

    def on_epoch_start(self, progress: Progress) -> None:
        self.active = progress.epoch >= self.warmup

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        if not self.active:
            return {"an": an_loss(outputs.logits, batch.target)}
        loss = crisp_loss(
            outputs.logits,
            batch.target,
            prior=self.prior,
            observed=self.share,
            running=self.running,
            momentum=self.momentum,
        )
        return {"crisp": loss}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        if len(outputs.logits):
            mean = torch.sigmoid(outputs.logits).mean(0)
            self.running.lerp_(mean.to(self.running.dtype), self.momentum)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        if train_pass is None or not self.warmup <= progress.epoch + 1 < progress.epochs:
            return
        target = self.observed.target(range(len(self.observed)))
        priors = crisp_priors(train_pass(), target, **self.bound)
        self.prior.copy_(priors.nan_to_num(nan=0.0))
