"""A YAML file that knows its lines, so that mistakes are reported with file, line and path."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec
import yaml

from ..common.errors import InputError, nearest, quoted
from ..common.parsing import check_yaml, read_yaml_text, yaml_errors
from ..setting_types import parts_of

KeyPath = tuple[str | int, ...]
"""Keys and positions that lead to a value."""

T = TypeVar("T")

_TYPES = {
    "object": "a mapping", "array": "a list", "str": "text", "int": "a whole number", "float": "a number",
    "bool": "true or false", "null": "nothing",
}  # fmt: skip


class _Loader(yaml.SafeLoader):
    """Reads `1e-4` as a number, which YAML 1.1 treats as text."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


class Document:
    """A mapping read from YAML, with the line of every key and item.

    Args:
        path: Path of the file.
        text: Its content, if it is known already.

    Attributes:
        value: The mapping.

    Raises:
        InputError: The file can't be read, is not YAML, does not hold a mapping, repeats a key, or exceeds a
            limit (see `check_yaml`).
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self._lines: dict[KeyPath, int] = {}
        self.text = read_yaml_text(path) if text is None else text
        with yaml_errors(str(path)):
            check_yaml(self.text, str(path))
            loader = _Loader(self.text)
            node = loader.get_single_node()
            if not isinstance(node, yaml.MappingNode):
                raise InputError(f"{path}: expected a mapping (title: ...), found something else.")
            self._note_lines(node, ())
            self.value: dict[str, Any] = loader.construct_document(node)

    def error(self, at: KeyPath, message: str) -> InputError:
        """Return an error for the value at a path, with its line or that of the closest enclosing value."""
        while at and at not in self._lines:
            at = at[:-1]
        return InputError(f"{self.path}, line {self._lines.get(at, 1)}: {message}")

    @contextmanager
    def at(self, at: KeyPath, start: str = "") -> Iterator[None]:
        """Report a `ValueError`, such as an `InputError`, with the line of a path and `start` before it."""
        try:
            yield
        except ValueError as error:
            raise self.error(at, f"{start}{error}") from error

    def check_keys(self, at: KeyPath, value: Any, known: list[str], what: str) -> dict[str, Any]:
        """Return `value` if it is a mapping with known keys only."""
        if not isinstance(value, dict):
            raise self.error(at, f"{what}: expected a mapping, got {quoted(value)}")
        for key in value:
            if key not in known:
                raise self.error((*at, key), f"unknown key {key!r} of {what}. {nearest(str(key), known)}")
        return value

    def convert(self, at: KeyPath, value: Any, cls: type[T], what: str, exclude: Collection[str] = ()) -> T:
        """Convert the mapping at a path to a dataclass or `msgspec.Struct`.

        Args:
            at: Path of the value, for messages.
            value: The value.
            cls: Class with one field per key.
            what: What the mapping describes ("a data set"), for messages.
            exclude: Fields that may not be stated.

        Raises:
            InputError: An unknown key, or a value of the wrong type or outside its limits.
        """
        hints = get_type_hints(cls)
        mapping = self.check_keys(at, value, [key for key in hints if key not in exclude], what)
        try:
            return msgspec.convert(mapping, cls)
        except msgspec.ValidationError as error:
            text, _, inner = str(error).partition(" - at `")
            if missing := re.search("missing required field `(.*)`", text):
                raise self.error(at, f"{what} needs {missing[1]!r}") from error
            steps = [int(index) if index else key for key, index in re.findall(r"\.(\w+)|\[(\d+)\]", inner)]
            for step in steps:
                value = value[step]
            if text.startswith("Invalid enum value"):
                choices = [name for part in parts_of(hints[str(steps[0])]) for name in get_args(part)]
                text = "Expected one of " + ", ".join(choices)
            text = re.sub("`([^`]*)`", lambda match: _readable(match[1]), text.partition(", got `")[0])
            path = (*at, *steps)
            name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
            message = f"{name}: {text[0].lower()}{text[1:]}, got {quoted(value)}"
            raise self.error(path, message) from error

    def _note_lines(self, node: yaml.Node, at: KeyPath) -> None:
        self._lines.setdefault(at, node.start_mark.line + 1)
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.tag != "tag:yaml.org,2002:str":
                    self._lines[at] = key.start_mark.line + 1
                    name = getattr(key, "value", "a list or a mapping")
                    raise self.error(at, f"{name!r} is not a name; if it is meant as one, put it in quotes")
                inner = (*at, key.value)
                repeated = inner in self._lines
                self._lines[inner] = key.start_mark.line + 1
                if repeated:
                    raise self.error(inner, f"{key.value!r} is stated twice")
                self._note_lines(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self._note_lines(item, (*at, position))


def _readable(types: str) -> str:
    return " or ".join(_TYPES.get(name, name) for name in types.split(" | "))
