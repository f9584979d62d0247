"""Search of the auto head: every head on every space, with the score of each penalty on held-out samples.

One solution at a time is scored, and only its score is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...common.budget import Budget
from ...common.errors import InputError
from ...common.messages import log
from ..scaling import SQRT_L2, STANDARD, TFIDF
from .ensemble import penalty_name, space_name
from .linear import MULTINOMIAL, Solver
from .moments import sparse_scaling
from .spaces import AXES, LANDMARKS, Pool, Rows, Spaces, fit_spaces, to_csr, too_much

Scores = npt.NDArray[np.float32]

LINEAR_LIMIT = 6000
"""Number of dense features above which there is no linear space, whose eigendecomposition would take minutes,
unless `WIDE_LIMIT` allows it."""

WIDE_LIMIT = 20_000_000_000
"""Largest features x samples^2 for which there are linear spaces of more features, to bound their time."""

DENSE_WIDTHS, SPARSE_WIDTHS = (1.0, 0.3, 0.1), (1.0, 0.3)

MOST_WEIGHTS = 1 << 28
"""Largest number of weights of all heads that are solved: 1 GiB of float32, and three times as much while
they are solved."""


class Candidate(NamedTuple):
    """The best penalty of one head on one space, and its weight in the sum of all members."""

    scaling: str
    width: float
    head: str
    penalty: float
    score: float
    weight: float = 1.0

    @property
    def space(self) -> tuple[str, float]:
        """Scaling and width."""
        return self.scaling, self.width


class Fold(NamedTuple):
    """Samples to solve on, and samples to score."""

    solved_on: Rows
    held: Rows


def search(
    pool: Pool,
    folds: Sequence[Fold],
    scalings: Sequence[str],
    widths: Sequence[float],
    score: Callable[[Scores], float],
    seed: int,
    columns: Tensor | None,
    budget: Budget,
) -> tuple[list[Candidate], list[dict[str, Any]], dict[str, list[Spaces]]]:
    """Solve and score every head on every space.

    Args:
        pool: Labelled samples.
        folds: Samples to solve on, and samples to score, once or several times.
        scalings: Scalings of the spaces.
        widths: Widths of their kernels; 0 = the space without one.
        score: Score of predictions (H, J) for the scored samples of all folds, which are pooled.
        seed: Seed of the landmarks.
        columns: Columns whose predictions `score` takes, int64 (J,); None = all of the pool.
        budget: Time limit, which may leave out every scaling but the first.

    Returns:
        The best penalty of each head on each space; every solution with its score; and the spaces of each
        scaling, as fitted on each fold.

    Raises:
        InputError: All samples have the same features after every scaling, or no label is a known positive.
    """
    candidates: list[Candidate] = []
    tried: list[dict[str, Any]] = []
    fitted: dict[str, list[Spaces]] = {}
    problem: InputError | None = None
    seconds = 0.0
    for scaling in scalings:
        if candidates and not budget.allows(f"spaces of {scaling} features", seconds):
            continue
        started = time.monotonic()
        try:
            of_folds = [fit_spaces(pool, fold.solved_on, scaling, widths, seed) for fold in folds]
            for spaces in of_folds:
                spaces.solve()
        except InputError as error:
            # One scaling may make all samples equal, such as length 1 of a single feature.
            problem = error
            continue
        fitted[scaling] = of_folds
        found: list[Candidate] = []
        for width in widths:
            held_out = HeldOut(of_folds, [fold.held for fold in folds], width)
            scores_of = partial(held_out.scores, columns=columns)
            best, scored = best_of(scores_of, scaling, width, score, held_out.solutions)
            found, tried = [*found, *best], [*tried, *scored]
        candidates += found
        seconds = time.monotonic() - started
        highest = max(candidate.score for candidate in found)
        log.debug(f"auto head: spaces of {scaling} features solved, best {100 * highest:.2f}")
    if problem and not candidates:
        raise problem
    return candidates, tried, fitted


def spaces_for(pool: Pool) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Scalings and widths of the spaces in which the auto head is searched.

    Raises:
        InputError: The heads of so many classes do not fit into memory.
    """
    if pool.counts and (reason := too_much(pool)):
        log.info(f"auto head: without softmax regression, because {reason}")
    if pool.wide:
        # Two of counts. Those that have weights already, such as those of TF-IDF, are best as they are
        # (benchmarks/results/texts.md).
        own = sparse_scaling(pool.training)
        scalings: tuple[str, ...] = (own, SQRT_L2) if own == TFIDF else (own,)
        if (size := 2 * len(scalings) * len(pool.columns) * pool.width) > MOST_WEIGHTS:  # ridge and LDA
            raise _too_many(pool, size)
        return scalings, (0.0,)
    scalings = (STANDARD, SQRT_L2, *([TFIDF] if pool.counts else []))
    return scalings, _affordable(pool, len(scalings), SPARSE_WIDTHS if pool.counts else DENSE_WIDTHS)


def _affordable(pool: Pool, scalings: int, kernels: tuple[float, ...]) -> tuple[float, ...]:
    """Widths of the spaces whose heads fit into memory: all, or those without kernels."""
    count, limit = len(pool.columns), MOST_WEIGHTS * 4 / 2**30
    linear = pool.width <= LINEAR_LIMIT or (
        pool.width * len(pool) ** 2 <= WIDE_LIMIT
        and pool.width * len(pool) <= LINEAR_LIMIT**2  # the memory of as many features as otherwise
        and count * 2 * scalings * pool.width <= MOST_WEIGHTS
    )
    per_column = 2 * scalings * min(pool.width, AXES) * linear  # ridge and LDA
    of_kernels = 2 * scalings * len(kernels) * min(LANDMARKS, len(pool))
    if count * (per_column + of_kernels) <= MOST_WEIGHTS:
        return (0.0, *kernels) if linear else kernels
    size = count * (per_column + of_kernels) * 4 / 2**30
    if linear and count * per_column <= MOST_WEIGHTS:
        log.info(
            f"auto head: without Gaussian kernels, because heads of {count:,} classes with known positives "
            f"on all spaces would take {size:.1f} GiB, more than {limit:.1f} GiB"
        )
        return (0.0,)
    raise _too_many(pool, count * (per_column or of_kernels))


def _too_many(pool: Pool, weights: int) -> InputError:
    size, limit = (number * 4 / 2**30 for number in (weights, MOST_WEIGHTS))
    return InputError(
        f"the auto head of {len(pool.columns):,} classes with known positives on {pool.width:,} features "
        f"would solve heads of {size:.1f} GiB, more than {limit:.1f} GiB, and several times as much memory: "
        "solve a single head (head=ridge or head=lda), train one (model.head=linear), or reduce the "
        "number of features."
    )


class HeldOut:
    """Samples in the space of one width, as heads see them that were not solved on them.

    Args:
        fitted: Spaces fitted on each fold.
        held: Samples to score by each of them.
        width: Width of the kernel; 0 = the scaled features themselves.
    """

    def __init__(self, fitted: Sequence[Spaces], held: Sequence[Rows], width: float) -> None:
        self._folds: list[tuple[Solver, list[Tensor], list[Any]]] = []
        for spaces, rows in zip(fitted, held, strict=True):
            solver, along, matrices = spaces.solve()[width], list[Tensor](), list[Any]()
            for batch in spaces.pool.batches(rows, len(spaces.pool.columns)):
                (inputs,) = spaces.inputs(batch, (width,))
                along.append(solver.centred(inputs))
                if solver.multinomial:
                    matrices.append(to_csr(inputs))
            self._folds.append((solver, along, matrices))

    @property
    def solutions(self) -> tuple[tuple[str, float], ...]:
        """Heads and penalties that can be scored."""
        return self._folds[0][0].solutions

    def scores(self, head: str, penalty: float, columns: Tensor | None = None) -> Scores:
        """Scores (H, K) of the samples of all folds, or (H, J) of some columns."""
        parts = [
            solver.scores(head, penalty, matrices if head == MULTINOMIAL else along, columns)
            for solver, along, matrices in self._folds
        ]
        scores: Scores = torch.cat(parts).numpy()
        return scores


def best_of(
    scores_of: Callable[[str, float], Scores],
    scaling: str,
    width: float,
    score: Callable[[Scores], float],
    solutions: Sequence[tuple[str, float]],
) -> tuple[list[Candidate], list[dict[str, Any]]]:
    """The best penalty of each head, of equal ones the strongest; and the score of every solution.

    Softmax regression, which takes long, is not solved for weaker penalties once two have scored lower than
    the best.
    """
    best: dict[str, Candidate] = {}
    scored = []
    space, behind = space_name(scaling, width), 0
    for head, penalty in sorted(solutions, key=lambda solution: -solution[1]):
        if head == MULTINOMIAL and behind == 2:
            continue
        value = score(scores_of(head, penalty))
        scored.append({"space": space, "head": head, "penalty": penalty_name(penalty), "score": value})
        if head not in best or value > best[head].score:
            best[head] = Candidate(scaling, width, head, penalty, value)
            behind = 0 if head == MULTINOMIAL else behind
        elif head == MULTINOMIAL and value < best[head].score:
            behind += 1
    return list(best.values()), scored
