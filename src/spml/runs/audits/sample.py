"""Draw random samples to label in full, from those that runs have held-out scores of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...audit.folder import data_settings, read_observed
from ...audit.sheets import SheetFiles, draw_sample, write_sheet
from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.phrases import counted
from ...common.safe import quote
from ...config import DataConfig
from ...data.groups import count_groups
from ..evaluate import check_classes
from ..folder.held_out import all_scores, read_held_out
from ..inputs import as_in_run
from ..run import Run


class CommonScores(NamedTuple):
    """Samples of which all of some runs have held-out scores.

    Attributes:
        ids: Names of the N samples, in the order of the first run.
        classes: Names of the C classes, in the order of the first run.
        scores: Logits (N, C) of each run by name, float32.
        labels: Observed labels in {-1, 0, +1}, as the first run was given them, int8 (N, C).
        groups: Group of each sample, as the first run was given it, int64 (N,); None without groups.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    scores: dict[str, npt.NDArray[np.float32]]
    labels: npt.NDArray[np.int8]
    groups: npt.NDArray[np.int64] | None = None

    def take(self, rows: npt.NDArray[np.int64]) -> CommonScores:
        """Some of the samples, in the order of `rows`."""
        return self._replace(
            ids=tuple(self.ids[row] for row in rows.tolist()),
            scores={name: of_run[rows] for name, of_run in self.scores.items()},
            labels=self.labels[rows],
            groups=None if self.groups is None else self.groups[rows],
        )


def read_common_scores(runs: Mapping[str, Run]) -> CommonScores:
    """Read the held-out scores of runs, as far as they are of the same samples.

    Args:
        runs: Runs by name; at least one.

    Raises:
        InputError: A run has no held-out scores, the runs have different classes, or no sample in common.
    """
    check_classes(runs)
    (first, run), *others = runs.items()
    held_out = read_held_out(run.folder, run.classes)
    scores = all_scores(held_out.scores, "the choice of samples")
    common = CommonScores(
        held_out.ids, run.classes, {first: scores}, held_out.labels.to_ternary(), held_out.groups
    )
    for name, other in others:
        held_out = read_held_out(other.folder, other.classes)
        of_other = rows_of(held_out.ids, common.ids)
        rows = np.flatnonzero(of_other >= 0)
        if not len(rows):
            raise InputError(
                f"{name}: no sample has held-out scores of both this run and {first}. Compare runs that were "
                "trained on the same data with the same split."
            )
        common = common.take(rows)
        columns = rows_of(other.classes, common.classes)
        scores = all_scores(held_out.scores, "the choice of samples")
        common.scores[name] = scores[of_other[rows]][:, columns]
    return common


def scores_of_sample(
    runs: Mapping[str, Run], ids: Sequence[str], classes: Sequence[str]
) -> npt.NDArray[np.float32]:
    """Held-out scores of samples that were drawn for some runs, for people who label them.

    Args:
        runs: Runs by name; at least one.
        ids: Names of the m samples.
        classes: Names of the C classes.

    Returns:
        Mean logits over the runs, float32 (m, C).

    Raises:
        InputError: A run has other classes, or no held-out scores of a sample.
    """
    common, name = read_common_scores(runs), next(iter(runs))
    if other := set(classes).symmetric_difference(common.classes):
        raise InputError(
            f"{name}: has other classes than the sample, such as {quote(min(other))}. The run was trained "
            "again, or the list of classes was changed. Draw the sample again with spml audit sample."
        )
    rows = rows_of(common.ids, ids)
    if (rows < 0).any():
        lost = ids[int(np.argmin(rows))]
        raise InputError(
            f"{name}: has no held-out scores of {quote(lost)}, so the run is not the one that the sample was "
            "drawn for. Draw the sample again with spml audit sample."
        )
    columns = rows_of(common.classes, classes)
    mean = np.mean([of_run[rows][:, columns] for of_run in common.scores.values()], axis=0)
    return np.asarray(mean, np.float32)


class AuditSample(NamedTuple):
    """Random samples to label in full.

    Attributes:
        ids: Names of the samples, in random order.
        known: Names of the known labels of each.
        classes: Names of all classes.
        available: Number of samples that they were drawn from.
        seed: Seed of the draw.
        runs: Folders of the runs.
        data: Settings of the data that the samples are part of; None if they are not recorded.
        groups: Number of groups that the samples are of; 0 without groups.
    """

    ids: tuple[str, ...]
    known: tuple[tuple[str, ...], ...]
    classes: tuple[str, ...]
    available: int
    seed: int
    runs: tuple[str, ...]
    data: dict[str, Any] | None
    groups: int = 0

    def write(self, sheet: Path) -> SheetFiles:
        """Write the table to fill in, and the files that belong to it.

        Raises:
            InputError: The name of a class or sample can't be written.
            SpmlError: A file can't be written.
        """
        about = {
            "runs": [str(Path(run).absolute()) for run in self.runs],
            "data": self.data,
            "rows": len(self.ids),
            "available": self.available,
            "seed": self.seed,
        }
        return write_sheet(sheet, self.ids, self.known, self.classes, about)


def sample_for_audit(
    runs: Mapping[str, Run],
    data: DataConfig | None = None,
    *,
    rows: int = 100,
    seed: int = 0,
) -> AuditSample:
    """Draw samples to label in full.

    They are drawn from the samples of which all runs have held-out scores, so that the labels can also say
    how good scores and thresholds are. All are equally likely: samples that a model is unsure of have other
    numbers of labels, and K would be off by 10 %. Groups change nothing: whole groups would tell less
    about K than as many samples of more groups.

    Args:
        runs: Runs by name, with the same classes; at least one.
        data: Settings of the data whose samples, with their labels, to draw from; None = all held-out ones,
            with the labels that the first run was given.
        rows: Number of samples to draw.
        seed: Seed of the draw.

    Raises:
        InputError: A run has no held-out scores; the runs or the data do not suit; there are too few samples;
            or all their labels are known.
    """
    first = next(iter(runs.values()))
    common = read_common_scores(runs)
    if data is not None:
        data = as_in_run(data, first.names, first.text_columns)
        common = _named_by(data, common, first)
    if (common.labels != 0).all():
        raise InputError(
            f"{data.path if data else first.folder}: all labels of all {len(common.ids):,} samples are known "
            "already, so there is nothing to label."
        )
    chosen = draw_sample(len(common.ids), rows, seed)
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
        runs=tuple(str(run.folder) for run in runs.values()),
        data=None if settings is None else data_settings(settings),
        groups=count_groups(drawn.groups),
    )


def _named_by(data: DataConfig, common: CommonScores, run: Run) -> CommonScores:
    """Samples that data names, with its labels."""
    records = read_observed(data)
    columns = run.columns(data.path, records.classes)
    rows = rows_of(common.ids, records.ids)
    in_data = np.flatnonzero(rows >= 0)
    if not len(in_data):
        example = f"{common.ids[0]!r}, where this data has {records.ids[0]!r}"
        raise InputError(
            f"{data.path}: has none of the {counted(len(common.ids), 'sample')} that {run.folder} kept "
            f"held-out scores of (such as {example}). Name the data that the run was trained on, or leave it "
            "out."
        )
    taken = common.take(rows[in_data])
    labels: npt.NDArray[np.int8] = np.zeros_like(taken.labels)
    labels[:, columns] = records.labels.take(in_data).to_ternary()
    return taken._replace(labels=labels)
