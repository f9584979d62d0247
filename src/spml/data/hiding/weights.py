"""How likely each positive is to be the observed one: by its class, or by its boxes.

All functions return the natural logarithm of one weight per positive, for `biased_positive`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...labels import ObservedLabels
from ..draws import uniform
from ..records import Objects
from .rules import positives

Weights = npt.NDArray[np.float64]

LOWEST = 1e-6  # areas and closenesses below this count as this, so that their logarithm is finite
ATTEMPTS = 32  # the probability that all of them are rejected is 4e-22


def by_frequency(labels: ObservedLabels, power: float) -> Weights:
    """weight = (number of samples that have the class)^power; float64 (M,)."""
    _, columns = positives(labels)
    return power * np.log(np.bincount(columns, minlength=labels.num_classes)[columns])


def by_salience(labels: ObservedLabels, sigma: float, seed: int) -> Weights:
    """weight = salience of the class, exp(sigma z), z standard normal, drawn once per seed; float64 (M,)."""
    _, columns = positives(labels)
    return sigma * normal(labels.num_classes, "observe", "salience", seed)[columns]


def by_size(labels: ObservedLabels, objects: Objects, power: float) -> Weights | None:
    """weight = (area of the largest box of the class in the image)^power; see `_by_boxes`.

    After the size bias of Arroyo, Perona and Cole, "Understanding label bias in single positive multi-label
    learning", 2023. That the largest box counts, and the power, are our reading.
    """
    return _by_boxes(labels, objects, objects.area, power)


def by_position(labels: ObservedLabels, objects: Objects, power: float) -> Weights | None:
    """weight = (1 - distance of the class's most central box from the image's centre)^power; see `_by_boxes`.

    The distance is in halves of the diagonal, so that a corner has the weight 0.
    After the location bias of Arroyo, Perona and Cole, 2023. The form of the weight is our reading.
    """
    return _by_boxes(labels, objects, 1 - objects.distance, power)


def normal(count: int, *key: int | str) -> Weights:
    """Standard normal numbers of shape (count,), by the polar method (Marsaglia 1964).

    x sqrt(-2 ln(s) / s), where (x, y) is uniform in the unit disc and s = x^2 + y^2. NumPy's own normal
    numbers may change with its version.
    """
    x, y = 2 * uniform(2 * count * ATTEMPTS, *key).reshape(2, count, ATTEMPTS) - 1
    s = x * x + y * y
    first = np.arange(count), np.argmax((s > 0) & (s < 1), axis=1)
    return np.asarray(x[first] * np.sqrt(-2 * np.log(s[first]) / s[first]))


def _by_boxes(labels: ObservedLabels, objects: Objects, measure: Weights, power: float) -> Weights | None:
    """weight = (largest measure of all boxes of the class in the image)^power.

    A positive without a box gets the median of the positives that have one, so that it is neither preferred
    nor avoided. Boxes of classes that are not positives of the image are ignored.

    Returns:
        float64 (M,); None if no positive has a box.
    """
    rows, columns = positives(labels)
    entries = rows * labels.num_classes + columns  # ascending
    box_entries = objects.row * labels.num_classes + objects.column
    index = np.searchsorted(entries, box_entries)
    matched = np.flatnonzero(np.append(entries, -1)[index] == box_entries)
    if not len(matched):
        return None
    largest = np.zeros(len(entries))
    np.maximum.at(largest, index[matched], np.clip(measure[matched], LOWEST, 1))
    has_box = largest > 0
    return power * np.log(np.where(has_box, largest, np.median(largest[has_box])))
