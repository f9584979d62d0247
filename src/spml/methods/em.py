"""EM loss (Zhou et al. 2022) and its opposite, EntMin."""

from __future__ import annotations

from torch import Tensor

from ..losses import em_loss, entmin_loss
from ..losses._core.domains import check_positive
from .base import Batch, Card, Objective, Outputs
from .registry import register

_PAPER = (
    "Zhou et al., Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, ECCV 2022"
)


@register("em")
class EntropyMaximisation(Objective):
    """Unknown labels are pulled towards maximal entropy.

    Args:
        alpha: Weight of the entropy of unknown labels, > 0.
    """

    card = Card(
        title="Entropy maximisation (EM)",
        paper=_PAPER,
        year=2022,
        equations="Eq. 4-5",
        formula="L = mean over B C of [l+ on P, -alpha H on U]\nH = -p log p - (1 - p) log(1 - p)",
        defaults={
            "voc": {"alpha": 0.2},
            "coco": {"alpha": 0.1},
            "nus": {"alpha": 0.1},
            "cub": {"alpha": 0.01},
        },
        source="the released code",
    )

    def __init__(self, *, alpha: float = 0.1) -> None:
        super().__init__()
        check_positive(alpha=alpha)
        self.alpha = alpha

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"em": em_loss(outputs.logits, batch.target, alpha=self.alpha)}


@register("entmin")
class EntropyMinimisation(EntropyMaximisation):
    """Unknown labels are pulled towards certainty, to the nearer side. Collapses; for comparison only.

    Args:
        alpha: Weight of the entropy of unknown labels, > 0.
    """

    card = Card(
        title="Entropy minimisation (EntMin)",
        paper="Grandvalet and Bengio, Semi-supervised Learning by Entropy Minimization, NeurIPS 2004",
        year=2004,
        equations="EntMin, to which Zhou et al. 2022 compare: EM with the opposite sign",
        formula="L = mean over B C of [l+ on P, alpha H on U]\nH = -p log p - (1 - p) log(1 - p)",
    )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"entmin": entmin_loss(outputs.logits, batch.target, alpha=self.alpha)}
