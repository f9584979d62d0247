"""A linear head on fixed features, solved to the minimum of a method's loss with an L2 penalty.

What training with few epochs and one learning rate leaves open is then settled: two methods differ by their
losses alone. The path over the penalties goes from strong to weak, each start at the solution before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..data import Samples
from ..errors import InputError, SpmlError
from ..methods.base import Batch, Objective, Outputs, Progress
from .lbfgs import Minimum, minimise

PENALTIES = tuple(round(300 / 10 ** (k / 3), 6) for k in range(13))
"""From 300 down to .03, three per decade. On VOC animals, enron, scene and yeast, the best for AN, SHOW,
softmax cross-entropy, EM, LL-R and GR by validation mAP lay between 140 and .1, but for GR on yeast at 300.
"""

TOLERANCE = 1e-5
"""Norm of the gradient, as a share of that at the head's start, at which a solution has converged."""

MOST = 300
"""Evaluations per solution, about."""

_ROWS = 4096
_NEVER = 1e-10  # variance, as a share of the largest, of a direction in which features don't differ
_RAREST = 1e-3  # least curvature of a class, as a share of the largest


def is_scheduled(objective: Objective) -> bool:
    """Whether its loss differs from epoch to epoch."""
    return type(objective).on_epoch_start is not Objective.on_epoch_start


def check_solvable(objective: Objective, method: str, samples: Samples, epochs: int) -> None:
    """Refuse an objective whose loss is no fixed function of logits and labels.

    Args:
        objective: started (`on_fit_start` was called).
        method: its name, for the message.
        samples: what is learnt from.
        epochs: at whose end a schedule stands.

    Raises:
        InputError: names what the method needs, and what to do.
    """
    needs = objective.needs
    reasons = {
        "compares views of a sample": bool(needs.views),
        "needs class maps of images": needs.class_maps,
        "needs a head with a random code": needs.latent,
        "infers something from step to step or from epoch to epoch": needs.train_pass or objective.remembers,
        "makes further inputs": type(objective).extra_inputs is not Objective.extra_inputs,
        "trains parameters of its own": bool(objective.param_groups()),
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if not found and _is_random(objective, samples, epochs):
        found = ["draws at random"]
    if found:
        raise InputError(
            f"--optim.name lbfgs minimises a loss that is a fixed function of logits and labels, but method "
            f"{method!r} {' and '.join(found)}: train it (--optim.name adamw), or choose another method."
        )


@torch.no_grad()
def _is_random(objective: Objective, samples: Samples, epochs: int) -> bool:
    """Whether equal logits have unequal losses."""
    target, index = _labels(samples)
    objective.train().on_epoch_start(Progress(epochs - 1, epochs))
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(len(samples), samples.observed.num_classes, dtype=torch.float64, generator=generator)
    with torch.random.fork_rng(devices=[]):
        losses = [
            float(torch.stack(list(objective(_outputs(logits), Batch(target, index, seed)).values())).sum())
            for seed in (0, 1)
        ]
    return losses[0] != losses[1] and all(map(math.isfinite, losses))


def _labels(samples: Samples) -> tuple[Tensor, Tensor]:
    return samples.observed.target(range(len(samples))), torch.arange(len(samples))


def _outputs(logits: Tensor) -> Outputs:
    # A loss that looked at features would not be a function of logits and labels alone: it finds none.
    return Outputs(logits, logits.new_empty(len(logits), 0))


class _Turned(NamedTuple):
    """Features, centred, and turned into their principal axes; float64.

    Attributes:
        mean: (D,), of the features.
        axes: (D, R), orthonormal.
        variances: (R,), along the axes.
        scale: mean variance of a feature.
        rows: (N, R).
    """

    mean: Tensor
    axes: Tensor
    variances: Tensor
    scale: float
    rows: Tensor


@torch.no_grad()
def _turn(samples: Samples, top: nn.Module) -> _Turned:
    """What the head is given, along principal axes; directions in which it does not differ are left out.

    The solution has no weight in those. Memory: 8 bytes for each of N x R numbers, and for D x D.

    Raises:
        InputError: all samples have the same features.
    """
    device, count = next(top.parameters()).device, len(samples)

    def parts() -> Iterator[tuple[range, Tensor]]:
        for start in range(0, count, _ROWS):
            batch = range(start, min(start + _ROWS, count))
            yield batch, top(samples.inputs.fetch(batch, None).to(device)).features.cpu().double()

    mean = sum((part.sum(0) for _, part in parts()), torch.tensor(0.0)) / count
    covariance = torch.zeros(len(mean), len(mean), dtype=torch.float64)
    for _, part in parts():
        part -= mean
        covariance.addmm_(part.T, part, alpha=1 / count)
    # Where all are equal, rounding leaves deviations of 1e-16 of the mean; float32 can't hold less than 1e-8.
    if covariance.trace() <= 1e-20 * mean.square().sum():
        raise InputError(
            f"all {count:,} training samples have the same features, so no label can be told from them: give "
            "other features."
        )
    variances, axes = torch.linalg.eigh(covariance)
    kept = variances > _NEVER * variances[-1]
    variances, axes = variances[kept], axes[:, kept]
    rows = torch.empty(count, len(variances), dtype=torch.float64)
    for batch, part in parts():
        torch.mm(part.sub_(mean), axes, out=rows[batch.start : batch.stop])
    return _Turned(mean, axes, variances, float(covariance.diagonal().mean()), rows)


class _Problem:
    """Loss and gradient of a linear head on turned features, in coordinates of even curvature."""

    def __init__(self, objective: Objective, turned: _Turned, samples: Samples, bias: Tensor) -> None:
        self.objective, self.turned = objective, turned
        self.target, self.index = _labels(samples)
        self.classes, self.bias = len(bias), bias
        self.start = torch.zeros(len(turned.variances), self.classes, dtype=torch.float64), bias

    def at_logits(self, logits: Tensor) -> tuple[float, Tensor]:
        """The loss, and its derivative with respect to each logit (N, C)."""
        logits = logits.detach().requires_grad_()
        terms = self.objective(_outputs(logits), Batch(self.target, self.index))
        total = torch.stack(list(terms.values())).sum()
        (slope,) = torch.autograd.grad(total, logits)
        return total.item(), slope

    def logits(self, weights: Tensor, bias: Tensor) -> Tensor:
        """(N, C)."""
        return torch.addmm(bias, self.turned.rows, weights)

    def gradient(self, weights: Tensor, bias: Tensor, l2: float) -> tuple[float, Tensor, Tensor]:
        """The penalised loss, and its derivative with respect to weights (R, C) and bias (C,)."""
        loss, slope = self.at_logits(self.logits(weights, bias))
        by_weights = (self.turned.rows.T @ slope).add_(weights, alpha=2 * l2)
        return loss + l2 * float(weights.square().sum()), by_weights, slope.sum(0)

    def sizes(self, weights: Tensor, bias: Tensor, l2: float) -> tuple[Tensor, Tensor]:
        """Units of weights (R, C) and biases (C,) in which the curvature is about 1.

        Half the sum of absolute slopes at the logits of a class is, for a binary cross-entropy whose
        probabilities are right, its curvature p (1 - p).

        Raises:
            SpmlError: loss or gradient is not finite at this point, from which a solution is to start.
        """
        loss, slope = self.at_logits(self.logits(weights, bias))
        curvature = slope.abs().sum(0) / 2
        if not (math.isfinite(loss) and bool(curvature.isfinite().all())):
            raise SpmlError(
                f"{self.objective.card.title}: the loss of the whole training set, or its gradient, is "
                "NaN or infinite where a solution is to start, so it can't be minimised. Scale the features "
                "(--model.standardise true), or train with small steps (--optim.name adamw)."
            )
        largest = float(curvature.max())
        curvature = curvature.clamp(min=_RAREST * largest if largest else 1.0)
        return (self.turned.variances[:, None] * curvature + 2 * l2).rsqrt(), curvature.rsqrt()

    def solve(
        self, begin: tuple[Tensor, Tensor], l2: float, tolerance: float, most: int
    ) -> tuple[tuple[Tensor, Tensor], Minimum, bool]:
        """Weights and bias at the minimum, how it was reached, and whether it was."""
        sizes = self.sizes(*begin, l2)

        def apart(point: Tensor) -> tuple[Tensor, Tensor]:
            weights, bias = point[: -self.classes], point[-self.classes :]
            return weights.view_as(sizes[0]) * sizes[0], bias * sizes[1]

        def scaled(weights: Tensor, bias: Tensor) -> Tensor:
            return torch.cat([weights.ravel(), bias])

        def gradient(point: Tensor) -> Tensor:
            _, by_weights, by_bias = self.gradient(*apart(point), l2)
            return scaled(by_weights * sizes[0], by_bias * sizes[1])

        first = float(gradient(scaled(self.start[0], self.start[1] / sizes[1])).norm())
        point = scaled(begin[0] / sizes[0], begin[1] / sizes[1])
        found = minimise(gradient, point, tolerance=tolerance * first, most=most)
        return apart(found.point), found, float(found.slope.norm()) <= tolerance * first


def solve_path(
    objective: Objective,
    top: nn.Module,
    samples: Samples,
    penalties: Sequence[float] = PENALTIES,
    on_solution: Callable[[int, dict[str, Any]], None] = lambda place, record: None,
    *,
    epochs: int = 1,
    tolerance: float = TOLERANCE,
    most: int = MOST,
) -> list[dict[str, Any]]:
    """Solve the top's linear head for each penalty, and fill it with each solution in turn.

    Minimised is the sum of the objective's terms on the whole training set as one batch, plus l2 times the
    sum of squared weights (the bias is free), in float64. l2 = penalty * s2 * a / 4, where s2 is the mean
    variance of a feature and a the mean over classes of the sum over samples of |d loss / d logit| at the
    head's start: multiplying the loss or the features by a number changes no solution, whether a loss is a
    sum or a mean over classes, and for a binary cross-entropy the penalty means what that of ridge regression
    does. The first solution starts from weights of 0 and the head's bias, each further one from the one
    before.

    A scheduled objective stands at its last epoch. Such losses are rarely convex: each of their solutions
    starts from the minimum of the loss of the first epoch at the same penalty, as training would come from
    there, and the path runs along those minima. What is not convex ends in a local minimum.

    Memory: 8 bytes for each of N x D numbers, one more matrix of D x D, and some of N x C.

    Args:
        objective: started (`on_fit_start` was called) and passed by `check_solvable`.
        top: features to `Outputs`, with a linear `head`, whose bias is where it starts.
        samples: feature vectors and observed labels.
        penalties: from strong to weak, above 0.
        on_solution: called with the solution's place and record while the head holds it.
        epochs: at whose end a schedule stands.
        tolerance: norm of the gradient, in coordinates in which the curvature is about 1, as a share of that
            at the head's start.
        most: evaluations of the gradient per solution, about.

    Returns:
        A record per penalty: `penalty`, `l2`, `train/loss` (with the penalty), `gradient` (norm of the
        penalised loss's with respect to weights and bias), `iterations`, `evaluations`, `converged`, and
        `schedule_epoch` if scheduled.

    Raises:
        InputError: all samples have the same features.
        SpmlError: the loss is not finite, or does not depend on the logits at the head's start.
        ValueError: the top's head is not linear, or a penalty is not above 0.
    """
    head = top.head
    if not isinstance(head, nn.Linear):
        raise ValueError(f"a linear head is solved, got {type(head).__name__}")
    if not all(penalty > 0 for penalty in penalties):
        raise ValueError(f"penalties must be greater than 0, got {list(penalties)}")
    turned, scheduled = _turn(samples, top), is_scheduled(objective)
    problem = _Problem(objective, turned, samples, head.bias.detach().cpu().double())
    first, last = Progress(0, epochs), Progress(epochs - 1, epochs)
    objective.train().on_epoch_start(last)
    _, slope = problem.at_logits(problem.logits(*problem.start))
    steepness = float(slope.abs().sum(0).mean())
    if steepness == 0:
        raise SpmlError(
            f"{objective.card.title}: at the head's start the loss does not depend on the logits, so "
            "there is nothing to minimise. Try another start (--model.head_bias)."
        )
    records, before = [], problem.start
    for place, penalty in enumerate(penalties):
        l2 = penalty * turned.scale * steepness / 4
        begin, evaluations = before, 0
        if scheduled:
            objective.on_epoch_start(first)
            begin, found, _ = problem.solve(before, l2, tolerance, most)
            evaluations = found.evaluations
            objective.on_epoch_start(last)
        solution, found, converged = problem.solve(begin, l2, tolerance, most)
        before = begin if scheduled else solution
        loss, by_weights, by_bias = problem.gradient(*solution, l2)
        _fill(head, turned, *solution)
        record: dict[str, Any] = {
            "penalty": penalty,
            "l2": l2,
            "train/loss": loss,
            "gradient": math.hypot(float(by_weights.norm()), float(by_bias.norm())),
            "iterations": found.iterations,
            "evaluations": evaluations + found.evaluations,
            "converged": converged,
        }
        if scheduled:
            record["schedule_epoch"] = epochs
        records.append(record)
        on_solution(place, record)
    return records


@torch.no_grad()
def _fill(head: nn.Linear, turned: _Turned, weights: Tensor, bias: Tensor) -> None:
    weights = turned.axes @ weights
    head.weight.copy_(weights.T)
    head.bias.copy_(bias - turned.mean @ weights)
