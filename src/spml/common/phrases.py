"""Phrases that messages about data are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from .errors import CONTROL


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun (with a verb, perhaps) in the right form, such as "1 image" or "1,200 images"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def class_differences(names: Sequence[str], expected: Sequence[str]) -> str:
    """Say in what class names differ from those expected: in their number, or in which ones (the first 3)."""
    if len(names) != len(expected):
        return f"{len(names)} instead of {len(expected)}"
    differences = [
        f"class {position} (counted from 0) is {name!r} instead of {other!r}"
        for position, (name, other) in enumerate(zip(names, expected, strict=True))
        if name != other
    ]
    return first_few(differences, 3)


def first_few(phrases: Sequence[str], limit: int, separator: str = ", ") -> str:
    """The first phrases, joined; an ellipsis stands for those beyond `limit`."""
    return separator.join([*phrases[:limit], *(["..."] if len(phrases) > limit else [])])


def one_per_cause(warnings: Iterable[str]) -> list[str]:
    """Warnings without those of a cause that another one has named: all that begin with `Only` say that there
    are too few samples."""
    kept: list[str] = []
    for warning in warnings:
        few = warning.startswith("Only ")
        if warning not in kept and not (few and any(other.startswith("Only ") for other in kept)):
            kept.append(warning)
    return kept


def first_warnings(warnings: Iterable[str], where: str) -> list[str]:
    """Lines for the first three warnings, one for each cause, and one that says where the others are."""
    kept = one_per_cause(warnings)
    more = [f"{counted(len(kept) - 3, 'more warning')}: see {where}"] if len(kept) > 3 else []
    return [*(f"warning: {warning}" for warning in kept[:3]), *more]


def shorten(names: Iterable[str]) -> str:
    """Names as a list for a message: one line of at most 200 characters."""
    short = (name if len(name) < 60 else name[:57] + "..." for name in islice(names, 100))
    text = ", ".join(repr(name) if CONTROL.search(name) else name for name in short)
    return text if len(text) <= 200 else text[:197] + "..."
