"""Logits from scores: a logistic regression of each class on its own score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

STRENGTH = 5.0
"""Strength that draws the slopes of classes to the common one: this times half the square of the relative
difference is added to the loss."""

_ROUNDS, _STEPS = 6, 10  # estimates of the common slope, and steps of Newton's method for each
_LONGEST = 1.0  # step, in log-odds
_LEAST_SLOPE = 0.05  # in units of the common one: rankings within a class never change
_SMALLEST_DEVIATION = 1e-6
_SMALLEST_COUNT = 1e-9  # a mean over no positives is defined
_LEAST_ROOM = 0.1  # a single label that decides a class alone moves its logit no further
_ENTRIES = 1 << 23  # elements of a batch of classes


TEMPERATURE, LEAST_WEIGHT = 0.03, 0.05


def relative_weights(scores: Sequence[float]) -> list[float]:
    """Weights exp((score - best) / (.03 best)), of which the best score has 1."""
    highest = max(scores)
    return [math.exp((score - highest) / (TEMPERATURE * max(highest, 1e-9))) for score in scores]


class ClassLogits(NamedTuple):
    """What turns the scores of each column into logits, comparable between classes.

    Attributes:
        offset, scale: Of each column, float64 (K,). The scale is positive, but 0 for a class whose scores are
            all equal.
        logits: Logits (H, K) of the samples it was fitted to, each as if its own label had not been fitted.
    """

    offset: Tensor
    scale: Tensor
    logits: Tensor


def class_logits(
    scores: Tensor, labels: Tensor, mean_labels: float, sizes: Tensor | None = None
) -> ClassLogits:
    """Fit the offset and scale (K,) of `ClassLogits`.

    Each class has a logistic regression of its label on its score, with a slope drawn to the common slope of
    all classes. Half a positive with the mean standardised score of all positives is added to each class, so
    that one without positives has a finite bias; its score counts for little. Of the mean labels per sample
    only one may be known, so one number is added to all logits such that their sigmoids sum to
    `mean_labels` per sample.

    A class with few positives gets a larger slope if these happen to have high scores. Estimates that take
    the known labels for a draw among all labels would then expect too much at the top, so a label does not
    speak for its own logit: it is left out by a step of Newton's method from the fit to all.

    Args:
        scores: Scores (H, K) of samples that the model was not fitted to.
        labels: Labels (H, K), 1 for a known positive, else 0.
        mean_labels: Mean labels per sample.
        sizes: Number of classes (K,) that each column stands for; None = one each.

    Source:
        Platt. Probabilistic Outputs for Support Vector Machines. 1999, with shrunk slopes. Rad, Maleki. A
        Scalable Estimate of the Out-of-Sample Prediction Error via Approximate Leave-One-Out. 2020.
    """
    deviation, centre = torch.std_mean(scores.double(), 0, correction=0)
    deviation = torch.where(deviation > _SMALLEST_DEVIATION, deviation, math.inf)
    scores, counts = (scores - centre).div_(deviation), labels.sum(0).double()
    importance = counts + _SMALLEST_COUNT
    typical = float((scores * labels).sum() / importance.sum())
    slope, size = torch.ones(()), max(1, _ENTRIES // len(scores))
    offset = ((counts + 0.5) / len(labels)).logit(eps=1e-6)
    scale = torch.ones_like(offset)
    # Columns without positives do not change the common slope, so that one round is enough for them.
    with_positives, every = torch.nonzero(counts > 0)[:, 0], torch.arange(len(counts))
    for columns in (*[with_positives] * (_ROUNDS - 1), every):
        for own in torch.split(columns, size):
            offset[own], scale[own] = _regress(
                scores[:, own], labels[:, own].double(), offset[own], scale[own], slope, typical
            )
        slope = (importance * scale).sum() / importance.sum()
    scale = torch.where(counts > 0, scale, _LEAST_SLOPE * slope)
    logits = offset + scale * scores
    shift, scale_of_scores = _shift(logits, mean_labels, sizes), scale / deviation
    for own in torch.split(every, size):
        p = logits[:, own].sigmoid()
        first, mixed, second = _curvature(
            p, scores[:, own], (offset + scale * typical)[own].sigmoid(), slope, typical
        )
        leverage = (second - 2 * mixed * scores[:, own] + first * scores[:, own].square()) / _determinant(
            first, mixed, second
        )
        room = (1 - leverage * p * (1 - p)).clamp_min(_LEAST_ROOM)
        logits[:, own] += leverage * (p - labels[:, own].double()) / room
    return ClassLogits(offset + shift - scale_of_scores * centre, scale_of_scores, (logits + shift).float())


def _regress(
    scores: Tensor, labels: Tensor, offset: Tensor, scale: Tensor, slope: Tensor, typical: float
) -> tuple[Tensor, Tensor]:
    """Improve offset and scale (C,) of logistic regressions with slopes near `slope`, by Newton's method."""
    for _ in range(_STEPS):
        p, pseudo = (offset + scale * scores).sigmoid(), (offset + scale * typical).sigmoid()
        error, missing = p - labels, (pseudo - 1) / 2
        gradient = error.sum(0) + missing
        along = (error * scores).sum(0) + missing * typical + STRENGTH * (scale / slope - 1) / slope
        first, mixed, second = _curvature(p, scores, pseudo, slope, typical)
        determinant = _determinant(first, mixed, second)
        offset = offset - ((second * gradient - mixed * along) / determinant).clamp(-_LONGEST, _LONGEST)
        scale = scale - ((first * along - mixed * gradient) / determinant).clamp(-_LONGEST, _LONGEST)
        scale = scale.maximum(_LEAST_SLOPE * slope)
    return offset, scale


def _curvature(
    p: Tensor, scores: Tensor, pseudo: Tensor, slope: Tensor, typical: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Second derivatives (C,) of the loss: by the offset twice, by both, and by the scale twice."""
    weight, own = p * (1 - p), pseudo * (1 - pseudo) / 2
    mixed = (weight * scores).sum(0) + own * typical
    second = (weight * scores.square()).sum(0) + own * typical**2 + STRENGTH / slope**2
    return weight.sum(0) + own, mixed, second


def _determinant(first: Tensor, mixed: Tensor, second: Tensor) -> Tensor:
    return (first * second - mixed**2).clamp_min(1e-12)


def _shift(logits: Tensor, mean_labels: float, sizes: Tensor | None) -> float:
    """Number to add to logits (H, K) so that the sigmoids of all classes sum to `mean_labels` per sample."""
    classes = logits.shape[1] if sizes is None else int(sizes.sum())
    share = min(mean_labels / classes, 0.999)
    target = math.log(share / (1 - share))
    low, high = target - float(logits.max()), target - float(logits.min())
    for _ in range(40):
        middle = (low + high) / 2
        sigmoids = (logits + middle).sigmoid_()
        mean = sigmoids.mean() if sizes is None else (sigmoids.mean(0) * sizes).sum() / classes
        if float(mean) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2
