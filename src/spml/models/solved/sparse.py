"""Many sparse features, such as the words of texts, of which no row becomes dense where heads are solved."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import torch

from ...data import Samples
from ...data.matrix import FeatureMatrix
from ..scaling import TFIDF, UNIT, Scaling, SqrtL2, TfIdf, Unit

WIDE = 6000
"""Number of features above which sparse ones are solved here."""

_SOME = 1000  # samples that tell whether features are counts


def is_wide(*parts: Samples) -> bool:
    """Whether samples have so many sparse features that their heads are solved here."""
    return all(
        isinstance(part.inputs, FeatureMatrix) and part.inputs.sparse is not None and part.inputs.width > WIDE
        for part in parts
    )


def solves_sparse(samples: Samples, scaling: Scaling) -> bool:
    """Whether heads on these features are solved without making a row of them dense."""
    return is_wide(samples) and isinstance(scaling, (Unit, SqrtL2, TfIdf))


def sparse_scaling(samples: Samples) -> Literal["tfidf", "unit"]:
    """Scaling that suits sparse features: of counts, or of weights such as those of TF-IDF already."""
    some = sparse_rows(samples, np.arange(min(len(samples), _SOME))).data
    return TFIDF if (some == some.round()).all() else UNIT


def sparse_rows(samples: Samples, rows: Any) -> Any:
    """Features of some samples, CSR float32 (B, D)."""
    assert isinstance(samples.inputs, FeatureMatrix)
    return samples.inputs.csr(rows).astype(np.float32)


def scaled(matrix: Any, scaling: Scaling) -> Any:
    """Sparse features (N, D) after a scaling that leaves zeros as they are, CSR float32."""
    from sklearn.preprocessing import normalize

    matrix = matrix.copy()
    if isinstance(scaling, SqrtL2):
        matrix.data = np.sign(matrix.data) * np.sqrt(np.abs(matrix.data))
    elif isinstance(scaling, TfIdf):
        matrix.data *= scaling.weight.cpu().numpy()[matrix.indices]
    return normalize(matrix, copy=False)


def fit_scaling(scaling: Scaling, matrix: Any) -> None:
    """Fit such a scaling to sparse features (N, D)."""
    if isinstance(scaling, TfIdf):
        present = np.bincount(matrix.indices[matrix.data != 0], minlength=matrix.shape[1])
        scaling.weight.copy_(torch.from_numpy(np.log((1 + matrix.shape[0]) / (1 + present))))
