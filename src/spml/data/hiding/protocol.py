"""The benchmarks' protocol, bit for bit: which images of the official training set are held out, and which
one positive label of each image is observed.

Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021; later papers kept it. Published
results are comparable only with these draws, so NumPy's old generator is used, whose stream is frozen.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...labels import ObservedLabels

SEED = 1200
VAL_SHARE = 0.2


def protocol_split(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split the official training set: round(0.2 * count) of its rows are held out for validation.

    The held-out rows are the last of RandomState(1200).permutation(count). The protocol then draws a share of
    1 of either part with RandomState(999) and sorts it, which changes nothing and is not repeated here.

    Args:
        count: rows of the official training set, at least 3.

    Returns:
        Training and validation rows, int64, each ascending.

    Raises:
        InputError: too few rows to leave some on both sides.
    """
    held = round(VAL_SHARE * count)
    if not 0 < held < count:
        raise InputError(
            f"the official training set holds {count} images, which are too few to hold out {VAL_SHARE:.0%}. "
            "Check that the copy is complete."
        )
    order = np.random.RandomState(SEED).permutation(count).astype(np.int64)
    return np.sort(order[:-held]), np.sort(order[-held:])


def protocol_observed(labels: ObservedLabels) -> npt.NDArray[np.int64]:
    """The one positive label of each sample that the protocol observes; everything else is unknown.

    With one RandomState(1200), sample by sample: the positive columns are shuffled and the first is taken;
    then the negative columns are shuffled too, although none is taken, which moves the generator on.

    Args:
        labels: full labels of a whole official part (training or test), in the protocol's order of rows.

    Returns:
        Columns, int64 of shape (N,); -1 for a sample without a positive.
    """
    generator = np.random.RandomState(SEED)
    columns = np.nonzero(labels.to_multi_hot())[1]
    observed = np.full(len(labels), -1, np.int64)
    start = 0
    for row, count in enumerate(labels.positives_per_sample().tolist()):
        positives = columns[start : start + count]
        start += count
        generator.shuffle(positives)
        if count:
            observed[row] = positives[0]
        generator.shuffle(np.arange(labels.num_classes - count))
    return observed


def observed_labels(columns: npt.NDArray[np.int64], num_classes: int) -> ObservedLabels:
    """Observed labels with one known positive per sample, or none where the column is -1.

    Args:
        columns: int64 of shape (N,), in [-1, num_classes).
        num_classes: C.
    """
    known = columns >= 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(known)]).astype(np.int64)
    kept = columns[known]
    return ObservedLabels(indptr, kept, np.ones(len(kept), np.int8), num_classes)
