"""The specification of a comparison: data sets, ways of hiding labels, candidates, budget, seeds, modes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .space import Sampler, Space, grid_size

AUDIT = re.compile(r"audit:([1-9]\d*)")


@dataclass(frozen=True)
class DataSet:
    """What is learnt from.

    Attributes:
        name: in tables.
        settings: of `Config.data`.
        mean_labels: K that every candidate is told; None = it is not stated.
        train: settings of every run on it, instead of the shared ones.
        empty: what a class without positives does in mAP: `exclude`, `zero`; None = as the data says, which
            is `zero` for published benchmarks.
    """

    name: str
    settings: Mapping[str, Any]
    mean_labels: float | None = None
    train: Mapping[str, Any] = field(default_factory=dict)
    empty: Literal["exclude", "zero"] | None = None


@dataclass(frozen=True)
class Hiding:
    """How full labels become observed ones: `observe` and what belongs to it, of `Config.data`."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """What is compared.

    Attributes:
        name: in tables.
        settings: of `Config`, nested.
        space: what is searched.
        full: it is trained and selected with full labels, as a ceiling.
        mean_labels: what it is told of K: a factor (1 = the truth that the specification states), or None =
            nothing.
    """

    name: str
    settings: Mapping[str, Any]
    space: Space = field(default_factory=dict)
    full: bool = False
    mean_labels: float | None = 1.0


@dataclass(frozen=True)
class Spec:
    """A comparison.

    Attributes:
        title: one line.
        about: paragraphs for the report.
        data, hidings, candidates: what is crossed with each other and with `seeds`.
        seeds: each is the seed of split, hiding, training and search.
        modes: how trials and epochs are selected: `oracle`, `observed`, `audit:N`.
        sampler: how trials are proposed.
        trials: per candidate with something to search.
        guided_by: mode by which `tpe` learns.
        train: settings of every run.
        baseline: candidate that others are compared to.
        ceiling: candidate with full labels, or empty.
        draws: bootstrap draws of the test samples.
        path: where it was read.
        text: what was read.
    """

    title: str
    about: tuple[str, ...]
    data: tuple[DataSet, ...]
    hidings: tuple[Hiding, ...]
    candidates: tuple[Candidate, ...]
    seeds: tuple[int, ...]
    modes: tuple[str, ...]
    sampler: Sampler
    trials: int
    guided_by: str
    train: Mapping[str, Any]
    baseline: str
    ceiling: str
    draws: int
    path: Path
    text: str

    def trials_of(self, candidate: Candidate) -> int:
        """How many trials a candidate has."""
        if not candidate.space:
            return 1
        return grid_size(candidate.space) if self.sampler == "grid" else self.trials

    @property
    def audits(self) -> tuple[str, ...]:
        """The modes that use some fully labelled validation samples."""
        return tuple(mode for mode in self.modes if AUDIT.fullmatch(mode))


def audit_size(mode: str) -> int:
    """N of `audit:N`."""
    return int(mode.partition(":")[2])
