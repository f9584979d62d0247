"""State of a comparison: which of its runs are finished, failed and missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from .plan import CODE_VERSION, all_series, plan_trial
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
    """

    total: int
    rows: tuple[Row, ...]
    missing: dict[SeriesKey, int]

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
        return text


def read_state(spec: Spec, store: Store, root: Path, *, any_code: bool = False) -> State:
    """Look up every run of a specification.

    Args:
        spec: The specification.
        store: Store of its runs; it may hold runs of other specifications, too.
        root: Folder that its paths start from.
        any_code: Whether to count runs that another version of the code made.
    """
    code = None if any_code else CODE_VERSION
    stored = store.points(code)
    rows: list[Row] = []
    missing: dict[SeriesKey, int] = {}
    for series in all_series(spec):
        of_series = stored.get(series.key, set())
        trials, learns = range(spec.trials_of(series.candidate)), spec.learns(series.candidate)
        made: dict[int, Row] = {}
        # The settings of a trial that learns are known only once all before it are finished.
        for numbers in ([[number] for number in trials] if learns else [trials]) if of_series else ():
            before = [made[number] for number in sorted(made)]
            points = {number: plan_trial(spec, series, number, before, root).point for number in numbers}
            found = store.find([point for point in points.values() if point in of_series])
            for number, point in points.items():
                # The newest run of the versions of the code that count.
                for row in found.get(point, []):
                    if code in (None, row.versions.get("code")):
                        made[number] = replace(row, trial=number)
                        break
            if learns and not found:
                break
        rows += [made[number] for number in sorted(made)]
        if len(made) < len(trials):
            missing[series.key] = len(trials) - len(made)
    return State(len(rows) + sum(missing.values()), tuple(rows), missing)
