"""Large loss modification: LL-R, LL-Ct, LL-Cp (Kim et al. 2022)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ..losses import ll_loss
from ..losses._core.domains import check_percent
from .base import Batch, Card, Needs, Objective, Outputs, Progress
from .inference_rules import LargeLosses, WithRule
from .registry import register

_PAPER = "Kim et al., Large Loss Matters in Weakly Supervised Multi-Label Classification, CVPR 2022"


class _LargeLoss(Objective):
    """Common part of the three methods: a rate of large losses that grows from epoch to epoch."""

    treatment: Literal["reject", "correct"]
    needs = Needs(batch_coupled=True)

    def __init__(self, percent: float) -> None:
        super().__init__()
        check_percent(percent)
        self.percent = percent
        self.rate = 0.0

    def on_epoch_start(self, progress: Progress) -> None:
        clean = 1.0
        for _ in range(progress.epoch):
            clean -= self.percent / 100
        self.rate = min(1 - clean, 1.0)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"ll": ll_loss(outputs.logits, batch.target, rate=self.rate, treatment=self.treatment)}


@register("ll_r")
class LargeLossRejection(_LargeLoss):
    """The largest losses of unknown labels in a batch are left out, more of them in each epoch.

    Args:
        percent: Delta, percentage of the batch's labels by which the number of rejected labels grows per
            epoch, in (0, 100].
    """

    card = Card(
        title="Large loss rejection (LL-R)",
        paper=_PAPER,
        year=2022,
        equations="LL-R",
        formula="L = mean over B C of [l+ on P, 0 on U where l- >= R, l- on the rest of U]\n"
        "R = k-th largest l- on U in the batch, k = ceil(B C (e - 1) percent / 100) in epoch e = 1, 2, ...",
        head_bias="prior",
    )
    treatment = "reject"

    def __init__(self, *, percent: float = 0.5) -> None:
        super().__init__(percent)


@register("ll_ct")
class LargeLossTemporaryCorrection(_LargeLoss):
    """The unknown labels with the largest losses in a batch are treated as positives in this step.

    Args:
        percent: Delta, percentage of the batch's labels by which the number of corrected labels grows per
            epoch, in (0, 100].
    """

    card = Card(
        title="Large loss temporary correction (LL-Ct)",
        paper=_PAPER,
        year=2022,
        equations="LL-Ct",
        formula="L = mean over B C of [l+ on P, l+ on U where l- >= R, l- on the rest of U]\n"
        "R = k-th largest l- on U in the batch, k = ceil(B C (e - 1) percent / 100) in epoch e = 1, 2, ...",
        head_bias="prior",
    )
    treatment = "correct"

    def __init__(self, *, percent: float = 0.2) -> None:
        super().__init__(percent)


@register("ll_cp")
class LargeLossPermanentCorrection(WithRule, _LargeLoss):
    """The unknown labels with the largest losses in a batch become positives permanently.

    Args:
        percent: Delta, percentage of the batch's labels that are corrected in a step, in (0, 100].
        strict: Whether the label with the k-th largest loss itself is corrected in this step only.
    """

    card = Card(
        title="Large loss permanent correction (LL-Cp)",
        paper=_PAPER,
        year=2022,
        equations="LL-Cp",
        formula="L = mean over B C of [l+ on P, l+ on U where l- >= R, l- on the rest of U]\n"
        "R = k-th largest l- on U in the batch, k = ceil(B C percent / 100), 0 in the first epoch\n"
        "after each step the labels where l- >= R move from U to P permanently",
        state="corrected labels (int8, N x C)",
        head_bias="prior",
    )
    treatment = "correct"
    memory: LargeLosses

    def __init__(self, *, percent: float = 0.1, strict: bool = False) -> None:
        super().__init__(percent)
        self.memory = LargeLosses(percent=percent, strict=strict)

    def on_epoch_start(self, progress: Progress) -> None:
        super().on_epoch_start(progress)
        self.rate = self.memory.rate

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return super().forward(outputs, self.memory.fill(batch))
