"""State of a comparison: which of its runs are finished, failed and missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from .plan import all_series, code_version, next_trial
from .rows import Row, SeriesKey
from .spec import Spec
from .store import Store


@dataclass(frozen=True)
class State:
    """State of a comparison.

    Attributes:
        total: Number of runs that the specification asks for.
        rows: Rows of the finished runs, including failed ones; where several versions of the code made a run,
            the newest.
        missing: Number of missing runs by series.
        stored: Number of rows in the store, of any specification, when the state was read.
    """

    total: int
    rows: tuple[Row, ...]
    missing: dict[SeriesKey, int]
    stored: int

    @property
    def finished(self) -> int:
        """Number of runs that are finished, including failed ones."""
        return len(self.rows)

    @property
    def failed(self) -> tuple[Row, ...]:
        """Runs that failed."""
        return tuple(row for row in self.rows if row.status == "failed")

    def describe(self) -> str:
        """One line for the screen."""
        text = f"{self.finished:,} of {self.total:,} runs are finished"
        if self.failed:
            text += f", {len(self.failed):,} of them failed"
        if self.rows and self.finished < self.total:
            seconds = sum(row.seconds for row in self.rows) / len(self.rows)
            text += f"; {seconds:.1f} s per run so far"
        return text


def read_state(spec: Spec, store: Store, root: Path, *, any_code: bool = False) -> State:
    """Look up every run of a specification.

    Args:
        spec: The specification.
        store: Store of its runs.
        root: Folder that its paths start from.
        any_code: Whether to count runs that another version of the code made.

    Raises:
        SpmlError: The store can't be read.
    """
    stored = store.find()
    if not any_code:
        code = code_version()
        stored = {
            point: same_code
            for point, rows in stored.items()
            if (same_code := [row for row in rows if row.versions.get("code") == code])
        }
    rows: list[Row] = []
    missing: dict[SeriesKey, int] = {}
    for series in all_series(spec):
        finished: list[Row] = []
        while trial := next_trial(spec, series, finished, root):
            if trial.point not in stored:
                break
            finished.append(replace(stored[trial.point][0], trial=trial.number))
        rows += finished
        if left := spec.trials_of(series.candidate) - len(finished):
            missing[series.key] = left
    total = len(rows) + sum(missing.values())
    return State(total, tuple(rows), missing, store.count())
