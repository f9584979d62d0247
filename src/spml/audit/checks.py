"""Checks of labels and scores that are audited."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..common.errors import InputError
from ..labels import LabelError, ObservedLabels
from ..metrics.arrays import Scores, as_scores
from ..metrics.top_scores import fits

NOT_FINITE = "scores must be finite; give logits or log-probabilities without infinite values"

Labels = npt.ArrayLike | ObservedLabels


def check_limits(top: int, per_class: int, min_probability: float) -> None:
    """Check the limits of a list.

    Raises:
        InputError: One is out of its domain.
    """
    if top < 0 or per_class < 0 or not 0 <= min_probability <= 1:
        raise InputError(
            "top and per_class must be at least 0 and min_probability between 0 and 1, got "
            f"{top}, {per_class} and {min_probability:g}"
        )


def ternary_labels(labels: Labels, shape: tuple[int, int]) -> npt.NDArray[np.int8]:
    """Labels in {-1, 0, +1}, int8 (N, C), from any of the forms that `HiddenLabels` takes.

    Args:
        labels: Observed labels.
        shape: Shape (N, C) of the scores.

    Raises:
        InputError: Another shape, another value, or no label is a known positive.
    """
    return observed_labels(labels, shape).to_ternary()


def observed_labels(labels: Labels, shape: tuple[int, int]) -> ObservedLabels:
    """Labels as `ObservedLabels`; arguments and errors as in `ternary_labels`."""
    try:
        if not isinstance(labels, ObservedLabels):
            array = np.asarray(labels)
            labels = (
                ObservedLabels.from_index(array, shape[1])
                if array.ndim == 1
                else ObservedLabels.from_ternary(array)
            )
    except LabelError as error:
        raise InputError(f"labels: {error}") from error
    if (len(labels), labels.num_classes) != shape:
        raise InputError(
            f"labels are of {len(labels):,} samples and {labels.num_classes:,} classes, but scores have "
            f"the shape {shape}"
        )
    if not labels.positives_per_class().any():
        raise InputError("no label is a known positive, so nothing can be said about the missing ones")
    return labels


def known_pairs(labels: ObservedLabels) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Rows and columns of all known labels."""
    negatives = int(labels.negatives_per_sample().sum())
    if not fits(negatives, 1):
        raise InputError(
            f"{negatives:,} labels are known to be absent, more than can be listed one by one: audit fewer "
            "samples at a time"
        )
    rows, columns = labels.entries(1)
    if not negatives:
        return rows, columns
    more_rows, more_columns = labels.entries(-1)
    return np.concatenate([rows, more_rows]), np.concatenate([columns, more_columns])


def check_missing(mean_labels: float, positives_per_sample: npt.NDArray[np.int64]) -> None:
    """Check that K allows for a missing label.

    Args:
        mean_labels: Mean labels per sample K.
        positives_per_sample: Number of known positives of each sample (N,), of which one is not 0.

    Raises:
        InputError: It does not.
    """
    known = float(positives_per_sample[positives_per_sample > 0].mean())
    if mean_labels <= known:
        raise InputError(
            f"with {mean_labels:g} mean labels per sample no label is missing, since the samples "
            f"with a known positive have {known:.3g} on average: state a larger number"
        )


def checked(labels: Labels, scores: npt.ArrayLike) -> tuple[npt.NDArray[np.int8], Scores]:
    """Labels, int8 (N, C), and scores, float32 or float64 (N, C); errors as in the functions for each."""
    values = finite_scores(scores)
    return ternary_labels(labels, (values.shape[0], values.shape[1])), values


def finite_scores(scores: npt.ArrayLike) -> Scores:
    """Scores as float32 or float64 (N, C).

    Raises:
        InputError: Another shape, or a score is NaN or infinite.
    """
    try:
        values = as_scores(scores)
    except ValueError as error:
        raise InputError(str(error)) from error
    if not np.isfinite([values.min(), values.max()]).all():
        raise InputError(NOT_FINITE)
    return values
