"""Settings of the trials of a comparison, as the axes of a figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...bench.rows import Row

Value = float | str

THRESHOLD = "tau"
_NAMES = ("data", "hiding")
"""Axes that are names in the specification, instead of settings."""

_NOT_AXES = {"seed", "output", "threads", "method", "data.path", "data.images", "data.cache", "data.workers",
             "data.observe_seed", "data.split_seed"}  # fmt: skip
_DIGITS = 4


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
        return float(f"{-b / w:.{_DIGITS}g}")
    part: Any = row.config
    for name in axis.split("."):
        part = part.get(name) if isinstance(part, Mapping) else None
    if isinstance(part, list) and len(part) == 2:
        part = part[1]
    if part is None or isinstance(part, (Mapping, list)):
        return None
    return float(part) if isinstance(part, (int, float)) and not isinstance(part, bool) else str(part)


def axes_of(rows: Iterable[Row]) -> list[str]:
    """Axes along which trials differ, in alphabetical order."""
    rows = list(rows)
    names = {name for row in rows for name in _settings(row.config)} | {*_NAMES, THRESHOLD}
    values = {name: {value_of(row, name) for row in rows} - {None} for name in names - _NOT_AXES}
    return sorted(name for name, found in values.items() if len(found) > 1)


def in_order(values: Iterable[Value]) -> list[Value]:
    """Numbers by size, then names, in which numbers count by size as well (9 % before 10 %)."""

    def key(value: Value) -> tuple[Any, ...]:
        if isinstance(value, float):
            return (0, value)
        return (1, [(0, float(part), "") if part.isdigit() else (1, 0.0, part)
                    for part in re.split(r"(\d+)", value) if part])  # fmt: skip

    return sorted(set(values), key=key)


def name_of(axis: str) -> str:
    """An axis as a label."""
    return "threshold tau = -b / w at the end of training" if axis == THRESHOLD else axis


def text_of(value: Value) -> str:
    """A value as a label."""
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else value


def _settings(settings: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    for name, part in settings.items():
        if isinstance(part, Mapping):
            yield from _settings(part, f"{prefix}{name}.")
        else:
            yield prefix + name
