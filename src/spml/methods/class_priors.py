"""Class priors, the share of samples in which each class is present, from what the user states."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..common.errors import InputError
from .base import Facts


def check_priors(priors: Sequence[float]) -> None:
    """Check that stated priors are numbers between 0 and 1."""
    if not isinstance(priors, Sequence) or isinstance(priors, str):
        raise ValueError(f"priors must be a list of numbers, one for each class, got {priors!r}")
    for prior in priors:
        if not isinstance(prior, (int, float)) or not 0 < prior < 1:
            raise ValueError(f"priors must be numbers between 0 and 1, without these two, got {prior!r}")


def class_priors(facts: Facts, method: str, stated: Sequence[float] | None = None) -> Tensor:
    """Priors of all classes, float64 of shape (C,).

    Without stated ones, the prior of a class with n known positives is K n / (known positives of all
    classes), with K the mean labels per sample, but at least n / N and at most 1 - 1 / N.

    Args:
        facts: Properties of the training set.
        method: Quoted name of the method, for messages.
        stated: Prior of each class in (0, 1), in the order of the classes; None: from K.

    Raises:
        InputError: K is missing, there is no known positive, or stated priors do not suit the data.
    """
    count = len(facts.observed)
    positives = torch.from_numpy(facts.observed.positives_per_class()).double()
    if stated is None:
        mean_labels = facts.stated_mean_labels(method)
        if not positives.any():
            raise InputError(
                f"method {method} derives the share of each class from its known positives, and no label is "
                "known to be positive: state the shares with hp.priors."
            )
        priors = mean_labels * positives / positives.sum()
        return priors.clamp(positives / count, torch.tensor(1 - 1 / count))
    if len(stated) != len(facts.classes):
        raise InputError(
            f"method {method}: hp.priors has {len(stated)} numbers, but there are {len(facts.classes)} "
            f"classes: state one for each, in the order {', '.join(facts.classes[:5])}, ..."
        )
    priors = torch.tensor(stated, dtype=torch.float64)
    below = (priors < positives / count).nonzero().flatten().tolist()
    if below:
        column = below[0]
        raise InputError(
            f"method {method}: hp.priors has {stated[column]} for class {facts.classes[column]!r}, which is "
            f"known to be positive in more, {positives[column] / count:.3g} of the samples."
        )
    return priors
