"""A YAML file whose mistakes are told with their line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from ..errors import InputError, nearest

Where = tuple[str | int, ...]
"""Keys and positions that lead to a value."""

MAX_BYTES = 1 << 20


class _Loader(yaml.SafeLoader):
    """Reads `1e-4` as a number, which YAML 1.1 takes for text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


class Document:
    """A mapping read from YAML, with the line of every key and item.

    Attributes:
        value: what the file holds.

    Raises:
        InputError: not readable, not YAML, not a mapping, a key twice, or references (`*name`), which could
            unpack without end.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self._lines: dict[Where, int] = {}
        try:
            if text is None:
                if path.stat().st_size > MAX_BYTES:
                    raise InputError(f"{path}: is larger than a specification may be ({MAX_BYTES:,} bytes).")
                text = path.read_text(encoding="utf-8")
            if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, _Loader)):
                raise InputError(f"{path}: references (*name) are not read. Write the value out.")
            loader = _Loader(text)
            node = loader.get_single_node()
            if not isinstance(node, yaml.MappingNode):
                raise InputError(f"{path}: expected settings by name (title: ...), found something else.")
            self._note(node, ())
            self.value: dict[str, Any] = loader.construct_document(node)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: can't be read: {error}.") from error
        except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path}: is not YAML: {error}") from error

    def error(self, where: Where, message: str) -> InputError:
        """The mistake at `where`, or at the nearest place around it whose line is known."""
        while where and where not in self._lines:
            where = where[:-1]
        line = self._lines.get(where, 1)
        return InputError(f"{self.path}, line {line}: {message}")

    def check_keys(self, where: Where, found: Any, known: list[str], what: str) -> None:
        """Refuse anything but a mapping with known keys.

        Raises:
            InputError: names the line of the first unknown key.
        """
        if not isinstance(found, dict):
            raise self.error(where, f"{what}: expected settings by name, got {found!r}")
        for key in found:
            if key not in known:
                raise self.error((*where, key), f"unknown key {key!r} of {what}. {nearest(str(key), known)}")

    def _note(self, node: yaml.Node, where: Where) -> None:
        self._lines.setdefault(where, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.tag != "tag:yaml.org,2002:str":
                    self._lines[where] = key.start_mark.line + 1
                    shown = getattr(key, "value", "a list or a mapping")
                    raise self.error(
                        where, f"{shown!r} is no name of a setting; if it is meant as one, put it in quotes"
                    )
                place = (*where, key.value)
                again = place in self._lines
                self._lines[place] = key.start_mark.line + 1
                if again:
                    raise self.error(place, f"{key.value!r} is there twice")
                self._note(value, place)
        elif isinstance(node, yaml.SequenceNode):
            for number, item in enumerate(node.value):
                self._note(item, (*where, number))
