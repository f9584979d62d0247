"""How numbers of a report are written; `-` stands for what is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..rows import OBSERVED, ORACLE
from .rankings import Place

NOTHING = "-"


def percent(value: float | None, sign: bool = False) -> str:
    """A mAP or a difference of two, times 100, with two decimals."""
    if value is None or not math.isfinite(value):
        return NOTHING
    rounded = round(100 * value, 2) + 0.0  # not -0.00
    return f"{rounded:+.2f}" if sign else f"{rounded:.2f}"


def with_sd(mean: float, sd: float, sign: bool = False) -> str:
    """Mean and standard deviation, times 100."""
    return f"{percent(mean, sign)} ± {percent(sd)}"


def share(value: float | None) -> str:
    """A share of the gap, in whole percent."""
    return NOTHING if value is None else f"{round(100 * value) + 0:d} %"


def p_value(value: float | None) -> str:
    """A p-value with three decimals."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return "<0.001" if value < 0.0005 else f"{value:.3f}"


def settings(params: Mapping[str, Any]) -> str:
    """Searched settings, as `name value` with four digits."""
    return ", ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in sorted(params.items())
    )


def place_name(place: Place) -> str:
    """A data set and a way of hiding labels, as plain text."""
    return f"{place[0]}, {place[1]}"


def how(mode: str) -> str:
    """By what a mode selects the trial and the epoch, as a sentence without its subject."""
    if mode == ORACLE:
        return (
            "the highest mAP on fully labelled validation samples: what published results use and no user has"
        )
    if mode == OBSERVED:
        return "the highest SP-score, which needs only the observed labels of the validation samples"
    count = mode.partition(":")[2]
    return f"the highest mAP on {count} fully labelled validation samples (on all, where there are fewer)"
