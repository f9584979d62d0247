"""Settings by name: flat with dots, nested, merged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Settings whose names have dots (`optim.lr`), nested as in config.yaml."""
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *tops, last = key.split(".")
        inner = result
        for top in tops:
            inner = inner.setdefault(top, {})
        inner[last] = dict(value) if isinstance(value, Mapping) else value
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
