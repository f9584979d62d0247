"""How likely each positive is to be the one that is shown: by class, or by its boxes.

All return the natural logarithm of a weight per positive, for `biased_positive`.
"""

from __future__ import annotations

import numpy as np

from ...labels import ObservedLabels
from ..records import Objects
from .elementary import FloatArray, log, normal
from .rules import positives

LEAST = 1e-6  # a share of the image smaller than this, or closer to none, counts as this


def by_frequency(labels: ObservedLabels, power: float) -> FloatArray:
    """weight = (number of samples that have the class)^power; float64 (M,)."""
    _, columns = positives(labels)
    return power * log(np.bincount(columns, minlength=labels.num_classes).astype(np.float64)[columns])


def by_salience(labels: ObservedLabels, sigma: float, seed: int) -> FloatArray:
    """weight = salience of the class, exp(sigma z), z standard normal, drawn once per seed; float64 (M,)."""
    _, columns = positives(labels)
    return sigma * normal(labels.num_classes, "observe", "salience", seed)[columns]


def by_size(labels: ObservedLabels, objects: Objects, power: float) -> FloatArray | None:
    """weight = (area of the largest box of the class in the image)^power; see `_by_boxes`.

    After the size bias of Arroyo, Perona and Cole, "Understanding label bias in single positive multi-label
    learning", 2023; that the largest box counts, and the power, are our reading.
    """
    return _by_boxes(labels, objects, objects.area, power)


def by_position(labels: ObservedLabels, objects: Objects, power: float) -> FloatArray | None:
    """weight = (1 - distance of the class's most central box from the image's centre)^power; see `_by_boxes`.

    The distance is in halves of the diagonal, so that a corner has the weight 0.
    After the location bias of Arroyo, Perona and Cole, 2023; the form of the weight is our reading.
    """
    return _by_boxes(labels, objects, 1 - objects.distance, power)


def _by_boxes(
    labels: ObservedLabels, objects: Objects, measure: FloatArray, power: float
) -> FloatArray | None:
    """weight = (largest measure of all boxes of the class in the image)^power.

    A positive without a box counts as the median positive that has one, so that it is neither preferred nor
    avoided. Boxes of a class that is not a positive of the image do not matter.

    Returns:
        float64 (M,); None if no positive has a box.
    """
    rows, columns = positives(labels)
    places = rows * labels.num_classes + columns
    wanted = objects.row * labels.num_classes + objects.column
    found = np.searchsorted(places, wanted)
    usable = np.flatnonzero(np.append(places, -1)[found] == wanted)
    if not len(usable):
        return None
    largest = np.zeros(len(places))
    np.maximum.at(largest, found[usable], np.clip(measure[usable], LEAST, 1))
    boxed = largest > 0
    return power * log(np.where(boxed, largest, np.median(largest[boxed])))
