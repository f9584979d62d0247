"""Signs that a finished training went wrong although its numbers are finite."""

from __future__ import annotations

import math

from ...common.phrases import counted
from ...config import Config
from .solve import Fitted

_RISE = 10.0
"""The loss of a training that diverged is more than this many times that of its first step."""

_MARGIN, _DEVIATIONS = 0.05, 2.0
"""An A above 1/2 by less than this, and by less than so many standard deviations, counts as chance."""

_ENOUGH = 20
"""Known positives from which on A is told apart from 1/2."""


def fit_warnings(fitted: Fitted, config: Config, *, positives: int, share: float) -> list[str]:
    """List what a user must know before the model is used; empty if nothing is wrong.

    Args:
        fitted: Result of the training, or of solving a head.
        config: Complete settings of the run.
        positives: Number of known positives among the validation samples.
        share: Mean share of the classes that are labels of a sample, K / C.
    """
    advice = f"Try a smaller learning rate (lr={(config.optim.lr or 1e-3) / 10:g})"
    found = []
    last = fitted.history[-1].get("train/loss")
    if fitted.start_loss is not None and last is not None and last > _RISE * fitted.start_loss > 0:
        found.append(
            f"training diverged: the loss rose from {fitted.start_loss:.3g} in the first step to {last:.3g} "
            f"in epoch {fitted.history[-1]['epoch']}. {advice}, a warm-up (optim.warmup_epochs=1) or "
            "gradient clipping (optim.clip=1)."
        )
    a = fitted.history[fitted.best]["val/A"]
    # Ranks of random rankings are uniform, and A divides by 1 - share.
    deviation = 1 / (math.sqrt(12 * max(positives, 1)) * (1 - min(0.5, share)))
    if positives >= _ENOUGH and a < 0.5 + min(_MARGIN, _DEVIATIONS * deviation):
        remedy = "Check that features and labels belong together."
        if fitted.start_loss is not None:
            remedy = f"{advice}, or train longer; check that inputs and labels belong together."
        found.append(
            f"the model is no better than chance: it ranks the {counted(positives, 'known positive')} of "
            f"the validation samples like a model that ignores its input (A {100 * a:.1f}, chance 50). "
            f"{remedy}"
        )
    return found
