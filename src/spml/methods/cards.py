"""Cards and docstrings of methods, split into the pieces that the terminal and the documentation display."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .base import Card, Objective
from .registry import hyper_parameters

NOTATION = (
    "P known positives, U unknown labels; known negatives have l- unless the formula says otherwise",
    "z logit, p = sigmoid(z), l+ = -log p, l- = -log(1 - p)",
    "B samples in a batch of C classes, N samples and E epochs of training",
)
"""Meaning of the letters in `Card.formula`."""


class Argument(NamedTuple):
    """Hyper-parameters that a docstring explains in one entry.

    Attributes:
        names: Names of the hyper-parameters.
        defaults: Default of each.
        meaning: Explanation, in one paragraph.
    """

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    meaning: str


def summary(cls: type[Objective]) -> str:
    """Return the docstring of a method without its `Args`."""
    return _split(cls)[0]


def arguments(cls: type[Objective]) -> list[Argument]:
    """Return the hyper-parameters of a method, explained as in the `Args` of its docstring."""
    defaults = hyper_parameters(cls)
    entries: list[Argument] = []
    for line in _split(cls)[1].splitlines():
        start = re.fullmatch(r" {4}(\w+(?:, \w+)*): (.+)", line)
        if start:
            names = tuple(start[1].split(", "))
            entries.append(Argument(names, tuple(defaults[name] for name in names), start[2]))
        elif entries:
            entries[-1] = entries[-1]._replace(meaning=f"{entries[-1].meaning} {line.strip()}".rstrip())
    return entries


def bibtex_of(name: str, card: Card) -> str:
    """Entries of BibTeX for the papers of a method; a comment if it has none.

    Args:
        name: Name of the method, which is the key of the entry; further entries have numbers from 2.
        card: Its card, whose papers are written as `Authors, Title, Venue`, after semicolons.
    """
    entries = []
    for number, paper in enumerate(card.paper.split("; "), 1):
        parts = re.fullmatch(r"([^,:]+), (.+), ([^,]+)", paper)
        if parts is None:
            entries.append(f"% {name}: {paper}")
            continue
        authors, title, venue = parts.groups()
        year = re.search(r"\b(?:19|20)\d\d\b", venue)
        entries.append(
            f"@misc{{{name.rpartition(':')[2]}{number if number > 1 else ''},\n"
            f"  author = {{{authors.replace(' et al.', ' and others')}}},\n  title = {{{{{title}}}}},\n"
            f"  howpublished = {{{venue}}},\n  year = {{{year[0] if year else card.year}}},\n}}"
        )
    return "\n\n".join(entries)


def readable(value: Any) -> str:
    """Format a value as in a configuration file, except that None stays None, as in the docstrings.

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


def _split(cls: type[Objective]) -> tuple[str, str]:
    """Return the parts of a docstring before and after the line `Args:`."""
    before, _, after = f"{inspect.getdoc(cls) or ''}\n".partition("\nArgs:\n")
    return before.strip(), after
