"""Samples of which everything is known: independent labels, one of which is shown by a uniform draw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Simulated(NamedTuple):
    """Samples with at least one label.

    Attributes:
        labels: Class that is shown of each sample, int64 (N,).
        scores: Logits of the true probabilities, float32 (N, C).
        truth: All labels, bool (N, C).
        mean_labels: Mean labels per sample.
    """

    labels: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float32]
    truth: npt.NDArray[np.bool_]
    mean_labels: float


def simulate(samples: int, classes: int, seed: int, spread: float = 2.0, bias: float = -2.0) -> Simulated:
    generator = np.random.default_rng(seed)
    scores = bias - np.arange(classes) / classes + spread * generator.normal(size=(samples, classes))
    truth = generator.random((samples, classes)) < 1 / (1 + np.exp(-scores))
    some = truth.any(1)
    scores, truth = scores[some], truth[some]
    shown = np.where(truth, generator.random(truth.shape), -1).argmax(1)
    return Simulated(shown, scores.astype(np.float32), truth, float(truth.sum(1).mean()))
