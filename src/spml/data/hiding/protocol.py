"""The published protocol of the benchmarks, reproduced to the bit: which images of the official training set
are held out, and which positive label of each image is observed.

Cole et al., "Multi-Label Learning from Single Positive Labels", CVPR 2021; later papers kept it. Results are
comparable with published ones only with these draws, so they use NumPy's legacy generator, whose stream is
frozen.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...common.errors import InputError
from ...labels import ObservedLabels

SEED = 1200
VAL_SHARE = 0.2


def protocol_split(count: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Split the official training set: round(0.2 * count) of its rows are held out for validation.

    The held-out rows are the last of RandomState(1200).permutation(count). The protocol then draws a share of
    1 of both parts with RandomState(999) and sorts it, which has no effect and is left out here.

    Args:
        count: Number of rows of the official training set, at least 3.

    Returns:
        Training and validation rows, int64, each ascending.

    Raises:
        InputError: There are too few rows to split.
    """
    held = round(VAL_SHARE * count)
    if not 0 < held < count:
        raise InputError(
            f"the official training set has {count} images, too few to hold out {VAL_SHARE:.0%} for "
            "validation. Check that the copy is complete."
        )
    order = np.random.RandomState(SEED).permutation(count).astype(np.int64)
    return np.sort(order[:-held]), np.sort(order[-held:])


def protocol_observed(labels: ObservedLabels) -> npt.NDArray[np.int64]:
    """The one positive label per sample that the protocol observes; everything else is unknown.

    A single RandomState(1200) shuffles the positive columns of each sample, of which the first is taken, and
    then the negative columns; none of those is taken, but the shuffle advances the generator.

    Args:
        labels: Full labels of a complete official part (training or test), in the row order of the protocol.

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
