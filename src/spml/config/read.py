"""Settings from YAML and dictionaries, their checks, and what differs between two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import yaml

from ..common.errors import InputError, nearest, quoted
from ..common.parsing import parse_yaml, read_yaml_text
from ..setting_types import exceeded, typed
from .training import Config

_T = TypeVar("_T")


def from_dict(settings: Mapping[str, Any]) -> Config:
    """Make a configuration from nested settings; the rest have their defaults.

    Raises:
        InputError: An unknown key (with the nearest known ones), or a value of the wrong type.
    """
    return _fill(Config, settings, "")


def _fill(cls: type[_T], settings: Mapping[str, Any], prefix: str) -> _T:
    hints, values = get_type_hints(cls), dict(settings)
    for key, value in settings.items():
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
        for name, hint in get_type_hints(type(part), include_extras=True).items():
            value = getattr(part, name)
            if bounds := exceeded(value, hint):
                raise InputError(f"{prefix}{name} must be {bounds}, got {value}")
    _ = config.data.sizes  # raises
    if config.data.sample_classes < 0 or config.data.sample_classes == 1:
        raise InputError(f"data.sample_classes must be 0 or at least 2, got {config.data.sample_classes}")


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
