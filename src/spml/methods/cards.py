"""What a method's card and docstring say, in pieces that the terminal and the documentation show."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .base import Objective
from .registry import hyper_parameters

NOTATION = (
    "P known positives, U unknown labels; known negatives have l- unless the formula says otherwise",
    "z logit, p = sigmoid(z), l+ = -log p, l- = -log(1 - p)",
    "B samples in a batch of C classes, N samples and E epochs of training",
)
"""What the letters of `Card.formula` mean."""


class Argument(NamedTuple):
    """Hyper-parameters that a docstring explains together.

    Attributes:
        names: as the user writes them.
        defaults: one for each name.
        meaning: one paragraph.
    """

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    meaning: str


def summary(cls: type[Objective]) -> str:
    """The docstring of a method without its `Args`."""
    return _halves(cls)[0]


def arguments(cls: type[Objective]) -> list[Argument]:
    """The hyper-parameters of a method with the meaning that the `Args` of its docstring give."""
    known = hyper_parameters(cls)
    found: list[Argument] = []
    for line in _halves(cls)[1].splitlines():
        start = re.fullmatch(r" {4}(\w+(?:, \w+)*): (.+)", line)
        if start:
            names = tuple(start[1].split(", "))
            found.append(Argument(names, tuple(known[name] for name in names), start[2]))
        elif found:
            found[-1] = found[-1]._replace(meaning=f"{found[-1].meaning} {line.strip()}".rstrip())
    return found


def readable(value: Any) -> str:
    """A value as a user writes it in a configuration file, except for None: the docstrings say None.

    Example:
        >>> readable((0.0, 2.0)), readable({"an": 1.0}), readable(False), readable(None)
        ('[0, 2]', '{an: 1}', 'false', 'None')
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {readable(part)}" for name, part in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(readable, value)) + "]"
    return str(value)


def _halves(cls: type[Objective]) -> tuple[str, str]:
    before, _, after = f"{inspect.getdoc(cls) or ''}\n".partition("\nArgs:\n")
    return before.strip(), after
