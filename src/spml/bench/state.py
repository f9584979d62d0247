"""State of a comparison: which of its runs are finished, failed and missing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from .plan import CODE_VERSION, Series, all_series, plan_trial
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

    Raises:
        SpmlError: The store can't be read.
    """
    return Tracker(spec, store, root, any_code=any_code).state


class Tracker:
    """Follows which runs of a specification are in a store, while workers add to it.

    Args:
        spec: The specification.
        store: Store of its runs; it may hold runs of other specifications, too.
        root: Folder that its paths start from.
        any_code: Whether to count runs that another version of the code made.

    Attributes:
        state: State at the last update.

    Raises:
        SpmlError: The store can't be read.
    """

    def __init__(self, spec: Spec, store: Store, root: Path, *, any_code: bool = False) -> None:
        self._spec, self._store, self._root = spec, store, root
        self._code = None if any_code else CODE_VERSION
        self._known = [_Known(series, spec.trials_of(series.candidate)) for series in all_series(spec)]
        self._stored = 0
        self.state = self._state()
        self.update()

    def update(self) -> State:
        """Look up the runs that the store has gained since the last update.

        Raises:
            SpmlError: The store can't be read.
        """
        stored = self._store.count()
        if stored != self._stored:
            points = self._store.points(self._code)
            for known in self._known:
                # A point is that of one series, so a series without new points has no new runs.
                now = points.get(known.series.key, set())
                if known.missing and now != known.points:
                    known.points = now
                    self._look_up(known)
            self._stored = stored
            self.state = self._state()
        return self.state

    def _state(self) -> State:
        return State(
            sum(known.trials for known in self._known),
            tuple(known.rows[number] for known in self._known for number in sorted(known.rows)),
            {known.series.key: len(known.missing) for known in self._known if known.missing},
        )

    def _look_up(self, known: _Known) -> None:
        """Find the missing trials of a series among its runs in the store."""
        learns = self._spec.learns(known.series.candidate)
        while known.missing:
            # The settings of a trial that learns are known only once all before it are finished.
            wanted = {number: self._point(known, number) for number in known.missing[: 1 if learns else None]}
            rows = self._store.find(sorted(known.points.intersection(wanted.values())))
            newest = {point: self._newest(found) for point, found in rows.items()}
            known.rows |= {
                number: replace(newest[point], trial=number)
                for number, point in wanted.items()
                if point in newest
            }
            if not learns or not newest:
                break

    def _point(self, known: _Known, number: int) -> str:
        if number not in known.planned:
            before = [known.rows[earlier] for earlier in range(number) if earlier in known.rows]
            trial = plan_trial(self._spec, known.series, number, before, self._root)
            known.planned[number] = trial.point
        return known.planned[number]

    def _newest(self, rows: list[Row]) -> Row:
        """The newest row of the versions of the code that count; `rows` begins with the newest."""
        return next(row for row in rows if self._code in (None, row.versions.get("code")))


@dataclass
class _Known:
    """What is known about a series.

    Attributes:
        series: The series.
        trials: Number of its trials.
        rows: Rows of finished trials by number.
        points: Points of its runs in the store, of any specification, at the last look.
        planned: Points of trials by number, as far as they were needed.
    """

    series: Series
    trials: int
    rows: dict[int, Row] = field(default_factory=dict)
    points: set[str] = field(default_factory=set)
    planned: dict[int, str] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """Numbers of the trials that are not finished."""
        return [number for number in range(self.trials) if number not in self.rows]
