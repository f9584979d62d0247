"""OPML and OPML-SP (Li et al. 2023)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from ..losses import high_rank_loss, opml_loss, soft_opml_loss
from ..losses._core.domains import check_choice, check_non_negative, check_positive, check_share
from ..losses.ranking import HighRank, high_rank_delta
from ..metrics import average_precision
from .base import Batch, Card, Facts, Needs, Objective, Outputs, Progress
from .inference_rules import HighestScores
from .registry import register

_PAPER = (
    "Li et al., Pushing One Pair of Labels Apart Each Time in Multi-Label Learning: From Single Positive to "
    "Full Labels, arXiv 2302.14695"
)

Constants: TypeAlias = Literal["direct", "odds", "logarithm", "tangent"]


@register("opml")
class OnePairApart(Objective):
    """One pair of labels is pushed apart at a time: ZLPR with two constants.

    Args:
        alpha: Constant in the sum over positives, >= 0.
        beta: Constant in the sum over all other labels, >= 0. With alpha = beta = 0 the loss is unbounded
            below, as in Eq. 2.
        constants: Meaning of alpha and beta: `direct`, or the constant is a / (1 - a) (`odds`), -log a
            (`logarithm`) or tan(pi a / 2) (`tangent`) for a in (0, 1).
        form: `smooth`, or `hard` = highest score of N - lowest score of P, without constants.
    """

    card = Card(
        title="One pair of labels apart (OPML)",
        paper=_PAPER,
        year=2023,
        equations="Eq. 1-6, reconstructed",
        formula="L = mean over B of [log(alpha + sum over P of e^-z) + log(beta + sum over N of e^z)]\n"
        "N = U and known negatives\nform = hard: L = mean over B of (max of z over N - min of z over P)",
    )

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        constants: Constants = "direct",
        form: Literal["smooth", "hard"] = "smooth",
    ) -> None:
        super().__init__()
        check_non_negative(alpha=alpha, beta=beta)
        check_choice("form", form, ("smooth", "hard"))
        self.hp = {**_constants(constants, alpha, beta), "form": form}

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        return {"opml": opml_loss(outputs.logits, batch.target, **self.hp)}


@register("opml_sp")
class OnePairApartSinglePositive(Objective):
    """OPML with label smoothing, a high-rank term and label correction, each of which can be switched off.

    An interpretation: the published formulas of all three are lost.

    Args:
        alpha: Constant in the sum over positives, > 0.
        beta: Constant in the sum over all other labels, > 0.
        constants: Meaning of alpha and beta, `direct`, `odds`, `logarithm` or `tangent`, as in `opml`.
        smoothing: Share of an unknown label that is positive: `product` (p AP)^gamma, `score` p AP^gamma,
            `constant`, or `none`. AP is the average precision of the class on the training set against
            observed labels, after the last epoch; 0 in the first epoch.
        share: Share in `constant`, in [0, 1].
        gamma: Exponent in `product` and `score`, > 0.
        rank_weight: lambda, weight of the high-rank term, >= 0; 0 = off.
        rank: Form of the high-rank term, `determinant`, `singular` or `trace`.
        delta: Constant in `singular`, > 0, or in `trace`, >= 0; None: 1 or 0.001.
        correction: Factor r in [0, 1]; 0 = off. After each epoch, int(r N (1 - AP)) unknown labels of a
            class, those with the highest scores, become positives permanently.
    """

    card = Card(
        title="OPML for single positives (OPML-SP), an interpretation",
        paper=_PAPER,
        year=2023,
        equations="Eq. 6, 10 and 11 and the label correction, as far as known",
        formula="L = mean over B of [log(alpha + sum over P of e^-z + sum over U of s e^-z) + log(beta\n"
        "+ sum over U of (1 - s) e^z + sum over known negatives of e^z)] - rank_weight log det(I + Q'Q)\n"
        "s = (p AP)^gamma, constant in the derivative; AP of the class on the training set, at first 0\n"
        "Q = p of the batch, B x C; after each epoch but the last, the int(correction N (1 - AP)) highest p\n"
        "in U of each class move from U to P permanently",
        state="average precision per class; corrected labels (int8, N x C)",
    )
    average_precision: Tensor

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        constants: Constants = "direct",
        smoothing: Literal["product", "score", "constant", "none"] = "product",
        share: float = 0.1,
        gamma: float = 1.0,
        rank_weight: float = 1e-3,
        rank: HighRank = "determinant",
        delta: float | None = None,
        correction: float = 1e-3,
    ) -> None:
        super().__init__()
        check_positive(alpha=alpha, beta=beta, gamma=gamma)
        check_non_negative(rank_weight=rank_weight)
        check_share(share=share, correction=correction)
        check_choice("smoothing", smoothing, ("product", "score", "constant", "none"))
        check_choice("rank", rank, get_args(HighRank))
        high_rank_delta(rank, delta)
        self.hp = _constants(constants, alpha, beta)
        self.smoothing = (
            {"smoothing": smoothing, "share": share, "gamma": gamma} if smoothing != "none" else {}
        )
        self.rank_weight, self.rank, self.delta = rank_weight, rank, delta
        self.memory = HighestScores(rate=correction) if correction else None
        adaptive = smoothing in ("product", "score")
        self.needs = Needs(train_pass=adaptive or correction > 0, batch_coupled=rank_weight > 0)

    def on_fit_start(self, facts: Facts) -> None:
        self.observed = facts.observed
        self.register_buffer("average_precision", torch.zeros(len(facts.classes)))
        if self.memory is not None:
            self.memory.on_fit_start(facts)

    def forward(self, outputs: Outputs, batch: Batch) -> dict[str, Tensor]:
        logits = outputs.logits
        target = batch.target if self.memory is None else self.memory.fill(batch).target
        if self.smoothing:
            hp = {"average_precision": self.average_precision, **self.smoothing, **self.hp}
            terms = {"opml": soft_opml_loss(logits, target, **hp)}
        else:
            terms = {"opml": opml_loss(logits, target, **self.hp)}
        if self.rank_weight:
            terms["high_rank"] = self.rank_weight * high_rank_loss(logits, form=self.rank, delta=self.delta)
        return terms

    def on_epoch_end(self, progress: Progress, train_pass: Callable[[], Tensor] | None) -> None:
        if train_pass is None or progress.epoch + 1 == progress.epochs:
            return
        logits = train_pass()
        precision = average_precision(logits, self.observed.to_multi_hot().astype(bool))
        self.average_precision.copy_(torch.from_numpy(np.nan_to_num(precision)))
        if self.memory is not None:
            self.memory.correct(logits, precision)


def _constants(meaning: str, alpha: float, beta: float) -> dict[str, Any]:
    """Constants of the loss for alpha and beta of the given meaning, checked."""
    check_choice("constants", meaning, ("direct", "odds", "logarithm", "tangent"))
    constants = {"alpha": alpha, "beta": beta}
    if meaning == "direct":
        return constants
    for name, value in constants.items():
        if not 0 < value < 1:
            raise ValueError(f"{name} must lie between 0 and 1 with constants={meaning!r}, got {value}")
    if meaning == "odds":
        return {name: value / (1 - value) for name, value in constants.items()}
    if meaning == "logarithm":
        return {name: -math.log(value) for name, value in constants.items()}
    return {name: math.tan(math.pi * value / 2) for name, value in constants.items()}
