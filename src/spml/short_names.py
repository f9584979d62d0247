"""Short names of settings, the same on the command line (`--head`) and in Python (`head=`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from .config import Config
from .errors import InputError, nearest

SHORT_NAMES = {
    "head": "model.head",
    "backbone": "model.backbone",
    "weights": "model.weights",
    "frozen": "model.frozen",
    "lr": "optim.lr",
}


def nested(settings: Mapping[str, Any], arguments: Iterable[str] = ()) -> dict[str, Any]:
    """Put settings with short names into their groups.

    Args:
        settings: Fields of `Config`, nested as in config.yaml, and short names.
        arguments: Further names that are known, for the message.

    Returns:
        Settings as `config.from_dict` takes them.

    Example:
        >>> nested({"head": "mlp", "epochs": 5, "model": {"hidden": 64}})
        {'epochs': 5, 'model': {'hidden': 64, 'head': 'mlp'}}

    Raises:
        InputError: A name is not known, or a setting is given by both its names.
    """
    known = {field.name for field in fields(Config)} | SHORT_NAMES.keys()
    for name in settings:
        if name not in known:
            raise InputError(f"unknown setting {name!r}. {nearest(name, known.union(arguments))}")
    result = {name: value for name, value in settings.items() if name not in SHORT_NAMES}
    for name in SHORT_NAMES.keys() & settings.keys():
        group, _, key = SHORT_NAMES[name].partition(".")
        inside = result.get(group, {})
        if not isinstance(inside, Mapping):
            continue  # refused where the types of all settings are checked
        if key in inside:
            raise InputError(f"{SHORT_NAMES[name]} is given twice: as {name} and in {group}.")
        result[group] = {**inside, key: settings[name]}
    return result
