"""SCL (Verelst et al. 2023), in a reading of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ..losses import iu_loss
from ..losses._core.domains import check_choice, check_non_negative, check_share, check_whole
from ..losses.assume_negative import an_loss
from .base import Batch, Card, Facts, Needs, Objective, Outputs, Progress
from .heat_maps import HeatMaps
from .inference_rules import LowestAverages
from .registry import register

Base: TypeAlias = Literal["en", "an"]


@register("scl")
class SpatialConsistency(Objective):
    """Class maps agree with a running average of those of the same image, moved as the image was cropped and
    mirrored; this is added to the loss of expected negatives, or of assumed ones.

    For images only. Expected negatives need the mean labels per sample.

    Args:
        base: Loss of the labels: `en`, expected negatives, or `an`, assumed negatives.
        weight: Weight of the difference between class maps and heat maps, >= 0.
        decay: Weight of the previous value in a heat map, in [0, 1]; 0 = the last class map alone.
        width: Cells of a side of a heat map, >= 1.
        gigabytes: Most memory that the heat maps may take, 2 N C width^2 bytes, >= 0.
    """

    card = Card(
        title="Spatial consistency loss (SCL), a reading",
        paper="Verelst et al., Spatial Consistency Loss for Training Multi-Label Classifiers from "
        "Single-Label Annotations, WACV 2023",
        year=2023,
        equations="none: a reading of the abstract; neither code nor full text was available",
        formula="L = M + weight (mean over B C and positions of |F - T(H)|), where H is known, else 0\n"
        "M = the loss of en, or of an; F = sigmoid of the class maps\n"
        "H = heat map of the image and class, in cells of the whole image, without gradient\n"
        "T = bilinear interpolation of H at the positions of F in the region of the view, mirrored with it\n"
        "after each step H = decay H + (1 - decay) F in the cells whose centres the view shows; at first F",
        state="heat maps (half precision, N x C x width x width); of en: average prediction (float, N x C) "
        "and expected negatives (bool, N x C)",
        head_bias="prior",
    )

    def __init__(
        self,
        *,
        base: Base = "en",
        weight: float = 1.0,
        decay: float = 0.8,
        width: int = 28,
        gigabytes: float = 4.0,
    ) -> None:
        super().__init__()
        check_choice("base", base, ("en", "an"))
        check_non_negative(weight=weight, gigabytes=gigabytes)
        check_share(decay=decay)
        check_whole(width=width)
        self.weight, self.decay, self.width, self.gigabytes = weight, decay, width, gigabytes
        self.memory = LowestAverages() if base == "en" else None
        self.needs = Needs(class_maps=True, trained_maps=True, regions=True)

    def on_fit_start(self, facts: Facts) -> None:
        if self.memory is not None:
            facts.stated_mean_labels("'scl' with base = en")
            self.memory.on_fit_start(facts)
        self.heat = HeatMaps(facts.observed, self.width, self.decay, self.gigabytes)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        assert outputs.class_maps is not None, "needs.trained_maps"
        if self.memory is None:
            base = an_loss(outputs.logits, batch.target)
        else:
            base = iu_loss(outputs.logits, self.memory.fill(batch).target)
        shown = torch.sigmoid(outputs.class_maps)
        expected, known = self.heat.expected(shown, batch)
        difference = (shown - expected).abs().where(known, 0)
        return {"base": base, "scl": self.weight * difference.sum() / max(difference.numel(), 1)}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        assert outputs.class_maps is not None, "needs.trained_maps"
        self.heat.update(torch.sigmoid(outputs.class_maps), batch)
        if self.memory is not None:
            self.memory.after_step(outputs, batch)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        if self.memory is not None:
            self.memory.on_epoch_end(progress, train_pass)
