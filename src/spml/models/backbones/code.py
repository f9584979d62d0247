"""The code of a network of the user's own, as far as it can be told from outside."""

from __future__ import annotations

import inspect
import json
from typing import Any

from torch import nn

_LIBRARIES = ("torch", "timm", "torchvision", "transformers")
"""Packages whose source does not count: it changes with every version, and hardly ever what is computed."""


def _is_plain(value: Any) -> bool:
    """Whether the text of a value is the same in every process."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str))


def code_of(module: nn.Module) -> str:
    """What tells two networks with equal weights apart: classes, plain attributes, and source of their own.

    Functions that are kept in attributes, and what a class imports, are not seen.
    """
    parts: list[Any] = []
    sources: dict[str, str] = {}
    for name, part in module.named_modules():
        cls = type(part)
        plain = {
            key: value for key, value in sorted(vars(part).items()) if key != "training" and _is_plain(value)
        }
        parts.append([name, f"{cls.__module__}.{cls.__qualname__}", repr(plain)])
        if cls.__module__.partition(".")[0] not in _LIBRARIES:
            try:
                sources[cls.__qualname__] = inspect.getsource(cls)
            except (OSError, TypeError):  # defined where no file holds its source
                sources[cls.__qualname__] = ""
    return json.dumps([parts, sources], sort_keys=True)
