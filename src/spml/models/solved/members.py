"""Scores of the members of an auto head, and members that are no linear heads: a forest, and the names of
classes. These have the share of the sum that scores highest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ...common.draws import permutation
from ..names import NameEvidence
from ..scaling import RAW
from .assembly import StandardisedSum, smallest_spreads
from .forest import FOREST
from .names import LEAST_PER_NAME, MOST_WINDOWS, NAME_FORMS, NAMES, NAMES_SOFTMAX, NameScores, fit_names
from .search import Candidate, HeldOut, Scores
from .spaces import AnySpaces, Pool, Rows

FOREST_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares of the forest in the sum of all members, of which one is selected."""

NAME_SHARES = (*FOREST_SHARES, 0.6, 0.7, 0.8, 0.9)
"""Shares of the names of classes, likewise. Where few labels are known, names may tell nearly everything."""

Judge = Callable[[Scores], float]
Modules = Mapping[str, Sequence[nn.Module]]
"""Members that are no linear heads, by the name of the head: the module that scores each fold."""


@dataclass(frozen=True)
class Members:
    """Members of an auto head.

    Attributes:
        weighed: Members and their weights, which sum to 1.
        scores: Their scores (M, H, K) of held-out samples.
        modules: Those that are no linear heads.
        unused: Classes for which each member says nothing, bool (M, K).
    """

    weighed: list[tuple[Candidate, float]]
    scores: Scores
    modules: Modules
    unused: npt.NDArray[np.bool_]

    @property
    def kept(self) -> list[Candidate]:
        """The members without their weights."""
        return [candidate for candidate, _ in self.weighed]

    @property
    def sum(self) -> StandardisedSum:
        """The weighted sum of the members, standardised by their scores here."""
        weights = np.asarray([weight for _, weight in self.weighed])
        return StandardisedSum(
            weights, self.scores, smallest_spreads(each.head for each in self.kept), self.unused
        )

    def by_names(self) -> Scores:
        """Weighted sum (H, K) of the names alone."""
        weighed = [(each, weight if each.head in NAME_FORMS else 0.0) for each, weight in self.weighed]
        return replace(self, weighed=weighed).sum(self.scores)

    @property
    def by_name(self) -> npt.NDArray[np.bool_]:
        """Classes that are scored by their names alone, bool (K,)."""
        others = [each.head not in NAME_FORMS for each in self.kept]
        return np.asarray(self.unused[others].all(0))


def add_member(
    members: Members,
    added: Members,
    shares: Sequence[float],
    judge: Judge,
    report: Callable[[str], None],
) -> Members:
    """Members with a further one, if the sum then scores higher.

    Its share is chosen by the score of the sum: a forest and names err on other samples than linear heads do,
    so that they may help even where they are behind.
    """
    ((candidate, _),) = added.weighed
    before, alone = (each.sum(each.scores) for each in (members, added))
    judged = {share: judge((1 - share) * before + share * alone) for share in shares}
    share = max(judged, key=judged.__getitem__)
    report(
        f"auto head: linear heads {100 * judged[0.0]:.2f}, {candidate.head} {100 * candidate.score:.2f}, "
        + (f"with a share of {100 * share:.0f} % {100 * judged[share]:.2f}" if share else "so it is not used")
    )
    if not share:
        return members
    return Members(
        [*((each, (1 - share) * weight) for each, weight in members.weighed), (candidate, share)],
        np.concatenate([members.scores, added.scores]),
        {**members.modules, **added.modules},
        np.concatenate([members.unused, added.unused]),
    )


def with_forest(
    members: Members,
    forests: Sequence[nn.Module],
    pool: Pool,
    held: Sequence[Rows],
    judge: Judge,
    detail: Callable[[str], None],
) -> Members:
    """Members with a forest, if the sum then scores higher; `forests` has one for each fold."""
    return add_member(members, _alone(FOREST, forests, pool, held, judge), FOREST_SHARES, judge, detail)


def with_names(
    members: Members,
    names: NameEvidence,
    pool: Pool,
    held: Sequence[Rows],
    judge: Judge,
    report: Callable[[str], None],
) -> Members:
    """Members with the names of classes in the best of their forms, if the sum then scores higher.

    A class without any known label is scored by its name alone, because linear heads say nothing about it.
    That of LDA is fitted to samples of all folds, since it takes no labels.
    """
    forms = []
    modules = [
        NameScores.of_texts(names.embeddings, names.temperature, form) for form in (NAMES, NAMES_SOFTMAX)
    ]
    if len(pool) >= LEAST_PER_NAME * int(modules[-1].named.sum()):
        some = np.unique(np.linspace(0, len(pool) - 1, min(len(pool), MOST_WINDOWS)).astype(np.int64))
        modules.append(fit_names(modules[-1], pool.features(some)))
    for module in modules:
        alone = _alone(module.form, [module] * len(held), pool, held, judge)
        forms.append(replace(alone, unused=~module.named.numpy()[None]))
    best = max(forms, key=lambda each: each.kept[0].score)
    _, seen = pool.positives(np.arange(len(pool)))
    unseen = np.bincount(seen, minlength=len(pool.columns)) == 0
    added = add_member(members, best, NAME_SHARES, judge, report)
    if added is members:
        return members
    unused = added.unused.copy()
    unused[:-1] |= unseen & ~best.unused[0]
    return replace(added, unused=unused)


def _alone(
    head: str, modules: Sequence[nn.Module], pool: Pool, held: Sequence[Rows], judge: Judge
) -> Members:
    """A member that is no linear head by itself, with its score."""
    scores = _module_scores(modules, pool, held)
    candidate = Candidate(RAW, 0.0, head, math.inf, judge(scores))
    return Members(
        [(candidate, 1.0)], scores[None], {head: modules}, np.zeros((1, scores.shape[1]), np.bool_)
    )


def _module_scores(modules: Sequence[nn.Module], pool: Pool, held: Sequence[Rows]) -> Scores:
    """Scores (H, K) of the samples of each fold by its module."""
    parts = [
        module(pool.features(batch))
        for module, rows in zip(modules, held, strict=True)
        for batch in pool.batches(rows, len(pool.columns))
    ]
    scores: Scores = torch.cat(parts).numpy()
    return scores


def score_members(
    fitted: Mapping[str, Sequence[AnySpaces]],
    members: Sequence[Candidate],
    held: Sequence[Rows],
    modules: Modules,
) -> Scores:
    """Scores (M, B, K) of samples, those of each fold by linear heads as they are solved in its spaces, or by
    its module."""
    pool, scores = next(iter(fitted.values()))[0].pool, dict[int, Scores]()
    for number, member in enumerate(members):
        if member.head in modules:
            scores[number] = _module_scores(modules[member.head], pool, held)
    linear = [member for member in members if member.head not in modules]
    for scaling, width in dict.fromkeys((member.scaling, member.width) for member in linear):
        of_space = HeldOut(fitted[scaling], held, width)
        for number, member in enumerate(members):
            if (member.scaling, member.width) == (scaling, width):
                scores[number] = of_space.scores(member.head, member.penalty)
    return np.stack([scores[number] for number in sorted(scores)])


def score_in_sample(
    fitted: Mapping[str, Sequence[AnySpaces]], members: Members, solved_on: Rows, count: int, seed: int
) -> tuple[Rows, Scores]:
    """Some of the samples that the members of the last fold were solved on, and their scores."""
    rows = np.sort(solved_on[permutation(len(solved_on), "level", seed)[:count]])
    of_last = {scaling: spaces[-1:] for scaling, spaces in fitted.items()}
    modules = {head: own[-1:] for head, own in members.modules.items()}
    return rows, score_members(of_last, members.kept, [rows], modules)
