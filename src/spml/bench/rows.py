"""Rows of finished runs, and the run and epoch that each selection mode picks from a series."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..config import flat

ORACLE, OBSERVED = "oracle", "observed"
COLUMNS = {ORACLE: "val/mAP", OBSERVED: "val/SP"}
"""Column of `Row.history` by which a mode selects; `audit:N` selects by the column of that name."""

TEST = "test/mAP"


class SeriesKey(NamedTuple):
    """All trials of one candidate under the same conditions.

    Attributes:
        data: Name of the data set in the specification.
        hiding: Name of the way of hiding labels.
        candidate: Name of the candidate.
        seed: Seed of split, hiding and training.
    """

    data: str
    hiding: str
    candidate: str
    seed: int


@dataclass(frozen=True)
class Row:
    """A finished run.

    Attributes:
        key: SHA-256 of everything that its numbers depend on, in hexadecimal.
        series: Series that it belongs to.
        trial: Position in the series, from 0.
        params: Values of the searched settings, such as {"optim.lr": 0.001}.
        config: Complete configuration, as `spml train --config` takes it.
        first: That of the first phase of training, from which the run starts; empty if there is none.
        status: `done` or `failed`.
        message: Why it failed.
        history: One list per column, with a value per epoch (or per penalty of a path): `val/SP`, `val/P`,
            `val/A`, `val/naive_mAP`, `val/mAP`, `audit:N`, and `test/mAP`, which is NaN for an epoch that no
            mode would have picked and that is not the last of training; for a path also `penalty`.
        draws: By mode, test mAP of the epoch that it picks on bootstrap draws of the test samples; only for
            runs that were the best of their series so far.
        facts: Facts about the data: `classes`, `train`, `val`, `test` (samples), `mean_labels`,
            `fingerprint`; and `backbone`, SHA-256 of its weights and of its image preparation, if they lie in
            a file.
        seconds: Duration of the run.
        memory: Peak memory of the process, MiB.
        versions: Versions that it was computed with: `spml`, `code`, `commit`, `torch`, `machine`.
        finished: Time of its end, UTC, ISO 8601.
    """

    key: str
    series: SeriesKey
    trial: int
    params: dict[str, Any]
    config: dict[str, Any]
    first: dict[str, Any] = field(default_factory=dict)
    status: str = "done"
    message: str = ""
    history: dict[str, list[float]] = field(default_factory=dict)
    draws: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    memory: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    finished: str = ""

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The configuration by the names of its settings, such as `optim.lr`."""
        return flat(self.config)


class Pick(NamedTuple):
    """A run at the epoch that a selection mode picks.

    Attributes:
        row: The run.
        mode: Selection mode.
        epoch: The epoch, or position on a path of penalties, from 0.
        value: Value by which it was picked.
        val: mAP on fully labelled validation samples; NaN if there are none.
        test: Test mAP.
    """

    row: Row
    mode: str
    epoch: int
    value: float
    val: float
    test: float

    @property
    def draws(self) -> npt.NDArray[np.float64]:
        """Test mAP on the bootstrap draws; empty if none were taken."""
        return np.asarray(self.row.draws.get(self.mode, ()), dtype=np.float64)


def column(mode: str) -> str:
    """Column of `Row.history` by which `mode` selects."""
    return COLUMNS.get(mode, mode)


def best_epoch(history: dict[str, list[float]], mode: str) -> int:
    """First epoch with the highest value in the mode's column, from 0."""
    return int(np.argmax(history[column(mode)]))


def picks_of_runs(rows: Iterable[Row], modes: Sequence[str]) -> list[Pick]:
    """Epoch that each mode picks of each finished run; those without the numbers of a mode are left out."""
    found = []
    for row in rows:
        for mode in modes:
            values = row.history.get(column(mode), [])
            if row.status == "done" and values and not any(map(math.isnan, values)):
                epoch = best_epoch(row.history, mode)
                val, test = (
                    row.history[name][epoch] if row.history.get(name) else math.nan
                    for name in (COLUMNS[ORACLE], TEST)
                )  # fmt: skip
                found.append(Pick(row, mode, epoch, values[epoch], val, test))
    return found


def picks(rows: Iterable[Row], modes: Sequence[str]) -> dict[SeriesKey, dict[str, Pick]]:
    """Trial and epoch that each mode picks from each series; of equal values, the earlier trial.

    A series is missing in a mode that picks an epoch without test mAP.
    """
    best: dict[SeriesKey, dict[str, Pick]] = {}
    for pick in picks_of_runs(sorted(rows, key=lambda row: row.trial), modes):
        before = best.setdefault(pick.row.series, {}).get(pick.mode)
        if TEST in pick.row.history and (before is None or pick.value > before.value):
            best[pick.row.series][pick.mode] = pick
    tested = {
        series: {mode: pick for mode, pick in by_mode.items() if math.isfinite(pick.test)}
        for series, by_mode in sorted(best.items())
    }
    return {series: by_mode for series, by_mode in tested.items() if by_mode}
