"""Checks of hyper-parameters and of the training set that several methods share."""

from __future__ import annotations

from collections.abc import Sequence

from ..common.errors import InputError
from .base import Facts


def stated_mean_labels(facts: Facts, method: str) -> float:
    """Return the stated mean labels per sample K, at least 1 and less than the number of classes.

    Args:
        facts: Facts about the training set.
        method: Quoted name of the method, with the setting that requires K if it is not always required; used
            in the message.

    Raises:
        InputError: K is not stated, or outside this range.
    """
    mean_labels, classes = facts.mean_labels, len(facts.classes)
    if mean_labels is None or not 1 <= mean_labels < classes:
        raise InputError(
            f"method {method} needs the mean number of labels per sample, at least 1 and less than the "
            f"number of classes, {classes}: state it with --mean_labels (got {mean_labels})."
        )
    return mean_labels


def check_epochs(**values: int) -> None:
    """Check that values are whole numbers of epochs, at least 0.

    Raises:
        ValueError: A value is not; the message names the first such value.
    """
    for name, value in values.items():
        if value != int(value) or value < 0:
            raise ValueError(f"{name} must be a whole number of epochs, at least 0, got {value}")


def check_percent(percent: float) -> None:
    """Check that a percentage is greater than 0 and at most 100.

    Raises:
        ValueError: It is not.
    """
    if not 0 < percent <= 100:
        raise ValueError(f"percent must be greater than 0 and at most 100, got {percent}")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Check that a hyper-parameter has one of its possible values.

    Raises:
        ValueError: It has another value; the message names the hyper-parameter and the possible values.
    """
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
