"""BoostLU (Kim et al. 2023)."""

from __future__ import annotations

from .base import Card
from .large_loss import LargeLossRejection
from .registry import register


@register("boostlu")
class BoostedLargeLossRejection(LargeLossRejection):
    """Large loss rejection with a head that multiplies positive class activations by 5, in training and in
    prediction.

    Images only: the head works on the feature map.

    Args:
        percent: Delta, by how many per cent of the batch's labels their number grows per epoch, in (0, 100].
    """

    card = Card(
        title="BoostLU with large loss rejection",
        paper="Kim et al., Bridging the Gap between Model Explanations in Partially Annotated Multi-label "
        "Classification, CVPR 2023",
        year=2023,
        equations="the function called BoostLU",
        formula=f"{LargeLossRejection.card.formula}\n"
        "z = mean over places of (5 a where a > 0, else a), a = activation of the class at a place",
        head_bias="prior",
        head="boosted_cam",
        deviations=(
            "the method is the head: --model.head boosted_cam with --method ll_ct or ll_cp gives the other "
            "rows of the paper; its factor is 5 everywhere",
            *LargeLossRejection.card.deviations,
        ),
    )
