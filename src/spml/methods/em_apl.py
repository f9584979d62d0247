"""EM with asymmetric pseudo-labelling (Zhou et al. 2022)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ..losses import em_apl_loss
from ..losses._core.domains import check_positive
from .base import Batch, Card, Outputs
from .inference_rules import LowestScores, WithRule
from .registry import register


@register("em_apl")
class AsymmetricPseudoLabelling(WithRule):
    """EM loss; after each epoch the unknown labels with the lowest scores become soft pseudo-negatives.

    Args:
        alpha: Weight of the entropy of unknown labels, > 0.
        beta: Weight of pseudo-negatives, > 0.
        warmup: Number of epochs before the first pseudo-negatives, >= 0.
        proportion: Share of each class's unknown labels that are pseudo-negatives in the last epoch, in
            [0, 1].
        predictions: Source of the scores. `pass`: an evaluation pass after the epoch (paper). `training`: the
            predictions made for each sample during the epoch, which saves the pass.
    """

    card = Card(
        title="Entropy maximisation with asymmetric pseudo-labelling (EM+APL)",
        paper="Zhou et al., Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, "
        "ECCV 2022",
        year=2022,
        equations="EM loss and asymmetric pseudo-labelling",
        formula="L = mean over B C of [l+ on P, M on pseudo-negatives, -alpha H on the rest of U]\n"
        "H = -p log p - (1 - p) log(1 - p), M = beta (q l+ + (1 - q) l-)\n"
        "after each of the epochs warmup ... E - 1, in each class, the int(proportion U_c / (E - warmup))\n"
        "lowest p of the rest become pseudo-negatives with q = p; U_c = size of U in the class",
        state="soft pseudo-negatives (float, N x C); with predictions=training also the latest logits",
        defaults={
            "voc": {"alpha": 0.2, "beta": 0.02, "warmup": 5},
            "coco": {"alpha": 0.1, "beta": 0.9, "warmup": 5},
            "nus": {"alpha": 0.1, "beta": 0.2, "warmup": 4},
            "cub": {"alpha": 0.01, "beta": 0.4, "warmup": 3},
        },
        source="the released code",
    )
    memory: LowestScores

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 0.2,
        warmup: int = 5,
        proportion: float = 0.9,
        predictions: Literal["pass", "training"] = "pass",
    ) -> None:
        super().__init__()
        check_positive(alpha=alpha, beta=beta)
        self.alpha, self.beta = alpha, beta
        self.warmup = warmup
        self.memory = LowestScores(warmup=warmup, proportion=proportion, predictions=predictions)
        self.needs = self.memory.needs

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        soft = self.memory.labels.rows(batch.index)
        return {"em_apl": em_apl_loss(outputs.logits, batch.target, soft, alpha=self.alpha, beta=self.beta)}
