"""Classes that labelled data and runs have in common, and what is left out where the data has others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError, nearest
from ...common.label_checks import rows_of
from ...common.phrases import counted, first_few
from ...labels import ObservedLabels

UnknownClasses = Literal["stop", "leave_out"]
"""Treatment of classes of the data that the runs do not know."""


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


class LeftOut(NamedTuple):
    """Classes, labels and samples that an evaluation over common classes leaves out.

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
    positions = rows_of(known, data)
    columns = np.flatnonzero(positions >= 0)
    unknown = tuple(name for name, position in zip(data, positions, strict=True) if position < 0)
    others = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
    if unknown and unknown_classes == "stop":
        raise InputError(
            f"{path}: has the class {unknown[0]!r}{others}, which the model in {run} does not know. "
            f"{nearest(unknown[0], known)} To evaluate over the classes that both have, pass "
            "unknown_classes=leave_out."
        )
    if not len(columns):
        raise InputError(
            f"{path}: has none of the classes that the model in {run} knows, so nothing can be measured. "
            f"Its first class is {unknown[0]!r}. {nearest(unknown[0], known)}"
        )
    return CommonClasses(columns, positions[columns], unknown)


def leave_out(
    common: CommonClasses, labels: ObservedLabels, *, drop: bool
) -> tuple[ObservedLabels, npt.NDArray[np.int64], LeftOut]:
    """Reduce labels of all samples over all classes of the data to the common classes.

    Args:
        common: Common classes.
        labels: Labels.
        drop: Leave out samples that had a positive label and keep none. A sample without any positive label
            stays.

    Returns:
        Labels of the samples that stay, in the order of `columns`; the rows of these samples, int64,
        ascending; and what is left out.
    """
    if not common.unknown:
        return labels, np.arange(len(labels)), LeftOut()
    reduced = labels.take_classes(common.columns)
    before, after = labels.positives_per_sample(), reduced.positives_per_sample()
    lost = (before > 0) & (after == 0)
    count, number = int(lost.sum()), int(before.sum() - after.sum())
    if not drop:
        return reduced, np.arange(len(labels)), LeftOut(common.unknown, number, 0, count)
    rows = np.flatnonzero(~lost)
    return reduced.take(rows), rows, LeftOut(common.unknown, number, count)
