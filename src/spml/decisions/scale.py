"""The scale of scores that people see, from 0 to 1, and the logits that a model computes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Scale = Literal["sigmoid", "exp"]
"""How a score follows from a logit: its sigmoid, or its exponential where it is a log-probability."""

Floats = npt.NDArray[np.float64]


def scores_of(logits: npt.ArrayLike, scale: Scale) -> npt.NDArray[Any]:
    """Scores in [0, 1] of logits of any shape; an infinite logit (= never) stays infinite.

    Returns:
        float32 for float32 logits, otherwise float64.
    """
    from scipy.special import expit

    values = np.asarray(logits)
    values = values if values.dtype == np.float32 else values.astype(np.float64)
    scores = expit(values) if scale == "sigmoid" else np.exp(np.minimum(values, 0.0))
    return np.where(np.isposinf(values), np.inf, scores)


def logits_of(scores: npt.ArrayLike, scale: Scale) -> Floats:
    """Logits of scores of any shape, float64: the inverse of `scores_of`.

    They are exact to 1e-6 from -700 to 20. A score that rounding has made 0 or 1 has the nearest finite
    logit.
    """
    from scipy.special import logit

    values = np.asarray(scores, np.float64)
    highest = 1.0 if scale == "exp" else 1 - np.finfo(np.float64).epsneg
    inside = np.clip(values, np.finfo(np.float64).tiny, highest)
    logits = logit(inside) if scale == "sigmoid" else np.log(inside)
    return np.where(np.isposinf(values), np.inf, logits)
