"""Names of settings: short ones, the same on the command line and in Python, and those with dots.

Messages name a setting as config.yaml does, such as data.images or data.images=FOLDER. On the command
line that is the option `--data.images FOLDER`, in Python the argument `data={"images": FOLDER}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from .common.errors import InputError, nearest
from .config import Config

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
