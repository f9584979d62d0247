"""Moments of features and labels, from which heads in closed form are computed, and columns of labels.

Of many sparse features, such as the words of texts, no row becomes dense here.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...common.errors import InputError
from ...common.numerics import SparseSpread, Spread, SpreadSum
from ...data import Samples
from ...data.dataset import Rows
from ...data.matrix import FeatureMatrix
from ..scaling import TFIDF, UNIT, Scaling, SqrtL2, TfIdf, Unit

MOST_COLUMNS = 4096
"""Number of classes above which those without a known positive share one column."""

IntArray = npt.NDArray[np.int64]

MAX_ENTRIES = 20_000**2
"""Largest number of entries of the matrix whose principal axes are computed (see `Spread`). That of more
takes hours, and more memory than most machines have."""

WIDE = 6000
"""Number of features above which sparse ones are solved without making a row of them dense."""

_ENTRIES = 1 << 23  # elements of a batch
_SOME = 1000  # samples that tell whether features are counts


class Columns:
    """Columns of a head that is solved, and the class or classes that each of them stands for.

    Every class without a known positive has the same solution, so that of many classes only those with a
    known positive have a column of their own, and the last column stands for all others. Memory and time then
    grow with the number of known labels, not with the number of classes.

    Args:
        classes: Number of classes C.
        own: Classes with a column of their own, ascending, int64; None = all.

    Attributes:
        of_class: Column of each class, int64 (C,).
        sizes: Number of classes of each column, int64 (K,).
    """

    def __init__(self, classes: int, own: IntArray | None = None) -> None:
        self.classes, self.own = classes, own
        self.of_class, self.sizes = np.arange(classes), np.ones(classes, np.int64)
        if own is not None:
            self.of_class = np.full(classes, len(own))
            self.of_class[own] = np.arange(len(own))
            self.sizes = np.append(self.sizes[: len(own)], classes - len(own))

    @classmethod
    def of_samples(cls, *parts: Samples) -> Columns:
        """Columns for the observed labels of these samples."""
        classes = parts[0].observed.num_classes
        if classes <= MOST_COLUMNS:
            return cls(classes)
        known = sum(part.observed.positives_per_class() for part in parts)
        own = np.flatnonzero(known)
        return cls(classes, own if len(own) < classes else None)

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def log_sizes(self) -> Tensor | None:
        """Logarithms of `sizes`, float32 (K,); None where each class has its own column."""
        return None if self.own is None else torch.from_numpy(self.sizes).float().log()

    def expand(self, values: npt.NDArray[Any], classes: IntArray | None = None) -> npt.NDArray[Any]:
        """Values (B, K) of columns as values (B, C) of all classes, or (B, J) of some."""
        if classes is None and self.own is None:
            return values
        return values.take(self.of_class if classes is None else self.of_class[classes], axis=1)

    def positives(self, samples: Samples, rows: Rows) -> tuple[IntArray, IntArray]:
        """Known positives of some samples.

        Returns:
            Positions in `rows` and columns of the M known positives, sample by sample, int64 (M,).
        """
        index = samples.observed.index
        if index is not None:
            return np.arange(len(rows)), self.of_class[index[np.asarray(rows, np.int64)]]
        positions, classes = samples.observed.take(np.asarray(rows, np.int64)).entries(1)
        return positions, self.of_class[classes]


class Moments(NamedTuple):
    """Moments of N samples in float64, from which the heads are computed.

    Attributes:
        spread: Mean and covariance of the features.
        share: Mean of the labels S of each column, of shape (K,), where S is 1 for a known positive, else 0.
        cross: Covariance Xc' Sc / N of features and labels, of shape (D, K).
        samples: Number of samples N.
        columns: Classes of the K columns.
    """

    spread: Spread | SparseSpread
    share: Tensor
    cross: Tensor
    samples: int
    columns: Columns


class MomentSum:
    """Accumulates moments over batches.

    Labels are sparse: a batch costs what its known positives cost, however many classes there are.

    Args:
        width: Number of features D.
        columns: Columns of the labels.
        samples: As for `SpreadSum`.
    """

    def __init__(self, width: int, columns: Columns, samples: int) -> None:
        self._columns = columns
        self._features = SpreadSum(width, samples)
        self._positives = np.zeros((len(columns), width))  # sum over the known positives of a column
        self._known = np.zeros(len(columns), np.int64)

    def add(self, features: Tensor, positives: tuple[IntArray, IntArray]) -> None:
        """Add a batch.

        Args:
            features: Features of shape (B, D).
            positives: Rows of the batch and columns of its known positives, int64 (M,).
        """
        from scipy.sparse import csr_matrix

        centred = self._features.add(features)
        rows, columns = positives
        own, position = np.unique(columns, return_inverse=True)
        labels = csr_matrix((np.ones(len(rows)), (position, rows)), shape=(len(own), len(features)))
        self._positives[own] += labels @ centred.numpy()
        self._known[own] += np.bincount(position, minlength=len(own))

    def moments(self) -> Moments:
        """Moments of all samples added so far.

        Raises:
            InputError: All samples have the same features, or no label is a known positive.
        """
        spread, count = self._features.spread(), self._features.count
        if not self._known.any():
            raise no_positives(count)
        share = torch.from_numpy(self._known / count)
        cross = torch.from_numpy(self._positives / count).T
        cross.addr_(self._features.about_origin(), share, alpha=-1)
        return Moments(spread, share, cross, count, self._columns)


def no_positives(count: int) -> InputError:
    """Error of training samples of which none has a known positive label."""
    return InputError(
        f"none of the {count:,} training samples has a known positive label, from which a head in closed "
        "form is computed. Label some of them."
    )


def check_size(samples: int, width: int) -> None:
    """Check that a closed form can be solved for this number of training samples and of features."""
    rows = min(samples, width)
    if rows * width > MAX_ENTRIES:
        size, most = rows * width * 8 / 2**30, MAX_ENTRIES * 8 / 2**30
        raise InputError(
            f"a head in closed form of {samples:,} training samples with {width:,} features uses a matrix of "
            f"{rows:,} x {width:,} numbers ({size:.1f} GiB, and a multiple while it is solved), more than "
            f"{most:.1f} GiB: train a head instead (model.head=linear), or reduce the number of features."
        )


def batch_rows(width: int) -> int:
    """Number of rows of `width` numbers in a batch."""
    return max(1, min(4096, _ENTRIES // width))


@torch.no_grad()
def moments(
    samples: Samples, scaling: Scaling, *, device: torch.device | None = None, rows: int | None = None
) -> Moments:
    """Compute the moments of scaled features and of the known positives.

    A known negative has label 0, like an unknown label.

    Args:
        samples: Feature vectors and observed labels.
        scaling: Scaling that has been fitted.
        device: Device that it is on; None = the CPU.
        rows: Number of samples per batch.

    Raises:
        InputError: All samples have the same features, or no label is a known positive.
    """
    columns = Columns.of_samples(samples)
    if solves_sparse(samples, scaling):
        rows_of_all = np.arange(len(samples))
        matrix = scaled(sparse_rows(samples, rows_of_all), scaling)
        return sparse_moments(matrix, columns.positives(samples, rows_of_all), columns)
    width = int(samples.inputs.fetch([0], None).shape[1])
    total, rows = MomentSum(width, columns, len(samples)), rows or batch_rows(width)
    for start in range(0, len(samples), rows):
        batch = range(start, min(start + rows, len(samples)))
        features = scaling(samples.inputs.fetch(batch, None).to(device).float()).cpu().double()
        total.add(features, columns.positives(samples, batch))
    return total.moments()


def sparse_moments(matrix: Any, positives: tuple[IntArray, IntArray], columns: Columns) -> Moments:
    """Moments of sparse features (N, D) and of the known positives: rows and columns, int64 (M,).

    Raises:
        InputError: All samples have the same features, or no label is a known positive.
    """
    from scipy.sparse import csr_matrix

    count, (rows, labels) = matrix.shape[0], positives
    if not len(rows):
        raise no_positives(count)
    spread = SparseSpread(matrix)
    known = csr_matrix((np.ones(len(rows)), (rows, labels)), shape=(count, len(columns)))
    share = torch.from_numpy(np.bincount(labels, minlength=len(columns)) / count)
    cross = torch.from_numpy((matrix.T @ known).toarray() / count)
    cross.addr_(spread.mean, share, alpha=-1)
    return Moments(spread, share, cross, count, columns)


# -- sparse features ---------------------------------------------------------------------------------------


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
