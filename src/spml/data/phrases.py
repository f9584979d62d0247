"""Phrases that messages about data are made of."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number and its noun (with a verb, perhaps) in the right form, such as "1 image" or "1,200 images"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_few(phrases: Sequence[str], limit: int, separator: str = ", ") -> str:
    """The first phrases, joined; an ellipsis stands for those beyond `limit`."""
    return separator.join([*phrases[:limit], *(["..."] if len(phrases) > limit else [])])
