"""The auto head: ridge and LDA on several spaces of features, selected and averaged by the SP-score.

Every member is solved in closed form for all penalties at once. What selects a member is scored on samples
that it was not solved on; afterwards it is solved again on all labelled samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...common.draws import permutation
from ...data import Samples
from ..scaling import TFIDF, Scaling
from .calibration import class_logits
from .columns import Columns, IntArray
from .ensemble import Ensemble, EnsembleSettings, MemberSettings, SpaceSettings
from .linear import LDA, RIDGE
from .search import Candidate, Fold, HeldOut, Scores, is_sparse, search
from .spaces import Pool, Rows, Spaces

FEW = 2500
"""Number of labelled samples below which members are selected by cross-validation."""

FOLDS = 5
MOST_SCORES = 5_000_000
"""Largest number of scores (samples x classes) that a solution is selected on."""

TEMPERATURE = 0.03
LEAST_WEIGHT = 0.05
_SMALLEST_SPREAD = 1e-6
_ENTRIES = 1 << 27  # scores of all members that are kept at a time: 512 MiB
_BLOCK = 1 << 24  # logits that are written out at a time


class AutoHead(NamedTuple):
    """Result of `fit_auto`.

    Attributes:
        head: The head, solved on all labelled samples.
        held_out: Logits of the held-out samples by members that were not solved on them, as `keep` returned
            them; by default float32 (H, C).
        rows: Those samples, in the order of `held_out`, counted over training, then validation samples.
        tried: Space, head, penalty and score of every solution.
    """

    head: Ensemble
    held_out: Any
    rows: Rows
    tried: list[dict[str, Any]]


class HeldOutLogits(Protocol):
    """Logits of the held-out samples by members that were not solved on them."""

    def __call__(self, classes: IntArray | None = None) -> Iterator[tuple[Rows, Scores]]:
        """Compute them block after block.

        Args:
            classes: Classes to predict, ascending, int64 (J,); None = all.

        Yields:
            Samples (B,) and their logits, float32 (B, C) or (B, J).
        """
        ...


def keep_all(logits: HeldOutLogits) -> Scores:
    """Logits (H, C) of all held-out samples in one array."""
    return np.concatenate([block for _, block in logits()])


@torch.no_grad()
def fit_auto(
    train: Samples,
    val: Samples,
    score: Callable[[Scores, Rows, IntArray], float],
    *,
    cross_validate: bool,
    mean_labels: float,
    seed: int = 0,
    report: Callable[[str], None] = lambda line: None,
    classes: IntArray | None = None,
    keep: Callable[[HeldOutLogits], Any] = keep_all,
) -> AutoHead:
    """Solve the auto head.

    Spaces are the scalings `standard` and `sqrtl2` (and `tfidf` for features that look like counts), each as
    it is and under Gaussian kernels of two or three widths. In each space, ridge and LDA are solved for all
    penalties and the best penalty is kept; weight = exp((score - best) / (.03 best)), and members below .05
    are dropped.

    Args:
        train: Training samples.
        val: Validation samples. They are part of what the final members are solved on.
        score: Score by which members are selected, higher is better: takes predictions (H, J) of some samples
            (numbered over training, then validation samples) for some classes, the samples (H,) and the
            classes (J,).
        cross_validate: Select by 5-fold cross-validation over all samples instead of on `val` alone.
        mean_labels: Mean labels per sample K, for the scale of the logits.
        seed: Seed of folds and landmarks.
        report: Called with a line for each scaling.
        classes: Classes whose predictions `score` takes, ascending; None = all or, of more than 4,096
            classes, those that are a known positive of one of the samples that decide.
        keep: Returns what is to be kept of the logits of the held-out samples. It may compute them several
            times, of all classes or of some; they can't be computed later.

    Raises:
        InputError: All samples have the same features, no label is a known positive, or the heads of so many
            classes do not fit into memory.
    """
    pool = Pool(train, val)
    everything = np.arange(len(pool))
    training, validation = everything[: len(train)], everything[len(train) :]
    decisive = np.arange(0)
    if cross_validate:
        order = permutation(len(pool), "folds", seed)
        held_out = [np.sort(order[first::FOLDS]) for first in range(min(FOLDS, len(pool)))]
        folds = [Fold(np.setdiff1d(everything, held), held) for held in held_out]
    else:
        decisive = validation[_deciding(pool, val, classes, seed)]
        folds = [Fold(training, np.sort(decisive))]
    deciding = np.concatenate([fold.held for fold in folds])
    if classes is None:
        classes = _known_classes(pool, np.sort(deciding))
    each_its_column = pool.columns.own is None and len(classes) == pool.columns.classes
    columns = None if each_its_column else torch.from_numpy(pool.columns.of_class[classes])
    candidates, tried, fitted = search(
        pool, folds, is_sparse(pool, training), partial(_call, score, classes), seed, report, columns
    )
    members = _weigh(candidates)
    kept, weights = [candidate for candidate, _ in members], np.asarray([weight for _, weight in members])

    rows, held = deciding, [fold.held for fold in folds]
    if not cross_validate:  # as many of them as fit into memory
        rows = np.sort(decisive[: max(1, _ENTRIES // (len(members) * len(pool.columns)))])
        held = [rows]
    scores = _score_members(fitted, kept, held)
    sum_of = _Sum(weights, scores)
    total = sum_of(scores)
    last = folds[-1].solved_on
    solved_on = np.sort(last[permutation(len(last), "level", seed)[: len(held[-1])]])
    of_last = {scaling: spaces[-1:] for scaling, spaces in fitted.items()}
    in_sample = _score_members(of_last, kept, [solved_on])
    gap = _level(scores[:, -len(held[-1]) :], pool.columns) - _level(in_sample, pool.columns)
    if cross_validate:
        final = {}
        for scaling in dict.fromkeys(candidate.scaling for candidate in kept):
            widths = tuple(dict.fromkeys(c.width for c in kept if c.scaling == scaling))
            final[scaling] = Spaces(pool, everything, scaling, widths, seed)
    else:
        final = {scaling: spaces for scaling, (spaces,) in fitted.items()}
    unseen = next(iter(final.values())).solve()[0].share == 0
    order = np.argsort(rows)
    labels = pool.labels(rows[order]) * ~unseen  # scores of unseen classes say nothing there
    sizes = None if pool.columns.own is None else torch.from_numpy(pool.columns.sizes)
    offset, scale = (
        part.float().numpy()
        for part in class_logits(torch.from_numpy(total[order]), labels, mean_labels, sizes)
    )

    def held_out_logits(classes: IntArray | None = None) -> Iterator[tuple[Rows, Scores]]:
        parts = iter([(rows, total)])
        if len(rows) < len(validation) and not cross_validate:
            size = max(1, _ENTRIES // (len(members) * len(pool.columns)))
            batches = np.split(validation, range(size, len(validation), size))
            parts = ((batch, sum_of(_score_members(fitted, kept, [batch]))) for batch in batches)
        size = max(1, _BLOCK // (pool.columns.classes if classes is None else len(classes)))
        for of_part, sums in parts:
            for first in range(0, len(of_part), size):
                logits = offset + scale * sums[first : first + size]
                yield of_part[first : first + size], pool.columns.expand(logits, classes)

    kept_logits = keep(held_out_logits)
    start = _start(pool, candidates, final, training, cross_validate, mean_labels, seed)
    if not cross_validate:
        for spaces in final.values():
            spaces.add(validation)
    head = _assemble(pool, members, final, start, sum_of)
    head.offset.copy_(torch.from_numpy(offset))
    head.scale.copy_(torch.from_numpy(scale))
    level = _level(_member_scores(head, pool, solved_on), pool.columns) + gap
    _centre(head, pool, rows[order], unseen, level)
    return AutoHead(head, kept_logits, deciding if cross_validate else validation, tried)


def _call(
    score: Callable[[Scores, Rows, IntArray], float], classes: IntArray, scores: Scores, rows: Rows
) -> float:
    return score(scores, rows, classes)


def _deciding(pool: Pool, val: Samples, classes: IntArray | None, seed: int) -> Rows:
    """Validation samples that decide, in random order: as many as have no more than `MOST_SCORES` scores."""
    order = permutation(len(val), "held out", seed)
    if classes is not None or pool.columns.own is None:
        count = pool.columns.classes if classes is None else len(classes)
        return order[: max(1, MOST_SCORES // count)]
    # Number of classes that are a known positive of one of the first samples, for each number of these.
    place = np.argsort(order)
    samples, columns = val.observed.entries(1)
    first = np.full(pool.columns.classes, len(val))
    np.minimum.at(first, columns, place[samples])
    known = np.cumsum(np.bincount(first, minlength=len(val))[: len(val)])
    fit = np.arange(1, len(val) + 1) * known <= MOST_SCORES
    return order[: max(1, int(fit.sum()))]


def _known_classes(pool: Pool, rows: Rows) -> IntArray:
    """All classes or, where many share a column, those that are a known positive of some samples."""
    if pool.columns.own is None:
        return np.arange(pool.columns.classes)
    return pool.columns.own[np.unique(pool.positives(rows)[1])]


class _Sum:
    """Weighted sum of the scores of members, each standardised by class.

    Args:
        weights: Weight of each member, of shape (M,).
        scores: Scores (M, H, K) of held-out samples by members that were not solved on them.

    Attributes:
        centre, spread: Mean and deviation of these scores, float32 of shape (M, K).
    """

    def __init__(self, weights: npt.NDArray[np.float64], scores: Scores) -> None:
        self._weights = weights.astype(np.float32)
        self.centre = scores.mean(1, dtype=np.float64).astype(np.float32)
        spread = np.maximum(scores.std(1, dtype=np.float64), _SMALLEST_SPREAD)
        self.spread = spread.astype(np.float32)

    def __call__(self, scores: Scores) -> Scores:
        """Return the sum (B, K) for scores (M, B, K)."""
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


def _score_members(fitted: dict[str, list[Spaces]], members: list[Candidate], held: list[Rows]) -> Scores:
    """Scores (members, B, K) of samples, those of each fold by members as they are solved in its spaces."""
    scores: dict[int, Scores] = {}
    for scaling, width in dict.fromkeys((member.scaling, member.width) for member in members):
        of_space = HeldOut(fitted[scaling], held, width)
        for number, member in enumerate(members):
            if (member.scaling, member.width) == (scaling, width):
                scores[number] = of_space.scores(member.head, member.penalty)
    return np.stack([scores[number] for number in range(len(members))])


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
    layer = nn.Linear(pool.width, len(pool.columns))
    solver = spaces.solver(0.0)
    solver.fill(layer, RIDGE, best.penalty)
    slope, intercept = _tangent(solver.share, mean_labels)
    layer.weight.mul_(slope)
    layer.bias.mul_(slope).add_(intercept)
    return _Start(best.scaling, spaces.scaling, layer)


def _tangent(share: Tensor, mean_labels: float) -> tuple[float, float]:
    """Slope and intercept of the line from an estimate of labels to logits; see `ClosedForm.layer`."""
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
    spaces, projections = [], []
    for key in keys:
        heads = sum((member.scaling, member.width) == key for member, _ in members)
        inputs, projection = fitted[key[0]].head_inputs(key[1], heads * len(pool.columns))
        spaces.append(SpaceSettings(key[0], inputs, key[1], folded=projection is not None))
        projections.append(projection)
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
        columns=0 if pool.columns.own is None else len(pool.columns),
    )
    head = Ensemble(pool.width, pool.columns.classes, settings)
    head.set_columns(pool.columns)
    for name, scaling in head.scalings.items():
        scaling.load_state_dict(fitted[name].scaling.state_dict())
        if name in head.landmarks:
            head.landmarks[name].copy_(fitted[name].landmarks)
    for (scaling_name, width), projection, space in zip(keys, projections, head.maps, strict=True):
        own = fitted[scaling_name]
        state = own.maps[own.widths.index(width)].state_dict()
        if projection is not None:
            del state["projection"]
        space.load_state_dict(state)
    for (member, _), described, layer in zip(members, settings.members, head.heads, strict=True):
        assert isinstance(layer, nn.Linear)
        solver = fitted[member.scaling].solver(member.width)
        solver.fill(layer, member.head, member.penalty, projections[described.space])
    head.centre.copy_(torch.from_numpy(sum_of.centre))
    head.spread.copy_(torch.from_numpy(sum_of.spread))
    if start:
        assert head.start is not None
        assert head.start_scaling is not None
        head.start.load_state_dict(start.layer.state_dict())
        head.start_scaling.load_state_dict(start.fitted.state_dict())
    return head


def _member_scores(head: Ensemble, pool: Pool, rows: Rows) -> Scores:
    """Scores (M, B, K) of samples by members as they are solved in the end."""
    batches = pool.batches(rows, len(pool.columns))
    parts = [head.member_scores(pool.features(batch)) for batch in batches]
    scores: Scores = torch.cat(parts, 1).numpy()
    return scores


def _level(scores: Scores, columns: Columns) -> npt.NDArray[np.float64]:
    """Mean score of each member over samples and classes, (M,)."""
    level: npt.NDArray[np.float64] = scores.mean((1, 2), dtype=np.float64)
    if columns.own is not None:
        level = scores.mean(1, dtype=np.float64) @ columns.sizes / columns.classes
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
        unseen: Columns without a positive among the samples of the selection, bool (K,), whose scores there
            say nothing about their deviation.
        level: Mean score of new samples, (M,): that of samples that members were solved on, and the gap that
            there was between them and held-out ones in the selection.
    """
    scores = _member_scores(head, pool, rows)
    spread, centre = torch.std_mean(torch.from_numpy(scores).double(), 1, correction=0)
    of_lda = torch.tensor([member.head == LDA for member in head.settings.members])
    move = torch.from_numpy(level - _level(scores, pool.columns))
    head.centre.copy_(centre + torch.where(of_lda, move, 0.0)[:, None])
    head.spread.copy_(torch.where(unseen, spread.clamp_min(_SMALLEST_SPREAD), head.spread))
