"""Search of the auto head: every head on every space, with the score of each penalty on held-out samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...errors import InputError
from ..scaling import SQRT_L2, STANDARD, TFIDF
from .ensemble import head_scores, penalty_name, space_name
from .linear import FINITE_PENALTIES, LDA, PENALTIES, RIDGE
from .spaces import Pool, Rows, Spaces

Scores = npt.NDArray[np.float32]

LINEAR_LIMIT = 6000
"""Number of features above which there is no linear space, whose eigendecomposition would take minutes."""

DENSE_WIDTHS, SPARSE_WIDTHS = (1.0, 0.3, 0.1), (1.0, 0.3)
SPARSE_SHARE = 0.2
"""Share of values that are not 0 below which non-negative features are treated as counts."""


class Candidate(NamedTuple):
    """The best penalty of one head on one space, with the scores (H, C) of held-out samples."""

    scaling: str
    width: float
    head: str
    penalty: float
    score: float
    scores: Scores


def search(
    pool: Pool,
    folds: Sequence[tuple[Rows, Rows]],
    sparse: bool,
    score: Callable[[Scores, Rows], float],
    seed: int,
    report: Callable[[str], None],
) -> tuple[list[Candidate], list[dict[str, Any]], dict[str, Spaces]]:
    """Solve and score every head on every space.

    Args:
        pool: Labelled samples.
        folds: Samples to solve on, and samples to score, once or several times.
        sparse: Whether features look like counts.
        score: As in `fit_auto`; the scored samples of all folds are pooled.
        seed: Seed of the landmarks.
        report: Called with a line for each scaling.

    Returns:
        The best penalty of each head on each space; every solution with its score; and the spaces of each
        scaling, as fitted on the last fold.

    Raises:
        InputError: All samples have the same features after every scaling, or no label is a known positive.
    """
    candidates: list[Candidate] = []
    tried: list[dict[str, Any]] = []
    fitted: dict[str, Spaces] = {}
    problem: InputError | None = None
    rows = np.concatenate([held for _, held in folds])
    widths: tuple[float, ...] = SPARSE_WIDTHS if sparse else DENSE_WIDTHS
    if pool.width <= LINEAR_LIMIT:
        widths = (0.0, *widths)
    for scaling in (STANDARD, SQRT_L2, *([TFIDF] if sparse else [])):
        paths: list[dict[tuple[str, float], list[Scores]]] = [{} for _ in widths]
        try:
            for solved_on, held in folds:
                spaces = Spaces(pool, solved_on, scaling, widths, seed)
                for path, part in zip(paths, score_paths(spaces, held), strict=True):
                    for key, scores in part.items():
                        path.setdefault(key, []).append(scores)
        except InputError as error:
            # One scaling may make all samples equal, such as length 1 of a single feature.
            problem = error
            continue
        fitted[scaling] = spaces
        found: list[Candidate] = []
        for width, path in zip(widths, paths, strict=True):
            best, scored = best_of(path, scaling, width, rows, score)
            found, tried = [*found, *best], [*tried, *scored]
        candidates += found
        highest = max(candidate.score for candidate in found)
        report(f"auto head: spaces of {scaling} features solved, best {100 * highest:.2f}")
    if problem and not candidates:
        raise problem
    return candidates, tried, fitted


def is_sparse(pool: Pool, rows: Rows) -> bool:
    """Whether features look like counts: none negative, and less than 20 % of the values not 0."""
    present = 0
    for batch in pool.batches(rows):
        features = pool.features(batch)
        if (features < 0).any():
            return False
        present += int(torch.count_nonzero(features))
    return present < SPARSE_SHARE * len(rows) * pool.width


def score_paths(spaces: Spaces, held: Rows) -> list[dict[tuple[str, float], Scores]]:
    """Scores (H, C) of samples by ridge and LDA for each penalty, in each space."""
    paths: list[dict[tuple[str, float], list[Tensor]]] = [{} for _ in spaces.widths]
    penalties = [(RIDGE, penalty) for penalty in PENALTIES] + [(LDA, penalty) for penalty in FINITE_PENALTIES]
    solutions = [{key: solver.along(*key) for key in penalties} for solver in spaces.solvers]
    for batch in spaces.pool.batches(held):
        for path, solver, known, inputs in zip(
            paths, spaces.solvers, solutions, spaces.inputs(batch), strict=True
        ):
            along = solver.centred(inputs)
            for key, (weights, bias) in known.items():
                path.setdefault(key, []).append(
                    head_scores(key[0], torch.addmm(bias.float(), along, weights.float()))
                )
    return [{key: torch.cat(parts).numpy() for key, parts in path.items()} for path in paths]


def best_of(
    path: dict[tuple[str, float], list[Scores]],
    scaling: str,
    width: float,
    rows: Rows,
    score: Callable[[Scores, Rows], float],
) -> tuple[list[Candidate], list[dict[str, Any]]]:
    """The best penalty of each head, of equal ones the strongest; and the score of every solution."""
    best: dict[str, Candidate] = {}
    scored = []
    space = space_name(scaling, width)
    for (head, penalty), parts in sorted(path.items(), key=lambda item: -item[0][1]):
        scores = np.concatenate(parts)
        value = score(scores, rows)
        scored.append({"space": space, "head": head, "penalty": penalty_name(penalty), "score": value})
        if head not in best or value > best[head].score:
            best[head] = Candidate(scaling, width, head, penalty, value, scores)
    return list(best.values()), scored
