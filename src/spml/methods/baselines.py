"""Baselines: binary cross-entropy on full labels (the ceiling), and simple treatments of unknown labels."""

from __future__ import annotations

from torch import Tensor

from ..common.errors import InputError
from ..losses import an_loss, an_ls_loss, iu_loss, n_ls_loss, pr_loss, wan_loss
from ..losses._core.domains import check_below, check_positive
from .base import Batch, Card, Facts, Objective, Outputs
from .registry import register

_COLE = "Cole et al., Multi-Label Learning from Single Positive Labels, CVPR 2021"
_ZHOU = (
    "Zhou et al., Acknowledging the Unknown for Multi-label Learning with Single Positive Labels, ECCV 2022"
)
_EPS = "the released code adds 1e-5 inside logarithms (eps=1e-5 of the loss); the default has none"


@register("an")
class AssumeNegative(Objective):
    """Every unknown label counts as a negative."""

    card = Card(
        title="Assume negative (AN)",
        paper=_COLE,
        year=2021,
        equations="Eq. 5",
        formula="L = mean over B C of [l+ on P, l- on U]",
        head_bias="prior",
    )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"an": an_loss(outputs.logits, batch.target)}


@register("bce")
class FullLabels(Objective):
    """Binary cross-entropy on fully labelled data: the ceiling that other methods are measured against.

    Args:
        swap: Label smoothing: the weight of the opposite label, in [0, 0.5). 0.1 is BCE-LS.
    """

    card = Card(
        title="Binary cross-entropy on full labels (BCE)",
        paper=_COLE,
        year=2021,
        equations="Eq. 1",
        formula="L = mean over B C of [(1 - e) l+ + e l- on P, (1 - e) l- + e l+ on known negatives]\n"
        "e = swap",
        head_bias="prior",
    )

    def __init__(self, *, swap: float = 0.0) -> None:
        super().__init__()
        check_below(0.5, swap=swap)
        self.swap = swap

    def on_fit_start(self, facts: Facts) -> None:
        if not facts.observed.full:
            raise InputError(
                "method 'bce' is the ceiling on full labels, but this data has unknown labels. If every "
                "label that is not listed is absent, pass data.unlisted=negative and do not hide labels "
                "(data.observe=none); otherwise choose another method."
            )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"bce": an_ls_loss(outputs.logits, batch.target, swap=self.swap)}


@register("an_ls")
class LabelSmoothing(Objective):
    """Every unknown label counts as a negative, and all labels are smoothed.

    Args:
        swap: Weight of the opposite label, in [0, 0.5); 0.05 is AN-LS as printed.
    """

    card = Card(
        title="Assume negative with label smoothing (AN-LS)",
        paper=_COLE,
        year=2021,
        equations="the loss called AN-LS",
        formula="L = mean over B C of [(1 - e) l+ + e l- on P, (1 - e) l- + e l+ on U and known negatives]\n"
        "e = swap",
        head_bias="prior",
        printed={"swap": 0.05},
    )

    def __init__(self, *, swap: float = 0.1) -> None:
        super().__init__()
        check_below(0.5, swap=swap)
        self.swap = swap

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"an_ls": an_ls_loss(outputs.logits, batch.target, swap=self.swap)}


@register("n_ls")
class NegativeLabelSmoothing(LabelSmoothing):
    """Every unknown label counts as a negative, and only these are smoothed.

    Args:
        swap: Weight of the opposite label, in [0, 0.5).
    """

    card = Card(
        title="Assume negative with smoothed negatives (N-LS)",
        paper=_ZHOU,
        year=2022,
        equations="the compared method N-LS",
        formula="L = mean over B C of [l+ on P, (1 - e) l- + e l+ on U], e = swap",
        head_bias="prior",
    )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"n_ls": n_ls_loss(outputs.logits, batch.target, swap=self.swap)}


@register("wan")
class WeakAssumeNegative(Objective):
    """Every unknown label counts as a negative with a small weight.

    Args:
        weight: Weight of an assumed negative, > 0; None = 1 / (C - 1).
    """

    card = Card(
        title="Weak assume negative (WAN)",
        paper=_COLE,
        year=2021,
        equations="the loss called WAN; DW in Zhou et al. 2022",
        formula="L = mean over B C of [l+ on P, weight l- on U], weight = 1 / (C - 1) unless given",
    )

    def __init__(self, *, weight: float | None = None) -> None:
        super().__init__()
        if weight is not None:
            check_positive(weight=weight)
        self.weight = weight

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"wan": wan_loss(outputs.logits, batch.target, weight=self.weight)}


@register("iu")
class IgnoreUnknown(Objective):
    """Binary cross-entropy on known labels; unknown ones are ignored."""

    card = Card(
        title="Ignore unknown (IU)",
        paper=_COLE,
        year=2021,
        equations="the loss called IU",
        formula="L = mean over B C of [l+ on P, 0 on U, l- on known negatives]",
    )

    def on_fit_start(self, facts: Facts) -> None:
        if not (facts.inferred_negatives or facts.observed.negatives_per_class().any()):
            raise InputError(
                "methods 'iu' and 'iun' learn from known labels alone, but this data has no known negative: "
                "a model that predicts every label would be perfect. Provide known negatives (for 'iun', by "
                "data.observe_all_negatives=true), use 'combine' with a memory that infers negatives, or "
                "choose another method, for example 'an' or 'em'."
            )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"iu": iu_loss(outputs.logits, batch.target)}


@register("iun")
class TrueNegatives(IgnoreUnknown):
    """IU where all true negatives are known and positives may be unknown: an oracle, not a method for users.

    It shows the cost of hidden positives when no negative is wrong.
    """

    card = Card(
        title="One positive and all negatives (IUN), an oracle",
        paper=_COLE,
        year=2021,
        equations="the loss called IUN",
        formula="L = mean over B C of [l+ on P, 0 on U, l- on known negatives], which are all true negatives",
    )


@register("pr")
class PairwiseRanking(Objective):
    """Known positives are ranked above everything else, by a hinge on probabilities."""

    card = Card(
        title="Pairwise ranking (PR)",
        paper=_COLE,
        year=2021,
        equations="the compared method PR, as in the released code",
        formula="L = 1 / (B C) sum over pairs of a sample, i in P and j not in P, of max(0, 1 - p_i + p_j)",
    )

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"pr": pr_loss(outputs.logits, batch.target)}
