"""Specification of a comparison: data sets, ways of hiding labels, candidates, budget, seeds, modes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from .space import Sampler, Space, grid_size

AUDIT = re.compile(r"audit:([1-9]\d*)")

Labels = Literal["observed", "positive_and_negatives", "full"]
"""Labels that a candidate is given: those that stay observed, every true negative as well, or all."""


@dataclass(frozen=True)
class DataSet:
    """A data set to learn from.

    Attributes:
        name: Name in tables.
        settings: Settings of `Config.data`.
        mean_labels: Mean labels per sample K that candidates are given; None = not stated.
        train: Settings for all runs on this data set, overriding the shared ones.
        empty: How a class without positives counts in mAP, `exclude` or `zero`; None = as the data says,
            which is `zero` for published benchmarks.
    """

    name: str
    settings: Mapping[str, Any]
    mean_labels: float | None = None
    train: Mapping[str, Any] = field(default_factory=dict)
    empty: Literal["exclude", "zero"] | None = None


@dataclass(frozen=True)
class Hiding:
    """A way of turning full labels into observed ones: the `observe*` settings of `Config.data`."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A method, or a variant of one, that is compared with the others.

    Attributes:
        name: Name in tables.
        settings: Settings of `Config`, nested.
        space: Settings to search, with their ranges.
        sampler: How its trials are proposed; None = as the specification says.
        labels: Labels to train and select with; `full` is a ceiling, `positive_and_negatives` an oracle that
            lacks the hidden positives only.
        mean_labels: Factor on the K that the specification states (1 = the stated K); None = K is withheld.
        first: Settings in which a first phase of training differs, from whose best epoch the run starts: its
            model, and what the method had inferred. None = there is no first phase.
    """

    name: str
    settings: Mapping[str, Any]
    space: Space = field(default_factory=dict)
    sampler: Sampler | None = None
    labels: Labels = "observed"
    mean_labels: float | None = 1.0
    first: Mapping[str, Any] | None = None

    def hide(self, hiding: Hiding) -> dict[str, Any]:
        """Settings of `Config.data` by which labels are hidden from this candidate."""
        if self.labels == "full":
            return {}
        settings = dict(hiding.settings)
        if self.labels == "positive_and_negatives":
            settings["observe_all_negatives"] = True
        return settings


@dataclass(frozen=True)
class Spec:
    """A comparison.

    Attributes:
        title: Title, one line.
        about: Paragraphs for the top of the report.
        data, hidings, candidates: What is crossed with each other and with `seeds`.
        seeds: Seeds, each used for split, hiding, training and search.
        modes: Ways of selecting trials and epochs: `oracle`, `observed`, `audit:N`.
        sampler: How trials are proposed, unless a candidate says otherwise.
        trials: Trials of each candidate with a search space.
        guided_by: Mode whose scores `tpe` learns from.
        train: Settings of every run.
        baseline: Candidate that the others are compared with.
        ceiling: Candidate with full labels, or empty.
        draws: Number of bootstrap draws of the test samples.
        path: File that the specification was read from.
        text: Content of that file.
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
        """Number of trials of a candidate."""
        if not candidate.space:
            return 1
        return grid_size(candidate.space) if self.sampler_of(candidate) == "grid" else self.trials

    def sampler_of(self, candidate: Candidate) -> Sampler:
        """How the trials of a candidate are proposed."""
        return candidate.sampler or self.sampler

    def learns(self, candidate: Candidate) -> bool:
        """Whether the settings of a trial of a candidate depend on the scores of the earlier trials."""
        return self.sampler_of(candidate) == "tpe" and bool(candidate.space)

    @property
    def audits(self) -> tuple[str, ...]:
        """Modes that use a limited number of fully labelled validation samples."""
        return tuple(mode for mode in self.modes if AUDIT.fullmatch(mode))


def audit_size(mode: str) -> int:
    """Return N of `audit:N`."""
    return int(mode.partition(":")[2])


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Merge nested settings; later ones win."""
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            before = result.get(key)
            if isinstance(before, Mapping) and isinstance(value, Mapping):
                value = merged(before, value)
            result[key] = value
    return result
