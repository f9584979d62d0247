"""What a finished run leaves behind, and which run and epoch each selection mode picks from a series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

ORACLE, OBSERVED = "oracle", "observed"
COLUMNS = {ORACLE: "val/mAP", OBSERVED: "val/SP"}
"""Column of `Row.history` by which a mode selects; `audit:N` selects by the column of that name."""

TEST = "test/mAP"


class SeriesKey(NamedTuple):
    """All trials of one candidate under the same conditions.

    Attributes:
        data: name of the data set in the specification.
        hiding: name of the way of hiding labels.
        candidate: name of what is compared.
        seed: of split, hiding and training.
    """

    data: str
    hiding: str
    candidate: str
    seed: int


@dataclass(frozen=True)
class Row:
    """One run.

    Attributes:
        key: SHA-256 of everything that its numbers depend on, in hexadecimal.
        series: what it belongs to.
        trial: its place in the series, from 0.
        params: the searched settings of this trial, such as {"optim.lr": 0.001}.
        config: the whole configuration, as `spml train --config` takes it.
        status: `done` or `failed`.
        message: why it failed.
        history: one list per column, with a value per epoch (or per penalty of a path): `val/SP`, `val/P`,
            `val/A`, `val/naive_mAP`, `val/mAP`, `audit:N`, and `test/mAP`, which is NaN for an epoch that no
            mode would have picked and that is not the last of training; for a path also `penalty`.
        draws: per mode, test mAP of the epoch that it picks on bootstrap draws of the test samples; only for
            runs that were the best of their series so far.
        facts: of the data: `classes`, `train`, `val`, `test` (samples), `mean_labels`, `fingerprint`; and
            `backbone`, SHA-256 of its weights and of how it takes images, if they lie in a file.
        seconds: that the run took.
        memory: peak of the process, MiB.
        versions: with what it was computed: `spml`, `code`, `commit`, `torch`, `machine`.
        finished: UTC, ISO 8601.
    """

    key: str
    series: SeriesKey
    trial: int
    params: dict[str, Any]
    config: dict[str, Any]
    status: str = "done"
    message: str = ""
    history: dict[str, list[float]] = field(default_factory=dict)
    draws: dict[str, list[float]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    memory: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    finished: str = ""


class Pick(NamedTuple):
    """What a selection mode takes from a series.

    Attributes:
        row: the run.
        epoch: from 0.
        test: test mAP there.
        draws: float64 (B,), test mAP on the bootstrap draws; empty if none were taken.
    """

    row: Row
    epoch: int
    test: float
    draws: npt.NDArray[np.float64]


def column(mode: str) -> str:
    """The column of `Row.history` by which `mode` selects."""
    return COLUMNS.get(mode, mode)


def best_epoch(history: dict[str, list[float]], mode: str) -> int:
    """The first epoch with the highest value of the mode's column, from 0."""
    return int(np.argmax(history[column(mode)]))


def picks(rows: Iterable[Row], modes: Sequence[str]) -> dict[SeriesKey, dict[str, Pick]]:
    """The trial and epoch of each series that each mode selects; the earlier trial at equal values."""
    found: dict[SeriesKey, dict[str, Pick]] = {}
    for row in sorted((row for row in rows if row.status == "done"), key=lambda row: row.trial):
        chosen = found.setdefault(row.series, {})
        for mode in modes:
            epoch = best_epoch(row.history, mode)
            before = chosen.get(mode)
            value = row.history[column(mode)][epoch]
            if before is None or value > before.row.history[column(mode)][before.epoch]:
                draws = np.asarray(row.draws.get(mode, ()), dtype=np.float64)
                chosen[mode] = Pick(row, epoch, row.history[TEST][epoch], draws)
    return found
