"""Members of an auto head: their scores, how they are standardised, weighed and centred, and those that are
no linear heads, a forest and the names of classes. These have the share of the sum that scores highest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from logging import INFO
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ...common.messages import log
from ..names import NameEvidence
from ..scaling import RAW, Scaling
from . import moments
from .ensemble import Ensemble, EnsembleSettings, MemberSettings, SpaceSettings
from .forest import FOREST, Forest, grow
from .forest import SMALLEST_SPREAD as SMALLEST_OF_FOREST
from .linear import LOG_PROBABILITIES, head_scores
from .moments import Columns, scaled
from .names import LEAST_PER_NAME, MOST_WINDOWS, NAME_FORMS, NAMES, NAMES_SOFTMAX, NameScores, fit_names
from .search import Candidate, HeldOut, Scores
from .spaces import Pool, Rows, Spaces

# -- logits from scores: a logistic regression of each class on its own score ----------------------------


STRENGTH = 5.0
"""Strength that draws the slopes of classes to the common one: this times half the square of the relative
difference is added to the loss."""

_ROUNDS, _STEPS = 6, 10  # estimates of the common slope, and steps of Newton's method for each
_LONGEST = 1.0  # step, in log-odds
_LEAST_SLOPE = 0.05  # in units of the common one: rankings within a class never change
_SMALLEST_DEVIATION = 1e-6
_SMALLEST_COUNT = 1e-9  # a mean over no positives is defined
_LEAST_ROOM = 0.1  # a single label that decides a class alone moves its logit no further
_ENTRIES = 1 << 23  # elements of a batch of classes


TEMPERATURE, LEAST_WEIGHT = 0.03, 0.05


def relative_weights(scores: Sequence[float]) -> list[float]:
    """Weights exp((score - best) / (.03 best)), of which the best score has 1."""
    highest = max(scores)
    return [math.exp((score - highest) / (TEMPERATURE * max(highest, 1e-9))) for score in scores]


class ClassLogits(NamedTuple):
    """What turns the scores of each column into logits, comparable between classes.

    Attributes:
        offset, scale: Of each column, float64 (K,). The scale is positive, but 0 for a class whose scores are
            all equal.
        logits: Logits (H, K) of the samples it was fitted to, each as if its own label had not been fitted.
    """

    offset: Tensor
    scale: Tensor
    logits: Tensor


def class_logits(
    scores: Tensor, labels: Tensor, mean_labels: float, sizes: Tensor | None = None
) -> ClassLogits:
    """Fit the offset and scale (K,) of `ClassLogits`.

    Each class has a logistic regression of its label on its score, with a slope drawn to the common slope of
    all classes. Half a positive with the mean standardised score of all positives is added to each class, so
    that one without positives has a finite bias; its score counts for little. Of the mean labels per sample
    only one may be known, so one number is added to all logits such that their sigmoids sum to
    `mean_labels` per sample.

    A class with few positives gets a larger slope if these happen to have high scores. Estimates that take
    the known labels for a draw among all labels would then expect too much at the top, so a label does not
    speak for its own logit: it is left out by a step of Newton's method from the fit to all.

    Args:
        scores: Scores (H, K) of samples that the model was not fitted to.
        labels: Labels (H, K), 1 for a known positive, else 0.
        mean_labels: Mean labels per sample.
        sizes: Number of classes (K,) that each column stands for; None = one each.

    Source:
        Platt. Probabilistic Outputs for Support Vector Machines. 1999, with shrunk slopes. Rad, Maleki. A
        Scalable Estimate of the Out-of-Sample Prediction Error via Approximate Leave-One-Out. 2020.
    """
    deviation, centre = torch.std_mean(scores.double(), 0, correction=0)
    deviation = torch.where(deviation > _SMALLEST_DEVIATION, deviation, math.inf)
    scores, counts = (scores - centre).div_(deviation), labels.sum(0).double()
    importance = counts + _SMALLEST_COUNT
    typical = float((scores * labels).sum() / importance.sum())
    slope, size = torch.ones(()), max(1, _ENTRIES // len(scores))
    offset = ((counts + 0.5) / len(labels)).logit(eps=1e-6)
    scale = torch.ones_like(offset)
    # Columns without positives do not change the common slope, so that one round is enough for them.
    with_positives, every = torch.nonzero(counts > 0)[:, 0], torch.arange(len(counts))
    for columns in (*[with_positives] * (_ROUNDS - 1), every):
        for own in torch.split(columns, size):
            offset[own], scale[own] = _regress(
                scores[:, own], labels[:, own].double(), offset[own], scale[own], slope, typical
            )
        slope = (importance * scale).sum() / importance.sum()
    scale = torch.where(counts > 0, scale, _LEAST_SLOPE * slope)
    logits = offset + scale * scores
    shift, scale_of_scores = _shift(logits, mean_labels, sizes), scale / deviation
    for own in torch.split(every, size):
        p = logits[:, own].sigmoid()
        first, mixed, second = _curvature(
            p, scores[:, own], (offset + scale * typical)[own].sigmoid(), slope, typical
        )
        leverage = (second - 2 * mixed * scores[:, own] + first * scores[:, own].square()) / _determinant(
            first, mixed, second
        )
        room = (1 - leverage * p * (1 - p)).clamp_min(_LEAST_ROOM)
        logits[:, own] += leverage * (p - labels[:, own].double()) / room
    return ClassLogits(offset + shift - scale_of_scores * centre, scale_of_scores, (logits + shift).float())


def _regress(
    scores: Tensor, labels: Tensor, offset: Tensor, scale: Tensor, slope: Tensor, typical: float
) -> tuple[Tensor, Tensor]:
    """Improve offset and scale (C,) of logistic regressions with slopes near `slope`, by Newton's method."""
    for _ in range(_STEPS):
        p, pseudo = (offset + scale * scores).sigmoid(), (offset + scale * typical).sigmoid()
        error, missing = p - labels, (pseudo - 1) / 2
        gradient = error.sum(0) + missing
        along = (error * scores).sum(0) + missing * typical + STRENGTH * (scale / slope - 1) / slope
        first, mixed, second = _curvature(p, scores, pseudo, slope, typical)
        determinant = _determinant(first, mixed, second)
        offset = offset - ((second * gradient - mixed * along) / determinant).clamp(-_LONGEST, _LONGEST)
        scale = scale - ((first * along - mixed * gradient) / determinant).clamp(-_LONGEST, _LONGEST)
        scale = scale.maximum(_LEAST_SLOPE * slope)
    return offset, scale


def _curvature(
    p: Tensor, scores: Tensor, pseudo: Tensor, slope: Tensor, typical: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Second derivatives (C,) of the loss: by the offset twice, by both, and by the scale twice."""
    weight, own = p * (1 - p), pseudo * (1 - pseudo) / 2
    mixed = (weight * scores).sum(0) + own * typical
    second = (weight * scores.square()).sum(0) + own * typical**2 + STRENGTH / slope**2
    return weight.sum(0) + own, mixed, second


def _determinant(first: Tensor, mixed: Tensor, second: Tensor) -> Tensor:
    return (first * second - mixed**2).clamp_min(1e-12)


def _shift(logits: Tensor, mean_labels: float, sizes: Tensor | None) -> float:
    """Number to add to logits (H, K) so that the sigmoids of all classes sum to `mean_labels` per sample."""
    classes = logits.shape[1] if sizes is None else int(sizes.sum())
    share = min(mean_labels / classes, 0.999)
    target = math.log(share / (1 - share))
    low, high = target - float(logits.max()), target - float(logits.min())
    for _ in range(40):
        middle = (low + high) / 2
        sigmoids = (logits + middle).sigmoid_()
        mean = sigmoids.mean() if sizes is None else (sigmoids.mean(0) * sizes).sum() / classes
        if float(mean) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


# -- members ---------------------------------------------------------------------------------------------


FOREST_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares of the forest in the sum of all members, of which one is selected."""

NAME_SHARES = (*FOREST_SHARES, 0.6, 0.7, 0.8, 0.9)
"""Shares of the names of classes, likewise. Where few labels are known, names may tell nearly everything."""

SMALLEST_SPREAD = 1e-6


MOST_SAMPLES = 20_000
"""Largest number of samples for which a forest is grown. It takes 2 to 4 kB of memory for each."""

MOST_VALUES = 1 << 27
"""Largest samples x features for which a forest is grown: 512 MiB of float32."""

MOST_WORK = 1 << 28
"""Largest samples x sqrt(features) x (classes + 100) for which a forest is grown, in about half a minute."""

Judge = Callable[[Scores], float]
Modules = Mapping[str, Sequence[nn.Module]]
"""Members that are no linear heads, by the name of the head: the module that scores each fold."""


def smallest_spreads(heads: Iterable[str]) -> npt.NDArray[np.float64]:
    """Smallest deviations (M, 1) by which scores of members are divided."""
    return np.asarray([[SMALLEST_OF_FOREST if head == FOREST else SMALLEST_SPREAD] for head in heads])


@dataclass(frozen=True)
class Members:
    """Members of an auto head.

    Attributes:
        candidates: The members, whose weights sum to 1.
        scores: Their scores (M, H, K) of held-out samples.
        modules: Those that are no linear heads.
        unused: Classes for which each member says nothing, bool (M, K). It adds 0, by an infinite deviation.
    """

    candidates: list[Candidate]
    scores: Scores
    modules: Modules
    unused: npt.NDArray[np.bool_]

    @cached_property
    def centre(self) -> Scores:
        """Mean of the scores of each member, float32 (M, K)."""
        return np.asarray(self.scores.mean(1, dtype=np.float64), np.float32)

    @cached_property
    def spread(self) -> Scores:
        """Deviation of the scores of each member, float32 (M, K)."""
        smallest = smallest_spreads(each.head for each in self.candidates)
        spread: Scores = np.maximum(self.scores.std(1, dtype=np.float64), smallest).astype(np.float32)
        spread[self.unused] = np.inf
        return spread

    def sum(self, scores: Scores) -> Scores:
        """Weighted sum (B, K) of scores (M, B, K) of the members, standardised as in the selection."""
        weights = np.asarray([each.weight for each in self.candidates], np.float32)
        standardised = (scores - self.centre[:, None]) / self.spread[:, None]
        total: Scores = np.einsum("m,mbc->bc", weights, standardised)
        return total

    def by_names(self) -> Scores:
        """Weighted sum (H, K) of the names alone."""
        names = [each._replace(weight=each.weight * (each.head in NAME_FORMS)) for each in self.candidates]
        return replace(self, candidates=names).sum(self.scores)

    @property
    def by_name(self) -> npt.NDArray[np.bool_]:
        """Classes that are scored by their names alone, bool (K,)."""
        others = [each.head not in NAME_FORMS for each in self.candidates]
        return np.asarray(self.unused[others].all(0))


def add_member(
    members: Members,
    added: Members,
    shares: Sequence[float],
    judge: Judge,
    level: int = INFO,
) -> Members:
    """Members with a further one, if the sum then scores higher.

    Its share is chosen by the score of the sum: a forest and names err on other samples than linear heads do,
    so that they may help even where they are behind.
    """
    (candidate,) = added.candidates
    before, further = (each.sum(each.scores) for each in (members, added))
    judged = {share: judge((1 - share) * before + share * further) for share in shares}
    share = max(judged, key=judged.__getitem__)
    log.log(
        level,
        f"auto head: linear heads {100 * judged[0.0]:.2f}, {candidate.head} {100 * candidate.score:.2f}, "
        + (
            f"with a share of {100 * share:.0f} % {100 * judged[share]:.2f}" if share else "so it is not used"
        ),
    )
    if not share:
        return members
    return Members(
        [
            *(each._replace(weight=(1 - share) * each.weight) for each in members.candidates),
            candidate._replace(weight=share),
        ],
        np.concatenate([members.scores, added.scores]),
        {**members.modules, **added.modules},
        np.concatenate([members.unused, added.unused]),
    )


def with_names(
    members: Members,
    names: NameEvidence,
    pool: Pool,
    held: Sequence[Rows],
    judge: Judge,
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
        scored = alone(module.form, [module] * len(held), pool, held, judge)
        forms.append(replace(scored, unused=~module.named.numpy()[None]))
    best = max(forms, key=lambda each: each.candidates[0].score)
    added = add_member(members, best, NAME_SHARES, judge)
    if added is members:
        return members
    unused = added.unused.copy()
    unused[:-1] |= pool.unseen(np.arange(len(pool))) & ~best.unused[0]
    return replace(added, unused=unused)


def alone(head: str, modules: Sequence[nn.Module], pool: Pool, held: Sequence[Rows], judge: Judge) -> Members:
    """A member that is no linear head by itself, with its score."""
    scores = _module_scores(modules, pool, held)
    candidate = Candidate(RAW, 0.0, head, math.inf, judge(scores))
    return Members([candidate], scores[None], {head: modules}, np.zeros((1, scores.shape[1]), np.bool_))


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
    fitted: Mapping[str, Sequence[Spaces]],
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
    for space in dict.fromkeys(member.space for member in linear):
        of_space = HeldOut(fitted[space[0]], held, space[1])
        for number, member in enumerate(members):
            if member.space == space:
                scores[number] = of_space.scores(member.head, member.penalty)
    return np.stack([scores[number] for number in sorted(scores)])


def affordable(pool: Pool) -> bool:
    """Whether a forest fits into bearable memory and time."""
    samples, features, classes = len(pool), pool.width, pool.columns.classes
    large = samples > MOST_SAMPLES or samples * features > MOST_VALUES or classes > moments.MOST_COLUMNS
    if not large and samples * math.isqrt(features) * (classes + 100) <= MOST_WORK:
        return True
    log.info(
        f"auto head: without a forest, because that of {samples:,} samples with {features:,} features and "
        f"{classes:,} classes would take too much {'memory' if large else 'time'}"
    )
    return False


def grow_on(pool: Pool, rows: Rows, seed: int, trees: int) -> Forest:
    """Grow a forest on some of the samples; one with several known positives counts as several samples."""
    positions, classes = pool.positives(rows)
    features = torch.cat([pool.features(batch) for batch in pool.batches(rows)]).numpy()
    return grow(features[positions], classes, len(pool.columns), seed, trees)


def assemble(
    pool: Pool,
    members: Members,
    fitted: dict[str, Spaces],
    offset: Tensor,
    scale: Tensor,
    start: tuple[str, Scaling, nn.Linear] | None = None,
) -> Ensemble:
    """Put the members together as they are solved now, standardised as in the selection.

    Args:
        pool: Labelled samples.
        members: The members, those that are no linear heads last. Of their modules the last one is taken.
        fitted: Spaces of the linear ones.
        offset, scale: As in `Ensemble`.
        start: As in `Ensemble`, with the name of its scaling.
    """
    modules = {name: own[-1] for name, own in members.modules.items()}
    keys = list(dict.fromkeys(member.space for member in members.candidates))
    linear = keys[:-1] if modules else keys
    spaces, projections = [], []
    for key in linear:
        heads = sum(member.space == key for member in members.candidates)
        inputs, projection = fitted[key[0]].head_inputs(key[1], heads * len(pool.columns))
        spaces.append(SpaceSettings(key[0], inputs, key[1], folded=projection is not None))
        projections.append(projection)
    if modules:
        spaces.append(SpaceSettings(keys[-1][0], pool.width))
    forest = modules.get(FOREST)
    settings = EnsembleSettings(
        spaces,
        [
            MemberSettings(
                keys.index(member.space),
                member.head,
                None if math.isinf(member.penalty) else member.penalty,
                member.score,
                member.weight,
            )
            for member in members.candidates
        ],
        landmarks=max(len(part.landmarks) for part in fitted.values()),
        start=start[0] if start else "",
        columns=0 if pool.columns.own is None else len(pool.columns),
        forest=forest.settings if isinstance(forest, Forest) else None,
    )
    head = Ensemble(pool.width, pool.columns.classes, settings)
    if head.of_class is not None and head.log_sizes is not None and pool.columns.log_sizes is not None:
        head.of_class.copy_(torch.from_numpy(pool.columns.of_class))
        head.log_sizes.copy_(pool.columns.log_sizes)
    for name in dict.fromkeys(scaling for scaling, _ in linear):
        head.scalings[name].load_state_dict(fitted[name].scaling.state_dict())
        if name in head.landmarks:
            head.landmarks[name].copy_(fitted[name].landmarks)
    for (scaling_name, width), projection, space in zip(linear, projections, head.maps, strict=False):
        state = fitted[scaling_name].maps[width].state_dict()
        if projection is not None:
            del state["projection"]
        space.load_state_dict(state)
    for member, described, layer in zip(members.candidates, settings.members, head.heads, strict=True):
        if member.head in modules:
            layer.load_state_dict(modules[member.head].state_dict())
            continue
        assert isinstance(layer, nn.Linear)
        solver = fitted[member.scaling].solve()[member.width]
        solver.fill(layer, member.head, member.penalty, projections[described.space])
    head.centre.copy_(torch.from_numpy(members.centre))
    head.spread.copy_(torch.from_numpy(members.spread))
    head.offset.copy_(offset)
    head.scale.copy_(scale)
    if start and head.start is not None and head.start_scaling is not None:
        head.start_scaling.load_state_dict(start[1].state_dict())
        head.start.load_state_dict(start[2].state_dict())
    return head


def member_scores(head: Ensemble, pool: Pool, rows: Rows) -> Scores:
    """Scores (M, B, K) of samples by members as they are solved in the end."""
    if pool.wide:
        features, scores = pool.sparse(rows), []
        for member, layer in zip(head.settings.members, head.heads, strict=True):
            assert isinstance(layer, nn.Linear)
            scaling = head.scalings[head.settings.spaces[member.space].scaling]
            assert isinstance(scaling, Scaling)
            outputs = scaled(features, scaling) @ layer.weight.numpy().T + layer.bias.numpy()
            scores.append(head_scores(member.head, torch.from_numpy(outputs), head.log_sizes))
        return torch.stack(scores).numpy()
    batches = pool.batches(rows, len(pool.columns))
    return torch.cat([head.member_scores(pool.features(batch)) for batch in batches], 1).numpy()


def mean_level(scores: Scores, columns: Columns) -> npt.NDArray[np.float64]:
    """Mean score of each member over samples and classes, (M,)."""
    if columns.own is None:
        return np.asarray(scores.mean((1, 2), dtype=np.float64))
    return np.asarray(scores.mean(1, dtype=np.float64) @ columns.sizes / columns.classes)


def centre_members(
    head: Ensemble, pool: Pool, rows: Rows, unseen: Tensor, level: npt.NDArray[np.float64]
) -> None:
    """Centre each member as it is solved now. The final solution moves all scores of a class by the change of
    its share, which is many deviations where the penalty is large.

    LDA and softmax regression are surer of samples that they were solved on than of new ones: their
    log-probabilities are lower in nearly all classes. So these samples tell how classes differ, and `level`
    where all of them are.

    Args:
        head, pool: The head, and labelled samples.
        rows: Samples to centre on, ascending, which members were solved on in the end.
        unseen: Columns without a positive among the samples of the selection, bool (K,), whose scores there
            say nothing about their deviation.
        level: Mean score of new samples, (M,): that of samples that members were solved on, and the gap that
            there was between them and held-out ones in the selection.
    """
    scores = member_scores(head, pool, rows)
    spread, centre = torch.std_mean(torch.from_numpy(scores).double(), 1, correction=0)
    sure = torch.tensor([member.head in LOG_PROBABILITIES for member in head.settings.members])
    move = torch.from_numpy(level - mean_level(scores, pool.columns))
    head.centre.copy_(centre + torch.where(sure, move, 0.0)[:, None])
    smallest = torch.from_numpy(smallest_spreads(member.head for member in head.settings.members))
    used = head.spread.isfinite()
    head.spread.copy_(torch.where(unseen & used, spread.maximum(smallest), head.spread))
