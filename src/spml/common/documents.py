"""Documents that others wrote: JSON, YAML and XML, parsed so that no file takes endless time or ends in a
traceback, and turned into types, with the path of a wrong field in messages."""

from __future__ import annotations

import contextlib
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from xml.parsers.expat import ExpatError, ParserCreate

import msgspec
import yaml

from .errors import InputError
from .phrases import first_few
from .safe import CONTROL, is_file, open_file, quote, read_bytes

# -- text into values ------------------------------------------------------------------------------------


MAX_YAML = 1 << 18
"""Characters of a YAML text. Configurations and specifications have a few thousand; PyYAML reads about
100,000 per second."""

MAX_DEPTH = 32
"""Levels of lists and mappings in a YAML text."""

MAX_DIGITS = 3000
"""Characters of a number: 1:1:1:... is one in base 60, and Python does not print numbers of more digits."""

YAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError)
"""Errors of PyYAML for a text. A value that only looks like a date (2001-99-99), or has a wrong tag
(`!!int x`), raises that of its conversion."""


def read_yaml_text(path: Path) -> str:
    """Read the text of a YAML file in UTF-8, which may be no longer than a configuration can be."""
    try:
        with TextIOWrapper(open_file(path), encoding="utf-8") as stream:
            text = stream.read(MAX_YAML + 1)
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror or error}).") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 ({error.reason}). Save it as UTF-8.") from error
    _check_length(text, str(path))
    return text


class _Loader(yaml.SafeLoader):
    """Refuses what would take endless time or memory, and a key that is stated twice, of which PyYAML takes
    the last."""

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self.where, self.depth = where, 0

    def get_event(self) -> Any:
        event = super().get_event()  # type: ignore[no-untyped-call]
        line = _at(self.where, event.start_mark)
        if isinstance(event, yaml.AliasEvent) and event.anchor in self.anchors:
            raise InputError(f"{line}: references (*name) are not supported. Write the value out.")
        if isinstance(event, yaml.ScalarEvent):
            event.value.encode()
            if len(event.value) > MAX_DIGITS and not event.style and event.value[0] in "+-0123456789":
                raise InputError(
                    f"{line}: a number has {len(event.value):,} characters. Put it in quotes if it is text."
                )
        self.depth += isinstance(event, yaml.CollectionStartEvent)
        self.depth -= isinstance(event, yaml.CollectionEndEvent)
        if self.depth > MAX_DEPTH:
            raise InputError(
                f"{line}: lists or mappings are nested more than {MAX_DEPTH} levels deep, which no setting "
                "needs. Correct it."
            )
        return event

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in names:
                problem = f"{key.value!r} is stated twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            names.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep)


def parse_yaml(text: str, where: str) -> Any:
    """Parse one YAML document of plain values, in little time and memory.

    References (`*name`) are refused, because a few of them, nested, stand for billions of values.

    Args:
        text: The document.
        where: Name of the file, for messages, which also name the line.

    Raises:
        InputError: It is not valid YAML, is too long, is nested too deeply, or has references, an endless
            number, half of a surrogate pair, or a key that is stated twice.
    """
    _check_length(text, where)
    try:
        return _Loader(text, where).get_single_data()
    except InputError:
        raise
    except yaml.MarkedYAMLError as error:
        line = _at(where, error.problem_mark or error.context_mark)
        reason = ", ".join(filter(None, (error.context, error.problem)))
        raise InputError(f"{line}: not valid YAML: {reason}.") from error
    except YAML_ERRORS as error:
        raise InputError(f"{where}: not valid YAML: {' '.join(str(error).split())}.") from error


def _at(where: str, mark: Any) -> str:
    return f"{where}, line {mark.line + 1}" if mark else where


def _check_length(text: str, where: str) -> None:
    if len(text) > MAX_YAML:
        raise InputError(f"{where}: has more than {MAX_YAML:,} characters, the limit for YAML.")


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as `json.loads` does, NaN included; a `ValueError` if it is nested too deeply, too."""
    try:
        return json.loads(text)
    except RecursionError as error:  # the parser, which is written in C, counts its levels
        raise ValueError("lists or objects in it are nested too deeply") from error


# -- values into types -----------------------------------------------------------------------------------


MAX_BYTES = 1 << 32
MAX_NAME = 1000  # characters of a class name
_MASKS = {"segmentation", "keypoints"}  # most of a COCO file
_KINDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "null": "null",
    "object": "an object",
    "str": "a string",
}
_LIST = re.compile(r"[ \t\r\n]*\[[ \t\r\n]*")
_DAMAGED = (msgspec.MsgspecError, ExpatError, RecursionError, ValueError, LookupError, OSError, MemoryError)

T = TypeVar("T")


class Outline(NamedTuple):
    """Outermost layer of a JSON file, which is enough to recognise a format."""

    kind: str  # `an object`, `a list`, or the value itself, for messages
    keys: tuple[str, ...]  # of the object, or of the first entry of the list if that is an object

    def __str__(self) -> str:
        """Description for messages, such as "the keys 'images', 'info'"."""
        if self.kind != "an object":
            return self.kind
        return f"the keys {first_few([*map(quote, self.keys)], 12) or 'none'}"


def read_outline(path: Path) -> Outline:
    """Read the top-level keys of a JSON file without values; of a list, only the first entry is parsed."""
    text = read_text(path, MAX_BYTES)
    if opening := _LIST.match(text):
        first = None
        if not text.startswith("]", opening.end()):
            with _input_errors(path):
                first, _ = json.JSONDecoder().raw_decode(text, opening.end())
        return Outline("a list", tuple(first) if type(first) is dict else ())
    scalar = str | int | float | bool | None
    with _input_errors(path):
        document = _decode(text, dict[str, msgspec.Raw] | scalar, dict[str, Any] | scalar)
    is_object = type(document) is dict
    return Outline("an object" if is_object else quote(document), tuple(document) if is_object else ())


def load_json(path: Path, kind: type[T], *, advice: str = "") -> T:
    """Read a JSON file in UTF-8.

    Args:
        path: File to read.
        kind: Type of the content for msgspec, such as a `msgspec.Struct`. Fields that it does not declare are
            skipped without being kept in memory.
        advice: Last sentence of a message about the content of the file.
    """
    text = read_text(path, MAX_BYTES)
    with _input_errors(path, advice):
        content: T = _decode(text, kind)
        return content


def convert(value: Any, kind: type[T], where: str) -> T:
    """Check that a value parsed from JSON is of a type; `where` names its file and field, for messages."""
    with _input_errors(where):
        return msgspec.convert(value, kind)


def parse_xml(path: Path, limit: int, content: bytes | None = None) -> ET.Element:
    """Parse an XML file of at most `limit` bytes, or XML that the file holds. Names are `NAMESPACE}NAME`.

    A document type and entities, which can make a small file large, are refused.
    """

    def refuse(*_: object) -> None:
        raise InputError(f"{path}: has a document type or entities, which are not read. Remove them.")

    builder = ET.TreeBuilder()
    parser = ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    with _input_errors(path):
        parser.Parse(_read_bytes(path, limit) if content is None else content, True)
        return builder.close()


def read_text(path: Path, limit: int) -> str:
    """Read a text file of at most `limit` bytes in UTF-8, with or without a byte order mark."""
    with _input_errors(path):
        return _read_bytes(path, limit).decode("utf-8-sig")


def class_name(text: str, where: str) -> str:
    """Strip a class name; one that is empty, too long, or holds control characters is refused."""
    name = text.strip()
    if not name or len(name) > MAX_NAME or CONTROL.search(name):
        wrong = "holds control characters" if name and len(name) <= MAX_NAME else "is empty or too long"
        raise InputError(f"{where}: the class name {quote(text)} {wrong}. Correct it.")
    return name


def class_names(names: Iterable[str], where: str) -> list[str]:
    """Strip class names, and refuse what is none, as `class_name` does."""
    return [class_name(name, f"{where}[{position}]") for position, name in enumerate(names)]


def _read_bytes(path: Path, limit: int) -> bytes:
    if not is_file(path):
        raise InputError(f"{path}: is not a file.")
    if (size := path.stat().st_size) > limit:
        raise InputError(f"{path}: has {size:,} bytes, more than the limit of {limit:,} for such a file.")
    return read_bytes(path)


def _decode(text: str, kind: Any, fallback: Any = None) -> Any:
    """Decode JSON to a type, or to `fallback` where msgspec can't, but the standard library can."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # The standard library accepts NaN and Infinity, as Python writes them, and names line and column.
        content = json.loads(text, object_hook=lambda entry: {k: entry[k] for k in entry if k not in _MASKS})
        return msgspec.convert(content, fallback or kind)


@contextlib.contextmanager
def _input_errors(where: Path | str, advice: str = "") -> Iterator[None]:
    """Report the errors of parsers, with the file, or with the file and the field that a text names."""
    try:
        yield
    except InputError:
        raise
    except _DAMAGED as error:
        raise InputError(f"{_message(where, error)} {advice}".rstrip()) from error


def _message(where: Path | str, error: Exception) -> str:
    if isinstance(error, msgspec.ValidationError):
        # Such as "expected a string, got a list - at `$.images[3].id`".
        reason, _, field = str(error).partition(" - at ")
        reason = re.sub("`([^`]*)`", _in_words, reason).replace("Object missing required", "there is no")
        field = field.strip("`").removeprefix("$")
        field = f"{where}: {field.removeprefix('.')}" if isinstance(where, Path) else where + field
        return f"{field.removesuffix(': ')}: {reason[0].lower()}{reason[1:]}."
    if isinstance(error, RecursionError):
        return f"{where}: lists or objects in it are nested too deeply."
    if isinstance(error, MemoryError):
        return f"{where}: does not fit into memory."
    if isinstance(error, UnicodeDecodeError):
        byte = error.object[error.start]
        return f"{where}: is not UTF-8: byte 0x{byte:02x} at position {error.start}. Save it as UTF-8."
    if isinstance(error, UnicodeEncodeError):  # the standard library parses such escapes
        half = quote(error.object[error.start])
        return f"{where}: {half} is half of a surrogate pair and no character. Remove it."
    if isinstance(error, json.JSONDecodeError):
        position = f"line {error.lineno}, column {error.colno}"
        if error.msg == "Extra data":
            return (
                f"{where}: holds a second JSON value at {position}. If each line is one, as in JSON Lines, "
                "call the file .jsonl."
            )
        return f"{where}: is not valid JSON: {error.msg} at {position}. Is the file complete?"
    if isinstance(error, ExpatError):
        return f"{where}: is not valid XML: {error}."
    return f"{where}: can't be read: {getattr(error, 'strerror', None) or error}."


def _in_words(quoted: re.Match[str]) -> str:
    """Plain words for types that msgspec names between backticks; names of fields stay as they are."""
    names = quoted[1].split(" | ")
    words = [_KINDS[name] for name in names if name in _KINDS and (name != "null" or len(names) == 1)]
    return " or ".join(words) or quoted[0]
