"""Mean ranks of candidates over data sets and ways of hiding."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .statistics import Friedman, cliques, friedman, gap_closed, mean_ranks, nemenyi_cd

ALPHA = 0.05

Place = tuple[str, str]
"""Names of a data set and of a way of hiding labels."""


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of candidates over data sets and ways of hiding, by one mode.

    Attributes:
        candidates: from the best mean rank to the worst.
        ranks: their mean ranks.
        means: their mean mAP.
        gaps: share of the gap between the means of baseline and ceiling that their means close; None where
            that says nothing.
        places: over which the means are: those where all `candidates` have a result.
        test: Friedman's.
        cd: critical difference of Nemenyi's test; NaN with fewer than two places or candidates.
        groups: positions in `candidates` of those that do not differ significantly.
        left_out: candidates without a result in more than half of the places.
    """

    candidates: tuple[str, ...]
    ranks: tuple[float, ...]
    means: tuple[float, ...]
    gaps: tuple[float | None, ...]
    places: tuple[Place, ...]
    test: Friedman
    cd: float
    groups: tuple[tuple[int, ...], ...]
    left_out: tuple[str, ...]


def rank(
    found: Mapping[Place, Mapping[str, float]], ends: Mapping[Place, tuple[float, float]] | None = None
) -> Ranking:
    """The ranking of candidates by their mAP at each place.

    A candidate that is absent from more than half of the places is left out, so that it does not cost the
    others these places; then only places count where nobody is absent.

    Args:
        found: by place and candidate, mean mAP.
        ends: by place, mean mAP of baseline and ceiling. Of means and not of each place's share a mean is
            taken, for where the two are close a share can be anything.
    """
    present = {place: names for place, names in found.items() if names}
    everyone = sorted({name for names in present.values() for name in names})
    ranked = [n for n in everyone if 2 * sum(n in names for names in present.values()) >= len(present)]
    left_out = tuple(name for name in everyone if name not in ranked)
    places = [place for place, names in present.items() if names.keys() >= set(ranked)] if ranked else []
    if not places:
        nothing = Friedman(math.nan, math.nan, math.nan)
        return Ranking((), (), (), (), (), nothing, math.nan, (), tuple(everyone))
    table = np.array([[present[place][name] for name in ranked] for place in places])
    ranks, means = mean_ranks(table), table.mean(axis=0)
    order = sorted(range(len(ranked)), key=lambda i: (ranks[i], -means[i], ranked[i]))
    testable = len(places) > 1 and len(ranked) > 1
    cd = nemenyi_cd(len(ranked), len(places), ALPHA) if testable else math.nan
    gaps: list[float | None] = [None] * len(order)
    rows = [row for row, place in enumerate(places) if ends and place in ends]
    if ends and rows:
        low, high = np.mean([ends[places[row]] for row in rows], axis=0).tolist()
        gaps = [gap_closed(float(table[rows, i].mean()), low, high) for i in order]
    return Ranking(
        candidates=tuple(ranked[i] for i in order),
        ranks=tuple(float(ranks[i]) for i in order),
        means=tuple(float(means[i]) for i in order),
        gaps=tuple(gaps),
        places=tuple(places),
        test=friedman(table),
        cd=cd,
        groups=tuple(cliques(ranks[order], cd)) if testable else (),
        left_out=left_out,
    )
