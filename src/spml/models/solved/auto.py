"""The auto head: ridge and LDA on several spaces of features, selected and averaged by the SP-score.

Every member is solved in closed form for all penalties at once. What selects a member is scored on samples
that it was not solved on; afterwards it is solved again on all labelled samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...data import Samples
from ...data.draws import permutation
from ..scaling import TFIDF, Scaling
from .calibration import class_logits
from .ensemble import Ensemble, EnsembleSettings, MemberSettings, SpaceSettings, head_scores
from .linear import LDA, RIDGE
from .search import Candidate, Scores, is_sparse, search
from .spaces import Pool, Rows, Spaces

FEW = 2500
"""Number of labelled samples below which members are selected by cross-validation."""

FOLDS = 5
MOST_SCORES = 5_000_000
"""Largest number of scores (samples x classes) that a solution is selected on. A hundred solutions are kept
at a time, in 2 GB."""

TEMPERATURE = 0.03
LEAST_WEIGHT = 0.05
_SMALLEST_SPREAD = 1e-6


class AutoHead(NamedTuple):
    """Result of `fit_auto`.

    Attributes:
        head: The head, solved on all labelled samples.
        held_out: Scores of the held-out samples by members that were not solved on them, float32 (H, C).
        rows: Those samples, in the order of `held_out`, counted over training, then validation samples.
        tried: Space, head, penalty and score of every solution.
    """

    head: Ensemble
    held_out: Scores
    rows: Rows
    tried: list[dict[str, Any]]


@torch.no_grad()
def fit_auto(
    train: Samples,
    val: Samples,
    score: Callable[[Scores, Rows], float],
    *,
    cross_validate: bool,
    mean_labels: float,
    seed: int = 0,
    report: Callable[[str], None] = lambda line: None,
) -> AutoHead:
    """Solve the auto head.

    Spaces are the scalings `standard` and `sqrtl2` (and `tfidf` for features that look like counts), each as
    it is and under Gaussian kernels of two or three widths. In each space, ridge and LDA are solved for all
    penalties and the best penalty is kept; weight = exp((score - best) / (.03 best)), and members below .05
    are dropped.

    Args:
        train: Training samples.
        val: Validation samples. They are part of what the final members are solved on.
        score: Score of predictions for some samples (numbered over training, then validation samples) by
            which members are selected; higher is better.
        cross_validate: Select by 5-fold cross-validation over all samples instead of on `val` alone.
        mean_labels: Mean labels per sample K, for the scale of the logits.
        seed: Seed of folds and landmarks.
        report: Called with a line for each scaling.

    Raises:
        InputError: All samples have the same features, or no label is a known positive.
    """
    pool = Pool(train, val)
    everything = np.arange(len(pool))
    training, validation = everything[: len(train)], everything[len(train) :]
    if cross_validate:
        order = permutation(len(pool), "folds", seed)
        held_out = [np.sort(order[first::FOLDS]) for first in range(min(FOLDS, len(pool)))]
        folds = [(np.setdiff1d(everything, held), held) for held in held_out]
    else:
        chosen = permutation(len(val), "held out", seed)[: max(1, MOST_SCORES // pool.classes)]
        folds = [(training, np.sort(validation[chosen]))]
    rows = np.concatenate([held for _, held in folds])
    candidates, tried, fitted = search(pool, folds, is_sparse(pool, training), score, seed, report)
    members = _weigh(candidates)
    scores = np.stack([candidate.scores for candidate, _ in members])
    sum_of = _Sum(np.asarray([weight for _, weight in members]), scores)
    total = sum_of(scores)
    every_row, every_total = rows, total
    kept = [candidate for candidate, _ in members]
    solved_on, held = folds[-1]
    solved_on = np.sort(solved_on[permutation(len(solved_on), "level", seed)[: len(held)]])
    gap = _level(scores[:, -len(held) :]) - _level(_score_members(fitted, kept, solved_on))
    if cross_validate:
        fitted = {}
        for scaling in dict.fromkeys(candidate.scaling for candidate, _ in members):
            own = tuple(dict.fromkeys(c.width for c, _ in members if c.scaling == scaling))
            fitted[scaling] = Spaces(pool, everything, scaling, own, seed)
    elif len(rows) < len(validation):
        every_row = validation
        every_total = np.concatenate(
            [sum_of(_score_members(fitted, kept, batch)) for batch in pool.batches(validation)]
        )
    start = _start(pool, candidates, fitted, training, cross_validate, mean_labels, seed)
    unseen = next(iter(fitted.values())).solvers[0].share == 0
    if not cross_validate:
        for spaces in fitted.values():
            spaces.add(validation)
    head = _assemble(pool, members, fitted, start, sum_of)
    order = np.argsort(rows)
    labels = pool.labels(rows[order]) * ~unseen  # scores of unseen classes say nothing there
    offset, scale = class_logits(torch.from_numpy(total[order]), labels, mean_labels)
    head.offset.copy_(offset)
    head.scale.copy_(scale)
    _centre(head, pool, rows[order], unseen, _level(_member_scores(head, pool, solved_on)) + gap)
    return AutoHead(head, head.offset.numpy() + head.scale.numpy() * every_total, every_row, tried)


class _Sum:
    """Weighted sum of the scores of members, each standardised by class.

    Args:
        weights: Weight of each member, of shape (M,).
        scores: Scores (M, H, C) of held-out samples by members that were not solved on them.

    Attributes:
        centre, spread: Mean and deviation of these scores, float32 of shape (M, C).
    """

    def __init__(self, weights: npt.NDArray[np.float64], scores: Scores) -> None:
        self._weights = weights.astype(np.float32)
        self.centre = scores.mean(1, dtype=np.float64).astype(np.float32)
        spread = np.maximum(scores.std(1, dtype=np.float64), _SMALLEST_SPREAD)
        self.spread = spread.astype(np.float32)

    def __call__(self, scores: Scores) -> Scores:
        """Return the sum (B, C) for scores (M, B, C)."""
        standardised = (scores - self.centre[:, None]) / self.spread[:, None]
        total: Scores = np.einsum("m,mbc->bc", self._weights, standardised)
        return total


def _weigh(candidates: list[Candidate]) -> list[tuple[Candidate, float]]:
    """Candidates with weights that sum to 1, without those far behind the best."""
    highest = max(candidate.score for candidate in candidates)
    weights = [
        math.exp((candidate.score - highest) / (TEMPERATURE * max(highest, 1e-9))) for candidate in candidates
    ]
    kept = [(c, w) for c, w in zip(candidates, weights, strict=True) if w >= LEAST_WEIGHT]
    total = sum(weight for _, weight in kept)
    return [(candidate, weight / total) for candidate, weight in kept]


def _score_members(fitted: dict[str, Spaces], members: list[Candidate], rows: Rows) -> Scores:
    """Scores (members, B, C) of samples by members as they are solved so far."""
    parts: list[list[Tensor]] = [[] for _ in members]
    for scaling, spaces in fitted.items():
        for batch in spaces.pool.batches(rows):
            for width, solver, inputs in zip(
                spaces.widths, spaces.solvers, spaces.inputs(batch), strict=True
            ):
                along = solver.centred(inputs)
                for member, own in zip(members, parts, strict=True):
                    if (member.scaling, member.width) == (scaling, width):
                        weights, bias = solver.along(member.head, member.penalty)
                        outputs = torch.addmm(bias.float(), along, weights.float())
                        own.append(head_scores(member.head, outputs))
    return np.stack([torch.cat(own).numpy() for own in parts])


class _Start(NamedTuple):
    """Linear head from which training may go on, solved on the training samples alone."""

    scaling: str
    fitted: Scaling
    layer: nn.Linear


def _start(
    pool: Pool,
    candidates: list[Candidate],
    fitted: dict[str, Spaces],
    training: Rows,
    cross_validate: bool,
    mean_labels: float,
    seed: int,
) -> _Start | None:
    """Solve the best ridge regression on scaled features; None where there are too many features."""
    linear = [c for c in candidates if c.head == RIDGE and not c.width and c.scaling != TFIDF]
    if not linear:
        return None
    best = max(linear, key=lambda candidate: candidate.score)
    spaces = Spaces(pool, training, best.scaling, [0.0], seed) if cross_validate else fitted[best.scaling]
    layer = nn.Linear(pool.width, pool.classes)
    solver = spaces.solvers[spaces.widths.index(0.0)]
    solver.fill(layer, RIDGE, best.penalty)
    slope, intercept = _tangent(solver.share, mean_labels)
    layer.weight.mul_(slope)
    layer.bias.mul_(slope).add_(intercept)
    return _Start(best.scaling, spaces.scaling, layer)


def _tangent(share: Tensor, mean_labels: float) -> tuple[float, float]:
    """Slope and intercept of the line from a least-squares estimate of labels to logits; see `fill_head`."""
    return 4 * mean_labels / float(share.sum()), -2.0


def _assemble(
    pool: Pool,
    members: list[tuple[Candidate, float]],
    fitted: dict[str, Spaces],
    start: _Start | None,
    sum_of: _Sum,
) -> Ensemble:
    """Put the members together as they are solved now, standardised as in the selection."""
    keys = list(dict.fromkeys((member.scaling, member.width) for member, _ in members))
    spaces = [
        SpaceSettings(scaling, fitted[scaling].features(fitted[scaling].widths.index(width)), width)
        for scaling, width in keys
    ]
    settings = EnsembleSettings(
        spaces,
        [
            MemberSettings(
                keys.index((member.scaling, member.width)),
                member.head,
                None if math.isinf(member.penalty) else member.penalty,
                member.score,
                weight,
            )
            for member, weight in members
        ],
        landmarks=max(len(part.landmarks) for part in fitted.values()),
        start=start.scaling if start else "",
    )
    head = Ensemble(pool.width, pool.classes, settings)
    for name, scaling in head.scalings.items():
        scaling.load_state_dict(fitted[name].scaling.state_dict())
        if name in head.landmarks:
            head.landmarks[name].copy_(fitted[name].landmarks)
    for (scaling_name, width), space in zip(keys, head.maps, strict=True):
        own = fitted[scaling_name]
        space.load_state_dict(own.maps[own.widths.index(width)].state_dict())
    for (member, _), layer in zip(members, head.heads, strict=True):
        assert isinstance(layer, nn.Linear)
        own = fitted[member.scaling]
        own.solvers[own.widths.index(member.width)].fill(layer, member.head, member.penalty)
    head.centre.copy_(torch.from_numpy(sum_of.centre))
    head.spread.copy_(torch.from_numpy(sum_of.spread))
    if start:
        assert head.start is not None
        assert head.start_scaling is not None
        head.start.load_state_dict(start.layer.state_dict())
        head.start_scaling.load_state_dict(start.fitted.state_dict())
    return head


def _member_scores(head: Ensemble, pool: Pool, rows: Rows) -> Scores:
    """Scores (M, B, C) of samples by members as they are solved in the end."""
    parts = [head.member_scores(pool.features(batch)) for batch in pool.batches(rows)]
    scores: Scores = torch.cat(parts, 1).numpy()
    return scores


def _level(scores: Scores) -> npt.NDArray[np.float64]:
    """Mean score of each member, (M,)."""
    level: npt.NDArray[np.float64] = scores.mean((1, 2), dtype=np.float64)
    return level


def _centre(head: Ensemble, pool: Pool, rows: Rows, unseen: Tensor, level: npt.NDArray[np.float64]) -> None:
    """Centre each member as it is solved now. The final solution moves all scores of a class by the change of
    its share, which is many deviations where the penalty is large.

    LDA is surer of samples that it was solved on than of new ones: their log-probabilities are lower in
    nearly all classes. So these samples tell how classes differ, and `level` where all of them are.

    Args:
        head: The head.
        pool: Labelled samples.
        rows: Samples to centre on, ascending, which members were solved on in the end.
        unseen: Classes without a positive among the samples of the selection, bool (C,), whose scores there
            say nothing about their deviation.
        level: Mean score of new samples, (M,): that of samples that members were solved on, and the gap that
            there was between them and held-out ones in the selection.
    """
    scores = torch.from_numpy(_member_scores(head, pool, rows))
    spread, centre = torch.std_mean(scores.double(), 1, correction=0)
    of_lda = torch.tensor([member.head == LDA for member in head.settings.members])
    move = torch.from_numpy(level) - centre.mean(1)
    head.centre.copy_(centre + torch.where(of_lda, move, 0.0)[:, None])
    head.spread.copy_(torch.where(unseen, spread.clamp_min(_SMALLEST_SPREAD), head.spread))
