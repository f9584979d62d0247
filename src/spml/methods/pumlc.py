"""PU-MLC (Yuan et al. 2023)."""

from __future__ import annotations

from torch import Tensor

from ..losses import pumlc_loss
from ..losses.domains import check_non_negative, check_positive
from ..objective import Batch, Card, Needs, Objective, Outputs, register


@register("pumlc")
class PositiveUnlabelled(Objective):
    """Each class is learnt from its known positives and from the batch as a whole, without any negative.

    Args:
        gamma: exponent of the factor on the unlabelled part, >= 0.
        alpha: of the temperature min(alpha * standard deviation, 1), > 0.
    """

    card = Card(
        title="Positive and unlabelled multi-label classification (PU-MLC)",
        paper="Yuan et al., Positive Label Is All You Need for Multi-Label Classification, 2023",
        year=2023,
        equations="the variational PU loss, as in the released code",
        defaults={"voc": {"gamma": 0.85, "alpha": 2.0}, "coco": {"gamma": 0.55, "alpha": 1.0}},
        deviations=(
            "the mixing of samples that the paper adds is left out",
            "sum over classes as in the released code, which adds 1e-10 inside logarithms; the default has "
            "none",
            "a class that is constant over the batch makes the released code NaN; here it has temperature 1",
        ),
    )
    needs = Needs(batch_coupled=True)

    def __init__(self, *, gamma: float = 0.55, alpha: float = 1.0) -> None:
        super().__init__()
        check_non_negative(gamma=gamma)
        check_positive(alpha=alpha)
        self.gamma, self.alpha = gamma, alpha

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"pumlc": pumlc_loss(outputs.logits, batch.target, gamma=self.gamma, alpha=self.alpha)}
