"""Trials of a comparison as points of a figure: mAP over seeds, at each value of one or two settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...bench.rows import ORACLE, Pick, Row, column, picks_of_runs
from ...common.errors import InputError, missing_extra, nearest
from ...config import flat

Value = float | str

THRESHOLD = "tau"
_NAMES = ("data", "hiding")
"""Axes that are names in the specification, instead of settings."""

_NOT_AXES = {"seed", "output", "threads", "method", "data.path", "data.images", "data.cache", "data.workers",
             "data.observe_seed", "data.split_seed"}  # fmt: skip
DIGITS = 4


@dataclass(frozen=True)
class Request:
    """Selection of values to draw of each trial.

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


def read_trials(stores: Sequence[str | Path]) -> tuple[list[Row], int]:
    """Finished trials of all stores, the newest of each, and the number of failed ones."""
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


def only(rows: list[Row], part: str, name: str | None) -> list[Row]:
    """Trials of one data set (`part` is `data`) or way of hiding (`hiding`); all if `name` is None."""
    if name is None:
        return rows
    names = sorted({getattr(row.series, part) for row in rows})
    if name not in names:
        option = {"data": "data_set"}.get(part, part)
        raise InputError(f"--{option} {name!r}: the comparison has {', '.join(map(repr, names))}")
    return [row for row in rows if getattr(row.series, part) == name]


def varied_candidates(
    rows: Sequence[Row], request: Request, candidates: list[str] | None, references: list[str]
) -> list[str]:
    """Candidates to draw: the stated ones, or those along whose trials every axis varies."""
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


def points_of(rows: Iterable[Row], name: str, request: Request, epoch: int | None) -> list[Point]:
    """One point per place: for each seed the best trial there by the mode."""
    places: dict[tuple[Value, Value | None], list[Pick]] = {}
    for pick in _picked(rows, name, request, epoch):
        x, y = value_of(pick.row, request.x), value_of(pick.row, request.y) if request.y else None
        if x is not None and (y is not None or request.y is None):
            places.setdefault((x, y), []).append(pick)
    return [Point(name, epoch, *place, _best(picks, request)) for place, picks in places.items()]


def reference_of(rows: Sequence[Row], name: str, request: Request, epoch: int | None) -> Point:
    """The best trial of a candidate, for each seed."""
    return Point(name, epoch, "", None, _best(_picked(rows, name, request, epoch), request))


def _picked(rows: Iterable[Row], name: str, request: Request, epoch: int | None) -> list[Pick]:
    """Trials of a candidate at an epoch, or at that which the mode picks."""
    picks = picks_of_runs([row for row in rows if row.series.candidate == name], [request.mode])
    if not picks:
        raise InputError(f"the trials of {name!r} have no values of mode {request.mode!r}")
    if epoch is None:
        return picks
    at_epoch = []
    for pick in picks:
        true = pick.row.history.get(column(ORACLE), [])
        if not 1 <= epoch <= len(true):
            raise InputError(
                f"epoch {epoch}: the trials of {name!r} have true validation mAP of {len(true)} epochs"
            )
        value = pick.row.history[column(request.mode)][epoch - 1]
        at_epoch.append(pick._replace(epoch=epoch - 1, value=value, val=true[epoch - 1]))
    return at_epoch


def _best(picks: Sequence[Pick], request: Request) -> tuple[float, ...]:
    """Score of the best trial of each seed, all on the same data with the same labels."""
    tasks = sorted({pick.row.series[:2] for pick in picks})
    if len(tasks) > 1:
        listed = "; ".join(" / ".join(task) for task in tasks)
        raise InputError(
            f"trials of several data sets or ways of hiding labels would be mixed ({listed}): choose one "
            "with --data_set and --hiding, or draw over them (--x hiding)"
        )
    best: dict[int, Pick] = {}
    for pick in picks:
        before = best.setdefault(pick.row.series.seed, pick)
        if pick.value > before.value:
            best[pick.row.series.seed] = pick
    scores = tuple(getattr(best[seed], request.score) for seed in sorted(best))
    if np.isnan(scores).any():
        raise InputError("the trials have no true validation mAP: draw --score test")
    return scores


def notes_of(
    rows: Sequence[Row], named: Sequence[str], request: Request, failed: int, val_only: bool, is_map: bool
) -> list[str]:
    """Notes for a reader of the figure on its points."""
    notes = [
        "small numbers: standard deviation over seeds"
        if is_map
        else "error bars and bands: standard deviation over seeds"
    ]
    if val_only:
        notes.append("validation mAP is drawn, because test mAP is kept for selected epochs only")
    for name in named:
        own = [row for row in rows if row.series.candidate == name]
        drawn = {request.x, request.y}
        rest = {*axes_of(own)} - {*drawn, "data", "hiding"}
        if "tau" in drawn:
            rest -= {"hp.w", "hp.b"}
        if {"hp.w", "hp.b"} & drawn:
            rest -= {"tau"}
        if {"data", "hiding"} & drawn:
            rest = {axis for axis in rest if not axis.startswith(("data.", "model."))}
        if rest:
            notes.append(f"{name}: best by {request.mode} over {', '.join(sorted(rest))}")
    if failed:
        notes.append(f"{failed} failed trials are left out")
    return notes


# -- settings as axes ------------------------------------------------------------------------------------


def value_of(row: Row, axis: str) -> Value | None:
    """Value of a trial along an axis; None if the trial has no such setting.

    Args:
        row: The trial.
        axis: A setting such as `hp.sigma` or `optim.lr`; of a hyper-parameter on a schedule [start, end] the
            end counts. `data` and `hiding` are the names in the specification, and `tau` is -b / w, where
            k(p) = sigmoid(w p + b) passes 1/2 at the end of the schedules `hp.w` and `hp.b`.
    """
    if axis in _NAMES:
        return str(getattr(row.series, axis))
    if axis == THRESHOLD:
        w, b = value_of(row, "hp.w"), value_of(row, "hp.b")
        if not isinstance(w, float) or not isinstance(b, float) or w == 0:
            return None
        return float(f"{-b / w:.{DIGITS}g}")
    part = flat(row.config).get(axis)
    if isinstance(part, list) and len(part) == 2:
        part = part[1]
    if part is None or isinstance(part, (Mapping, list)):
        return None
    return float(part) if isinstance(part, (int, float)) and not isinstance(part, bool) else str(part)


def axes_of(rows: Iterable[Row]) -> list[str]:
    """Axes along which trials differ, in alphabetical order."""
    rows = list(rows)
    names = {name for row in rows for name in flat(row.config)} | {*_NAMES, THRESHOLD}
    values = {name: {value_of(row, name) for row in rows} - {None} for name in names - _NOT_AXES}
    return sorted(name for name, found in values.items() if len(found) > 1)
