"""Methods whose papers define a negative term of their own for labels that are known.

These methods have a choice of the loss of known negatives. Others have none: terms for unknown labels that
express doubt about them (a small weight, smoothing, a soft pseudo-label, entropy) have no meaning for a label
that is known, and log-sum-exp losses and CSL treat known negatives as published in any case.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..losses._core.domains import check_choice
from ..losses._core.terms import KnownNegatives
from .base import Facts, Objective

Choice: TypeAlias = Literal["auto", "plain", "own"]

FULL = (
    "on full labels, known negatives have the negative term of the paper; where only some labels are known, "
    "they have l-, as they are certain (known_negatives)"
)
"""Deviation that these methods have in common."""


class WithOwnNegatives(Objective):
    """Base class of methods with the hyper-parameter `known_negatives`.

    Attributes:
        known_negatives: Loss of a known negative, `plain` or `own`. The choice `auto` is `own` if every label
            of the training set is known, else `plain`.
    """

    def __init__(self, known_negatives: Choice) -> None:
        super().__init__()
        check_choice("known_negatives", known_negatives, ("auto", "plain", "own"))
        self.choice = known_negatives
        self.known_negatives: KnownNegatives = "own" if known_negatives == "own" else "plain"

    def on_fit_start(self, facts: Facts) -> None:
        if self.choice == "auto":
            self.known_negatives = "own" if facts.observed.full else "plain"
