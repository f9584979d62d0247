"""Fill a registry: import the modules of its own package, and those that installed packages name."""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from functools import cache
from importlib.metadata import entry_points


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
