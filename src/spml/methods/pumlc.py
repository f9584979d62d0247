"""PU-MLC (Yuan et al. 2023)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..losses import mixed_consistency_loss, mixed_log_target, pumlc_loss
from ..losses._core.domains import check_non_negative, check_positive
from .base import Batch, Card, Extra, Needs, Objective, Outputs
from .registry import register

_MIXING = 0.3
"""Both parameters of the Beta distribution of the shares, as in Chen et al. 2020."""


@register("pumlc")
class PositiveUnlabelled(Objective):
    """Each class is learned from its known positives and from the batch as a whole, without any negative; the
    prediction for a mixture of two samples is trained towards the mixture of their labels.

    Args:
        gamma: Exponent of the factor on the unlabelled part, >= 0.
        alpha: Factor in the temperature min(alpha * standard deviation, 1), > 0.
        mix: Weight of the mixed samples, >= 0; 0 = no mixing, which saves a forward pass.
    """

    card = Card(
        title="Positive and unlabelled multi-label classification (PU-MLC)",
        paper="Yuan et al., Positive Label Is All You Need for Multi-Label Classification, arXiv 2306.16016",
        year=2023,
        equations="the variational PU loss, as in the released code, and a MixUp regulariser",
        formula="L = sum over C of [m^gamma log m + mean over P of l+ + mean over known negatives of l-]\n"
        "+ mix (mean over B, sum over C, of (log y - log p')^2)\n"
        "p = sigmoid(z / T), m = mean over B of p, T = min(alpha (standard deviation of z over B), 1)\n"
        "p' = sigmoid(z) of a mixture of two samples with shares a and 1 - a, y = that mixture of their t\n"
        "t = 1 on P, else sigmoid(z); m^gamma, T and y are constant in the derivative",
        defaults={"voc": {"gamma": 0.85, "alpha": 2.0}, "coco": {"gamma": 0.55, "alpha": 1.0}},
        source="the released code",
    )
    needs = Needs(batch_coupled=True)

    def __init__(self, *, gamma: float = 0.55, alpha: float = 1.0, mix: float = 1.0) -> None:
        super().__init__()
        check_non_negative(gamma=gamma, mix=mix)
        check_positive(alpha=alpha)
        self.gamma, self.alpha, self.mix = gamma, alpha, mix

    def extra_inputs(self, inputs: Tensor, outputs: Outputs, batch: Batch) -> Extra | None:
        if not self.mix:
            return None
        # Drawn on the CPU, so that all processes and devices agree.
        generator = np.random.Generator(np.random.PCG64(batch.seed))
        share = _to_device(inputs.device, generator.beta(_MIXING, _MIXING, len(inputs)).astype(np.float32))
        partner = _to_device(inputs.device, generator.permutation(len(inputs)))
        factor = share.reshape(-1, *[1] * (inputs.ndim - 1))
        mixed = factor * inputs.float() + (1 - factor) * inputs[partner].float()
        return Extra(mixed, mixed_log_target(outputs.logits, batch.target, partner, share))

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        terms = {"pumlc": pumlc_loss(outputs.logits, batch.target, gamma=self.gamma, alpha=self.alpha)}
        if outputs.extra is not None and outputs.extra_target is not None:
            terms["mixed"] = self.mix * mixed_consistency_loss(outputs.extra, outputs.extra_target)
        return terms


def _to_device(device: torch.device, values: npt.NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(values).to(device, non_blocking=True)
