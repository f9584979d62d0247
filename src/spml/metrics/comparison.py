"""Comparison of models by observed labels: the tie set of the best, and when not to trust it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from ..common.label_checks import as_array
from ..scores.forms import FloatArray
from ..scores.ranks import Ranks
from .average_precision import mean_over_classes, precision_of_ranks
from .bootstrap import MIN_DRAWS, resamples
from .observed import observed_ranks, sp_of_ranks, sp_scores

TRUSTED = 2.5
"""Standard deviations of the difference up to which two models are tied; only beyond, one is better."""

FEWEST_SHOWN = 50
"""Number of samples with a known positive label below which an SP-score is not shown to a person."""

# Bounds beyond which a warning is given.
MIN_SAMPLES = 150
MIN_SPEARMAN_NAIVE = 0.8
MIN_SPEARMAN_P_A = 0.5
MAX_TIED_SHARE = 0.25
MAX_LABELS_SHARE = 0.2

_DIGITS = 12  # of a standard deviation; beyond that, the order of tied samples changes the rounding
_AUDIT = "If the choice matters, label 100 to 200 samples in full and compare the tie set by mAP on those."


class Candidate(NamedTuple):
    """One of the compared models. Its scores lie in [0, 1] and only rank models; none of them is a mAP.

    Attributes:
        name: Name of the model.
        sp, p, a: SP-score and its two parts.
        naive: `naive_map`, with every unknown label counted as a negative.
        low, high: 95 % interval of the SP-score, sp -+ 1.96 bootstrap standard deviations.
        sp_rank, p_rank, a_rank, naive_rank: Rank by each score, 1 = highest; equal values share a rank.
        behind: Difference between the SP-score of the best model and this one.
        sd: Bootstrap standard deviation of `behind`.
        z: behind / sd; 0 for the best, infinite if no draw changes the difference. Not a p-value, and
            over-confident.
        tied: Whether the model is in the tie set (z up to 2.5): indistinguishable from the best.
    """

    name: str
    sp: float
    p: float
    a: float
    naive: float
    low: float
    high: float
    sp_rank: int
    p_rank: int
    a_rank: int
    naive_rank: int
    behind: float
    sd: float
    z: float
    tied: bool


class Comparison(NamedTuple):
    """Result of comparing several models by observed labels.

    Attributes:
        candidates: The models, in the order of the argument.
        tie_set: Names of the models that are indistinguishable from the best, in descending order of the
            SP-score; the best comes first.
        spearman_naive: Rank correlation of SP-score and naive mAP over the candidates; None if undefined (one
            candidate, or all equal).
        spearman_p_a: Rank correlation of P and A over the upper half of the candidates by SP-score, rounded
            up.
        warnings: One sentence for each reason to distrust the result.
        samples: Number of samples with a known positive label.
        classes: Number of classes C.
        mean_labels: Mean labels per sample K.
        draws, seed: Number of bootstrap draws and their seed.
    """

    candidates: tuple[Candidate, ...]
    tie_set: tuple[str, ...]
    spearman_naive: float | None
    spearman_p_a: float | None
    warnings: tuple[str, ...]
    samples: int
    classes: int
    mean_labels: float
    draws: int
    seed: int


def compare_models(
    scores: Mapping[str, npt.ArrayLike | torch.Tensor] | Sequence[npt.ArrayLike | torch.Tensor],
    observed: npt.ArrayLike | torch.Tensor,
    mean_labels: float = 2.0,
    draws: int = 200,
    seed: int = 0,
    groups: npt.ArrayLike | None = None,
) -> Comparison:
    """Compare models by the SP-score, with the tie set of a multinomial bootstrap over samples.

    Every draw takes N of the N samples with replacement, or G of the G groups, the same for all models. Ranks
    among all samples do not change; the number of times a sample was drawn weighs everything else
    (`sp_scores`). With sd_b the standard deviation over draws, z = (SP_best - SP) / sd_b(SP_best - SP), and
    the tie set is z <= 2.5. Draws without a known positive are left out.

    The interval is SP -+ 1.96 sd_b(SP) rather than quantiles of the draws: copies of a sample lower P, so the
    draws lie about one standard deviation below SP, and their quantiles cover too little.

    Args:
        scores: Scores of shape (N, C) of each model, as in `sp_score`, by name. Models of a sequence are
            called `1`, `2`, ...
        observed: Observed labels, as in `sp_score`.
        mean_labels: Mean labels per sample K; too high is better than too low.
        draws: Number of bootstrap draws, at least 50.
        seed: Seed of the draws, which are the same on every platform.
        groups: Group of each sample, (N,), where whole groups are drawn, as in `resamples`; None = samples.

    Raises:
        ValueError: As in `sp_score`, with the name of the model; no model; or too few draws.

    Example:
        >>> good, bad = [[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]
        >>> comparison = compare_models({"good": good, "bad": bad}, [0, 1])
        >>> comparison.tie_set[0], [candidate.sp_rank for candidate in comparison.candidates]
        ('good', [1, 2])
    """
    named = scores if isinstance(scores, Mapping) else {str(n + 1): model for n, model in enumerate(scores)}
    ranks = {}
    for name, model in named.items():
        try:
            ranks[name] = observed_ranks(model, observed)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return compare_ranks(ranks, len(as_array(observed)), mean_labels, draws, seed, groups)


def compare_ranks(
    ranks: Mapping[str, Ranks],
    samples: int,
    mean_labels: float = 2.0,
    draws: int = 200,
    seed: int = 0,
    groups: npt.ArrayLike | None = None,
) -> Comparison:
    """`compare_models` on positives that are already ranked, so that scores need not be held in memory.

    Args:
        ranks: Ranks of each model by name, from `observed_ranks` with the same labels.
        samples: Number N of samples that were ranked.
        mean_labels, draws, seed, groups: As in `compare_models`.

    Raises:
        ValueError: No model, models ranked with different labels, too few draws, or `mean_labels` is not
            positive and finite.
    """
    if not ranks:
        raise ValueError("no models to compare: pass the scores of at least one model")
    if draws < MIN_DRAWS:
        raise ValueError(f"draws must be at least {MIN_DRAWS}, got {draws}")
    names, models = list(ranks), list(ranks.values())
    for name, model in ranks.items():
        if not np.array_equal(model.counts, models[0].counts):
            raise ValueError(
                f"{name} was ranked with other labels than {names[0]}; rank all models with the same labels"
            )
    sp, p, a = np.array([sp_of_ranks(model, samples, mean_labels) for model in models]).T
    naive = np.array([mean_over_classes(precision_of_ranks(model)) for model in models])
    best = int(np.argmax(sp))
    blocks = [
        np.stack([sp_scores(model, block, mean_labels)[:, 0] for model in models])
        for block in resamples(samples, draws, seed, groups)
    ]
    drawn = np.concatenate(blocks, axis=1)
    drawn = drawn[:, ~np.isnan(drawn[0])]  # without draws that have no known positive
    spread = drawn.std(axis=1, ddof=1)
    behind = sp[best] - sp
    sd = np.round((drawn[best] - drawn).std(axis=1, ddof=1), _DIGITS)
    z = np.full(len(names), np.inf)
    np.divide(behind, sd, out=z, where=sd > 0)
    z[behind == 0] = 0.0
    columns = [
        *(sp, p, a, naive, np.maximum(sp - 1.96 * spread, 0.0), sp + 1.96 * spread),
        *(_descending_ranks(values) for values in (sp, p, a, naive)),
        *(behind, sd, z, z <= TRUSTED),
    ]
    candidates = tuple(map(Candidate, names, *(column.tolist() for column in columns)))
    order = np.argsort(-sp, kind="stable")
    upper = order[: -(-len(names) // 2)]
    tie_set = tuple(names[model] for model in order if candidates[model].tied)
    known, classes = len(np.unique(models[0].rows)), len(models[0].counts)
    sp_naive, p_a = spearman(sp, naive), spearman(p[upper], a[upper])
    warnings = list(sample_warnings(known, classes, mean_labels))
    # A tie set of the best alone is the clearest outcome, even among three candidates or fewer.
    if len(tie_set) > max(1, MAX_TIED_SHARE * len(names)):
        warnings.append(
            f"{len(tie_set)} of {len(names)} candidates are in the tie set: they are indistinguishable from "
            f"the best (z up to {TRUSTED:g}). {_AUDIT}"
        )
    if sp_naive is not None and sp_naive < MIN_SPEARMAN_NAIVE:
        warnings.append(
            f"SP-score and naive mAP order the {len(names)} candidates differently (Spearman {sp_naive:.2f}, "
            f"below {MIN_SPEARMAN_NAIVE}), so the SP-score itself is unreliable here: do not rely on any "
            f"order. {_AUDIT}"
        )
    if p_a is not None and p_a < MIN_SPEARMAN_P_A:
        warnings.append(
            "P and A, the two parts of the SP-score, order the upper half of the candidates differently "
            f"(Spearman {p_a:.2f}, below {MIN_SPEARMAN_P_A}): compare their ranks. {_AUDIT}"
        )
    return Comparison(
        candidates, tie_set, sp_naive, p_a, tuple(warnings), known, classes, mean_labels, draws, seed
    )


def sample_warnings(samples: int, classes: int, mean_labels: float) -> tuple[str, ...]:
    """Reasons to distrust any SP-score on such data, one sentence each.

    Args:
        samples: Number of samples with a known positive label.
        classes: Number of classes C.
        mean_labels: Mean labels per sample K.
    """
    warnings = []
    if samples < MIN_SAMPLES:
        warnings.append(
            f"Only {samples} {'sample has' if samples == 1 else 'samples have'} a known positive label, and "
            f"below {MIN_SAMPLES} the SP-score ranks models poorly. Use more samples; one known label each "
            "is enough."
        )
    if mean_labels > MAX_LABELS_SHARE * classes:
        warnings.append(
            f"K = {mean_labels:g} labels per sample are {mean_labels / classes:.0%} of the {classes} "
            f"classes, and above {MAX_LABELS_SHARE:.0%} the SP-score is less reliable. Check K; if the "
            "choice matters, label 100 to 200 samples in full and compare by mAP on those."
        )
    return tuple(warnings)


def shown_score(value: float) -> str:
    """Format an SP-score, or one of its parts, in percent for a person: at most 100, which it may exceed."""
    return f"{100 * min(value, 1.0):.2f}"


def spearman(first: FloatArray, second: FloatArray) -> float | None:
    """Spearman's rank correlation, with mean ranks for equal values; None if either side is constant."""
    x, y = map(_mean_ranks, (first, second))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _descending_ranks(values: FloatArray) -> npt.NDArray[Any]:
    """Ranks with 1 for the highest value; equal values share a rank."""
    return 1 + len(values) - np.searchsorted(np.sort(values), values, side="right")


def _mean_ranks(values: npt.NDArray[Any]) -> FloatArray:
    _, level, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[level], np.float64)
