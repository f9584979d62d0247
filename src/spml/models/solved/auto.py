"""The auto head: ridge and LDA on several spaces of features, a forest, and the names of classes, selected
and averaged by the SP-score. On features that look like counts, softmax regression is added.

Every other linear member is solved in closed form for all penalties at once. What selects a member is scored
on samples that it was not solved on; afterwards it is solved again on all labelled samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from logging import DEBUG
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...common.budget import Budget
from ...common.draws import permutation
from ...common.messages import log
from ...data import Samples
from ...data.groups import count_groups, deal_groups, join_groups
from ..names import NameEvidence
from ..scaling import TFIDF, Scaling, default_scaling
from .ensemble import Ensemble, solved_layer
from .forest import FOREST, MORE_TREES, TREES
from .linear import RIDGE
from .members import (
    FOREST_SHARES,
    LEAST_WEIGHT,
    Members,
    add_member,
    affordable,
    alone,
    assemble,
    centre_members,
    class_logits,
    grow_on,
    mean_level,
    member_scores,
    relative_weights,
    score_members,
    with_names,
)
from .moments import Columns, IntArray
from .search import Candidate, Fold, Scores, search, spaces_for
from .spaces import Pool, Rows, Spaces, fit_spaces

FEW = 2500
"""Number of labelled samples below which members are selected by cross-validation."""

FOLDS = 5
MOST_JUDGED = 5_000_000
"""Largest number of scores (samples x classes) that a solution is selected on."""

_ENTRIES = 1 << 27  # scores of all members that are kept at a time: 512 MiB
_SOME = 1000  # samples that tell what features are like
_BLOCK = 1 << 24  # logits that are written out at a time


class AutoHead(NamedTuple):
    """Result of `fit_auto`.

    Attributes:
        head: The head, solved on all labelled samples.
        held_out: What `keep` returned of the logits of the held-out samples by members that were not solved
            on them; by default float32 (H, C).
        rows: Those samples, in the order of `held_out`, counted over training, then validation samples.
        tried: Space, head, penalty and score of every solution.
        parts: Heads that were not solved on some of the held-out samples, and which samples these are: what
            `head` is for new samples. Of heads for windows only.
    """

    head: Ensemble
    held_out: Any
    rows: Rows
    tried: list[dict[str, Any]]
    parts: Sequence[tuple[Rows, Ensemble]] = ()


class HeldOutLogits:
    """Logits of the held-out samples by members that were not solved on them.

    Args:
        columns: Columns of the logits.
        batches: The samples, in batches (B,).
        logits: Computes the logits (B, K) of a batch.
        left_out: Logits (H, K) of all samples by a fit of each label that leaves it out, as in `ClassLogits`;
            None where there are too many samples.
    """

    def __init__(
        self,
        columns: Columns,
        batches: Sequence[Rows],
        logits: Callable[[Rows], Scores],
        left_out: Scores | None = None,
    ) -> None:
        self._columns, self._batches, self._logits = columns, batches, logits
        self.left_out = None if left_out is None else columns.expand(left_out)

    def __call__(self, classes: IntArray | None = None) -> Iterator[tuple[Rows, Scores]]:
        """Compute them block after block.

        Args:
            classes: Classes to predict, ascending, int64 (J,); None = all.

        Yields:
            Samples (B,) and their logits, float32 (B, C) or (B, J).
        """
        size = max(1, _BLOCK // (self._columns.classes if classes is None else len(classes)))
        for rows in self._batches:
            logits = self._logits(rows)
            for first in range(0, len(rows), size):
                part = slice(first, first + size)
                yield rows[part], self._columns.expand(logits[part], classes)


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
    classes: IntArray | None = None,
    keep: Callable[[HeldOutLogits], Any] = keep_all,
    windows: bool = False,
    forest: bool = True,
    names: NameEvidence | None = None,
    budget: Budget | None = None,
) -> AutoHead:
    """Solve the auto head.

    Spaces are the scalings `standard` and `sqrtl2` (and `tfidf` for features that look like counts), each as
    it is and under Gaussian kernels of two or three widths; of many sparse features `unit`, or of counts
    `tfidf` and `sqrtl2`, as they are (see `SparseSpaces`). In each space, ridge and LDA are solved for all
    penalties and the best penalty is kept; so is softmax regression on what looks like counts, in the linear
    space of `sqrtl2`, and of many sparse features in every space (benchmarks/results/counts.md). weight =
    exp((score - best) / (.03 best)), and members below .05 are dropped. A forest of 100 extremely randomised
    trees on the features as they are (300, if selected by cross-validation) is added with the share, up to
    half of the whole, whose sum scores highest; so are the names of classes, with up to nine tenths. A class
    without a known label is then scored by its name alone.

    Args:
        train: Training samples.
        val: Validation samples. They are part of what the final members are solved on.
        score: Score by which members are selected, higher is better: takes predictions (H, J) of some samples
            (numbered over training, then validation samples) for some classes, the samples (H,) and the
            classes (J,).
        cross_validate: Select by 5-fold cross-validation over all samples instead of on `val` alone, unless
            all of them are in one group.
        mean_labels: Mean labels per sample K, for the scale of the logits.
        seed: Seed of folds and landmarks.
        classes: Classes whose predictions `score` takes, ascending; None = all or, of more than 4,096
            classes, those that are a known positive of one of the samples that decide.
        keep: Returns what is to be kept of the logits of the held-out samples. It may compute them several
            times, of all classes or of some; they can't be computed later.
        windows: Solve heads that are going to score windows of feature maps: those on the scaling that suits
            the features (`default_scaling`), without kernels. Others score windows worse
            (benchmarks/results/local.md), and kernels take long.
        forest: Try a forest. It suits features that were computed once: where they differ in the last digits,
            as those of a network do between devices, its scores jump.
        names: What a model knows of the names of classes, whose image tower computed the features. Of more
            than 4,096 classes, names are left out if some have no known label.
        budget: Time limit, which may leave out spaces and the forest; None = no limit.

    Raises:
        InputError: All samples have the same features, no label is a known positive, or the heads of so many
            classes do not fit into memory.
    """
    pool, budget = Pool(train, val), budget or Budget()
    groups = join_groups(train.groups, val.groups)
    cross_validate = cross_validate and count_groups(groups) != 1
    trees = MORE_TREES if cross_validate else TREES
    every = np.arange(len(pool))
    training, validation = np.split(every, [len(train)])
    if cross_validate:
        folds = [Fold(np.setdiff1d(every, each), each) for each in _draw_folds(pool, groups, seed)]
    else:
        decisive = validation[_deciding(pool, val, classes, seed)]
        folds = [Fold(training, np.sort(decisive))]
    deciding = np.concatenate([fold.held for fold in folds])
    chosen = np.arange(pool.columns.classes) if classes is None else classes
    if classes is None and pool.columns.own is not None:
        chosen = pool.columns.own[np.unique(pool.positives(np.sort(deciding))[1])]
    each_its_column = pool.columns.own is None and len(chosen) == pool.columns.classes
    if windows:
        spaces: tuple[tuple[str, ...], tuple[float, ...]] = (_scaling_for_windows(pool, training),), (0.0,)
    else:
        spaces = spaces_for(pool)
    candidates, tried, fitted = search(
        pool,
        folds,
        *spaces,
        lambda scores: score(scores, deciding, chosen),
        seed,
        None if each_its_column else torch.from_numpy(pool.columns.of_class[chosen]),
        budget,
    )
    kept = _weigh(candidates)

    size = max(1, _ENTRIES // ((len(kept) + 1) * len(pool.columns)))
    # As many as fit into memory.
    held = [fold.held for fold in folds] if cross_validate else [np.sort(decisive[:size])]
    rows = np.concatenate(held)
    scores = score_members(fitted, kept, held, {})
    members = Members(kept, scores, {}, np.zeros((len(kept), len(pool.columns)), np.bool_))

    def judge(scores: Scores) -> float:
        return score(scores[:, pool.columns.of_class[chosen]], rows, chosen)

    forest = forest and not (windows or pool.wide) and affordable(pool)
    if forest and budget.allows("a forest"):
        forests = [grow_on(pool, fold.solved_on, seed, trees) for fold in folds]
        grown = alone(FOREST, forests, pool, held, judge)
        members = add_member(members, grown, FOREST_SHARES, judge, DEBUG)
    if names is not None and pool.columns.own is not None:
        log.info(
            f"auto head: without names, because of {pool.columns.classes:,} classes those without known "
            "labels share a solution"
        )
    elif names is not None:
        members = with_names(members, names, pool, held, judge)
    kept = members.candidates
    # The members of the last fold, of its held-out samples and of as many that they were solved on.
    solved_on = folds[-1].solved_on
    solved_on = np.sort(solved_on[permutation(len(solved_on), "level", seed)[: len(held[-1])]])
    of_last = {scaling: spaces[-1:] for scaling, spaces in fitted.items()}
    last_modules = {name: own[-1:] for name, own in members.modules.items()}
    in_sample = score_members(of_last, kept, [solved_on], last_modules)
    out_of_sample = members.scores[:, -len(held[-1]) :]
    gap = mean_level(out_of_sample, pool.columns) - mean_level(in_sample, pool.columns)
    final = (
        _fit_again(pool, [each for each in kept if each.head not in members.modules], seed)
        if cross_validate
        else {name: own[0] for name, own in fitted.items()}
    )
    unseen = torch.from_numpy(pool.unseen(every if cross_validate else training))
    offset, scale, left_out = _calibrate(pool, rows, members, unseen, mean_labels)

    def logits_of(batch: Rows) -> Scores:
        sums = members.sum(score_members(fitted, kept, [batch], members.modules))
        return np.asarray(offset.numpy() + scale.numpy() * sums)

    # Before validation samples are added to the spaces.
    if not cross_validate and len(rows) < len(validation):
        batches = np.split(validation, range(size, len(validation), size))
        kept_logits = keep(HeldOutLogits(pool.columns, batches, logits_of))
    else:
        of_rows = offset.numpy() + scale.numpy() * members.sum(members.scores)
        kept_logits = keep(HeldOutLogits(pool.columns, [rows], lambda _: of_rows, left_out))
    parts = []
    for number, own in enumerate((held if cross_validate else [validation]) if windows else ()):
        of_fold = {name: each[number] for name, each in fitted.items()}
        # On the scale of the final head, which takes over the calibration of these scores.
        parts.append((own, assemble(pool, members, of_fold, offset, scale)))
    start = _start(pool, candidates, None if cross_validate else final, training, mean_labels, seed)
    if not cross_validate:
        for each in final.values():
            each.add(validation)
    if FOREST in members.modules:
        forest_of_all = grow_on(pool, every, seed, trees)
        members = replace(members, modules={**members.modules, FOREST: [forest_of_all]})
    head = assemble(pool, members, final, offset, scale, start)
    level = mean_level(member_scores(head, pool, solved_on), pool.columns) + gap
    centre_members(head, pool, np.sort(rows), unseen, level)
    return AutoHead(head, kept_logits, deciding if cross_validate else validation, tried, parts)


def _draw_folds(pool: Pool, groups: IntArray | None, seed: int) -> list[Rows]:
    """Samples that each fold scores, ascending; those of a group are in one fold."""
    number = count_groups(groups)
    if groups is None or number == len(pool):
        order = permutation(len(pool), "folds", seed)
        return [np.sort(order[first::FOLDS]) for first in range(min(FOLDS, len(pool)))]
    folds = min(FOLDS, number)
    part = deal_groups(groups, pool.positives(np.arange(len(pool))), folds, "folds", "groups", seed)
    return [np.flatnonzero(part == fold) for fold in range(folds)]


def _scaling_for_windows(pool: Pool, training: Rows) -> str:
    some = training[np.linspace(0, len(training) - 1, min(len(training), _SOME)).astype(np.int64)]
    return default_scaling(pool.features(some))


def _fit_again(pool: Pool, members: list[Candidate], seed: int) -> dict[str, Spaces]:
    """The spaces of linear members, fitted on all labelled samples."""
    fitted = {}
    for scaling in dict.fromkeys(member.scaling for member in members):
        widths = tuple(dict.fromkeys(member.width for member in members if member.scaling == scaling))
        fitted[scaling] = fit_spaces(pool, np.arange(len(pool)), scaling, widths, seed)
    return fitted


def _deciding(pool: Pool, val: Samples, classes: IntArray | None, seed: int) -> Rows:
    """Validation samples that decide, in random order: as many as have no more than `MOST_JUDGED` scores."""
    order = permutation(len(val), "held out", seed)
    if classes is not None or pool.columns.own is None:
        count = pool.columns.classes if classes is None else len(classes)
        return order[: max(1, MOST_JUDGED // count)]
    # Number of classes that are a known positive of one of the first samples, for each number of these.
    place = np.argsort(order)
    samples, columns = val.observed.entries(1)
    first = np.full(pool.columns.classes, len(val))
    np.minimum.at(first, columns, place[samples])
    known = np.cumsum(np.bincount(first, minlength=len(val))[: len(val)])
    fit = np.arange(1, len(val) + 1) * known <= MOST_JUDGED
    return order[: max(1, int(fit.sum()))]


def _weigh(candidates: list[Candidate]) -> list[Candidate]:
    """Candidates with weights that sum to 1, without those far behind the best."""
    weights = relative_weights([candidate.score for candidate in candidates])
    kept = [c._replace(weight=w) for c, w in zip(candidates, weights, strict=True) if w >= LEAST_WEIGHT]
    total = sum(candidate.weight for candidate in kept)
    return [candidate._replace(weight=candidate.weight / total) for candidate in kept]


def _calibrate(
    pool: Pool, rows: Rows, members: Members, unseen: Tensor, mean_labels: float
) -> tuple[Tensor, Tensor, Scores]:
    """Offset and scale (K,) that make logits of the sums (H, K) of members for held-out samples, and these
    logits by fits that leave the own label out.

    A class that is scored by its name alone has the median of those that the names of other classes would
    have, if these were scored so.
    """
    order = np.argsort(rows)
    labels = pool.labels(rows[order]) * ~unseen  # scores of unseen classes say nothing there
    sizes = None if pool.columns.own is None else torch.from_numpy(pool.columns.sizes)
    sums = torch.from_numpy(members.sum(members.scores)[order])
    offset, scale, logits = class_logits(sums, labels, mean_labels, sizes)
    if (by_name := members.by_name).any():
        others = torch.from_numpy(~by_name & ~members.unused[-1]) & ~unseen
        of_names = torch.from_numpy(members.by_names()[order])
        own = class_logits(of_names[:, others], labels[:, others], mean_labels)
        named = torch.from_numpy(by_name)
        offset[named], scale[named] = own.offset.median(), own.scale.median()
        logits[:, named] = (offset[named] + scale[named] * sums[:, named]).float()
    return offset.float(), scale.float(), logits[np.argsort(order)].numpy()


def _start(
    pool: Pool,
    candidates: list[Candidate],
    final: dict[str, Spaces] | None,
    training: Rows,
    mean_labels: float,
    seed: int,
) -> tuple[str, Scaling, nn.Linear] | None:
    """Solve the linear head from which training may go on, on the training samples alone.

    It is the best ridge regression on scaled features, with the name of the scaling and the scaling; None
    where there are too many features. `final` are the spaces if they are fitted on the training samples.
    """
    linear = [c for c in candidates if c.head == RIDGE and not c.width and c.scaling != TFIDF]
    if not linear:
        return None
    best = max(linear, key=lambda candidate: candidate.score)
    spaces = final[best.scaling] if final else fit_spaces(pool, training, best.scaling, [0.0], seed)
    layer = solved_layer(pool.width, len(pool.columns))
    solver = spaces.solve()[0]
    solver.fill(layer, RIDGE, best.penalty)
    # The line from an estimate of labels to logits, as in `ClosedForm.layer`.
    slope = 4 * mean_labels / float(solver.share.sum())
    layer.weight.mul_(slope)
    layer.bias.mul_(slope).add_(-2.0)
    return best.scaling, spaces.scaling, layer
