"""What several methods share."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError
from .base import Facts

SUMMED = (
    "the released code sums over batch and classes; the default sums over classes and averages over samples, "
    "a factor B that Adam does not see"
)
"""A deviation for cards."""


def stated_mean_labels(facts: Facts, method: str) -> float:
    """The mean labels per sample K that the user stated, at least 1 and less than the number of classes.

    Args:
        facts: of the training set.
        method: how the user named it (and the setting that asks for K), for the message.

    Raises:
        InputError: not stated, or outside this range.
    """
    mean_labels, classes = facts.mean_labels, len(facts.classes)
    if mean_labels is None or not 1 <= mean_labels < classes:
        raise InputError(
            f"method {method} needs the mean number of labels per sample, at least 1 and less than the "
            f"number of classes, {classes}: state it with --mean_labels (got {mean_labels})."
        )
    return mean_labels


def check_epochs(**values: int) -> None:
    """Refuse what is not a whole number of epochs, at least 0.

    Raises:
        ValueError: names the first.
    """
    for name, value in values.items():
        if value != int(value) or value < 0:
            raise ValueError(f"{name} must be a whole number of epochs, at least 0, got {value}")


def check_percent(percent: float) -> None:
    """Refuse a percentage outside (0, 100].

    Raises:
        ValueError: says what was found.
    """
    if not 0 < percent <= 100:
        raise ValueError(f"percent must be greater than 0 and at most 100, got {percent}")


def one_of(name: str, value: str, allowed: Sequence[str]) -> None:
    """Refuse another value of a hyper-parameter.

    Raises:
        ValueError: names the hyper-parameter and what it may be.
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
