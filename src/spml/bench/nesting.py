"""Settings by name: flat with dots, nested, merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import InputError


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose names have dots (`optim.lr`), nested as in config.yaml.

    Raises:
        InputError: a setting is given twice, or as a whole and in parts (`optim: 1`, `optim.lr: 2`).
    """
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *tops, last = key.split(".")
        inner = result
        for top in tops:
            inner = inner.setdefault(top, {})
            if not isinstance(inner, dict):
                raise InputError(f"{key} is a part of {top}, which is given as a whole as well")
        parts, target = {last: value}, inner
        if isinstance(value, Mapping):
            parts, target = dict(value), inner.setdefault(last, {})
        if not isinstance(target, dict) or set(parts) & set(target):
            raise InputError(f"{key} is given twice")
        target |= parts
    return result


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings; later ones win."""
    result: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            before = result.get(key)
            if isinstance(before, Mapping) and isinstance(value, Mapping):
                value = merged(before, value)
            result[key] = value
    return result
