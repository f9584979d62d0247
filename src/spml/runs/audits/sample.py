"""Draw random samples to label in full, from those that runs have held-out scores of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...audit.folder import data_settings, read_observed
from ...audit.sampling import Forecast, draw_sample, forecast_audit
from ...audit.sheets import SheetFiles, write_sheet
from ...common.errors import InputError
from ...common.phrases import counted
from ...config import DataConfig
from ...decisions import Priors, fit_calibration, priors_from_shares
from ..inputs import with_names
from ..judge.common_classes import common_classes
from ..run import Run
from ..settle.resolve import check_mean_labels
from .common_scores import CommonScores, read_common_scores


class AuditSample(NamedTuple):
    """Random samples to label in full.

    Attributes:
        ids: Names of the samples, in random order.
        known: Names of the known labels of each.
        classes: Names of all classes.
        available: Number of samples that they were drawn from.
        seed: Seed of the draw.
        mean_labels: Mean labels per sample K that the forecast stands on; None if K is not known.
        forecast: What the labels are expected to tell; None if K is not known.
        runs: Folders of the runs.
        data: Settings of the data that the samples are part of; None if they are not recorded.
    """

    ids: tuple[str, ...]
    known: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]
    available: int
    seed: int
    mean_labels: float | None
    forecast: Forecast | None
    runs: tuple[str, ...]
    data: dict[str, Any] | None

    def write(self, sheet: Path) -> SheetFiles:
        """Write the table to fill in, and the files that belong to it.

        Raises:
            InputError: The name of a class or sample can't be written.
            SpmlError: A file can't be written.
        """
        about = {
            "runs": list(self.runs),
            "data": self.data,
            "rows": len(self.ids),
            "available": self.available,
            "seed": self.seed,
            "mean_labels": self.mean_labels,
            "forecast": None if self.forecast is None else self.forecast._asdict(),
        }
        return write_sheet(sheet, self.ids, self.known, self.classes, about)


def sample_for_audit(
    runs: Mapping[str, Run],
    data: DataConfig | None = None,
    *,
    rows: int = 100,
    seed: int = 0,
    mean_labels: float | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> AuditSample:
    """Draw samples to label in full, and compute what their labels are expected to tell.

    They are drawn from the samples of which all runs have held-out scores, so that the labels can also say
    how good scores and thresholds are. All are equally likely: samples that a model is unsure of have other
    numbers of labels, and K would be off by 10 %.

    Args:
        runs: Runs by name, with the same classes; at least one.
        data: Settings of the data whose samples, with their labels, to draw from; None = all held-out ones,
            with the labels that the first run was given.
        rows: Number of samples to draw.
        seed: Seed of the draw.
        mean_labels: Mean labels per sample K; None = as the first run knows it.
        report: Called with a line before slow work.

    Raises:
        InputError: A run has no held-out scores; the runs or the data do not suit; there are too few samples;
            or all their labels are known.
    """
    first = next(iter(runs.values()))
    check_mean_labels(mean_labels, len(first.classes))
    common = read_common_scores(runs)
    if data is not None:
        data = with_names(data, first.names)
        common = _named_by(data, common, str(first.folder))
    if (common.labels != 0).all():
        raise InputError(
            f"{data.path if data else first.folder}: all labels of all {len(common.ids):,} samples are known "
            "already, so there is nothing to label."
        )
    chosen = draw_sample(len(common.ids), rows, seed)
    priors = _priors(first, common, mean_labels)
    forecast = None
    if priors is not None:
        report(f"simulating what {rows:,} fully labelled samples tell")
        forecast = _forecast(common, priors, rows, seed)
    drawn = common.take(chosen)
    settings = data if data is not None else None if first.config is None else first.config.data
    return AuditSample(
        ids=drawn.ids,
        known=tuple(
            tuple(common.classes[column] for column in np.flatnonzero(row == 1)) for row in drawn.labels
        ),
        classes=common.classes,
        available=len(common.ids),
        seed=seed,
        mean_labels=None if priors is None else priors.mean_labels,
        forecast=forecast,
        runs=tuple(str(run.folder) for run in runs.values()),
        data=None if settings is None else data_settings(settings),
    )


def _priors(run: Run, common: CommonScores, mean_labels: float | None) -> Priors | None:
    """Class priors with a stated K, or else those of the run; None if it does not know K."""
    if mean_labels is not None:
        return priors_from_shares((common.labels == 1).sum(0), mean_labels)
    policy = run.thresholds
    return policy.priors if policy is not None and policy.mean_labels.known else None


def _named_by(data: DataConfig, common: CommonScores, run: str) -> CommonScores:
    """Samples that data names, with its labels."""
    records = read_observed(data)
    columns = common_classes(data.path, records.classes, run, common.classes, "stop").positions
    row_of = {name: row for row, name in enumerate(common.ids)}
    in_data = np.asarray([row for row, name in enumerate(records.ids) if name in row_of], np.int64)
    if not len(in_data):
        example = f"{common.ids[0]!r}, where this data has {records.ids[0]!r}"
        raise InputError(
            f"{data.path}: has none of the {counted(len(common.ids), 'sample')} that {run} kept held-out "
            f"scores of (such as {example}). Name the data that the run was trained on, or leave it out."
        )
    taken = common.take(np.asarray([row_of[records.ids[row]] for row in in_data.tolist()]))
    labels: npt.NDArray[np.int8] = np.zeros_like(taken.labels)
    labels[:, columns] = records.labels.take(in_data).to_ternary()
    return taken._replace(labels=labels)


def _forecast(common: CommonScores, priors: Priors, rows: int, seed: int) -> Forecast:
    """Forecast with the mean of the probabilities of all runs, each calibrated on its own scores."""
    models = list(common.scores.values())
    calibrated = [fit_calibration(scores, common.labels, priors)(scores) for scores in models]
    return forecast_audit(models, common.labels, np.mean(calibrated, axis=0), rows, seed=seed)
