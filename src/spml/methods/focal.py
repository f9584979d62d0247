"""Focal loss (Lin et al. 2017) and asymmetric loss (Ridnik et al. 2021) on assumed negatives."""

from __future__ import annotations

from torch import Tensor

from ..losses import asl_loss, focal_loss
from ..losses._core.domains import check_below, check_non_negative
from .base import Batch, Card, ChoiceOfNegatives, Outputs, WithOwnNegatives
from .registry import register

_CLAMP = "the released code clamps the arguments of logarithms to 1e-8 (eps=1e-8 of the loss); default: exact"


@register("focal")
class Focal(WithOwnNegatives):
    """Assume negative, with less weight on easy labels.

    Args:
        gamma: Focusing exponent, >= 0.
        margin: Shift of the logit of a known positive, >= 0; > 0 is the focal margin loss.
        detach_weights: Whether the focusing factors are held constant in the derivative.
        known_negatives: Loss of a known negative: l- (`plain`), that of an unknown label (`own`), or `auto` =
            `own` if every label of the training set is known, else `plain`.
    """

    card = Card(
        title="Focal loss",
        paper="Lin et al., Focal Loss for Dense Object Detection, ICCV 2017",
        year=2017,
        equations="Eq. 4, on every class; margin: Zhang et al., arXiv 2112.07368",
        formula="L = mean over B C of [(1 - p_m)^gamma l_m on P, p^gamma l- on U,\n"
        "and on known negatives if all labels are known]\np_m = sigmoid(z - margin), l_m = -log p_m",
        head_bias="prior",
    )

    def __init__(
        self,
        *,
        gamma: float = 2.0,
        margin: float = 0.0,
        detach_weights: bool = False,
        known_negatives: ChoiceOfNegatives = "auto",
    ) -> None:
        super().__init__(known_negatives)
        check_non_negative(gamma=gamma, margin=margin)
        self.hp = {"gamma": gamma, "margin": margin, "detach_weights": detach_weights}

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        loss = focal_loss(outputs.logits, batch.target, **self.hp, known_negatives=self.known_negatives)
        return {"focal": loss}


@register("asl")
class Asymmetric(WithOwnNegatives):
    """Assume negative, with less weight on easy negatives than on easy positives, or none.

    Args:
        gamma_pos, gamma_neg: Focusing exponents, >= 0.
        clip: Shift of the negatives' probability, in [0, 1); 0 is ASL without probability shifting.
        detach_weights: Whether the focusing factors are held constant in the derivative.
        known_negatives: Loss of a known negative: l- (`plain`), that of an unknown label (`own`), or `auto` =
            `own` if every label of the training set is known, else `plain`.
    """

    card = Card(
        title="Asymmetric loss (ASL)",
        paper="Ridnik et al., Asymmetric Loss For Multi-Label Classification, ICCV 2021",
        year=2021,
        equations="Eq. 4-7",
        formula="L = mean over B, sum over C, of [(1 - p)^gamma_pos l+ on P, p_m^gamma_neg l_m on U,\n"
        "and on known negatives if all labels are known]\n"
        "p_m = max(p - clip, 0), l_m = -log(1 - p_m); the powers are constant in the derivative",
        head_bias="prior",
        printed={"detach_weights": False},
    )

    def __init__(
        self,
        *,
        gamma_pos: float = 0.0,
        gamma_neg: float = 4.0,
        clip: float = 0.05,
        detach_weights: bool = True,
        known_negatives: ChoiceOfNegatives = "auto",
    ) -> None:
        super().__init__(known_negatives)
        check_non_negative(gamma_pos=gamma_pos, gamma_neg=gamma_neg)
        check_below(1, clip=clip)
        self.hp = {"gamma_pos": gamma_pos, "gamma_neg": gamma_neg, "clip": clip}
        self.hp["detach_weights"] = detach_weights

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        loss = asl_loss(outputs.logits, batch.target, **self.hp, known_negatives=self.known_negatives)
        return {"asl": outputs.logits.shape[1] * loss}
