"""IGNORE (Song et al. 2024)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ..losses import ignore_loss
from ..losses._core.domains import check_epochs, check_non_negative, check_share
from ..losses._core.rows import by_label
from .base import Batch, Card, Extra, Facts, Needs, Objective, Outputs, Progress
from .registry import register


@register("ignore")
class InformationGapRejection(Objective):
    """Unknown labels are assumed negatives, except likely false negatives, which are left out: those whose
    logit changes as much as that of the observed class when the image region of that class is masked.

    For images only.

    Args:
        weight_pos: Weight of known positives in the ordinary view, >= 0.
        weight_an: Weight of the assume-negative loss in the strong view, >= 0.
        weight_views: Weight of the squared difference between the logits of both views, >= 0.
        threshold: Value of the class activation map of the observed class, scaled to [0, 1], above which the
            image is masked.
        decay: Decay of the running means per step, in [0, 1].
        warmup: Number of epochs in which no label is left out, >= 0.
    """

    card = Card(
        title="Information gap-based false negative rejection (IGNORE)",
        paper="Song et al., Ignore: Information Gap-based False Negative Loss Rejection for Single Positive "
        "Multi-Label Learning, ECCV 2024",
        year=2024,
        equations="the loss of the released code",
        formula="L = weight_pos (mean over P of l+) + weight_views (mean over B C of (z - z')^2)\n"
        "+ weight_an (mean, over labels not rejected, of [-log p' on P, -log(1 - p') on U])\np', z' of the "
        "strong view; after warmup epochs U is rejected where d > G and z > A\nd = |z - z of the masked "
        "image|, constant in the derivative; running means: G of d on P, A of z per class",
        state="running means: the gap at known positives (1), the logits of each class (C)",
        head_bias="prior",
    )
    needs = Needs(batch_coupled=True, views=("strong",), class_maps=True)
    gap_threshold: Tensor
    mean_logits: Tensor

    def __init__(
        self,
        *,
        weight_pos: float = 0.1,
        weight_an: float = 1.0,
        weight_views: float = 0.5,
        threshold: float = 0.8,
        decay: float = 0.999,
        warmup: int = 3,
    ) -> None:
        super().__init__()
        check_non_negative(weight_pos=weight_pos, weight_an=weight_an, weight_views=weight_views)
        check_share(threshold=threshold, decay=decay)
        check_epochs(warmup=warmup)
        self.hp = {"weight_pos": weight_pos, "weight_an": weight_an, "weight_views": weight_views}
        self.threshold, self.decay, self.warmup = threshold, decay, warmup
        self.rejecting = False

    def on_fit_start(self, facts: Facts) -> None:
        self.register_buffer("gap_threshold", torch.zeros(()))
        self.register_buffer("mean_logits", torch.zeros(len(facts.classes)))

    def on_epoch_start(self, progress: Progress) -> None:
        self.rejecting = progress.epoch >= self.warmup

    def extra_inputs(self, inputs: Tensor, outputs: Outputs, batch: Batch) -> Extra | None:
        assert outputs.class_maps is not None
        colour = inputs.mean((2, 3), keepdim=True, dtype=torch.float32).round().to(inputs.dtype)
        masked = _activation(outputs.class_maps, batch.target, inputs.shape[2:]) > self.threshold
        return Extra(torch.where(masked, colour, inputs))

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        (strong,) = outputs.views
        masked = outputs.extra if self.rejecting else None
        means: dict[str, Any] = {"gap_threshold": self.gap_threshold, "mean_logits": self.mean_logits}
        return {"ignore": ignore_loss(outputs.logits, batch.target, strong, masked, **means, **self.hp)}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        assert outputs.extra is not None
        no_label = torch.zeros_like(outputs.logits, dtype=torch.bool)
        known = by_label(batch.target, positive=True, unknown=no_label, negative=False)
        gap = (outputs.logits - outputs.extra).abs().where(known, 0).sum() / known.sum()
        # A batch without a known positive leaves the gap unchanged.
        gap = gap.to(self.gap_threshold.dtype).where(known.any(), self.gap_threshold)
        self.gap_threshold.lerp_(gap, 1 - self.decay)
        self.mean_logits.lerp_(outputs.logits.mean(0).to(self.mean_logits.dtype), 1 - self.decay)


def _activation(class_maps: Tensor, target: Tensor, size: torch.Size) -> Tensor:
    """Return the activation of the known positives at each pixel, (B, 1, *size), from 0 to 1, or all 0."""
    if target.ndim == 1:
        index = target[:, None, None, None].expand(-1, -1, *class_maps.shape[2:])
        maps = _scaled(class_maps.gather(1, index))
    else:
        maps = _scaled(class_maps).where((target == 1)[:, :, None, None], 0).amax(1, keepdim=True)
    return _scaled(functional.interpolate(maps, size=list(size), mode="bilinear"))


def _scaled(maps: Tensor) -> Tensor:
    """Scale each map to the range from 0 to 1; a constant map becomes 0."""
    maps = maps.float()
    low, high = maps.amin((2, 3), keepdim=True), maps.amax((2, 3), keepdim=True)
    return (maps - low) / (high - low).clamp(min=torch.finfo(maps.dtype).tiny)
