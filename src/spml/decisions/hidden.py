"""How probable it is that a label which was not given is there all the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_NODES = 10
_ENTRIES = 1 << 20  # of a block of samples
_LARGEST = 1 - 1e-9
_SMALLEST = 1e-12

Floats = npt.NDArray[np.float64]


def shown_probabilities(probabilities: npt.ArrayLike) -> Floats:
    """Probability that each class is the label that is shown of a sample.

    Labels of a sample are independent with the given probabilities, and one of them is drawn uniformly:
    `s_c = p_c * integral over u in (0, 1) of prod over c' != c of (1 - p_c' + p_c' u) du`, divided by
    the probability that the sample has any label. The integral is taken with 10 Gauss nodes.

    Args:
        probabilities: Probabilities p of shape (N, C), in [0, 1].

    Returns:
        float64 (N, C); rows sum to 1.
    """
    p = np.clip(np.asarray(probabilities, np.float64), 0, _LARGEST)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    shown = np.zeros_like(p)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        factors = np.log1p(-p * (1 - node))
        shown += weight * np.exp(factors.sum(1, keepdims=True) - factors)
    some = -np.expm1(np.log1p(-p).sum(1, keepdims=True))
    shares: Floats = p * shown / np.maximum(some, _SMALLEST)
    return shares


def hidden_of_highest(
    probabilities: npt.ArrayLike,
    labels: npt.NDArray[np.int8],
    rows: npt.NDArray[np.int64],
    others: npt.NDArray[np.int64],
    of_others: float,
    labelled: npt.NDArray[np.bool_],
) -> tuple[Floats, Floats]:
    """Probabilities as in `hidden_probabilities` where only the highest scores of each sample are kept.

    Args:
        probabilities: Calibrated probabilities p of the pairs that were kept, (M,), in [0, 1].
        labels: Their observed labels in {-1, 0, +1}, (M,).
        rows: Sample of each, int64 (M,).
        others: Number of classes of each sample that were left out, int64 (N,).
        of_others: Probability p of each pair that was left out.
        labelled: Whether a sample has a known positive, bool (N,).

    Returns:
        float64 (M,), 0 where a label is known; and that of each pair of a sample which was left out and whose
        label is not known, float64 (N,).
    """
    p = np.clip(np.asarray(probabilities, np.float64), 0, _LARGEST)
    q = np.clip(float(of_others), 0, _LARGEST)
    samples = len(others)
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    shown, other_shown = np.zeros_like(p), np.zeros(samples)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        factors, factor = np.log1p(-p * (1 - node)), np.log1p(-q * (1 - node))
        sums = np.bincount(rows, factors, minlength=samples) + others * factor
        shown += weight * np.exp(sums[rows] - factors)
        other_shown += weight * np.exp(sums - factor)
    some = -np.expm1(np.bincount(rows, np.log1p(-p), minlength=samples) + others * np.log1p(-q))
    some = np.maximum(some, _SMALLEST)
    shown, other_shown = labelled[rows] * p * shown / some[rows], labelled * q * other_shown / some
    hidden = (np.asarray(probabilities, np.float64) - shown) / np.maximum(1 - shown, _SMALLEST)
    other = (of_others - other_shown) / np.maximum(1 - other_shown, _SMALLEST)
    return np.where(labels == 0, np.clip(hidden, 0, 1), 0.0), np.clip(other, 0, 1)


def hidden_probabilities(probabilities: npt.ArrayLike, labels: npt.NDArray[np.int8]) -> Floats:
    """Probability that a label which is not known is a positive that was not shown.

    `(p - s) / (1 - s)` with s as in `shown_probabilities`, for a sample with a known positive; p for one
    without.

    Args:
        probabilities: Calibrated probabilities p of shape (N, C).
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).

    Returns:
        float64 (N, C); 0 where a label is known. A sum over a list of pairs is its expected yield.
    """
    p = np.asarray(probabilities, np.float64)
    hidden = np.empty_like(p)
    size = max(1, _ENTRIES // p.shape[1])
    for first in range(0, len(p), size):
        block = slice(first, first + size)
        s = shown_probabilities(p[block]) * (labels[block] == 1).any(1, keepdims=True)
        hidden[block] = np.clip((p[block] - s) / np.maximum(1 - s, _SMALLEST), 0, 1)
    hidden[labels != 0] = 0
    return hidden
