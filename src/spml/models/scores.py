"""Scores in [0, 1] from the output of a model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .top import LOG_SOFTMAX


def probabilities(logits: npt.NDArray[np.float32], scores: str) -> npt.NDArray[np.float32]:
    """Turn the output of a `Top` into scores in [0, 1].

    Args:
        logits: Output (N, C).
        scores: What it is, `logits` or `log_softmax`, as in `Top.scores`.

    Returns:
        float32 (N, C): sigmoid of logits, or probabilities over the classes.
    """
    from scipy.special import expit

    return np.asarray(np.exp(logits) if scores == LOG_SOFTMAX else expit(logits), np.float32)
