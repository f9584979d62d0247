"""EM loss (Zhou et al. 2022)."""

from __future__ import annotations

from torch import Tensor

from ..losses import em_loss
from ..objective import Batch, Card, Objective, Outputs, register


@register("em")
class EntropyMaximisation(Objective):
    """Unknown labels are pulled towards maximal entropy.

    Args:
        alpha: weight of the entropy of unknown labels.
    """

    card = Card(
        title="Entropy maximisation (EM)",
        paper="Zhou et al., Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, "
        "ECCV 2022",
        year=2022,
        equations="Eq. 4-5",
        defaults={
            "voc": {"alpha": 0.2},
            "coco": {"alpha": 0.1},
            "nus": {"alpha": 0.1},
            "cub": {"alpha": 0.01},
        },
        deviations=(
            "the released code adds 1e-5 inside logarithms (em_loss(eps=1e-5)); the default has none",
        ),
    )

    def __init__(self, *, alpha: float = 0.1) -> None:
        super().__init__()
        if not alpha > 0:
            raise ValueError(f"alpha must be greater than 0, got {alpha}")
        self.alpha = alpha

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"em": em_loss(outputs.logits, batch.target, alpha=self.alpha)}
