"""Settings from YAML, command lines, Python and dictionaries: their types, names and checks, and what differs
between two.

Messages name a setting as config.yaml does, such as data.images or data.images=FOLDER. On the command
line that is the option `--data.images FOLDER`, in Python the argument `data={"images": FOLDER}`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import yaml

from ..common.documents import parse_yaml, read_yaml_text
from ..common.errors import InputError, closest, nearest, quoted
from .settings import Config

# -- settings --------------------------------------------------------------------------------------------


_T = TypeVar("_T")

hints_of: Callable[..., dict[str, Any]] = cache(get_type_hints)
"""Types of the fields of a class or the parameters of a function: asked for thousands of times."""


RETIRED: dict[str, Any] = {"data.sample_classes": 0}
"""Settings of earlier versions, which their runs state, and the value of each that had no effect."""


def from_dict(settings: Mapping[str, Any]) -> Config:
    """Make a configuration from nested settings; the rest have their defaults.

    Raises:
        InputError: An unknown key (with the nearest known ones), or a value of the wrong type.
    """
    return _fill(Config, settings, "")


def _fill(cls: type[_T], settings: Mapping[str, Any], prefix: str) -> _T:
    hints, values = hints_of(cls), dict(settings)
    for key, value in settings.items():
        if f"{prefix}{key}" in RETIRED and key not in hints:
            if value != RETIRED[f"{prefix}{key}"]:
                raise InputError(f"the setting {prefix}{key} was removed; got {quoted(value)}. Leave it out")
            del values[key]
            continue
        if key not in hints:
            raise InputError(f"unknown setting {f'{prefix}{key}'!r}. {nearest(str(key), hints)}")
        if not is_dataclass(hints[key]):
            values[key] = typed(value, hints[key], prefix + key)
        elif isinstance(value, Mapping):
            values[key] = _fill(hints[key], value, f"{prefix}{key}.")
        else:
            raise InputError(f"{prefix + key}: expected settings by name, got {quoted(value)}")
    return cls(**values)


def check(config: Config) -> None:
    """Check the bounds of settings, without looking at data.

    Raises:
        InputError: Names the setting, its value and what is allowed.
    """
    parts = {"": config, "data.": config.data, "model.": config.model, "optim.": config.optim}
    for prefix, part in parts.items():
        for name, hint in hints_of(type(part), include_extras=True).items():
            value = getattr(part, name)
            if bounds := exceeded(value, hint):
                raise InputError(f"{prefix}{name} must be {bounds}, got {value}")
    _ = config.data.sizes  # raises


def to_yaml(config: Config) -> str:
    """Write the complete configuration as YAML; `read_yaml` gives an equal one."""
    return yaml.safe_dump(asdict(config), sort_keys=False, allow_unicode=True)


def read_yaml(path: Path, *, other: Iterable[str] = ()) -> Config:
    """Read a configuration from a YAML file.

    Args:
        path: The file.
        other: Keys that are no settings and are left out.

    Raises:
        InputError: The file is missing, is not YAML, or has unknown settings or values of the wrong type.
    """
    settings = parse_yaml(read_yaml_text(path), str(path))
    if not isinstance(settings, dict):
        found = "nothing" if settings is None else type(settings).__name__
        raise InputError(f"{path}: expected settings by name, got {found}")
    try:
        return from_dict({key: value for key, value in settings.items() if key not in other})
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def differences(first: Config, second: Config) -> list[str]:
    """List the names of the settings that differ, such as `optim.lr`."""
    flat_first, flat_second = flat(asdict(first)), flat(asdict(second))
    names = {*flat_first, *flat_second}
    return sorted(name for name in names if flat_first.get(name) != flat_second.get(name))


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by their names, such as `optim.lr`."""
    result: dict[str, Any] = {}
    for key, value in settings.items():
        name = f"{prefix}{key}"
        nested = isinstance(value, Mapping) and name != "data.rename"
        result |= flat(value, name + ".") if nested else {name: value}
    return result


# -- names: short ones, the same on the command line and in Python, and those with dots ------------------


SHORT_NAMES = {
    "head": "model.head",
    "backbone": "model.backbone",
    "weights": "model.weights",
    "frozen": "model.frozen",
    "local": "model.local",
    "names": "model.names",
    "lr": "optim.lr",
}


def from_arguments(settings: Mapping[str, Any], others: Iterable[str] = ()) -> dict[str, Any]:
    """Nest settings that were given as keyword arguments, some of them by their short names.

    Args:
        settings: Fields of `Config`, nested as in config.yaml or with dots in their names, and short names.
        others: Names of further arguments of the function, which a misspelt name may mean.

    Example:
        >>> from_arguments({"head": "mlp", "epochs": 5, "model": {"hidden": 64}})
        {'epochs': 5, 'model': {'hidden': 64, 'head': 'mlp'}}

    Raises:
        InputError: A name is not known, or a setting is stated twice.
    """
    known = {field.name for field in fields(Config)} | SHORT_NAMES.keys()
    for name in settings:
        if name.partition(".")[0] not in known:
            raise InputError(f"unknown setting {name!r}. {nearest(name, known.union(others))}")
    flat: dict[str, Any] = {}
    for name in sorted(settings, key=SHORT_NAMES.__contains__):  # groups first
        full = SHORT_NAMES.get(name, name)
        if full in flat:
            raise InputError(f"{full} is stated twice")
        flat[full] = settings[name]
    return nested(flat)


def text_columns(text: str | Sequence[str] | bool) -> str:
    """The argument `text` as the setting `data.text`; empty if samples are not texts."""
    if isinstance(text, (str, bool)):
        return "text" if text is True else text or ""
    return ",".join(text)


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Nest settings whose names contain dots (`optim.lr`), as in config.yaml.

    Raises:
        InputError: A setting is stated twice, or both as a whole and in parts (`optim: 1`, `optim.lr: 2`).
    """
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *groups, last = key.split(".")
        inner = result
        for group in groups:
            inner = inner.setdefault(group, {})
            if not isinstance(inner, dict):
                raise InputError(f"{key} is part of {group}, which is stated as a whole as well")
        parts, target = {last: value}, inner
        if isinstance(value, Mapping):
            parts, target = dict(value), inner.setdefault(last, {})
        if not isinstance(target, dict) or set(parts) & set(target):
            raise InputError(f"{key} is stated twice")
        target |= parts
    return result


# -- types -----------------------------------------------------------------------------------------------


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
        value = with_numbers(value)
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
            msgspec.convert(with_numbers(value), hint)
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


def with_numbers(value: Any) -> Any:
    """Replace text that is a number such as 1e-3, and numbers of NumPy, in lists and dictionaries, too."""
    if isinstance(value, dict):
        return {key: with_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_numbers(each) for each in value]
    if isinstance(value, float) or (isinstance(value, str) and _EXPONENT.fullmatch(value)):
        return float(value)
    return value


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
