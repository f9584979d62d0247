"""Hill and SPLC (Zhang et al. 2021)."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from ..losses import focal_loss, hill_loss, splc_loss
from ..losses._core.domains import check_choice, check_epochs, check_non_negative, check_share
from ..losses.hill import check_lam
from .base import Batch, Card, ChoiceOfNegatives, Outputs, Progress, WithOwnNegatives
from .registry import register

_PAPER = (
    "Zhang et al., Simple and Robust Loss Design for Multi-Label Learning with Missing Labels, "
    "arXiv 2112.07368"
)


@register("hill")
class Hill(WithOwnNegatives):
    """Unknown labels of high probability have less weight; focal margin loss on known positives.

    Args:
        lam: Constant in (lam - p) p^2, >= 1.5.
        margin: Shift of the logit of a known positive, >= 0.
        gamma: Focusing exponent of known positives, >= 0; margin = gamma = 0 is -log p.
        known_negatives: Loss of a known negative: l- (`plain`), that of an unknown label (`own`), or `auto` =
            `own` if every label of the training set is known, else `plain`.
    """

    card = Card(
        title="Hill loss with focal margin",
        paper=_PAPER,
        year=2021,
        equations="the losses called Hill and focal margin",
        formula="L = mean over B, sum over C, of [(1 - p_m)^gamma l_m on P, (lam - p) p^2 on U,\n"
        "and on known negatives if all labels are known]\np_m = sigmoid(z - margin), l_m = -log p_m",
        head_bias="prior",
    )

    def __init__(
        self,
        *,
        lam: float = 1.5,
        margin: float = 1.0,
        gamma: float = 2.0,
        known_negatives: ChoiceOfNegatives = "auto",
    ) -> None:
        super().__init__(known_negatives)
        check_non_negative(margin=margin, gamma=gamma)
        check_lam(lam)
        self.hp = {"lam": lam, "margin": margin, "gamma": gamma}

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        loss = hill_loss(outputs.logits, batch.target, **self.hp, known_negatives=self.known_negatives)
        return {"hill": outputs.logits.shape[1] * loss}


@register("splc")
class SelfPacedCorrection(WithOwnNegatives):
    """Unknown labels with p > tau are treated as positives, after a warm-up with the focal margin loss.

    "Focal margin + SPLC" in Table 1 of the GR paper is negative = `hill`, margin_corrected = true.

    Args:
        tau: Threshold, in [0, 1].
        margin: Shift of the logit of a known positive, >= 0.
        gamma: Focusing exponent, >= 0.
        negative: Loss of unknown labels that are not treated as positives: `focal` (released code), or
            `hill`: (lam - p) p^2.
        lam: Constant of `hill`, >= 1.5.
        margin_corrected: Whether unknown labels that are treated as positives have the margin, too.
        warmup: Number of epochs without correction, >= 0.
        known_negatives: Loss of a known negative, which is never corrected: l- (`plain`), that of an unknown
            label with p <= tau (`own`), or `auto` = `own` if every label of the training set is known, else
            `plain`.
    """

    card = Card(
        title="Self-paced loss correction (SPLC)",
        paper=_PAPER,
        year=2021,
        equations="the losses called SPLC and focal margin",
        formula="L = mean over B, sum over C, of [(1 - p_m)^gamma l_m on P, p^gamma l- on U with p <= tau,\n"
        "(1 - p)^gamma l+ on the rest of U]; in the first warmup epochs p^gamma l- on all of U\n"
        "if all labels are known: p^gamma l- on known negatives\n"
        "p_m = sigmoid(z - margin), l_m = -log p_m; negative = hill: (lam - p) p^2 for p^gamma l-;\n"
        "margin_corrected: (1 - p_m)^gamma l_m for (1 - p)^gamma l+",
        head_bias="prior",
    )

    def __init__(
        self,
        *,
        tau: float = 0.6,
        margin: float = 1.0,
        gamma: float = 2.0,
        negative: Literal["focal", "hill"] = "focal",
        lam: float = 1.5,
        margin_corrected: bool = False,
        warmup: int = 1,
        known_negatives: ChoiceOfNegatives = "auto",
    ) -> None:
        super().__init__(known_negatives)
        check_choice("negative", negative, ("focal", "hill"))
        check_lam(lam)
        check_non_negative(margin=margin, gamma=gamma)
        check_epochs(warmup=warmup)
        check_share(tau=tau)
        self.negative, self.lam, self.warmup, self.correcting = negative, lam, warmup, False
        self.hp = {"margin": margin, "gamma": gamma}
        self.correction: dict[str, Any] = {
            "tau": tau,
            "negative": negative,
            "lam": lam,
            "margin_corrected": margin_corrected,
        }

    def on_epoch_start(self, progress: Progress) -> None:
        self.correcting = progress.epoch >= self.warmup

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        logits, target = outputs.logits, batch.target
        hp = {**self.hp, "known_negatives": self.known_negatives}
        if self.correcting:
            loss = splc_loss(logits, target, **self.correction, **hp)
        elif self.negative == "hill":
            loss = hill_loss(logits, target, lam=self.lam, **hp)
        else:
            loss = focal_loss(logits, target, **hp)
        return {"splc": logits.shape[1] * loss}
