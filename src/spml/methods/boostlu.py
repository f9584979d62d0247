"""BoostLU (Kim et al. 2023)."""

from __future__ import annotations

from .base import Card
from .large_loss import LargeLossRejection
from .registry import register


@register("boostlu")
class BoostedLargeLossRejection(LargeLossRejection):
    """Large loss rejection with a head that multiplies positive class activations by 5, both in training and
    in prediction.

    For images only: the head operates on the feature map.

    Args:
        percent: Delta, percentage of the batch's labels by which the number of rejected labels grows per
            epoch, in (0, 100].
    """

    card = Card(
        title="BoostLU with large loss rejection",
        paper="Kim et al., Bridging the Gap between Model Explanations in Partially Annotated Multi-label "
        "Classification, CVPR 2023",
        year=2023,
        equations="the function called BoostLU",
        formula=f"{LargeLossRejection.card.formula}\n"
        "z = mean over positions of (5 a where a > 0, else a), a = activation of the class at a position",
        head_bias="prior",
        head="boosted_cam",
    )
