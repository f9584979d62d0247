"""Domains of hyper-parameters as docstrings state them, such as `>= 0` and `in (0, 1]`."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

Domain = tuple[str, list[float], list[float]]

_ENTRY = re.compile(r"^ {4}(\w+(?:, \w+)*): (.+(?:\n {8}.+)*)", re.M)
_BOUNDS = re.compile(r"(?:^|, )(>=?) (\d+(?:\.\d+)?)|\bin ([\[(])([\d.]+), ([\d.]+)([\])])")


def domains_of(function: Callable[..., Any]) -> Iterator[Domain]:
    """Numbers by keyword whose domain is stated: name, the ends that belong to it, and numbers beside it."""
    parameters = inspect.signature(function).parameters
    for names, meaning in _ENTRY.findall(inspect.getdoc(function) or ""):
        bounds = _BOUNDS.search(" ".join(meaning.split()))
        for name in (each for each in names.split(", ") if each in parameters):
            keyword = parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
            if keyword and bounds and "of shape" not in meaning:
                yield name, *_numbers(type(parameters[name].default) is int, *bounds.groups())


def choices_of(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters that are one of several words."""
    return [
        each.name for each in inspect.signature(function).parameters.values() if type(each.default) is str
    ]


def _numbers(
    whole: bool, sign: str, least: str, left: str, low: str, high: str, right: str
) -> tuple[list[float], list[float]]:
    if whole:
        return [int(least)], [int(least) - 1, int(least) + 0.5]
    start = float(least or low)
    below = math.nextafter(start, -math.inf)
    held, beside = ([start], [below]) if sign == ">=" or left == "[" else ([], [start])
    if right == "]":
        held.append(float(high))
    if right:
        beside.append(math.nextafter(float(high), math.inf) if right == "]" else float(high))
    return held, [*beside, math.nan]
