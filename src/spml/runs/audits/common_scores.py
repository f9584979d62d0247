"""Held-out scores of the same samples by several runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ..compute.score_table import all_scores
from ..folder.held_out import read_held_out
from ..judge.common_classes import columns_of
from ..judge.evaluate import check_classes
from ..run import Run


class CommonScores(NamedTuple):
    """Samples of which all of some runs have held-out scores.

    Attributes:
        ids: Names of the N samples, in the order of the first run.
        classes: Names of the C classes, in the order of the first run.
        scores: Logits (N, C) of each run by name, float32.
        labels: Observed labels in {-1, 0, +1}, as the first run was given them, int8 (N, C).
    """

    ids: tuple[str, ...]
    classes: tuple[str, ...]
    scores: dict[str, npt.NDArray[np.float32]]
    labels: npt.NDArray[np.int8]

    def take(self, rows: npt.NDArray[np.int64]) -> CommonScores:
        """Some of the samples, in the order of `rows`."""
        return self._replace(
            ids=tuple(self.ids[row] for row in rows.tolist()),
            scores={name: of_run[rows] for name, of_run in self.scores.items()},
            labels=self.labels[rows],
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
    common = CommonScores(held_out.ids, run.classes, {first: scores}, held_out.labels.to_ternary())
    for name, other in others:
        held_out = read_held_out(other.folder, other.classes)
        position = {sample: row for row, sample in enumerate(held_out.ids)}
        rows = np.flatnonzero([sample in position for sample in common.ids])
        if not len(rows):
            raise InputError(
                f"{name}: no sample has held-out scores of both this run and {first}. Compare runs that were "
                "trained on the same data with the same split."
            )
        common = common.take(rows)
        columns = columns_of(common.classes, other.classes)
        scores = all_scores(held_out.scores, "the choice of samples")
        common.scores[name] = scores[[position[sample] for sample in common.ids]][:, columns]
    return common
