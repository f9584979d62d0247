"""State of a comparison: which of its runs are finished, failed and missing, and the time that these take."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

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
    """Look up every run of a specification; for the arguments, see `Tracker`."""
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
    """

    def __init__(self, spec: Spec, store: Store, root: Path, *, any_code: bool = False) -> None:
        self._spec, self._store, self._root = spec, store, root
        self._code = None if any_code else CODE_VERSION
        self._series = {series.key: series for series in all_series(spec)}
        # By series: finished trials by number, the runs in the store (of any specification) at the last look,
        # and the points of trials by number, as far as they were needed.
        self._rows: dict[SeriesKey, dict[int, Row]] = {key: {} for key in self._series}
        self._stored: dict[SeriesKey, set[str]] = {}
        self._planned: dict[SeriesKey, dict[int, str]] = {key: {} for key in self._series}
        self._count = 0
        self.state = self._state()
        self.update()

    def update(self) -> State:
        """Look up the runs that the store has gained since the last update."""
        count = self._store.count()
        if count != self._count:
            stored = self._store.points(self._code)
            for key, series in self._series.items():
                # A point is that of one series, so a series without new points has no new runs.
                if stored.get(key) != self._stored.get(key):
                    self._look_up(series, stored.get(key, set()))
            self._stored, self._count = stored, count
            self.state = self._state()
        return self.state

    def _missing(self, series: Series) -> list[int]:
        """Numbers of the trials that are not finished."""
        rows = self._rows[series.key]
        return [number for number in range(self._spec.trials_of(series.candidate)) if number not in rows]

    def _state(self) -> State:
        missing = {key: len(self._missing(series)) for key, series in self._series.items()}
        rows = [by_number[number] for by_number in self._rows.values() for number in sorted(by_number)]
        return State(
            len(rows) + sum(missing.values()),
            tuple(rows),
            {key: count for key, count in missing.items() if count},
        )

    def _look_up(self, series: Series, stored: set[str]) -> None:
        """Find the missing trials of a series among its runs in the store."""
        learns, rows = self._spec.learns(series.candidate), self._rows[series.key]
        planned = self._planned[series.key]
        while missing := self._missing(series):
            # The settings of a trial that learns are known only once all before it are finished.
            wanted = missing[:1] if learns else missing
            for number in wanted:
                if number not in planned:
                    before = [rows[earlier] for earlier in range(number) if earlier in rows]
                    planned[number] = plan_trial(self._spec, series, number, before, self._root).point
            found = self._store.find([planned[number] for number in wanted if planned[number] in stored])
            for number in wanted:
                # The newest run of the versions of the code that count.
                for row in found.get(planned[number], []):
                    if self._code in (None, row.versions.get("code")):
                        rows[number] = replace(row, trial=number)
                        break
            if not learns or not found:
                break


def time_left(state: State, workers: int) -> float | None:
    """Estimate the seconds until all missing runs are made.

    A missing run is expected to take the mean of the finished ones of its candidate on its data set; if there
    are none, that of its candidate on other data sets, else that of all candidates on its data set. Failed
    runs do not count, because they often end early.

    Args:
        state: State of the comparison.
        workers: Number of workers that share the missing runs. As one worker makes a whole series, the result
            is at least the time of the longest series.

    Returns:
        Seconds, at least 0; None while there are missing runs about which nothing is known yet.
    """
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in state.rows:
        if row.status == "done":
            data, _, candidate, _ = row.series
            for key in ((data, candidate), ("", candidate), (data, "")):
                seconds[key].append(row.seconds)
    series = []
    for (data, _, candidate, _), runs in state.missing.items():
        made = seconds[data, candidate] or seconds["", candidate] or seconds[data, ""]
        if not made:
            return None
        series.append(runs * fmean(made))
    return max(sum(series) / workers, max(series, default=0.0))


def describe_left(state: State, workers: int) -> str:
    """The time left for the screen, such as "about 12 min left"; empty if there is none, or it is unknown."""
    seconds = time_left(state, workers)
    return f"{in_words(seconds)} left" if seconds else ""


def in_words(seconds: float) -> str:
    """A duration for the screen, such as "about 12 min"."""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"
