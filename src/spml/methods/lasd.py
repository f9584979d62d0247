"""LAS and LASD (Cui et al. 2023)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..losses import balanced_weight, consistency_loss, las_loss, lasd_full_loss, lasd_loss
from ..losses._core.domains import check_non_negative, check_share
from .base import Batch, Card, ChoiceOfNegatives, Facts, Needs, Outputs, WithOwnNegatives
from .registry import register


@register("lasd")
class LeveragedAsymmetric(WithOwnNegatives):
    """Assumed negatives with a small weight, confident unknown labels as positives with another weight, and
    consistency between three views of a sample.

    Needs the mean labels per sample, unless weight_neg is given or leverage is off. If every label of the
    training set is known, the loss with disambiguation is that of Theorem 5.3, without pseudo-labels.

    The ablation (Table 3) has four cases. A: leverage = disambiguation = false and consistency = 0, which is
    AN with a sum over classes. B: weight_neg = 1, disambiguation = false and consistency = 0, which is ASL
    without shift. C: consistency = 0. D: the default.

    Args:
        weight_pos: lambda+, weight of an unknown label with p > tau, >= 0.
        weight_neg: lambda-, weight of other unknown labels, >= 0; None = balanced, Theorem 5.4.
        tau: Threshold of the disambiguation, in [0, 1].
        gamma_pos, gamma_neg: Focusing exponents, >= 0.
        leverage: Whether labels of different kinds differ in weight; False = both weights are 1 and both
            exponents 0.
        disambiguation: Whether confident unknown labels are positives; False = all unknown labels are assumed
            negatives (LAS).
        consistency: alpha, weight of the squared differences between three views, >= 0; 0 = the ordinary view
            alone, which saves two forward passes.
        known_negatives: Loss of a known negative: l- (`plain`), weight_neg p^gamma_neg l- (`own`), or `auto`
            = `own` if every label of the training set is known, else `plain`. With `own`, disambiguation and
            every label known, the n positives of a sample have the weight (1 + weight_pos (n - 1)) / n.
    """

    card = Card(
        title="Leveraged asymmetric loss with disambiguation (LASD)",
        paper="Cui et al., Leveraged Asymmetric Loss with Disambiguation for Multi-label Recognition with "
        "One-Positive Annotations, submitted to ICLR 2023 (OpenReview JFf-bPQu5RB)",
        year=2023,
        equations="Eq. 5-8 and 11, Theorem 5.4, Table 3",
        formula="L = mean over B, sum over C, of [(1 - p)^gamma_pos l+ on P,\n"
        "weight_pos (1 - p)^gamma_pos l+ on U where p > tau, weight_neg p^gamma_neg l- on the rest of U]\n+ "
        "consistency (mean over B, sum over C, of [(p - p')^2 + (p - p'')^2 + (p' - p'')^2])\nIf all labels "
        "are known, n positive: [(1 + weight_pos (n - 1)) / n (1 - p)^gamma_pos l+ on P,\nweight_neg "
        "p^gamma_neg l- on known negatives]\np', p'' of two further views; weight_neg = (1 + weight_pos (K - "
        "1)) / (C - K), K = mean labels per sample",
        defaults={
            "voc": {"weight_pos": 0.1, "tau": 0.9, "consistency": 0.7},
            "coco": {"weight_pos": 0.03, "tau": 0.9, "consistency": 0.1},
            "nus": {"weight_pos": 0.015, "tau": 0.95, "consistency": 0.15},
            "cub": {"weight_pos": 0.005, "tau": 0.93, "consistency": 0.03},
        },
        source="Table 4 of the paper",
    )

    def __init__(
        self,
        *,
        weight_pos: float = 0.1,
        weight_neg: float | None = None,
        tau: float = 0.9,
        gamma_pos: float = 0.0,
        gamma_neg: float = 4.0,
        leverage: bool = True,
        disambiguation: bool = True,
        consistency: float = 0.7,
        known_negatives: ChoiceOfNegatives = "auto",
    ) -> None:
        super().__init__(known_negatives)
        check_non_negative(weight_pos=weight_pos, gamma_pos=gamma_pos, gamma_neg=gamma_neg)
        check_non_negative(consistency=consistency)
        check_non_negative(weight_neg=weight_neg or 0.0)
        check_share(tau=tau)
        self.weight_pos, self.weight_neg = (weight_pos, weight_neg) if leverage else (1.0, 1.0)
        exponents = (gamma_pos, gamma_neg) if leverage else (0.0, 0.0)
        self.hp = dict(zip(("gamma_pos", "gamma_neg"), exponents, strict=True))
        self.tau, self.full = tau, False
        self.disambiguation, self.consistency = disambiguation, consistency
        self.needs = Needs(views=("weak", "strong")) if consistency else Needs()
        self.leverage_neg = 1.0

    def on_fit_start(self, facts: Facts) -> None:
        super().on_fit_start(facts)
        self.full = facts.observed.full and self.known_negatives == "own" and self.disambiguation
        if self.weight_neg is None:
            mean_labels = facts.stated_mean_labels("'lasd'")
            self.leverage_neg = balanced_weight(self.weight_pos, mean_labels, len(facts.classes))
        else:
            self.leverage_neg = self.weight_neg

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        logits, target, negatives = outputs.logits, batch.target, self.known_negatives
        both: dict[str, Any] = {"weight_pos": self.weight_pos, "weight_neg": self.leverage_neg}
        if self.full:
            loss = lasd_full_loss(logits, target, **both, **self.hp)
        elif self.disambiguation:
            loss = lasd_loss(logits, target, tau=self.tau, **both, **self.hp, known_negatives=negatives)
        else:
            loss = las_loss(logits, target, weight=self.leverage_neg, **self.hp, known_negatives=negatives)
        terms = {"lasd": logits.shape[1] * loss}
        if self.consistency:
            terms["consistency"] = self.consistency * consistency_loss(logits, *outputs.views)
        return terms
