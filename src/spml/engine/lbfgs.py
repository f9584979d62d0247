"""A linear head on fixed features, solved to the minimum of a method's loss with an L2 penalty.

A solution does not depend on a learning rate or a number of epochs, so that methods can be compared by their
losses alone. The path over the penalties goes from strong to weak; each solution starts from the previous
one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..common.errors import InputError, SpmlError
from ..common.numerics import Minimum, SpreadSum, Weights, minimise_head
from ..common.torch_draws import borrowed_generators
from ..data import Samples
from ..methods.base import Batch, Objective, Outputs, Progress

PENALTIES = tuple(round(300 / 10 ** (k / 3), 6) for k in range(13))
"""Penalties from 300 down to .03, three per decade. On VOC animals, enron, scene and yeast, the best ones for
AN, SHOW, softmax cross-entropy, EM, LL-R and GR by validation mAP lay between 140 and .1, except for GR on
yeast, where it was 300.
"""

TOLERANCE = 1e-4
"""A solution has converged if the norm of its gradient is at most this share of that at the head's start.

With 1e-5 test mAP differs by at most .03 points, and takes about twice the time (benchmarks/solving.py).
"""

MAX_EVALUATIONS = 300
"""Approximate limit on evaluations of the gradient per solution."""

_SINGLE = 1e-4  # least tolerance for which float32 suffices: rounding leaves about 1e-6 of the gradient
_ROWS = 4096
_CONSTANT = 1e-10  # share of the largest variance up to which features do not differ in a direction


def check_solvable(objective: Objective, method: str, samples: Samples, epochs: int) -> None:
    """Refuse an objective whose loss is not a fixed function of logits and labels.

    Args:
        objective: Started method (after `on_fit_start`).
        method: Name of the method, for the message.
        samples: Training samples.
        epochs: Number of epochs; a schedule is taken at its end.
    """
    needs = objective.needs
    reasons = {
        "compares views of a sample": bool(needs.views),
        "needs class maps of images": needs.class_maps,
        "needs a head with a random code": needs.latent or needs.posterior,
        "infers something from step to step or from epoch to epoch": needs.train_pass or objective.remembers,
        "makes further inputs": type(objective).extra_inputs is not Objective.extra_inputs,
        "trains parameters of its own": bool(objective.param_groups()),
    }
    obstacles = [reason for reason, holds in reasons.items() if holds]
    if not obstacles and _is_random(objective, samples, epochs):
        obstacles = ["draws at random"]
    if obstacles:
        raise InputError(
            f"optim.name=lbfgs minimises a loss that is a fixed function of logits and labels, but method "
            f"{method!r} {' and '.join(obstacles)}: train it (optim.name=adamw), or choose another method."
        )


@torch.no_grad()
def _is_random(objective: Objective, samples: Samples, epochs: int) -> bool:
    """Whether equal logits can have unequal losses."""
    target, index = samples.observed.target(range(len(samples))), torch.arange(len(samples))
    objective.train().on_epoch_start(Progress(epochs - 1, epochs))
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(len(samples), samples.observed.num_classes, dtype=torch.float64, generator=generator)
    with borrowed_generators():
        terms = [objective(_outputs(logits), Batch(target, index, seed)) for seed in (0, 1)]
    losses = [float(torch.stack(list(each.values())).sum()) for each in terms]
    return losses[0] != losses[1] and all(map(math.isfinite, losses))


def _outputs(logits: Tensor) -> Outputs:
    # No features: the loss must be a function of logits and labels alone.
    return Outputs(logits, logits.new_empty(len(logits), 0))


class _Problem:
    """Loss and gradient of a linear head on centred features along their principal axes.

    Directions in which the features are constant are left out: a solution has no weight there. The rotation
    is computed in float64, and all that follows in `precision`. Memory: N x R numbers of that precision, and
    D x D or, of fewer samples than features, N x D of 8 bytes.
    """

    @torch.no_grad()
    def __init__(
        self, objective: Objective, top: nn.Module, samples: Samples, precision: torch.dtype
    ) -> None:
        device, count, head = next(top.parameters()).device, len(samples), top.head
        assert isinstance(head, nn.Linear)

        def parts() -> Iterator[tuple[range, Tensor]]:
            for first in range(0, count, _ROWS):
                batch = range(first, min(first + _ROWS, count))
                yield batch, top(samples.inputs.fetch(batch, None).to(device)).features.cpu().double()

        features = SpreadSum(head.in_features, count)
        for _, part in parts():
            features.add(part)
        spread = features.spread()
        self._mean, (variances, axes) = spread.mean, spread.axes()
        varying = variances > _CONSTANT * variances[-1]
        self._variances, self._axes = variances[varying].to(precision), axes[:, varying]
        self._rows = torch.empty(count, self._axes.shape[1], dtype=precision)
        for batch, part in parts():
            self._rows[batch.start : batch.stop] = part.sub_(self._mean) @ self._axes
        self.scale = float(spread.mean_variance())
        self._head, bias = head, head.bias.detach().cpu().to(precision, copy=True)
        self.start = bias.new_zeros(self._axes.shape[1], len(bias)), bias
        self._objective, self._target = objective, samples.observed.target(range(count))

    def slope(self, weights: Tensor, bias: Tensor) -> tuple[float, Tensor]:
        """Compute the loss, and its derivative with respect to each logit (N, C)."""
        logits = torch.addmm(bias, self._rows, weights).requires_grad_()
        terms = self._objective(_outputs(logits), Batch(self._target, torch.arange(len(self._rows))))
        total = torch.stack(list(terms.values())).sum()
        (slope,) = torch.autograd.grad(total, logits)
        return total.item(), slope

    def gradient(self, weights: Tensor, bias: Tensor, l2: float) -> tuple[float, Tensor, Tensor]:
        """Compute the penalised loss, and its derivatives with respect to weights (R, C) and bias (C,)."""
        loss, slope = self.slope(weights, bias)
        by_weights = (self._rows.T @ slope).add_(weights, alpha=2 * l2)
        return loss + l2 * float(weights.square().sum()), by_weights, slope.sum(0)

    def solve(
        self, begin: Weights, l2: float, tolerance: float, max_evaluations: int
    ) -> tuple[Weights, Minimum, bool]:
        """Solve for one penalty. Returns weights and bias, the search, and whether it converged.

        For a binary cross-entropy whose probabilities are right, half the sum of absolute slopes at the
        logits of a class is its curvature p (1 - p).

        Raises:
            SpmlError: Loss or gradient is not finite at the point that the search starts from.
        """
        loss, slope = self.slope(*begin)
        curvature = slope.abs().sum(0) / 2
        if not (math.isfinite(loss) and bool(curvature.isfinite().all())):
            raise SpmlError(
                f"{self._objective.card.title}: the loss of the whole training set, or its gradient, is "
                "NaN or infinite at the start of a solution, so it can't be minimised. Scale the features "
                "(model.scaling=standard), or train with small steps (optim.name=adamw)."
            )
        return minimise_head(
            lambda weights, bias: self.gradient(weights, bias, 0.0)[1:],
            begin,
            self.start,
            l2,
            variances=self._variances,
            curvature=curvature,
            tolerance=tolerance,
            max_evaluations=max_evaluations,
        )

    @torch.no_grad()
    def fill_head(self, weights: Tensor, bias: Tensor) -> None:
        """Fill the head with a solution."""
        weights = self._axes @ weights.double()
        self._head.weight.copy_(weights.T)
        self._head.bias.copy_(bias - self._mean @ weights)


def solve_path(
    objective: Objective,
    top: nn.Module,
    samples: Samples,
    penalties: Sequence[float] = PENALTIES,
    on_solution: Callable[[int, dict[str, Any]], None] = lambda number, record: None,
    *,
    epochs: int = 1,
    tolerance: float = TOLERANCE,
    max_evaluations: int = MAX_EVALUATIONS,
) -> list[dict[str, Any]]:
    """Solve the top's linear head for each penalty, and fill it with each solution in turn.

    The function that is minimised is the sum of the objective's terms on the whole training set as one batch,
    plus l2 times the sum of squared weights (the bias is free). l2 = penalty * s2 * a / 4, where
    s2 is the mean variance of a feature and a the mean over classes of the sum over samples of |d loss / d
    logit| at the head's start: multiplying the loss or the features by a number changes no solution, whether
    a loss is a sum or a mean over classes, and for a binary cross-entropy the penalty means what that of
    ridge regression does. The first solution starts from weights of 0 and the head's bias, each further one
    from the one before.

    A scheduled objective is taken at its last epoch. Such losses are rarely convex: each of their solutions
    starts from the minimum of the loss of the first epoch at the same penalty, where training would come
    from, and the path runs along those minima. A loss that is not convex ends in a local minimum.

    Features are rotated to their principal axes in float64. From there on all is computed in float32 if the
    tolerance is at least 1e-4, which halves time and memory, and in float64 for a smaller one.

    Memory: 4 bytes (8 in float64) for each of N x D numbers, a matrix of D x D, and some of N x C.

    Args:
        objective: Started method that `check_solvable` has passed.
        top: Maps features to `Outputs`, with a linear `head` that starts from its bias.
        samples: Feature vectors and observed labels.
        penalties: Penalties above 0, from strong to weak.
        on_solution: Called with the number and the record of each solution while the head holds it.
        epochs: Number of epochs; a schedule is taken at its end.
        tolerance: Norm of the gradient at which to stop, in coordinates in which the curvature is about 1, as
            a share of that at the head's start.
        max_evaluations: Approximate limit on evaluations of the gradient per solution.

    Returns:
        A record per penalty: `penalty`, `l2`, `train/loss` (with the penalty), `gradient` (norm of the
        penalised loss's with respect to weights and bias), `iterations`, `evaluations`, `converged`, and
        `schedule_epoch` if scheduled.

    Raises:
        InputError: All samples have the same features.
        SpmlError: The loss is not finite, or does not depend on the logits at the head's start.
        ValueError: The head is not linear, or a penalty is not above 0.
    """
    if not isinstance(top.head, nn.Linear):
        raise ValueError(f"a linear head is solved, got {type(top.head).__name__}")
    if not all(penalty > 0 for penalty in penalties):
        raise ValueError(f"penalties must be greater than 0, got {list(penalties)}")
    problem = _Problem(objective, top, samples, torch.float32 if tolerance >= _SINGLE else torch.float64)
    scheduled = type(objective).on_epoch_start is not Objective.on_epoch_start
    first, last = Progress(0, epochs), Progress(epochs - 1, epochs)
    objective.train().on_epoch_start(last)
    steepness = float(problem.slope(*problem.start)[1].abs().sum(0).mean())
    if steepness == 0:
        raise SpmlError(
            f"{objective.card.title}: at the head's start the loss does not depend on the logits, so "
            "there is nothing to minimise. Try another start (model.head_bias)."
        )
    records, before = [], problem.start
    for number, penalty in enumerate(penalties):
        l2 = penalty * problem.scale * steepness / 4
        begin, evaluations = before, 0
        if scheduled:
            objective.on_epoch_start(first)
            begin, search, _ = problem.solve(before, l2, tolerance, max_evaluations)
            evaluations = search.evaluations
            objective.on_epoch_start(last)
        solution, search, converged = problem.solve(begin, l2, tolerance, max_evaluations)
        before = begin if scheduled else solution
        loss, by_weights, by_bias = problem.gradient(*solution, l2)
        problem.fill_head(*solution)
        record: dict[str, Any] = {
            "penalty": penalty,
            "l2": l2,
            "train/loss": loss,
            "gradient": math.hypot(float(by_weights.norm()), float(by_bias.norm())),
            "iterations": search.iterations,
            "evaluations": evaluations + search.evaluations,
            "converged": converged,
        }
        if scheduled:
            record["schedule_epoch"] = epochs
        records.append(record)
        on_solution(number, record)
    return records
