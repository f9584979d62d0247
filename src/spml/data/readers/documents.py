"""JSON from elsewhere: of limited size, and what is wrong in it is said with its place in the document."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..safe import CONTROL, is_file, shown

MAX_BYTES = 1 << 32
MAX_NAME = 1000  # characters of a class name
_UNUSED = ("segmentation", "keypoints")  # most of a COCO file; dropped while it is read

ID = ("a number or a string", (int, str))
NUMBER = ("a number", (int, float))
TEXT = ("a string", (str,))
LIST = ("a list", (list,))
OBJECT = ("an object", (dict,))
Kind = tuple[str, tuple[type, ...]]


def load_json(path: Path) -> Any:
    """The content of a JSON file in UTF-8, without masks and key points.

    Raises:
        InputError: can't be read, too large, another encoding, no valid JSON, nested too deeply.
    """
    try:
        if not is_file(path):
            raise InputError(f"{path}: is no file.")
        if (size := path.stat().st_size) > MAX_BYTES:
            raise InputError(
                f"{path}: {size:,} bytes are more than the {MAX_BYTES:,} that are read of a JSON file. Split "
                "it into several data sets."
            )
        text = path.read_bytes().decode("utf-8-sig")
        return json.loads(text, object_hook=_without_unused)
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: is not UTF-8: byte 0x{error.object[error.start]:02x} at position {error.start}. JSON "
            "must be UTF-8; save it so."
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: is no valid JSON: {error.msg} at line {error.lineno}, column {error.colno}. "
            "Is the file complete?"
        ) from error
    except RecursionError as error:
        raise InputError(f"{path}: lists or objects in it are nested too deeply to be read.") from error
    except MemoryError as error:
        raise InputError(f"{path}: does not fit into memory.") from error
    except InputError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{path}: is no valid JSON: {error}.") from error


def require(entry: Any, key: str, kind: Kind, where: str) -> Any:
    """The value under `key`.

    Raises:
        InputError: no object, no such key, a value of another kind; `where` is the entry's place.
    """
    if type(entry) is not dict:
        raise InputError(f"{where}: must be an object, but is {shown(entry)}.")
    if key not in entry:
        raise InputError(f"{where}: has no key {key!r}; found {keys_of(entry)}.")
    return of_kind(entry[key], kind, f"{where}.{key}")


def optional(entry: Any, key: str, kind: Kind, where: str) -> Any:
    """The value under `key`, None if it is missing or null.

    Raises:
        InputError: as `require`.
    """
    if type(entry) is dict and entry.get(key) is None:
        return None
    return require(entry, key, kind, where)


def of_kind(value: Any, kind: Kind, where: str) -> Any:
    """The value, if it is of a kind; true and false are no numbers.

    Raises:
        InputError: it is not.
    """
    if type(value) not in kind[1]:
        raise InputError(f"{where}: must be {kind[0]}, but is {shown(value)}.")
    return value


def keys_of(document: Any) -> str:
    """What a document has at its top, for messages."""
    if type(document) is not dict:
        return shown(document)
    keys = ", ".join(shown(key) for key in list(document)[:12]) or "none"
    return f"the keys {keys}, ..." if len(document) > 12 else f"the keys {keys}"


def finite(value: Any, where: str) -> float:
    """A finite number as a float.

    Raises:
        InputError: it is none.
    """
    try:
        number = float(of_kind(value, NUMBER, where))
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{where}: must be a finite number, but is {shown(value)}.")
    return number


def class_name(text: str, where: str) -> str:
    """A class name without blanks around it.

    Raises:
        InputError: empty, too long, or with control characters.
    """
    name = text.strip()
    if not name or len(name) > MAX_NAME or CONTROL.search(name):
        wrong = "holds control characters" if name and len(name) <= MAX_NAME else "is empty or too long"
        raise InputError(f"{where}: the class name {shown(text)} {wrong}. Correct it.")
    return name


def _without_unused(entry: dict[str, Any]) -> dict[str, Any]:
    for key in _UNUSED:
        entry.pop(key, None)
    return entry
