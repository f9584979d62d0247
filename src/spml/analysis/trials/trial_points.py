"""Trials of a comparison as points of a figure: mAP over seeds, at each value of one or two settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...common.errors import InputError, missing_extra, nearest
from .axes import Value, axes_of, value_of


@dataclass(frozen=True)
class Request:
    """What is to be drawn of each trial.

    Attributes:
        x, y: Axes, as in `value_of`; y None = one axis.
        mode: Selection mode that picks epochs and trials.
        score: Which mAP is drawn, `test` or `val`.
    """

    x: str
    y: str | None
    mode: str
    score: str


class Point(NamedTuple):
    """Scores of one candidate at one place.

    Attributes:
        candidate: Its name.
        epoch: Epoch of the scores, from 1; None = the selected one.
        x, y: Place on the axes; x is empty for a candidate that is drawn for reference.
        scores: mAP of each seed.
    """

    candidate: str
    epoch: int | None
    x: Value
    y: Value | None
    scores: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def sd(self) -> float:
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else float("nan")


class _Trial(NamedTuple):
    """A trial, its place, the value by which it is preferred to others there, and its score."""

    row: Any
    x: Value
    y: Value | None
    value: float
    score: float


def read_trials(stores: Sequence[str | Path]) -> tuple[list[Any], int]:
    """Finished trials of all stores, the newest of each, and the number of failed ones.

    Raises:
        InputError: A store does not exist, or no run is finished.
    """
    try:
        from ...bench.store import find_store
    except ImportError as error:
        raise missing_extra("sqlalchemy", "bench") from error

    newest = [rows[0] for store in stores for rows in find_store(store).find().values()]
    done = [row for row in newest if row.status == "done"]
    if not done:
        raise InputError(f"{', '.join(map(str, stores))}: no run is finished. Use spml bench run first.")
    done.sort(key=lambda row: (row.series, row.trial, row.key))
    return done, len(newest) - len(done)


def only(rows: list[Any], part: str, name: str | None) -> list[Any]:
    """Trials of one data set (`part` is `data`) or way of hiding (`hiding`); all if `name` is None.

    Raises:
        InputError: There is none of this name.
    """
    names = sorted({getattr(row.series, part) for row in rows})
    if name is None:
        return rows
    if name not in names:
        option = {"data": "data_set"}.get(part, part)
        raise InputError(f"--{option} {name!r}: the comparison has {', '.join(map(repr, names))}")
    return [row for row in rows if getattr(row.series, part) == name]


def varied_candidates(
    rows: Sequence[Any], request: Request, candidates: list[str] | None, references: list[str]
) -> list[str]:
    """Candidates to draw: the stated ones, or those along whose trials every axis varies.

    Raises:
        InputError: A candidate is unknown, or the axes vary for none; the message lists the settings that
            vary.
    """
    names = sorted({row.series.candidate for row in rows})
    for name in [*(candidates or []), *references]:
        if name not in names:
            raise InputError(f"the comparison has no candidate {name!r}. {nearest(name, names)}")
    wanted = [request.x, *([request.y] if request.y else [])]
    by_name = {name: [row for row in rows if row.series.candidate == name] for name in candidates or names}
    varied = {name: axes_of(own) for name, own in by_name.items() if name not in references or candidates}
    found = [name for name, axes in varied.items() if {*wanted} <= {*axes}]
    if not found or (candidates and len(found) < len(candidates)):
        missing = [name for name in candidates or [] if name not in found]
        of = f" for candidate {missing[0]!r}" if missing else ""
        known = varied[missing[0]] if missing else sorted({axis for axes in varied.values() for axis in axes})
        raise InputError(
            f"no trials that differ in {' and '.join(wanted)}{of}. Settings that differ: "
            f"{', '.join(known) or 'none'}. Search others with `space` in a specification (spml bench run)."
        )
    return found


def _scored(rows: Iterable[Any], name: str, request: Request, epoch: int | None) -> list[_Trial]:
    """Trials of a candidate with the score of an epoch, or of that which the mode selects."""
    from ...bench.report.trials import trial_scores
    from ...bench.rows import ORACLE, column

    own = [row for row in rows if row.series.candidate == name]
    scored = trial_scores(own, [request.mode])
    if not scored:
        raise InputError(f"the trials of {name!r} have no values of mode {request.mode!r}")
    trials = []
    for trial in scored:
        value, score = trial.value, trial.val if request.score == "val" else trial.test
        if epoch is not None:
            history = trial.row.history
            if not 1 <= epoch <= len(history.get(column(ORACLE), [])):
                raise InputError(
                    f"epoch {epoch}: the trials of {name!r} have true validation mAP of "
                    f"{len(history.get(column(ORACLE), []))} epochs"
                )
            value, score = history[column(request.mode)][epoch - 1], history[column(ORACLE)][epoch - 1]
        x, y = value_of(trial.row, request.x), value_of(trial.row, request.y) if request.y else None
        trials.append(_Trial(trial.row, x if x is not None else "", y, value, score))
    return trials


def points_of(rows: Iterable[Any], name: str, request: Request, epoch: int | None) -> list[Point]:
    """One point per place: for each seed the best trial there by the mode.

    Raises:
        InputError: Trials lack the scores that are asked for, or are of several data sets.
    """
    trials = [
        trial
        for trial in _scored(rows, name, request, epoch)
        if trial.x != "" and (request.y is None or trial.y is not None)
    ]
    places: dict[tuple[Value, Value | None], list[_Trial]] = {}
    for trial in trials:
        places.setdefault((trial.x, trial.y), []).append(trial)
    return [Point(name, epoch, *place, _best(found)) for place, found in places.items()]


def reference_of(rows: Sequence[Any], name: str, request: Request, epoch: int | None) -> Point:
    """The best trial of a candidate, for each seed.

    Raises:
        InputError: As `points_of`.
    """
    return Point(name, epoch, "", None, _best(_scored(rows, name, request, epoch)))


def _best(trials: Sequence[_Trial]) -> tuple[float, ...]:
    """Score of the best trial of each seed, all on the same data with the same labels.

    Raises:
        InputError: The trials are of several data sets or ways of hiding, or a score is unknown.
    """
    tasks = sorted({trial.row.series[:2] for trial in trials})
    if len(tasks) > 1:
        listed = "; ".join(" / ".join(task) for task in tasks)
        raise InputError(
            f"trials of several data sets or ways of hiding labels would be mixed ({listed}): choose one "
            "with --data_set and --hiding, or draw over them (--x hiding)"
        )
    best: dict[int, _Trial] = {}
    for trial in trials:
        seed = trial.row.series.seed
        if seed not in best or trial.value > best[seed].value:
            best[seed] = trial
    scores = tuple(best[seed].score for seed in sorted(best))
    if np.isnan(scores).any():
        raise InputError("the trials have no true validation mAP: draw --score test")
    return scores


def notes_of(
    rows: Sequence[Any], named: Sequence[str], request: Request, failed: int, val_only: bool, is_map: bool
) -> list[str]:
    """What a reader of the figure should know of its points."""
    notes = ["error bars: standard deviation over seeds"] if not is_map else []
    if val_only:
        notes.append("validation mAP is drawn, because test mAP is kept for selected epochs only")
    for name in named:
        own = [row for row in rows if row.series.candidate == name]
        rest = {*axes_of(own)} - {request.x, request.y, "data", "hiding"}
        if "tau" in (request.x, request.y):
            rest -= {"hp.w", "hp.b"}
        if {"hp.w", "hp.b"} & {request.x, request.y}:
            rest -= {"tau"}
        if {"data", "hiding"} & {request.x, request.y}:
            rest = {axis for axis in rest if not axis.startswith(("data.", "model."))}
        if rest:
            notes.append(f"{name}: best by {request.mode} over {', '.join(sorted(rest))}")
    if failed:
        notes.append(f"{failed} failed trials are left out")
    return notes
