"""Registered methods by name. A module in this folder registers itself by being imported."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

from ..errors import InputError, nearest
from .base import Objective

_REGISTRY: dict[str, type[Objective]] = {}
_OBJECTIVE = TypeVar("_OBJECTIVE", bound=type[Objective])
ENTRY_POINTS = "spml.methods"


def register(name: str) -> Callable[[_OBJECTIVE], _OBJECTIVE]:
    """Class decorator that makes an objective known as `name`.

    A package of your own registers by being imported: name its module in the entry-point group
    `spml.methods`.
    """

    def add(cls: _OBJECTIVE) -> _OBJECTIVE:
        known = _REGISTRY.get(name)
        if known is not None and known.__qualname__ != cls.__qualname__:
            raise ValueError(
                f"method {name!r} is registered already: {known.__module__}.{known.__qualname__}"
            )
        _REGISTRY[name] = cls
        return cls

    return add


def methods() -> dict[str, type[Objective]]:
    """All registered methods by name, those of installed packages included."""
    _import_all()
    return dict(sorted(_REGISTRY.items()))


@cache
def _import_all() -> None:
    """Once: looking through all installed packages takes 7 ms, and runs of a comparison may last 300."""
    import importlib
    import pkgutil
    from importlib.metadata import entry_points

    package = importlib.import_module("spml.methods")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    for point in entry_points(group=ENTRY_POINTS):
        try:
            point.load()
        except Exception as error:  # whatever a foreign package raises must not stop the program
            warnings.warn(f"{ENTRY_POINTS}: {point.value} can't be imported ({error})", stacklevel=2)


def find(name: str) -> type[Objective]:
    """The objective class registered as `name`.

    Raises:
        InputError: no such method; names the nearest.
    """
    known = methods()
    if name not in known:
        raise InputError(f"unknown method {name!r}. {nearest(name, known)} `spml methods` lists them all.")
    return known[name]


def hyper_parameters(cls: type[Objective]) -> dict[str, Any]:
    """Names and defaults of a method's hyper-parameters, from the signature of `__init__`."""
    parameters: Iterable[inspect.Parameter] = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def create(name: str, hp: Mapping[str, Any] | None = None) -> Objective:
    """An objective with these hyper-parameters; the rest have their defaults.

    Raises:
        InputError: unknown method, unknown hyper-parameter, or a value outside its domain.
    """
    cls = find(name)
    known = hyper_parameters(cls)
    for key in hp or {}:
        if key not in known:
            raise InputError(f"method {name!r} has no hyper-parameter {key!r}. {nearest(key, known)}")
    try:
        return cls(**(hp or {}))
    except (ValueError, TypeError) as error:
        raise InputError(f"method {name!r}: {error}") from error
