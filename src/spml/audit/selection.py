"""Which of several models is best, by observed labels and by fully labelled samples together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..metrics import (
    Candidate,
    PairedScore,
    bootstrap_map,
    compare_models,
    compare_paired,
    paired_resamples,
    sample_warnings,
)

Scores = npt.NDArray[np.floating]


class Contender(NamedTuple):
    """One of the compared models.

    Attributes:
        observed: Its SP-score on all samples, and its distance to the best by that score.
        audited: Its mAP on the fully labelled samples, and its distance to the best by that mAP.
        z_audited: Distance in that mAP to the best by the SP-score, in standard deviations; below 0 it is
            ahead.
        z: Distance to the best by the SP-score in both, likewise.
    """

    observed: Candidate
    audited: PairedScore
    z_audited: float
    z: float


class Selection(NamedTuple):
    """Models compared by observed labels, by fully labelled samples, and by both.

    Attributes:
        contenders: The models by name.
        by_observed: Name of the best by the SP-score.
        by_audit: Name of the best by mAP on the fully labelled samples.
        best: Name of the best by both.
        lead: How far the best is ahead of the next one in both, in standard deviations of the difference
            between these two; infinite if there is only one model.
        warnings: Reasons to distrust the SP-score, one sentence each.
    """

    contenders: dict[str, Contender]
    by_observed: str
    by_audit: str
    best: str
    lead: float
    warnings: tuple[str, ...]


def select_by_audit(
    scores: Mapping[str, Scores],
    labels: npt.NDArray[np.int8],
    mean_labels: float,
    audited: Mapping[str, Scores],
    truth: npt.ArrayLike,
    *,
    draws: int = 200,
    seed: int = 0,
    groups: npt.NDArray[np.int64] | None = None,
    audited_groups: npt.NDArray[np.int64] | None = None,
) -> Selection:
    """Compare models by the SP-score on all samples and by mAP on those that are fully labelled.

    With r the best model by the SP-score, each of the two says how far model j is behind r in standard
    deviations of that difference, from a bootstrap over samples that is the same for both models. Their sum
    over the square root of 2 (Stouffer's method) is `z`, and the model with the lowest one is the best.

    Args:
        scores: Scores (N, C) of each model by name.
        labels: Observed labels in {-1, 0, +1}, of shape (N, C).
        mean_labels: Mean labels per sample K.
        audited: Scores (m, C) of each model by name for the fully labelled samples.
        truth: All labels of these, bool of shape (m, C), with a positive.
        draws: Number of bootstrap draws, at least 50.
        seed: Seed of the draws.
        groups: Group of each of the N samples, which are drawn as a whole; None = samples are drawn.
        audited_groups: Group of each of the m samples, likewise.

    Source:
        Stouffer et al., "The American Soldier", 1949, for the sum of z-scores.
    """
    positive = np.asarray(truth, np.bool_)
    comparison = compare_models(scores, labels, mean_labels, draws, seed, groups)
    multiplicity = paired_resamples(positive, draws, seed, audited_groups)
    drawn = {name: bootstrap_map(audited[name], positive, multiplicity) for name in scores}
    of_audit = compare_paired({name: {"mAP": values} for name, values in drawn.items()})
    reference = comparison.tie_set[0]
    contenders = {}
    for candidate in comparison.candidates:
        z = _in_deviations(drawn[reference] - drawn[candidate.name])
        contenders[candidate.name] = Contender(
            candidate, of_audit[candidate.name]["mAP"], z, (candidate.z + z) / math.sqrt(2)
        )
    best, *others = sorted(contenders, key=lambda name: contenders[name].z)
    lead = math.inf
    if others:
        # z compares with the best by the SP-score; these two may both be others.
        pair = {name: scores[name] for name in (best, others[0])}
        observed = {
            candidate.name: candidate.z
            for candidate in compare_models(pair, labels, mean_labels, draws, seed, groups).candidates
        }
        z = _in_deviations(drawn[best] - drawn[others[0]])
        lead = (observed[others[0]] - observed[best] + z) / math.sqrt(2)
    return Selection(
        contenders,
        by_observed=reference,
        by_audit=max(contenders, key=lambda name: contenders[name].audited.value),
        best=best,
        lead=lead,
        warnings=sample_warnings(comparison.samples, comparison.classes, mean_labels),
    )


def _in_deviations(differences: npt.NDArray[np.float64]) -> float:
    """A difference in standard deviations of its draws, which follow it; 0 without a difference, infinite if
    it never changes."""
    difference, deviation = float(differences[0]), float(differences[1:].std(ddof=1))
    if not difference:
        return 0.0
    return difference / deviation if deviation else math.copysign(math.inf, difference)
