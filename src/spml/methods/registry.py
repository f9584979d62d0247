"""Registry of methods by name. The modules in this folder register their methods when they are imported."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from torch import nn

from ..common.errors import InputError, nearest
from ..common.plugins import Registry, load_file, source_digest
from .base import Objective

_OBJECTIVE = TypeVar("_OBJECTIVE", bound=type[Objective])
_MODULE = TypeVar("_MODULE", bound=nn.Module)
_REGISTRY: Registry[type[Objective]] = Registry("method", "spml.methods", "spml.methods")


def register(name: str) -> Callable[[_OBJECTIVE], _OBJECTIVE]:
    """Register an objective under a name (class decorator).

    To register a method from your own package, list its module in the entry-point group `spml.methods`.

    Raises:
        ValueError: Another class is already registered under this name.
    """
    return _REGISTRY.add(name, lambda cls: cls)


def methods() -> dict[str, type[Objective]]:
    """Return all registered methods by name, including those of installed packages."""
    return dict(sorted(_REGISTRY.all().items()))


_FILE = re.compile(r".+\.py:\w+")
_OWN: dict[str, type[Objective]] = {}
"""Methods from files of the user's, by the names under which the user stated them."""


def load_own(name: str) -> str:
    """Make a method known that the user names as `file.py:Class`; other names are left as they are.

    Code is imported only where the user names it, never because a file does: call this for words of a command
    line and arguments in Python, and for nothing that was read.

    Raises:
        InputError: The file can't be imported, or holds no such subclass of `Objective`.
    """
    if _FILE.fullmatch(name):
        found = load_file(name)
        if not (isinstance(found, type) and issubclass(found, Objective)):
            raise InputError(f"{name}: is not a subclass of spml.Objective.")
        _OWN[name] = found
    return name


def source_of(name: str) -> str:
    """SHA-256 of the source of a method outside this package; empty for the methods of the package."""
    code: Any = find(name)
    return source_digest(code)


def find(name: str, others: Iterable[str] = ()) -> type[Objective]:
    """Return the objective class registered under a name.

    Args:
        name: Name of the method.
        others: Further names that the user could have meant.

    Raises:
        InputError: No method has this name; the message names the nearest.
    """
    if name in _OWN:
        return _OWN[name]
    if _FILE.fullmatch(name):
        raise InputError(
            f"method {name!r} is code of your own, which is imported only where you name it yourself, never "
            f"because a file does: write it on the command line (`--method {name}`), or pass it in Python "
            f"(method={name!r})."
        )
    known = methods()
    if name not in known:
        near = nearest(name, [*others, *known])
        raise InputError(f"unknown method {name!r}. {near} `spml methods` lists them all.")
    return known[name]


def hyper_parameters(cls: type[nn.Module]) -> dict[str, Any]:
    """Return names and defaults of the hyper-parameters of a method, from the signature of `__init__`."""
    parameters: Iterable[inspect.Parameter] = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def create(name: str, hp: Mapping[str, Any] | None = None) -> Objective:
    """Create an objective; hyper-parameters that are not given have their defaults.

    Raises:
        InputError: The method or a hyper-parameter is unknown, or a value is outside its domain.
    """
    return instantiate(find(name), hp or {}, f"method {name!r}", "hyper-parameter")


def instantiate(cls: type[_MODULE], settings: Mapping[str, Any], owner: str, kind: str) -> _MODULE:
    """Create a module from keyword arguments that a user gave.

    Args:
        cls: Class with keyword-only arguments.
        settings: Keyword arguments.
        owner: Kind and quoted name of the module, for messages.
        kind: Kind of the settings, for messages.

    Raises:
        InputError: A setting is unknown (the message names the nearest), or a value is outside its domain.
    """
    known = hyper_parameters(cls)
    for key in settings:
        if key not in known:
            raise InputError(f"{owner} has no {kind} {key!r}. {nearest(str(key), known)}")
    try:
        return cls(**settings)
    except (ValueError, TypeError) as error:
        raise InputError(f"{owner}: {error}") from error
    except OverflowError as error:
        raise InputError(f"{owner}: a {kind} is too large ({error})") from error
