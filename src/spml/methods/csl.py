"""CSL (Ben-Baruch et al. 2022)."""

from __future__ import annotations

import torch
from torch import Tensor

from ..losses import csl_loss
from ..losses._core.domains import check_below, check_choice, check_non_negative
from ..losses.csl import MODES, Unlabelled
from .base import Batch, Card, Facts, Needs, Objective, Outputs
from .registry import register


@register("csl")
class ClassAwareSelective(Objective):
    """Unknown labels are treated as negatives, except the most probable ones and those of frequent classes.

    Args:
        mode: Treatment of unknown labels: `selective`, `ignore`, `ignore_normalize_classes` or `negative`.
        topk: For `selective`: number of unknown labels left out per sample, chosen as the most probable ones
            of the whole batch.
        prior_threshold: For `selective`: share of samples above which the unknown labels of a class are left
            out; None = no class is left out. Needs the mean labels per sample.
        gamma_pos, gamma_neg, gamma_unknown: Focusing exponents, >= 0.
        clip: Shift of the negatives' probability, in [0, 1).
    """

    card = Card(
        title="Class-aware selective loss (CSL)",
        paper="Ben-Baruch et al., Multi-label Classification with Partial Annotations using Class-aware "
        "Selective Loss, CVPR 2022",
        year=2022,
        equations="the partial asymmetric loss and its modes",
        formula="L = mean over B, sum over C, of [(1 - p)^gamma_pos l+ on P, p_m^gamma_unknown l_m on U,\n"
        "p_m^gamma_neg l_m on known negatives], p_m = max(p - clip, 0), l_m = -log(1 - p_m)\n"
        "0 on the topk B labels of U with the highest p in the batch, and on U in classes above\n"
        "prior_threshold; the powers are constant in the derivative",
        defaults={"coco": {"topk": 5}},
        source="the released code",
    )
    needs = Needs(batch_coupled=True)
    frequent: Tensor | None

    def __init__(
        self,
        *,
        mode: Unlabelled = "selective",
        topk: int = 1,
        prior_threshold: float | None = None,
        gamma_pos: float = 0.0,
        gamma_neg: float = 1.0,
        gamma_unknown: float = 2.0,
        clip: float = 0.0,
    ) -> None:
        super().__init__()
        check_choice("mode", mode, MODES)
        check_below(1, clip=clip)
        check_non_negative(topk=topk, prior_threshold=prior_threshold or 0.0)
        check_non_negative(gamma_pos=gamma_pos, gamma_neg=gamma_neg, gamma_unknown=gamma_unknown)
        self.prior_threshold = prior_threshold
        self.hp = {"mode": mode, "topk": topk, "gamma_pos": gamma_pos, "gamma_neg": gamma_neg}
        self.hp |= {"gamma_unknown": gamma_unknown, "clip": clip}
        self.register_buffer("frequent", None, persistent=False)

    def on_fit_start(self, facts: Facts) -> None:
        if self.prior_threshold is not None:
            mean_labels = facts.stated_mean_labels("'csl' with prior_threshold")
            counts = torch.from_numpy(facts.observed.positives_per_class())
            self.frequent = mean_labels * counts / counts.sum() > self.prior_threshold

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        loss = csl_loss(outputs.logits, batch.target, ignored_classes=self.frequent, **self.hp)
        return {"csl": outputs.logits.shape[1] * loss}
