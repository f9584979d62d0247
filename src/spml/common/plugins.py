"""Registries: entries by name, added by the modules of a package and of installed packages."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

Entry = TypeVar("Entry")
Function = TypeVar("Function", bound=Callable[..., Any])


@cache
def import_plugins(package: str, group: str) -> None:
    """Import every module of a package and every entry point of a group, whose decorators then register them.

    Done once per group: searching all installed packages takes 7 ms, and runs of a comparison may last only
    300 ms.

    Args:
        package: Name of the package, such as `spml.methods`.
        group: Group of entry points in which other packages name their modules.
    """
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    for point in entry_points(group=group):
        try:
            point.load()
        except Exception as error:  # a broken package must not stop the program
            warnings.warn(f"{group}: {point.value} can't be imported ({error})", stacklevel=3)


class Registry(Generic[Entry]):
    """Entries by name that decorated functions or classes add when their modules are imported.

    Args:
        kind: What an entry is, for messages, such as "reader".
        package: Name of the package whose modules add entries.
        group: Group of entry points in which other packages name their modules.

    Attributes:
        entries: Full name of the function or class, and entry, by name.
    """

    def __init__(self, kind: str, package: str, group: str) -> None:
        self.kind, self.package, self.group = kind, package, group
        self.entries: dict[str, tuple[str, Entry]] = {}

    def add(self, name: str, make: Callable[[Any], Entry]) -> Callable[[Function], Function]:
        """Decorator that adds what `make` makes of the function or class.

        Another one of the same name is refused with a `ValueError`; the same one may be imported again.
        """

        def decorate(function: Function) -> Function:
            own = f"{function.__module__}.{function.__qualname__}"
            if (known := self.entries.get(name, (own,))[0]) != own:
                raise ValueError(f"{self.kind} {name!r} is already registered by {known}")
            self.entries[name] = own, make(function)
            return function

        return decorate

    def all(self) -> dict[str, Entry]:
        """All entries by name, those of installed packages included, as they were added."""
        import_plugins(self.package, self.group)
        return {name: entry for name, (_, entry) in self.entries.items()}
