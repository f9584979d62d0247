"""Classes that labelled data and runs have in common, and what is left out where the data has others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError, nearest
from ...common.phrases import counted, first_few
from ...labels import ObservedLabels

UnknownClasses = Literal["stop", "leave_out"]
"""What to do about classes of the data that the runs do not know."""


class CommonClasses(NamedTuple):
    """Classes of the data that the runs know.

    Attributes:
        columns: Their columns in the data, int64, ascending.
        positions: Their columns in the scores of the runs, int64.
        unknown: Names of the other classes of the data.
    """

    columns: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    unknown: tuple[str, ...]

    def reduce(self, labels: ObservedLabels, rows: npt.NDArray[np.int64] | None = None) -> ObservedLabels:
        """Labels of some rows (None = all) over the common classes, in the order of `columns`."""
        if not self.unknown:
            return labels
        chosen = labels if rows is None else labels.take(rows)
        return chosen.take_classes(self.columns)


class LeftOut(NamedTuple):
    """What an evaluation over common classes leaves out.

    Attributes:
        classes: Classes of the data that the runs do not know.
        labels: Number of positive labels of these classes.
        samples: Number of samples that are left out.
        samples_without_label: Number of samples that stay, although all their positive labels are left out.
    """

    classes: tuple[str, ...] = ()
    labels: int = 0
    samples: int = 0
    samples_without_label: int = 0

    def describe(self) -> list[str]:
        """Remarks for the user, one line each."""
        if not self.classes:
            return []
        lines = [
            f"Not known to the model, and left out: {counted(len(self.classes), 'class', 'classes')} with "
            f"{counted(self.labels, 'label')} ({first_few(list(self.classes), 10)})."
        ]
        if self.samples:
            lines.append(
                f"{counted(self.samples, 'sample')} left out: only labels of these classes are known of them."
            )
        if self.samples_without_label:
            lines.append(
                f"{counted(self.samples_without_label, 'sample')} with labels of these classes only: kept "
                "as samples that have none of the others."
            )
        return lines


def common_classes(
    path: str, data: Sequence[str], run: str, known: Sequence[str], unknown_classes: UnknownClasses
) -> CommonClasses:
    """Find the classes of data that a run knows.

    Args:
        path: Path of the data.
        data: Classes of the data.
        run: Name of the run.
        known: Classes of the run.
        unknown_classes: `stop` refuses data with a class that the run does not know, `leave_out` leaves such
            classes out.

    Raises:
        InputError: The run does not know a class and `unknown_classes` is `stop`; or it knows none.
    """
    position = {name: column for column, name in enumerate(known)}
    unknown = tuple(name for name in data if name not in position)
    others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
    if unknown and unknown_classes == "stop":
        raise InputError(
            f"{path}: has the class {unknown[0]!r}{others}, which the model in {run} does not know. "
            f"{nearest(unknown[0], known)} To evaluate over the classes that both have, pass "
            "--unknown_classes leave_out."
        )
    columns = [column for column, name in enumerate(data) if name in position]
    if not columns:
        raise InputError(
            f"{path}: has none of the classes that the model in {run} knows, so nothing can be measured. "
            f"Its first class is {unknown[0]!r}. {nearest(unknown[0], known)}"
        )
    positions = [position[data[column]] for column in columns]
    return CommonClasses(np.asarray(columns, np.int64), np.asarray(positions, np.int64), unknown)


def left_out(
    common: CommonClasses, labels: ObservedLabels, *, drop: bool
) -> tuple[LeftOut, npt.NDArray[np.int64]]:
    """Count what is left out of labels, and say which samples stay.

    Args:
        common: Common classes.
        labels: Labels of all samples over all classes of the data.
        drop: Leave out samples that had a positive label and keep none. A sample without any positive label
            stays.

    Returns:
        What is left out, and the rows of the samples that stay, int64, ascending.
    """
    before = labels.positives_per_sample()
    after = common.reduce(labels).positives_per_sample()
    lost = (before > 0) & (after == 0)
    count = int(lost.sum())
    report = LeftOut(
        common.unknown, int(before.sum() - after.sum()), count if drop else 0, 0 if drop else count
    )
    return report, np.flatnonzero(~lost) if drop else np.arange(len(labels))


def columns_of(names: Sequence[str], classes: Sequence[str]) -> list[int]:
    """Positions of names among classes."""
    position = {name: column for column, name in enumerate(classes)}
    return [position[name] for name in names]
