"""Check the types of settings that were read from YAML, typed on a command line, or given in Python."""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import msgspec

from .common.errors import InputError, closest, quoted
from .common.parsing import parse_yaml


def typed(value: Any, hint: Any, name: str) -> Any:
    """Check the type of a value that was read from YAML or given in Python.

    Args:
        value: Value of a setting.
        hint: Type hint of the setting: a plain type, a `Literal`, a list, a dictionary, or a union of them.
        name: Name of the setting, for the message.

    Returns:
        The value; a whole number becomes a float where a float is expected.

    Raises:
        InputError: Says in one sentence what the value must be and what it is.
    """
    parts = parts_of(hint)
    if str in parts and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if float in parts or Any in parts or dict[str, Any] in parts:
        value = _with_numbers(value)
    if isinstance(value, dict) and any(get_origin(part) is dict for part in parts):
        return value  # what reads the entries has better messages
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        choices = [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]
        advice = ""
        if isinstance(value, bool) and "no" in choices:
            advice = f". YAML reads yes and no as true and false: write {'yes' if value else 'no'!r}."
        elif value in ("true", "false") and "no" in choices:
            advice = f". Write {'yes' if value == 'true' else 'no'}."
        elif isinstance(value, str) and (nearest := closest(value, filter(_is_text, choices))):
            advice = f". {nearest}"
        elif isinstance(value, str) and (percent := _PERCENT.fullmatch(value)):
            advice = f". Write {float(percent[1]) / 100:g}."
        raise InputError(f"{name} must be {describe_type(hint)}, got {quoted(value)}{advice}") from error


def read_value(text: str, hint: Any, name: str) -> Any:
    """Read a value from a command line, where it is YAML unless text is expected.

    Raises:
        InputError: Says in one sentence what the value must be and what it is.
    """
    parts = parts_of(hint)
    if Path in parts:
        return Path(text) if text else None
    if all(part is str or all(map(_is_text, get_args(part) or [0])) for part in parts):
        return text if str in parts else typed(text, hint, name)
    try:
        value = parse_yaml(text, name)
    except InputError:
        value = text
    if str in parts and not (isinstance(value, dict) and any(get_origin(part) is dict for part in parts)):
        value = text
    return typed(value, hint, name)


def parts_of(hint: Any) -> tuple[Any, ...]:
    """Types that a value may have besides None."""
    is_plain = get_origin(hint) in (Literal, dict, list) or not get_args(hint)
    return (hint,) if is_plain else tuple(part for part in get_args(hint) if part is not NoneType)


def exceeded(value: Any, hint: Any) -> str:
    """Bounds in a type hint that a value exceeds, in words; empty if it exceeds none."""
    bounds = [each for part in (hint, *get_args(hint)) for each in getattr(part, "__metadata__", ())]
    try:
        if bounds:
            msgspec.convert(_with_numbers(value), hint)
    except msgspec.ValidationError:
        return str(bounds[0].description)
    return ""


def describe_type(hint: Any) -> str:
    """Describe in words what a setting of this type must be, such as `a whole number`."""
    words = []
    for part in parts_of(hint):
        if get_origin(part) is Literal:
            words.append("one of " + ", ".join(map(str, get_args(part))))
        elif get_origin(part) is list:
            words.append(f"a list, such as [{_EXAMPLES[get_args(part)[0]]}]")
        else:
            words.append(_TYPES.get(get_origin(part) or part, ""))
    return " or ".join(filter(None, words))


_TYPES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "settings by name",
}
_EXAMPLES = {int: "1, 2", str: "a, b"}

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?) ?%")

_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""Numbers such as 1e-3, which YAML 1.1 reads as text because they have no point or no sign."""


def _with_numbers(value: Any) -> Any:
    """Replace text that is a number such as 1e-3, and numbers of NumPy, in lists and dictionaries, too."""
    if isinstance(value, dict):
        return {key: _with_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_numbers(each) for each in value]
    if isinstance(value, float) or (isinstance(value, str) and _EXPONENT.fullmatch(value)):
        return float(value)
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
