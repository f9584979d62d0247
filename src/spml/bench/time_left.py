"""Estimate how long the missing runs of a comparison will take, from the seconds of the finished ones."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, median

from ..config import AUTO, LBFGS
from ..models import CLOSED_FORM
from .spec import Candidate, DataSet, Spec, merged
from .state import State

Means = Mapping[str, Mapping[str, float]]
"""Mean seconds of a run by data set and candidate, where at least one is done."""


def time_left(spec: Spec, state: State, workers: int) -> float | None:
    """Estimate the seconds until all missing runs are made.

    A missing run is expected to take the mean of the finished ones of its candidate on its data set. If there
    are none, the candidate's runs on other data sets count, scaled by how much longer other candidates take
    on this one. If the candidate has not finished a run anywhere, those that are fitted in the same way
    (trained, in closed form, by L-BFGS, or as an ensemble of heads) stand for it. Failed runs do not count,
    because they often end early.

    Args:
        spec: The specification.
        state: Its state.
        workers: Number of workers that share the missing runs. As one worker makes a whole series, the result
            is at least the time of the longest series.

    Returns:
        Seconds, at least 0; None while there are missing runs about which nothing is known yet.
    """
    means = _means(state)
    ratios = {
        (data, other): _ratio(here, there) for data, here in means.items() for other, there in means.items()
    }
    fits = {(data.name, one.name): _fit(spec, data, one) for data in spec.data for one in spec.candidates}

    def known(data: str, candidate: str) -> float | None:
        if candidate in means.get(data, {}):
            return means[data][candidate]
        elsewhere = [
            there[candidate] * ratios.get((data, other), 1.0)
            for other, there in means.items()
            if candidate in there
        ]
        return fmean(elsewhere) if elsewhere else None

    def expected(data: str, candidate: str) -> float | None:
        seconds = known(data, candidate)
        if seconds is not None:
            return seconds
        alike = [one.name for one in spec.candidates if fits[data, one.name] == fits[data, candidate]]
        others = [value for name in alike if (value := known(data, name)) is not None]
        return fmean(others) if others else None

    each = {cell: expected(*cell) for cell in {(key.data, key.candidate) for key in state.missing}}
    series = []
    for key, runs in state.missing.items():
        seconds = each[key.data, key.candidate]
        if seconds is None:
            return None
        series.append(runs * seconds)
    return max(sum(series) / workers, max(series, default=0.0))


def in_words(seconds: float) -> str:
    """A duration for the screen, such as "about 12 min"."""
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} s"
    if seconds < 90 * 60:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.1f} h"


def _means(state: State) -> Means:
    seconds: dict[str, dict[str, list[float]]] = {}
    for row in state.rows:
        if row.status == "done":
            by_candidate = seconds.setdefault(row.series.data, {})
            by_candidate.setdefault(row.series.candidate, []).append(row.seconds)
    return {
        data: {candidate: fmean(values) for candidate, values in by_candidate.items()}
        for data, by_candidate in seconds.items()
    }


def _ratio(here: Mapping[str, float], there: Mapping[str, float]) -> float:
    """How much longer candidates take on one data set than on another, by those that are done on both."""
    ratios = [here[name] / there[name] for name in here if there.get(name)]
    return median(ratios) if ratios else 1.0


def _fit(spec: Spec, data: DataSet, candidate: Candidate) -> str:
    """How the head of a candidate is fitted, which decides how long it takes more than anything else."""
    settings = merged(spec.train, data.train, candidate.settings)
    if settings.get("method") == AUTO:
        return AUTO
    if settings.get("model", {}).get("head") in CLOSED_FORM:
        return "closed form"
    return LBFGS if settings.get("optim", {}).get("name") == LBFGS else "trained"
