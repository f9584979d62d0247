"""EM with asymmetric pseudo-labelling (Zhou et al. 2022)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from ..losses import em_apl_loss
from ..losses.domains import check_positive, check_share
from ..memory import LabelMemory, lowest
from ..objective import Batch, Card, Facts, Needs, Objective, Outputs, Progress, register
from ._shared import one_of


@register("em_apl")
class AsymmetricPseudoLabelling(Objective):
    """EM, and after each epoch the unknown labels with the lowest scores become soft pseudo-negatives.

    Args:
        alpha: weight of the entropy of unknown labels, > 0.
        beta: weight of pseudo-negatives, > 0.
        warmup: epochs before the first pseudo-negatives, >= 0.
        proportion: share of each class's unknown labels that are pseudo-negatives in the last epoch, in
            [0, 1].
        predictions: where scores come from. `pass`: an evaluation pass after the epoch (paper). `training`:
            what the model said of each sample during the epoch, which saves the pass.
    """

    card = Card(
        title="Entropy maximisation with asymmetric pseudo-labelling (EM+APL)",
        paper="Zhou et al., Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, "
        "ECCV 2022",
        year=2022,
        equations="EM loss and asymmetric pseudo-labelling",
        state="soft pseudo-negatives (float, N x C); with predictions=training also the last logits",
        defaults={
            "voc": {"alpha": 0.2, "beta": 0.02, "warmup": 5},
            "coco": {"alpha": 0.1, "beta": 0.9, "warmup": 5},
            "nus": {"alpha": 0.1, "beta": 0.2, "warmup": 4},
            "cub": {"alpha": 0.01, "beta": 0.4, "warmup": 3},
        },
        deviations=(
            "the released pass sees augmented samples; here it sees them as they are",
            "the released code makes a last pass that no training follows; here there is none",
            "the released code adds 1e-5 inside logarithms (em_apl_loss(eps=1e-5)); the default has none",
            "the released code stops at the first epoch without a better validation mAP; here: --patience",
        ),
    )

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
        check_share(proportion=proportion)
        one_of("predictions", predictions, ("pass", "training"))
        if warmup != int(warmup) or warmup < 0:
            raise ValueError(f"warmup must be a whole number of epochs, at least 0, got {warmup}")
        self.alpha, self.beta, self.warmup, self.proportion = alpha, beta, warmup, proportion
        self.latest: Tensor | None
        self.register_buffer("latest", None)
        self.from_training = predictions == "training"
        self.needs = Needs(train_pass=not self.from_training)

    def on_fit_start(self, facts: Facts) -> None:
        self.observed = observed = facts.observed
        self.memory = LabelMemory(observed, soft=True)
        self.unknown = len(observed) - observed.positives_per_class() - observed.negatives_per_class()
        if self.from_training:
            self.latest = torch.zeros(len(observed), observed.num_classes)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        soft = self.memory.rows(batch.index)
        return {"em_apl": em_apl_loss(outputs.logits, batch.target, soft, alpha=self.alpha, beta=self.beta)}

    def after_step(self, outputs: Outputs, batch: Batch) -> None:
        if self.latest is not None:
            self.latest[batch.index] = outputs.logits.to(self.latest.dtype)

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        done = progress.epoch + 1
        if not self.warmup <= done < progress.epochs:
            return
        logits = self.latest if train_pass is None else train_pass()
        assert logits is not None
        scores = torch.sigmoid(logits.to(self.memory.inferred.device))
        steps = progress.epochs - self.warmup
        counts = [int(self.proportion * unknown / steps) for unknown in self.unknown.tolist()]
        index = torch.arange(len(scores), device=scores.device)
        target = self.observed.target(range(len(scores))).to(scores.device)
        where = lowest(scores, self.memory.free(target, index), counts)
        self.memory.write(target, index, where, scores)
