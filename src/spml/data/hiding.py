"""Hiding: which labels of fully labelled data stay observed, for experiments with single positives.

What stays observed is one positive, labels of both signs, or answers to questions. To one positive per
sample, true negatives and wrong positives can be added. A label is never changed, only hidden, except by
wrong positives. Which labels of a sample stay observed depends on the seed, on its own labels and on the
number of samples before it: samples appended at the end change nothing, except through weights that depend
on them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from ..common.draws import stream, uniform
from ..common.errors import InputError, quoted
from ..config import DataConfig
from ..labels import IntArray, ObservedLabels
from .records import Objects, Records, label_entries

Keys = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

HIGHEST = np.uint64(2**64 - 1)
CHUNK = 2**20  # entries of the label matrix per chunk: 8 MB of random numbers
LOWEST = 1e-6  # areas and closenesses below this count as this, so that their logarithm is finite
ATTEMPTS = 32  # the probability that all of them are rejected is 4e-22

_QUANTITIES = {
    "frequency": "(frequency of its class)^{:g}",
    "salience": "a random salience of its class (log-normal, sigma {:g})",
    "size": "(area of its largest box)^{:g}",
    "position": "(closeness of its box to the centre)^{:g}",
}
"""Quantity to which a rule that weighs the positives makes the probability proportional."""

_ADDITIONS = ("observe_all_negatives", "observe_noise")

USES: dict[str, tuple[str, ...]] = {
    "single": _ADDITIONS,
    "counts": ("observe_positives", "observe_negatives"),
    "fraction": ("observe_share",),
    **dict.fromkeys(_QUANTITIES, ("observe_power", *_ADDITIONS)),
    "protocol": _ADDITIONS,
}
"""Settings that each rule uses, apart from the seed."""


def hide(records: Records, config: DataConfig) -> tuple[ObservedLabels, str]:
    """Labels that stay observed by the rule `config.observe`, which must not be `none`, and a line on them.

    The result depends on the labels (and boxes) and the seed only. `check_observe` has checked the settings.
    """
    rule, seed, labels = config.observe, config.observe_seed, records.labels
    if rule != "protocol" and not labels.full:
        raise InputError(
            f"{records.source}: data.observe={rule} hides labels of fully labelled data, but in this data a "
            "label that is not listed is unknown. If every true label is listed, pass data.unlisted="
            "negative; otherwise leave out data.observe."
        )
    note = "One positive label per sample is observed"
    if rule == "protocol":
        if records.protocol is None:
            raise InputError(
                f"{records.source}: data.observe=protocol takes the labels that a benchmark's publication "
                "observed, or the array `observed` of a .npz file, but this data has neither. Choose another "
                "rule, such as data.observe=single."
            )
        observed = records.protocol  # with labels that are always full
        origin = "published protocol" if records.empty == "zero" else "array `observed`"
        note = f"The observed labels are those of the {origin} of {records.name}"
    elif rule == "single":
        observed = single_positive(labels, seed)
    elif rule == "counts":
        k, m = config.observe_positives, config.observe_negatives
        observed = label_counts(labels, k, m, seed)
        note = f"Up to {k} positive and {m} negative labels per sample are observed"
    elif rule == "fraction":
        observed = label_share(labels, config.observe_share, seed)
        note = (
            f"{int(observed.known_per_sample().sum()):,} of {len(labels) * labels.num_classes:,} labels are "
            f"observed, each with probability {config.observe_share:g}"
        )
    elif rule == "questions":
        observed = questions(labels, seed)
        note = (
            "For each sample, classes are asked for in random order until one is present; that class is an "
            "observed positive, and those asked for before it are observed negatives"
        )
    else:
        weights = log_weights(labels, rule, config.observe_power, seed, records.objects)
        if weights is None:
            raise InputError(
                f"{records.source}: data.observe={rule} needs boxes, but no label of this data has one. "
                "Boxes are read from COCO JSON and VOC XML; for other data choose another rule, such as "
                "data.observe=frequency."
            )
        observed = biased_positive(labels, weights, seed)
        quantity = _QUANTITIES[rule].format(config.observe_power)
        note += f", with probability proportional to {quantity}"
    note += "." if rule == "protocol" else f", drawn with seed {seed}."
    if config.observe_noise:
        known = int(observed.positives_per_class().sum())
        observed, wrong = with_wrong_positives(observed, labels, config.observe_noise, seed)
        note += (
            f" {wrong:,} of the {known:,} observed positives are wrong on purpose: a label that is absent "
            f"replaces each with probability {config.observe_noise:g}, drawn with seed {seed}."
        )
    if config.observe_all_negatives:
        observed = with_all_negatives(observed, labels)
        note += " Every true negative is observed, too."
    return observed, note


def check_observe(config: DataConfig) -> None:
    """Check the settings that begin with `observe`."""
    rule, used = config.observe, USES.get(config.observe, ())
    for setting in fields(config):
        name, value = setting.name, getattr(config, setting.name)
        # The seed is allowed with every rule: benchmarks set it for all runs, those with full labels too.
        if not name.startswith("observe_") or name in (*used, "observe_seed") or value == setting.default:
            continue
        users = ", ".join(user for user, names in USES.items() if name in names)
        shown = "true" if value is True else f"{value:g}" if isinstance(value, float) else quoted(value)
        raise InputError(
            f"data.{name} {shown} has no effect with data.observe={rule}: leave it out, or choose a "
            f"rule that uses it ({users})."
        )
    if rule == "protocol" and config.observe_seed and not config.observe_noise:
        raise InputError(
            f"data.observe_seed={config.observe_seed} has no effect with data.observe=protocol, whose "
            "labels were published: leave it out."
        )
    k, m, power = config.observe_positives, config.observe_negatives, config.observe_power
    lowest = 0 if rule == "salience" else -100
    domains = {
        "observe_negatives": (m >= 0, "at least 0"),
        "observe_positives": (k >= 0 and k + m > 0, "at least 1, or 0 if some negatives are observed"),
        "observe_noise": (0 <= config.observe_noise < 1, "in [0, 1)"),
        "observe_share": (0 < config.observe_share < 1, "between 0 and 1"),
        "observe_power": (lowest <= power <= 100, f"in [{lowest}, 100] with {rule}"),
    }
    for name, (valid, expected) in domains.items():
        if not valid:
            raise InputError(f"data.{name} must be {expected}, got {getattr(config, name)}")


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
    return label_entries((rows[kept], columns[kept]), (len(labels), labels.num_classes), "unknown")


def biased_positive(labels: ObservedLabels, log_weight: npt.NDArray[np.float64], seed: int) -> ObservedLabels:
    """Keep one positive per sample, drawn with probability proportional to a weight; hide everything else.

    The logarithms of the weights are in the order of `positives`. The random numbers are those of
    `single_positive`: with equal weights the result is the same. The last bit of exp and log may differ
    between CPUs, which changes a draw with a probability of about 1e-11 for a data set of the size of COCO.
    """
    rows, columns = positives(labels)
    if not len(rows):
        return label_entries((rows, columns), (len(labels), labels.num_classes), "unknown")
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
    return label_entries((rows[kept], columns[kept]), (len(labels), labels.num_classes), "unknown")


def log_weights(
    labels: ObservedLabels, rule: str, power: float, seed: int = 0, objects: Objects | None = None
) -> npt.NDArray[np.float64] | None:
    """Logarithms of the weights of all positives, in the order of `positives`, by which one is drawn.

    - `frequency`: weight = (number of samples that have the class)^power.
    - `salience`: weight = exp(power z), z standard normal, drawn once for each class and seed.
    - `size`: weight = (area of the largest box of the class in the image)^power.
    - `position`: weight = (1 - distance of the class's most central box from the image's centre)^power. The
      distance is in halves of the diagonal, so that a corner has the weight 0.

    The last two are after the size bias and the location bias of Arroyo, Perona and Cole, "Understanding
    label bias in single positive multi-label learning", 2023. That the largest box counts, and the form of
    the weights, are our reading. A positive without a box gets the median of the positives that have one, so
    that it is neither preferred nor avoided. Boxes of classes that are not positives are ignored. The result
    is None if boxes are needed and no positive has one.
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
    """Keep so many positives and negatives of each sample, drawn uniformly; fewer where it has fewer.

    With the same seed, larger numbers keep all labels that smaller ones keep.
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
    """
    shape = len(labels), labels.num_classes
    return label_entries(observed.entries(1), shape, "negative", unknown=labels.entries(1))


def with_wrong_positives(
    observed: ObservedLabels, labels: ObservedLabels, share: float, seed: int
) -> tuple[ObservedLabels, int]:
    """Replace some observed positives by a label of the same sample that is absent, drawn uniformly.

    Each is replaced with the probability `share`, in [0, 1), independently; with the same seed, a larger
    share replaces all that a smaller one replaces, by the same labels. A sample of which no label is absent
    keeps its positive. At most one positive per sample may be observed, and no negative. Returns the labels,
    and how many are wrong.
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
    return label_entries((rows, columns), (count, classes), "unknown"), int(replaced.sum())


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
