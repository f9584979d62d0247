"""How full labels become observed ones."""

from __future__ import annotations

import numpy as np

from ..labels import ObservedLabels
from .draws import uniform


def single_positive(labels: ObservedLabels, seed: int) -> ObservedLabels:
    """Keep one positive per sample, drawn uniformly; everything else becomes unknown.

    The draw depends on the seed and the labels only. A sample without a positive is left with no known label.
    Cole et al., CVPR 2021, section 4 (uniform single-positive labels).
    """
    counts = labels.positives_per_sample()
    columns = np.nonzero(labels.to_multi_hot())[1].astype(np.int64)
    picked = np.floor(uniform(len(labels), "observe", seed) * counts).astype(np.int64)
    starts = np.cumsum(counts) - counts
    some = counts > 0
    indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(some)]).astype(np.int64)
    kept = columns[(starts + picked)[some]]
    return ObservedLabels(indptr, kept, np.ones(len(kept), np.int8), labels.num_classes)
