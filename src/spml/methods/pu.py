"""uPU and nnPU for each class (Kiryo et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor
from torch.nn.functional import softplus

from ..losses import negative_risk, pu_loss
from ..losses._core.domains import check_choice, check_non_negative, check_positive, check_share
from ..losses.pu import Surrogate, Unlabelled
from .base import Batch, Card, Facts, Needs, Objective, Outputs
from .class_priors import check_priors, class_priors
from .registry import register

Counts = Literal["expected", "batch"]

_PAPER = "Kiryo et al., Positive-Unlabeled Learning with Non-Negative Risk Estimator, NeurIPS 2017"
_LETTERS = (
    "R+ = w (sum over P of l(z)), R- = mean over U of l(-z) - w (sum over P of l(-z))\n"
    "w = prior N / (n B), with n known positives of the class among N samples; U = all samples\n"
    "prior = K n / (known positives of all classes), K = mean labels per sample\n"
    "l(z) = l+, or 1 - p with surrogate = sigmoid; known negatives add their mean of l(-z)"
)


@register("upu")
class UnbiasedRisk(Objective):
    """Each class is learned from its known positives and from unlabelled samples, without assumed negatives:
    the risk on negatives is that on all samples, less the share that positives have in it.

    Needs the mean labels per sample, or the share of samples in which each class is present.

    Args:
        priors: Share of samples in which each class is present, in the order of the classes, each between 0
            and 1; None: from the mean labels per sample.
        surrogate: Loss l(z) of a positive: `logistic` = l+, or `sigmoid` = 1 - p.
        unlabelled: Samples U of a class: `all`, or the `rest`, without its known positives.
        counts: Divisor of the sums over P and U: their `expected` number in a batch, or that in this `batch`.
    """

    card = Card(
        title="Unbiased positive-unlabelled risk (uPU)",
        paper="du Plessis et al., Analysis of Learning from Positive and Unlabeled Data, NeurIPS 2014; "
        "du Plessis et al., Convex Formulation for Learning from Positive and Unlabeled Data, ICML 2015",
        year=2014,
        equations="the unbiased risk, for every class",
        formula=f"L = sum over C of (R+ + R-)\n{_LETTERS}",
        head_bias="prior",
    )
    needs = Needs(batch_coupled=True)
    name: ClassVar[str] = "upu"
    prior: Tensor
    observed: Tensor | None

    def __init__(
        self,
        *,
        priors: Sequence[float] | None = None,
        surrogate: Surrogate = "logistic",
        unlabelled: Unlabelled = "all",
        counts: Counts = "expected",
    ) -> None:
        super().__init__()
        if priors is not None:
            check_priors(priors)
        check_choice("surrogate", surrogate, get_args(Surrogate))
        check_choice("unlabelled", unlabelled, get_args(Unlabelled))
        check_choice("counts", counts, get_args(Counts))
        self.priors, self.counts = priors, counts
        self.hp = {"surrogate": surrogate, "unlabelled": unlabelled}

    def on_fit_start(self, facts: Facts) -> None:
        prior = class_priors(facts, f"{self.name!r}", self.priors)
        count, positives = len(facts.observed), torch.from_numpy(facts.observed.positives_per_class())
        if self.hp["unlabelled"] == "rest":
            prior = ((prior * count - positives) / (count - positives).clamp(min=1)).clamp(min=0)
        observed = (positives / count).float() if self.counts == "expected" else None
        self.register_buffer("prior", prior.float(), persistent=False)
        self.register_buffer("observed", observed, persistent=False)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        loss = pu_loss(outputs.logits, batch.target, correction="none", **self.estimates())
        return {"upu": loss}

    def estimates(self) -> dict[str, Any]:
        """Arguments of the risks of the classes."""
        return {"prior": self.prior, "observed": self.observed, **self.hp}


@register("nnpu")
class NonNegativeRisk(UnbiasedRisk):
    """uPU in which a class whose estimated risk on negatives is below zero, which is a sign of overfitting,
    is trained to raise it.

    Needs the mean labels per sample, or the share of samples in which each class is present.

    Args:
        priors: Share of samples in which each class is present, in the order of the classes, each between 0
            and 1; None: from the mean labels per sample.
        surrogate: Loss l(z) of a positive: `logistic` = l+, or `sigmoid` = 1 - p.
        unlabelled: Samples U of a class: `all`, or the `rest`, without its known positives.
        counts: Divisor of the sums over P and U: their `expected` number in a batch, or that in this `batch`.
        beta: Lowest risk on negatives that is not corrected, as -beta, >= 0.
        gamma: Factor of the gradient of a corrected class, in [0, 1].
        momentum: Share of the batch in the running mean of R- that decides, in (0, 1]; 1 = the batch alone.
    """

    card = Card(
        title="Non-negative positive-unlabelled risk (nnPU)",
        paper=_PAPER,
        year=2017,
        equations="the non-negative risk and Algorithm 1, for every class",
        formula="L = sum over C of [R+ + R- where r >= -beta, R+ - beta elsewhere, with the gradient of "
        f"-gamma R-]\nr = momentum R- + (1 - momentum) (r of the step before)\n{_LETTERS}",
        state="running mean of R- of each class",
        head_bias="prior",
    )
    name = "nnpu"
    running: Tensor

    def __init__(
        self,
        *,
        priors: Sequence[float] | None = None,
        surrogate: Surrogate = "logistic",
        unlabelled: Unlabelled = "all",
        counts: Counts = "expected",
        beta: float = 0.0,
        gamma: float = 1.0,
        momentum: float = 0.1,
    ) -> None:
        super().__init__(priors=priors, surrogate=surrogate, unlabelled=unlabelled, counts=counts)
        check_non_negative(beta=beta)
        check_share(gamma=gamma, momentum=momentum)
        check_positive(momentum=momentum)
        self.correction = {"beta": beta, "gamma": gamma, "momentum": momentum}
        self.momentum = momentum

    @property
    def remembers(self) -> bool:
        return self.momentum < 1

    def on_fit_start(self, facts: Facts) -> None:
        super().on_fit_start(facts)
        of_negative = softplus(self.prior.logit()) if self.hp["surrogate"] == "logistic" else self.prior
        self.register_buffer("running", (1 - self.prior) * of_negative)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        hp = {"running": self.running, **self.correction, **self.estimates()}
        return {"nnpu": pu_loss(outputs.logits, batch.target, **hp)}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        if len(outputs.logits):
            risk = negative_risk(outputs.logits, batch.target, **self.estimates())
            self.running.lerp_(risk.to(self.running.dtype), self.momentum)
