"""Check the types of settings that were read from YAML or given in Python."""

from __future__ import annotations

import os
import re
from typing import Any, Literal, get_args, get_origin

from .common.errors import InputError, closest, quoted


def typed(value: Any, hint: Any, name: str) -> Any:
    """Check the type of a value that was read from YAML or given in Python.

    Args:
        value: Value of a setting.
        hint: Type hint of the setting: a plain type, a `Literal`, a dictionary, or a union of them.
        name: Name of the setting, for the message.

    Returns:
        The value; a whole number becomes a float where a float is expected.

    Raises:
        InputError: Says in one sentence what the value must be and what it is.
    """
    if get_origin(hint) is Literal:
        if value not in get_args(hint):
            advice = closest(value, get_args(hint)) if isinstance(value, str) else ""
            if isinstance(value, bool) and "no" in get_args(hint):
                advice = f"YAML reads yes and no as true and false: write {'yes' if value else 'no'!r}."
            message = f"{name} must be {describe_type(hint)}, got {quoted(value)}"
            raise InputError(f"{message}. {advice}" if advice else message)
        return value
    if isinstance(value, os.PathLike) and hint is str:
        return os.fspath(value)
    allowed = tuple(dict if get_origin(part) is dict else part for part in get_args(hint) or (hint,))
    if get_origin(hint) is dict:
        allowed = (dict,)
    if float in allowed and isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    if float in allowed and isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**1023:
        return float(value)
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise InputError(f"{name} must be {describe_type(hint)}, got {quoted(value)}")
    return value


def describe_type(hint: Any) -> str:
    """Describe in words what a setting of this type must be, such as `a whole number`."""
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(get_args(hint))
    parts = (dict,) if get_origin(hint) is dict else get_args(hint) or (hint,)
    return " or ".join(_TYPES[part] for part in parts if part in _TYPES)


_TYPES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "settings by name",
}

_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")
"""Numbers such as 1e-3, which YAML 1.1 reads as text because they have no point or no sign."""
