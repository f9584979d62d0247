"""The scaling of features that a run takes if none is stated, and the learning rate that goes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from torch import Tensor

from ... import models
from ...config import Config
from ...data import Inputs

_ROWS, _IMAGES = 256, 8  # training samples by which the scaling is chosen


def settle_scaling(config: Config, features: Callable[[int], Tensor]) -> Config:
    """Choose the scaling of the features of a frozen backbone, and with it the learning rate.

    Whether features look like those of a convolutional network is only known once there is the backbone, so
    `resolve` leaves both open for images.

    Args:
        config: Resolved settings. They are returned unchanged if the scaling is settled.
        features: Computes the features of about that many training samples, of shape (B, D).
    """
    if config.model.scaling != "auto":
        return config
    model = replace(config.model, scaling=_choose(config.model.head, features(_IMAGES)))
    optim = replace(config.optim, lr=config.optim.lr or head_rate(model.scaling))
    return replace(config, model=model, optim=optim)


def scaling_of(head: str, inputs: Inputs) -> Literal["sqrtl2", "standard"]:
    """Return the scaling for a head on feature vectors."""
    return _choose(head, some_rows(inputs, _ROWS))


def some_rows(inputs: Inputs, count: int) -> Tensor:
    """Return about `count` samples, evenly spaced."""
    return inputs.fetch(range(0, len(inputs), max(1, len(inputs) // count)), None)


def head_rate(scaling: str) -> float:
    """Learning rate of a head; samples of length 1 need a larger one, since their features are small."""
    return 1e-3 if scaling in (models.RAW, models.STANDARD) else 1e-2


def _choose(head: str, features: Tensor) -> Literal["sqrtl2", "standard"]:
    # Class means gain nothing from another scaling, and the SP-score falls.
    return models.STANDARD if head == models.MEAN_DIFFERENCE else models.default_scaling(features)
