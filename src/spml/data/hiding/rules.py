"""Rules that hide labels of fully labelled data: what stays observed is one positive, labels of both signs,
or answers to questions. To one positive per sample, true negatives and wrong positives can be added.

A label is never changed, only hidden, except by wrong positives. Which labels of a sample stay observed
depends on the seed, on its own labels and on the number of samples before it: samples appended at the end
change nothing, except through weights that depend on them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ...common.draws import stream, uniform
from ...labels import IntArray, ObservedLabels
from ..entries import Entries, label_entries
from ..records import Objects

Keys = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

HIGHEST = np.uint64(2**64 - 1)
CHUNK = 2**20  # entries of the label matrix per chunk: 8 MB of random numbers
LOWEST = 1e-6  # areas and closenesses below this count as this, so that their logarithm is finite
ATTEMPTS = 32  # the probability that all of them are rejected is 4e-22


def positives(labels: ObservedLabels) -> tuple[IntArray, IntArray]:
    """Rows and columns of the positives, row by row, columns ascending; int64 of shape (M,)."""
    rows, columns = labels.entries(1)
    entries = np.unique(rows * labels.num_classes + columns)
    rows, columns = np.divmod(entries, labels.num_classes)
    return rows, columns


def single_positive(labels: ObservedLabels, seed: int) -> ObservedLabels:
    """Keep one positive per sample, drawn uniformly; hide everything else.

    The draw depends on the seed and the labels only. A sample without a positive keeps no label.
    Cole et al., CVPR 2021, section 4 (uniform single-positive labels).
    """
    rows, columns = positives(labels)
    counts = labels.positives_per_sample()
    picked = np.floor(uniform(len(labels), "observe", seed) * counts).astype(np.int64)
    kept = (np.cumsum(counts) - counts + picked)[counts > 0]
    return known_positives(rows[kept], columns[kept], len(labels), labels.num_classes)


def biased_positive(labels: ObservedLabels, log_weight: npt.NDArray[np.float64], seed: int) -> ObservedLabels:
    """Keep one positive per sample, drawn with probability proportional to a weight; hide everything else.

    The random numbers are those of `single_positive`: with equal weights the result is the same. The last bit
    of exp and log may differ between CPUs, which changes a draw with a probability of about 1e-11 for a data
    set of the size of COCO.

    Args:
        labels: Full labels.
        log_weight: Natural logarithm of the weight of each positive, in the order of `positives`,
            float64 (M,).
        seed: Seed of the draw.

    Returns:
        One observed positive per sample, none for a sample without positives.
    """
    rows, columns = positives(labels)
    if not len(rows):
        return known_positives(rows, columns, len(labels), labels.num_classes)
    counts = labels.positives_per_sample()
    has_positive = counts > 0
    counts = counts[has_positive]
    starts = np.cumsum(counts) - counts
    # Within a sample only ratios matter; dividing by the largest keeps every number in range.
    weights = np.exp(log_weight - np.repeat(np.maximum.reduceat(log_weight, starts), counts))
    running = np.cumsum(weights)
    ends = starts + counts - 1
    before = np.concatenate([np.zeros(1), running])[starts]
    drawn = before + uniform(len(labels), "observe", seed)[has_positive] * (running[ends] - before)
    kept = np.clip(np.searchsorted(running, drawn, side="right"), starts, ends)
    return known_positives(rows[kept], columns[kept], len(labels), labels.num_classes)


def log_weights(
    labels: ObservedLabels, rule: str, power: float, seed: int = 0, objects: Objects | None = None
) -> npt.NDArray[np.float64] | None:
    """How likely each positive is to be the observed one: by its class, or by its boxes.

    - `frequency`: weight = (number of samples that have the class)^power.
    - `salience`: weight = exp(power z), z standard normal, drawn once for each class and seed.
    - `size`: weight = (area of the largest box of the class in the image)^power.
    - `position`: weight = (1 - distance of the class's most central box from the image's centre)^power. The
      distance is in halves of the diagonal, so that a corner has the weight 0.

    The last two are after the size bias and the location bias of Arroyo, Perona and Cole, "Understanding
    label bias in single positive multi-label learning", 2023. That the largest box counts, and the form of
    the weights, are our reading. A positive without a box gets the median of the positives that have one, so
    that it is neither preferred nor avoided. Boxes of classes that are not positives are ignored.

    Returns:
        Natural logarithm of the weight of each positive, in the order of `positives`, float64 (M,); None if
        boxes are needed and no positive has one.
    """
    rows, columns = positives(labels)
    if rule == "frequency":
        return np.asarray(power * np.log(labels.positives_per_class()[columns]))
    if rule == "salience":
        return power * normal(labels.num_classes, "observe", "salience", seed)[columns]
    if objects is None:
        return None
    measure = objects.area if rule == "size" else 1 - objects.distance
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


def normal(count: int, *key: int | str) -> npt.NDArray[np.float64]:
    """Standard normal numbers of shape (count,), by the polar method (Marsaglia 1964).

    x sqrt(-2 ln(s) / s), where (x, y) is uniform in the unit disc and s = x^2 + y^2. NumPy's own normal
    numbers may change with its version.
    """
    x, y = 2 * uniform(2 * count * ATTEMPTS, *key).reshape(2, count, ATTEMPTS) - 1
    s = x * x + y * y
    first = np.arange(count), np.argmax((s > 0) & (s < 1), axis=1)
    return np.asarray(x[first] * np.sqrt(-2 * np.log(s[first]) / s[first]))


def label_counts(labels: ObservedLabels, positive: int, negative: int, seed: int) -> ObservedLabels:
    """Keep some positives and some negatives of each sample, drawn uniformly; fewer where it has fewer.

    With the same seed, larger numbers keep all labels that smaller ones keep.

    Args:
        labels: Full labels.
        positive, negative: Labels to keep per sample, at least 0.
        seed: Seed of the draw.
    """

    def lowest(keys: Keys, allowed: Mask, count: int) -> Mask:
        """The `count` allowed entries of each row that have the lowest keys; all if there are fewer."""
        if not count:
            return np.zeros_like(allowed)
        keys = np.where(allowed, keys, HIGHEST)
        last = min(count, keys.shape[1]) - 1
        return np.asarray(allowed & (keys <= np.partition(keys, last, axis=1)[:, last, None]))

    return _kept(
        labels,
        seed,
        lambda keys, present: lowest(keys, present, positive) | lowest(keys, ~present, negative),
    )


def label_share(labels: ObservedLabels, share: float, seed: int) -> ObservedLabels:
    """Keep each of the N C labels with the same probability, positive or negative, independently.

    With the same seed, a larger share keeps all labels that a smaller one keeps.
    Durand et al., CVPR 2019, section 4 (partial labels).

    Args:
        labels: Full labels.
        share: Probability of keeping a label, in (0, 1).
        seed: Seed of the draw.
    """
    limit = np.uint64(int(share * 2.0**64))
    return _kept(labels, seed, lambda keys, present: keys < limit)


def questions(labels: ObservedLabels, seed: int) -> ObservedLabels:
    """Ask for one class after the other, in random order, until one is present; keep all answers.

    The present class is the known positive, those asked for before it are known negatives, and the others
    stay unknown. With n of C classes present, (C - n) / (n + 1) negatives are known on average; if none is
    present, every class is a known negative. The positives alone are distributed as in `single_positive`.

    This is the question-answer process of Cui et al. (LASD), section 5.1, in our reading: an order without
    repetition, drawn for each sample, and every answer kept.

    Args:
        labels: Full labels.
        seed: Seed of the order.
    """
    return _kept(
        labels,
        seed,
        lambda keys, present: keys <= np.where(present, keys, HIGHEST).min(axis=1, keepdims=True),
    )


def with_all_negatives(observed: ObservedLabels, labels: ObservedLabels) -> ObservedLabels:
    """Add every true negative to the observed positives; the other true positives stay unknown.

    One positive and all negatives (IUN) of Cole et al., CVPR 2021. Only the true and the observed
    positives are stored, not the negatives.

    Args:
        observed: Observed positives.
        labels: Full labels of the same samples.

    Returns:
        +1 where a positive is observed, 0 for every other true positive, -1 elsewhere.
    """
    shape = len(labels), labels.num_classes
    true, kept = Entries(*labels.entries(1)), Entries(*observed.entries(1))
    return label_entries(kept, shape, "negative", unknown=true)


def with_wrong_positives(
    observed: ObservedLabels, labels: ObservedLabels, share: float, seed: int
) -> tuple[ObservedLabels, int]:
    """Replace some observed positives by a label of the same sample that is absent, drawn uniformly.

    Each is replaced with the same probability, independently; with the same seed, a larger share replaces all
    that a smaller one replaces, by the same labels. A sample of which no label is absent keeps its positive.

    Args:
        observed: At most one observed positive per sample, and no observed negative.
        labels: Full labels of the same samples.
        share: Probability of being replaced, in [0, 1).
        seed: Seed of the draw, which has random numbers of its own.

    Returns:
        The labels with wrong positives, and how many there are.
    """
    count, classes = len(labels), labels.num_classes
    true_rows, true_columns = positives(labels)
    per_sample = labels.positives_per_sample()
    absent = classes - per_sample
    picked = np.floor(uniform(count, "observe", "noise", "label", seed) * absent).astype(np.int64)
    # The j-th positive of a sample has (its column - j) absent columns before it, so that it lies before the
    # picked absent column if that number is at most `picked`. Each such positive shifts the column by one.
    rank = np.arange(len(true_rows)) - np.repeat(np.cumsum(per_sample) - per_sample, per_sample)
    before = true_columns - rank <= picked[true_rows]
    wrong = picked + np.bincount(true_rows[before], minlength=count)
    rows, columns = positives(observed)
    replaced = (uniform(count, "observe", "noise", seed)[rows] < share) & (absent[rows] > 0)
    columns = np.where(replaced, wrong[rows], columns)
    return known_positives(rows, columns, count, classes), int(replaced.sum())


def known_positives(rows: IntArray, columns: IntArray, count: int, classes: int) -> ObservedLabels:
    """Labels of which some positives are known, row by row, and nothing else."""
    indptr = np.searchsorted(rows, np.arange(count + 1)).astype(np.int64)
    return ObservedLabels(indptr, columns, np.ones(len(columns), np.int8), classes)


def _kept(labels: ObservedLabels, seed: int, keep: Callable[[Keys, Mask], Mask]) -> ObservedLabels:
    """Keep the labels that `keep` selects, given a random number and the presence of each entry.

    The label matrix is processed in chunks; an N x C matrix is never allocated.
    """
    count, classes = len(labels), labels.num_classes
    numbers, step = stream("observe", "entries", seed), max(1, CHUNK // classes)
    parts = []
    for first in range(0, count, step):
        present = labels.take(np.arange(first, min(first + step, count))).to_ternary() == 1
        keys = numbers.random_raw(present.size).reshape(present.shape)
        rows, columns = np.nonzero(keep(keys, present))
        indptr = np.searchsorted(rows, np.arange(len(present) + 1)).astype(np.int64)
        values = np.where(present[rows, columns], 1, -1).astype(np.int8)
        parts.append(ObservedLabels(indptr, columns.astype(np.int64), values, classes))
    return ObservedLabels.join(parts)
