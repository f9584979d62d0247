"""Put the members of an auto head together: how they are standardised, weighed and centred."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..scaling import Scaling
from .ensemble import Ensemble, EnsembleSettings, MemberSettings, SpaceSettings
from .forest import FOREST, Forest
from .forest import SMALLEST_SPREAD as SMALLEST_OF_FOREST
from .linear import LOG_PROBABILITIES, head_scores
from .moments import Columns
from .search import Candidate, Scores
from .spaces import AnySpaces, Pool, Rows
from .sparse import scaled

SMALLEST_SPREAD = 1e-6


def smallest_spreads(heads: Iterable[str]) -> npt.NDArray[np.float64]:
    """Smallest deviations (M, 1) by which scores of members are divided."""
    return np.asarray([[SMALLEST_OF_FOREST if head == FOREST else SMALLEST_SPREAD] for head in heads])


class StandardisedSum:
    """Weighted sum of the scores of M members, each standardised by class.

    `centre` and `spread` are mean and deviation, float32 (M, K), of the scores (M, H, K) of held-out samples;
    `smallest` is the smallest deviation, of all members or of each, (M, 1). `unused` are the classes for
    which a member says nothing, bool (M, K): it adds 0, by an infinite deviation.
    """

    def __init__(
        self,
        weights: npt.NDArray[np.float64],
        scores: Scores,
        smallest: float | npt.NDArray[np.float64] = SMALLEST_SPREAD,
        unused: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self._weights = weights.astype(np.float32)
        self.centre = scores.mean(1, dtype=np.float64).astype(np.float32)
        spread = np.maximum(scores.std(1, dtype=np.float64), smallest)
        self.spread = spread.astype(np.float32)
        if unused is not None:
            self.spread[unused] = np.inf

    def __call__(self, scores: Scores) -> Scores:
        """Return the sum (B, K) for scores (M, B, K)."""
        standardised = (scores - self.centre[:, None]) / self.spread[:, None]
        total: Scores = np.einsum("m,mbc->bc", self._weights, standardised)
        return total


def assemble(
    pool: Pool,
    members: list[tuple[Candidate, float]],
    fitted: dict[str, AnySpaces],
    modules: Mapping[str, Sequence[nn.Module]],
    start: tuple[str, Scaling, nn.Linear] | None,
    sum_of: StandardisedSum,
) -> Ensemble:
    """Put the members together as they are solved now, standardised as in the selection.

    Args:
        pool: Labelled samples.
        members: Members and their weights, those that are no linear heads last.
        fitted: Spaces of the linear ones.
        modules: The others by the name of their head, of which the last one is taken.
        start: As in `Ensemble`.
        sum_of: The weighted sum in the selection.
    """
    keys = list(dict.fromkeys((member.scaling, member.width) for member, _ in members))
    linear = keys[:-1] if modules else keys
    spaces, projections = [], []
    for key in linear:
        heads = sum((member.scaling, member.width) == key for member, _ in members)
        inputs, projection = fitted[key[0]].head_inputs(key[1], heads * len(pool.columns))
        spaces.append(SpaceSettings(key[0], inputs, key[1], folded=projection is not None))
        projections.append(projection)
    if modules:
        spaces.append(SpaceSettings(keys[-1][0], pool.width))
    forest = modules.get(FOREST, [None])[-1]
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
        own = fitted[scaling_name]
        state = own.maps[own.widths.index(width)].state_dict()
        if projection is not None:
            del state["projection"]
        space.load_state_dict(state)
    for (member, _), described, layer in zip(members, settings.members, head.heads, strict=True):
        if member.head in modules:
            layer.load_state_dict(modules[member.head][-1].state_dict())
            continue
        assert isinstance(layer, nn.Linear)
        solver = fitted[member.scaling].solver(member.width)
        solver.fill(layer, member.head, member.penalty, projections[described.space])
    head.centre.copy_(torch.from_numpy(sum_of.centre))
    head.spread.copy_(torch.from_numpy(sum_of.spread))
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
