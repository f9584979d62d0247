"""Labels that a decision predicts, found without sorting the scores of all classes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .decide import Decision

_PART = 1024  # classes of which the maximum is taken first

IntArray = npt.NDArray[np.int64]


class Chooser:
    """Finds the labels of samples, as `Decision` does, and orders them.

    Args:
        decision: How scores become labels.
        classes: Number of classes C.
    """

    def __init__(self, decision: Decision, classes: int) -> None:
        self._decision = decision
        allowed = np.ones(classes, np.bool_)
        allowed[np.asarray(decision.never, np.int64)] = False
        self._allowed: IntArray | None = None if allowed.all() else np.flatnonzero(allowed)
        threshold = decision.threshold
        self._threshold = None if threshold is None else np.asarray(threshold)
        if self._threshold is not None and self._threshold.ndim and self._allowed is not None:
            self._threshold = self._threshold[self._allowed]

    def __call__(self, scores: npt.NDArray[np.float32]) -> tuple[IntArray, IntArray]:
        """Choose labels.

        Args:
            scores: Finite scores of shape (N, C).

        Returns:
            Sample and class of each predicted label, int64 (M,): sample by sample, the highest score first,
            of equal ones the first class.
        """
        if self._allowed is not None:
            if not len(self._allowed):
                return np.empty(0, np.int64), np.empty(0, np.int64)
            scores = scores[:, self._allowed]
        rows, columns = self._chosen(scores)
        if self._decision.top1_fallback:
            without = np.setdiff1d(np.arange(len(scores)), rows)
            rows = np.concatenate([rows, without])
            columns = np.concatenate([columns, scores[without].argmax(1)])
        order = np.lexsort((columns, -scores[rows, columns], rows))
        rows, columns = rows[order], columns[order]
        return rows, columns if self._allowed is None else self._allowed[columns]

    def _chosen(self, scores: npt.NDArray[np.float32]) -> tuple[IntArray, IntArray]:
        k = self._decision.top_k
        if k and k < scores.shape[1]:
            rows, columns = highest(scores, k)
            if self._threshold is None:
                return rows, columns
            cut = self._threshold.astype(scores.dtype)
            enough = scores[rows, columns] >= (cut[columns] if cut.ndim else cut)
            return rows[enough], columns[enough]
        if self._threshold is None:
            return np.repeat(np.arange(len(scores)), scores.shape[1]), np.tile(
                np.arange(scores.shape[1]), len(scores)
            )
        # In the type of the scores, so that a float32 score of 0.7 reaches 0.7.
        rows, columns = np.nonzero(scores >= self._threshold.astype(scores.dtype))
        return rows, columns


def highest(scores: npt.NDArray[np.float32], k: int) -> tuple[IntArray, IntArray]:
    """The k highest scores of each row, of equal ones the first: rows and columns (N x k,), row by row.

    The k-th highest maximum of parts of the columns is a bound that at least k scores reach and few exceed,
    so that few are sorted.

    Args:
        scores: Finite scores of shape (N, C).
        k: Number of scores, below C.
    """
    samples, classes = scores.shape
    parts = classes // _PART
    if parts > k:
        maxima = scores[:, : parts * _PART].reshape(samples, parts, _PART).max(2)
        bound = np.partition(maxima, -k, axis=1)[:, -k]
    else:
        bound = np.partition(scores, -k, axis=1)[:, -k]
    rows, columns = np.nonzero(scores >= bound[:, None])
    order = np.lexsort((columns, -scores[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    return rows[place < k], columns[place < k]
