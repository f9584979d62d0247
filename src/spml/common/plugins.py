"""Registries: entries by name, added by the modules of a package and of installed packages."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from .errors import InputError, nearest, unexpected

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


# -- code of the user's own --------------------------------------------------------------------------------


def load_file(name: str) -> Any:
    """Import what the user names as `file.py:NAME`; nothing but the user's own words may come here.

    Args:
        name: Path of the file, from the current folder, and a name in it.

    Raises:
        InputError: There is no such file or name, or importing the file failed.
    """
    file, _, attribute = name.rpartition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise InputError(f"{name}: there is no file {path}.")
    module_name = f"own_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}_{path.stem}"
    module, text = sys.modules.get(module_name), path.read_bytes()
    if getattr(module, "__source__", None) != text:  # the first time, and after the file was edited
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
        vars(module)["__source__"] = text
        sys.path.append(str(path.parent))  # last, so that no file there takes the place of a package
        try:
            spec.loader.exec_module(module)
        except Exception as error:  # code of the user
            del sys.modules[module_name]
            raise InputError(f"{name}: importing {path} failed: {unexpected(error)}.") from error
        finally:
            sys.path.remove(str(path.parent))
    if not hasattr(module, attribute):
        known = [each for each in vars(module) if not each.startswith("_")]
        raise InputError(f"{name}: {path} has no {attribute!r}. {nearest(attribute, known)}")
    return getattr(module, attribute)


@cache
def source_digest(code: Any) -> str:
    """SHA-256 of the source of a class or function outside this package; empty for one inside.

    Of a module in a package, all .py files of the package count, since it may use any of them; else its own
    file. Of a class, the classes count that it inherits from.
    """
    files: set[Path] = set()
    for part in getattr(code, "__mro__", (code,)):
        top = sys.modules.get(part.__module__.partition(".")[0])
        place = getattr(top, "__file__", None)
        if place and part.__module__.partition(".")[0] not in ("spml", "torch"):
            files |= {*Path(place).parent.rglob("*.py")} if hasattr(top, "__path__") else {Path(place)}
    digest = hashlib.sha256()
    for path in sorted(files):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest() if files else ""
