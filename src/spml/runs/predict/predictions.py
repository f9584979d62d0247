"""Predictions of a model: scores, labels, probabilities."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ...common.errors import require_packages
from ...common.notebook import SHOWN, SHOWN_SIDE, Listing, photo_address
from ...common.phrases import counted
from ...data import Inputs
from ...data.images.image_files import small_photo

PROBABILITY = "probability of "
"""Start of the name of a column of probabilities of one class; the rest is its name."""

_SCORE = "score of "
_OTHERS = ("file", "labels", "scores", "probabilities", "where")


def score_columns(classes: Iterable[str]) -> list[str]:
    """Names of the columns of scores: those of the classes, or `score of labels` where that is another's.

    Upper and lower case count as the same, as for many programs. A name that begins with `score of ` or
    `probability of ` gets the prefix, too, so that `class_of_column` can remove it.
    """
    return [
        _SCORE + name if name.casefold() in _OTHERS or name.startswith((_SCORE, PROBABILITY)) else name
        for name in classes
    ]


def class_of_column(column: str) -> str:
    """Class of a column of scores that `score_columns` has named."""
    return column.removeprefix(_SCORE)


@dataclass(frozen=True)
class Predictions:
    """Predictions of a model.

    Attributes:
        ids: Names of the samples.
        classes: Class names.
        scores: float32 (N, C), sigmoid of the logits, or the probabilities of a model that gives
            log-probabilities. They rank, but are not calibrated. Where there are too many for the memory
            (more than 2^28, 1 GiB), a sparse array of SciPy (CSR) of the same shape, which holds the scores
            of the predicted labels only.
        labels: Names of the predicted classes of each sample, the highest score first.
        notes: Remarks on what was left out, one line each.
        probabilities: Calibrated probabilities, in the form of `scores`; None where K is not known.
        where: Window of the image that speaks most for each label, in the order of `labels`: left, top, width
            and height as shares of the image. None where that was not asked for.
        first: The first samples, which a notebook shows if they are images; None where they are not at hand.
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    scores: Any
    labels: list[list[str]]
    notes: tuple[str, ...] = ()
    probabilities: Any = None
    where: list[list[list[float]]] | None = None
    first: Inputs | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return self._listing().text()

    def _repr_html_(self) -> str:
        listing, addresses = self._listing(), []
        if self.first is not None and self.first.kind == "image":
            photos = [small_photo(self.first, row, SHOWN_SIDE) for row in range(len(listing.rows))]
            addresses = ["" if photo is None else photo_address(photo) for photo in photos]
        return listing.html(addresses)

    def _listing(self) -> Listing:
        arrays = [array[:SHOWN] for array in self.arrays]
        shown = Predictions(self.ids[:SHOWN], self.classes, arrays[0], self.labels[:SHOWN], (), *arrays[1:])
        what, numbers = ("scores", "probabilities")[len(arrays) - 1], shown.of_labels()[-1]
        rows = [
            (name, ", ".join(f"{label} {value:.2f}" for label, value in zip(*each, strict=True)) or "none")
            for name, *each in zip(shown.ids, shown.labels, numbers, strict=True)
        ]
        samples, classes = counted(len(self.ids), "sample"), counted(len(self.classes), "class", "classes")
        title = f"Predictions of {samples}, {classes}, {what}"
        return Listing(title, ("sample", "labels"), rows, len(self.ids) - len(rows))

    @property
    def sparse(self) -> bool:
        """Whether there are scores of the predicted labels only."""
        return not isinstance(self.scores, np.ndarray)

    @cached_property
    def columns(self) -> dict[str, int]:
        """Column of each class."""
        return {name: column for column, name in enumerate(self.classes)}

    @property
    def arrays(self) -> list[Any]:
        """Scores and, where there are some, probabilities."""
        return [self.scores] if self.probabilities is None else [self.scores, self.probabilities]

    def of_labels(self) -> list[list[list[float]]]:
        """Scores of the predicted labels of each sample, in their order, and in the same way probabilities
        where there are some."""
        lengths = np.fromiter(map(len, self.labels), np.int64, len(self.labels))
        rows = np.repeat(np.arange(len(lengths)), lengths)
        columns = np.asarray([self.columns[name] for names in self.labels for name in names], np.int64)
        ends = [0, *np.cumsum(lengths).tolist()]
        values = [array[rows, columns].tolist() for array in self.arrays]
        return [[of[a:b] for a, b in pairwise(ends)] for of in values]

    def to_frame(self) -> Any:
        """A DataFrame of pandas with a row per sample: its labels, where they are, if that was asked for, the
        scores by class, the probabilities.

        Where there are scores of the predicted labels only, `scores` and `probabilities` are one column each,
        with a list per sample.

        Columns are named as in the CSV files of `spml predict`, and rows by the samples.

        Raises:
            InputError: pandas is not installed.
        """
        require_packages("tables", "pandas")
        import pandas

        index = pandas.Index(list(self.ids), name="file")
        if self.sparse:
            lists: dict[str, Any] = dict(zip(("scores", "probabilities"), self.of_labels(), strict=False))
            lists |= {} if self.where is None else {"where": self.where}
            return pandas.DataFrame({"labels": self.labels, **lists}, index=index)
        frame = pandas.DataFrame(self.scores, index=index, columns=score_columns(self.classes))
        if self.probabilities is not None:
            columns = [PROBABILITY + name for name in self.classes]
            frame = frame.join(pandas.DataFrame(self.probabilities, index=index, columns=columns))
        frame.insert(0, "labels", self.labels)
        if self.where is not None:
            frame.insert(1, "where", self.where)
        return frame


def join_predictions(parts: Sequence[Predictions], notes: tuple[str, ...] = ()) -> Predictions:
    """Predictions of several batches of one model as one."""

    def stack(arrays: list[Any]) -> Any:
        if not parts[0].sparse:
            return np.concatenate(arrays)
        from scipy.sparse import vstack

        return vstack(arrays, format="csr")

    return Predictions(
        tuple(name for part in parts for name in part.ids),
        parts[0].classes,
        stack([part.scores for part in parts]),
        [labels for part in parts for labels in part.labels],
        notes,
        None if parts[0].probabilities is None else stack([part.probabilities for part in parts]),
        where=None if parts[0].where is None else [where for part in parts for where in part.where or ()],
    )
