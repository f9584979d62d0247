"""Where a comparison stands: which of its runs are finished, failed, missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from .plan import all_series, code_version, next_trial
from .rows import Row, SeriesKey
from .spec import Spec
from .store import Store


@dataclass(frozen=True)
class State:
    """Where a comparison stands.

    Attributes:
        total: runs that the specification asks for.
        rows: of the finished ones, failed ones among them; for each the newest where several versions of the
            code made it.
        missing: per series with runs left, how many.
        stored: rows in the store, of whatever specification, when this was read.
    """

    total: int
    rows: tuple[Row, ...]
    missing: dict[SeriesKey, int]
    stored: int

    @property
    def finished(self) -> int:
        """Runs that need not be made any more."""
        return len(self.rows)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Runs that failed."""
        return tuple(row for row in self.rows if row.status == "failed")

    def describe(self) -> str:
        """One line."""
        text = f"{self.finished:,} of {self.total:,} runs are finished"
        if self.failed:
            text += f", {len(self.failed):,} of them failed"
        if self.rows and self.finished < self.total:
            text += f"; {self._seconds():.1f} s per run so far"
        return text

    def _seconds(self) -> float:
        return sum(row.seconds for row in self.rows) / len(self.rows)


def read_state(spec: Spec, store: Store, root: Path, *, any_code: bool = False) -> State:
    """Look up every run of a specification.

    Args:
        spec: what is compared.
        store: of its runs.
        root: folder that its paths start from.
        any_code: also count runs that another version of the code made.

    Raises:
        SpmlError: the store can't be read.
    """
    stored = store.find()
    if not any_code:
        code = code_version()
        stored = {
            point: found
            for point, rows in stored.items()
            if (found := [row for row in rows if row.versions.get("code") == code])
        }
    rows: list[Row] = []
    missing: dict[SeriesKey, int] = {}
    for series in all_series(spec):
        mine: list[Row] = []
        while trial := next_trial(spec, series, mine, root):
            if trial.point not in stored:
                break
            mine.append(replace(stored[trial.point][0], trial=trial.number))
        rows += mine
        wanted = spec.trials_of(series.candidate)
        if len(mine) < wanted:
            missing[series.key] = wanted - len(mine)
    total = len(rows) + sum(missing.values())
    return State(total, tuple(rows), missing, store.count())
