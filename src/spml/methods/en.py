"""EN (Verelst et al. 2023)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..losses import iu_loss
from ..losses.domains import check_share
from ..objective import Batch, Card, Facts, Objective, Outputs, Progress, register
from ._shared import stated_mean_labels

_NOT_PREDICTED = 2.0
"""In place of an average probability: larger than any, so that such a sample is ranked last."""


@register("en")
class ExpectedNegatives(Objective):
    """As many negatives per class as are expected, where averaged predictions are lowest; others are ignored.

    Needs the mean labels per sample.

    Args:
        decay: of the average of a sample's predictions over epochs, in [0, 1]; 0 = the last prediction alone.
    """

    card = Card(
        title="Expected negatives (EN)",
        paper="Verelst et al., Spatial Consistency Loss for Training Multi-Label Classifiers from "
        "Single-Label Annotations, WACV 2023",
        year=2023,
        equations="the EN loss, as described in Chen et al. 2024 (GR), Eq. 20 and Appendix B",
        state="average prediction (float, N x C) and expected negatives (bool, N x C)",
        deviations=(
            "no released code. The decay is not published; default: 0.5, an average over about two epochs",
            "how the expected number of positives of a class is estimated is not published; here K x known "
            "positives of the class x N / known positives, with K the mean labels per sample",
            "in the first epoch, when nothing has been predicted yet, every unknown label is a negative",
            "the spatial consistency loss (SCL) of the paper is left out",
        ),
    )

    average: Tensor
    negatives: Tensor

    def __init__(self, *, decay: float = 0.5) -> None:
        super().__init__()
        check_share(decay=decay)
        self.decay = decay

    def on_fit_start(self, facts: Facts) -> None:
        observed, mean_labels = facts.observed, stated_mean_labels(facts, "'en'")
        count, classes = len(observed), observed.num_classes
        positives = torch.from_numpy(observed.positives_per_class())
        expected = (mean_labels * count * positives / positives.sum().clamp(min=1)).round().long()
        # Known negatives are among the expected ones already.
        known = torch.from_numpy(observed.negatives_per_class())
        self.wanted = (count - expected - known).clamp(min=0).tolist()
        self.observed = observed
        self.register_buffer("average", torch.full((count, classes), _NOT_PREDICTED))
        self.register_buffer("negatives", torch.ones((count, classes), dtype=torch.bool))

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        target = -self.negatives[batch.index].to(torch.int8)
        if batch.target.ndim == 1:
            target.scatter_(1, batch.target[:, None], 1)
        else:
            target = torch.where(batch.target == 0, target, batch.target)
        return {"en": iu_loss(outputs.logits, target)}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        now = torch.sigmoid(outputs.logits).to(self.average.dtype)
        before = self.average[batch.index]
        self.average[batch.index] = torch.where(
            before == _NOT_PREDICTED, now, self.decay * before + (1 - self.decay) * now
        )

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        known = torch.from_numpy(self.observed.to_ternary() != 0).to(self.average.device)
        scores = self.average.masked_fill(known, torch.inf)
        self.negatives.fill_(False)
        for column, wanted in enumerate(self.wanted):
            self.negatives[scores[:, column].argsort(stable=True)[:wanted], column] = True
