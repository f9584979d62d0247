"""EN (Verelst et al. 2023)."""

from __future__ import annotations

from torch import Tensor

from ..losses import iu_loss
from .base import Batch, Card, Facts, Outputs
from .inference_rules import LowestAverages, WithRule
from .registry import register


@register("en")
class ExpectedNegatives(WithRule):
    """The labels with the lowest averaged predictions of each class are negatives, as many as are expected;
    the other unknown labels are ignored.

    Needs the mean labels per sample.

    Args:
        decay: Weight of the previous value in the average of a sample's predictions over epochs, in [0, 1];
            0 = the last prediction alone.
    """

    card = Card(
        title="Expected negatives (EN)",
        paper="Verelst et al., Spatial Consistency Loss for Training Multi-Label Classifiers from "
        "Single-Label Annotations, WACV 2023",
        year=2023,
        equations="the EN loss, as described in Chen et al. 2024 (GR), Eq. 20 and Appendix B",
        formula="L = mean over B C of [l+ on P, l- on expected negatives, 0 on the rest of U]\n"
        "expected negatives: in the first epoch U, then those of U with the lowest a after the last epoch,\n"
        "until a class has N - N_c with its known ones; a = decay a + (1 - decay) p in each step\n"
        "N_c = round(K N known positives of the class / all known positives), K = mean labels per sample",
        state="average prediction (float, N x C) and expected negatives (bool, N x C)",
        head_bias="prior",
    )

    def __init__(self, *, decay: float = 0.5) -> None:
        super().__init__()
        self.memory = LowestAverages(decay=decay)

    def on_fit_start(self, facts: Facts) -> None:
        facts.stated_mean_labels("'en'")
        super().on_fit_start(facts)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"en": iu_loss(outputs.logits, self.memory.fill(batch).target)}
