"""Several models on the same observed labels: which can't be told from the best, and when not to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from .arrays import FloatArray, IntArray, as_array
from .average_precision import mean_over_classes, precision_of_ranks
from .observed import sp_of_ranks, sp_scores
from .ranks import Ranks, observed_ranks

TIED = 1.645
"""A candidate with z up to this is in the tie set."""

CLEAR = 2.5
"""Only above this z is a difference to be trusted: z is over-confident."""

LEAST_SAMPLES = 150
LEAST_SPEARMAN_NAIVE = 0.8
LEAST_SPEARMAN_P_A = 0.5
MOST_TIED = 0.25
MOST_LABELS = 0.2

_LEAST_DRAWS = 50  # so few give a rough standard deviation, and some hold a known positive even if it is one
_DIGITS = 12  # of a standard deviation; further ones are rounding, where tied samples come in another order
_BLOCK = 1 << 20  # multiplicities that are held at a time
_AUDIT = "If the choice matters, label 100 to 200 samples in full and compare the tie set by mAP on those."


class Candidate(NamedTuple):
    """One model among those compared. Its scores are in [0, 1] and rank models; none of them is a mAP.

    Attributes:
        name: as it was given.
        sp, p, a: SP-score and its parts.
        naive: `naive_map`, every unknown label counted as negative.
        low, high: 95 % interval of the SP-score, sp -+ 1.96 bootstrap standard deviations.
        sp_rank, p_rank, a_rank, naive_rank: 1 = highest by each; equal values share a rank.
        behind: how far its SP-score lies below that of the best.
        sd: bootstrap standard deviation of `behind`.
        z: behind / sd; 0 for the best, infinite where no draw changes the difference. Not a p-value.
        tied: in the tie set (z up to 1.645): not to be told from the best.
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
    """What observed labels say about several models.

    Attributes:
        candidates: in the order given.
        tie_set: names of those that can't be told from the best, from the highest SP-score to the lowest; the
            best is the first.
        spearman_naive: rank correlation of SP-score and naive mAP over the candidates; None where it is
            undefined (one candidate, or all equal).
        spearman_p_a: that of P and A over the upper half of the candidates by SP-score, rounded up.
        warnings: a sentence for each reason to distrust the result.
        samples: those with a known positive label.
        classes: C.
        mean_labels: K.
        draws, seed: of the bootstrap.
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
) -> Comparison:
    """Compare models by the SP-score, with the tie set of a multinomial bootstrap over samples.

    Every draw takes N of the N samples with replacement, the same ones for all models. Ranks among all
    samples stay as they are; how often a sample was drawn weighs the rest (`sp_scores`). With sd_b the
    standard deviation over draws, z = (SP_best - SP) / sd_b(SP_best - SP), and the tie set is z <= 1.645. A
    draw that holds no known positive is left out.

    The interval is SP -+ 1.96 sd_b(SP) and not between quantiles of the draws: copies of a sample lower P, so
    the draws lie about one standard deviation below SP, and their quantiles cover too little.

    Args:
        scores: for each name the (N, C) scores of a model, as in `sp_score`; without names they are called
            `1`, `2`, ...
        observed: as in `sp_score`.
        mean_labels: mean labels per sample; rather too high than too low.
        draws: of the bootstrap, at least 50.
        seed: of the draws, which are the same on every platform.

    Raises:
        ValueError: as `sp_score`, naming the model; no model, or too few draws.

    Example:
        >>> good, bad = [[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]
        >>> found = compare_models({"good": good, "bad": bad}, [0, 1])
        >>> found.tie_set[0], [candidate.sp_rank for candidate in found.candidates]
        ('good', [1, 2])
    """
    named = scores if isinstance(scores, Mapping) else {str(n + 1): given for n, given in enumerate(scores)}
    ranks = {}
    for name, given in named.items():
        try:
            ranks[name] = observed_ranks(given, observed)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return compare_ranks(ranks, len(as_array(observed)), mean_labels, draws, seed)


def compare_ranks(
    ranks: Mapping[str, Ranks], samples: int, mean_labels: float = 2.0, draws: int = 200, seed: int = 0
) -> Comparison:
    """`compare_models` where the positives of each model have been ranked: scores need not be kept.

    Args:
        ranks: of each model, from `observed_ranks` with the same labels.
        samples: N, those that were ranked.
        mean_labels, draws, seed: as in `compare_models`.

    Raises:
        ValueError: no model, models ranked with different labels, too few draws, or `mean_labels` that is not
            above 0 and finite.
    """
    if not ranks:
        raise ValueError("no model to compare: give the scores of at least one")
    if draws < _LEAST_DRAWS:
        raise ValueError(f"draws must be at least {_LEAST_DRAWS}, got {draws}")
    names, models = list(ranks), list(ranks.values())
    for name, model in ranks.items():
        if not np.array_equal(model.counts, models[0].counts):
            raise ValueError(
                f"{name}: was ranked with other labels than {names[0]}; compare on the same ones"
            )
    found = np.array([sp_of_ranks(model, samples, mean_labels) for model in models])
    naive = np.array([mean_over_classes(precision_of_ranks(model)) for model in models])
    sp, p, a = found.T
    best = int(np.argmax(sp))
    drawn = _drawn(models, samples, mean_labels, draws, seed)
    spread = drawn.std(axis=1, ddof=1)
    behind = sp[best] - sp
    sd = np.round((drawn[best] - drawn).std(axis=1, ddof=1), _DIGITS)
    z = np.full(len(names), np.inf)
    np.divide(behind, sd, out=z, where=sd > 0)
    z[behind == 0] = 0.0
    columns = [
        *(sp, p, a, naive, np.maximum(sp - 1.96 * spread, 0.0), sp + 1.96 * spread),
        *(_places(values) for values in (sp, p, a, naive)),
        *(behind, sd, z, z <= TIED),
    ]
    candidates = tuple(map(Candidate, names, *(column.tolist() for column in columns)))
    order = np.argsort(-sp, kind="stable")
    upper = order[: -(-len(names) // 2)]
    comparison = Comparison(
        candidates=candidates,
        tie_set=tuple(names[place] for place in order if candidates[place].tied),
        spearman_naive=spearman(sp, naive),
        spearman_p_a=spearman(p[upper], a[upper]),
        warnings=(),
        samples=len(np.unique(models[0].rows)),
        classes=len(models[0].counts),
        mean_labels=mean_labels,
        draws=draws,
        seed=seed,
    )
    return comparison._replace(warnings=_warnings(comparison))


def sample_warnings(samples: int, classes: int, mean_labels: float) -> tuple[str, ...]:
    """Reasons to distrust any SP-score on such data, a sentence each.

    Args:
        samples: those with a known positive label.
        classes: C.
        mean_labels: K.
    """
    found = []
    if samples < LEAST_SAMPLES:
        found.append(
            f"Only {samples} samples have a known positive label, and below {LEAST_SAMPLES} the SP-score "
            "ranks models poorly. Judge on more samples; one known label of each is enough."
        )
    if mean_labels > MOST_LABELS * classes:
        found.append(
            f"K = {mean_labels:g} labels per sample are {mean_labels / classes:.0%} of the {classes} "
            f"classes, and above {MOST_LABELS:.0%} the SP-score is less reliable. Check K; if the choice "
            "matters, label 100 to 200 samples in full and compare by mAP on those."
        )
    return tuple(found)


def spearman(first: FloatArray, second: FloatArray) -> float | None:
    """Spearman's rank correlation, equal values with their mean rank; None if either is constant."""
    x, y = map(_mean_ranks, (first, second))
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return None
    return float(np.corrcoef(x, y)[0, 1])


def _warnings(found: Comparison) -> tuple[str, ...]:
    warnings = list(sample_warnings(found.samples, found.classes, found.mean_labels))
    count, tied = len(found.candidates), len(found.tie_set)
    # A best one that is alone is the clearest outcome there is, also among three or fewer.
    if tied > max(1, MOST_TIED * count):
        warnings.append(
            f"{tied} of {count} candidates are in the tie set: they can't be told from the best (z up to "
            f"{TIED}). " + _AUDIT
        )
    if found.spearman_naive is not None and found.spearman_naive < LEAST_SPEARMAN_NAIVE:
        warnings.append(
            f"SP-score and naive mAP order the {count} candidates differently (Spearman "
            f"{found.spearman_naive:.2f}, below {LEAST_SPEARMAN_NAIVE}): then the SP-score itself is "
            "unreliable, so take no order for granted. " + _AUDIT
        )
    if found.spearman_p_a is not None and found.spearman_p_a < LEAST_SPEARMAN_P_A:
        warnings.append(
            "P and A, the two parts of the SP-score, order the upper half of the candidates differently "
            f"(Spearman {found.spearman_p_a:.2f}, below {LEAST_SPEARMAN_P_A}): compare their ranks. " + _AUDIT
        )
    return tuple(warnings)


def _drawn(models: Sequence[Ranks], samples: int, mean_labels: float, draws: int, seed: int) -> FloatArray:
    """SP-scores on the draws, (models, draws), without draws that hold no known positive."""
    blocks = [
        np.stack([sp_scores(model, block, mean_labels)[:, 0] for model in models])
        for block in _resamples(samples, draws, seed)
    ]
    drawn = np.concatenate(blocks, axis=1)
    return drawn[:, ~np.isnan(drawn[0])]


def _resamples(samples: int, draws: int, seed: int) -> Iterator[IntArray]:
    """How often each sample was drawn, (some draws, N) at a time.

    Only the raw bits of PCG64 are used, which NumPy promises never to change; the remainder prefers no sample
    by more than N / 2^64.
    """
    bits = np.random.PCG64(seed)
    at_once = max(1, _BLOCK // samples)
    for first in range(0, draws, at_once):
        count = min(at_once, draws - first)
        rows = (bits.random_raw((count, samples)) % np.uint64(samples)).astype(np.int64)
        yield np.stack([np.bincount(row, minlength=samples) for row in rows])


def _places(values: FloatArray) -> npt.NDArray[Any]:
    """1 for the highest value; equal values share a place."""
    return 1 + len(values) - np.searchsorted(np.sort(values), values, side="right")


def _mean_ranks(values: npt.NDArray[Any]) -> FloatArray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place], np.float64)
