"""Limits of thresholds, probabilities and yields that a user should know before relying on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..common.phrases import counted, first_few
from .priors import BIASED_GAMMA, Priors

FEW_POSITIVES = 10
"""Known positives below which a class is hardly decided by its own samples."""

FEW_ROWS = 100
"""Samples below which probabilities are not reliable."""

MANY_LABELS = 1 / 3
"""Share of the classes that a sample has on average up to which probabilities were measured, as good as
where it is a thirtieth."""

FEW_LABELS = 1.3
"""Mean labels per sample below which the number of missing labels is hard to tell."""


def caveats(
    priors: Priors,
    names: Sequence[str],
    positives: npt.NDArray[np.int64],
    rows: int,
    *,
    full: bool,
    calibrated: bool,
) -> list[str]:
    """Warnings about decisions, one line each.

    Args:
        priors: Class priors.
        names: Names of the classes.
        positives: Number of known positives of each class, int64 (C,).
        rows: Number of these rows.
        full: Whether all their labels are known.
        calibrated: Whether there are probabilities.

    Source:
        The limits are measured: `docs/decisions.md`.
    """
    k = priors.mean_labels
    lines = []
    if priors.source == "default":
        lines.append(
            f"K, the mean labels per sample, is not known: thresholds are placed as for K = {k:g}, and no "
            "precision, recall or probability is stated (mean_labels=K, or audit=FILE)."
        )
    if calibrated and not full and priors.gamma is None:
        lines.append(
            "This assumes that the known label of a sample is a uniform draw among its labels. If frequent "
            "or salient ones were preferred, precision is 5 points or more too optimistic, and the yield of "
            "an audit 20. Single positives can't reveal it; 50 random samples labelled in full can (spml "
            "audit sample)."
        )
    if priors.looks_biased:
        lines.append(
            f"Frequent classes look preferred among the known labels (gamma {priors.gamma:.2f}, at most "
            f"{BIASED_GAMMA:g}): estimates without the audit would be too optimistic. Training again "
            "with `like` repeats it."
        )
    few = [name for name, count in zip(names, positives.tolist(), strict=True) if 0 < count < FEW_POSITIVES]
    if few:
        lines.append(
            f"{counted(len(few), 'class', 'classes')} with fewer than {FEW_POSITIVES} known positives: "
            f"their thresholds and estimates are hardly more than guesses. Label more ({first_few(few, 5)})."
        )
    without = [name for name, count in zip(names, positives.tolist(), strict=True) if not count]
    if without:
        lines.append(
            f"{counted(len(without), 'class', 'classes')} without a known positive: never predicted, unless "
            f"by name alone. Label some, or leave the class out ({first_few(without, 5)})."
        )
    if calibrated and rows < FEW_ROWS:
        lines.append(
            f"Only {counted(rows, 'sample')} with held-out scores: probabilities may be far off. Hold back "
            "more (data.val_share), or collect more."
        )
    if calibrated and not full and k > MANY_LABELS * len(names):
        lines.append(
            f"K = {k:.3g} is more than a third of the {len(names)} classes, and it was not measured how "
            "right probabilities are there. Check them: label 50 random samples in full (spml audit sample)."
        )
    if calibrated and not full and k < FEW_LABELS:
        lines.append(
            f"K = {k:.3g} is close to 1: the expected number of missing labels is proportional to K - 1, so "
            "a small error of K is a large one there. Label more samples in full (spml audit sample)."
        )
    return lines
