"""Registered figures. A module in this folder registers its figures by being imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..common.errors import InputError, nearest
from ..common.plugins import Registry
from .result import Analysis

Draw = Callable[..., Analysis]


class FigureKind(NamedTuple):
    """A registered figure.

    Attributes:
        name: Unique name, as on the command line.
        title: Noun phrase for lists, such as "Distance between the scores of positives and negatives".
        needs: What it is drawn from, such as "runs with recorded scores and true labels".
        draw: Function that draws it. Its first parameter is the list of what the command line names; all
            others are options, given by keyword.
    """

    name: str
    title: str
    needs: str
    draw: Draw


_REGISTRY: Registry[FigureKind] = Registry("figure", "spml.analysis", "spml.figures")


def register_figure(name: str, title: str, needs: str) -> Callable[[Draw], Draw]:
    """Register the decorated function as a figure of `spml analyse`.

    The first parameter of the function is the list of what the command line names, such as run folders; the
    others become options, whose help is taken from the docstring. A package of your own registers its figures
    by being imported: name the module in the entry-point group `spml.figures`.

    Args:
        name: Unique name, as on the command line.
        title: Noun phrase for lists.
        needs: What the figure is drawn from.

    Raises:
        ValueError: Another figure has this name.
    """
    return _REGISTRY.add(name, lambda draw: FigureKind(name, title, needs, draw))


def figures() -> dict[str, FigureKind]:
    """All registered figures by name, in alphabetical order."""
    return dict(sorted(_REGISTRY.all().items()))


def draw_figure(name: str, sources: list[Any], **options: Any) -> Analysis:
    """Draw a registered figure.

    Args:
        name: Name of the figure.
        sources: What it is drawn from, such as run folders.
        **options: Options of the figure.

    Raises:
        InputError: The figure is unknown, or it can't be drawn from these sources or with these options.
    """
    known = figures()
    if name not in known:
        raise InputError(f"there is no figure {name!r}. {nearest(name, known)}")
    return known[name].draw(sources, **options)
