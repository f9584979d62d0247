"""Files of tensors that describe themselves: safetensors with one JSON object as metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save

from ..errors import InputError

_KEY = "spml scores"
"""Only key of the metadata, so that equal contents are equal files: safetensors keeps no order of keys."""

_VERSION = 1


def encode(tensors: dict[str, torch.Tensor], **about: Any) -> bytes:
    """Content of a file with these tensors and what it says about itself."""
    data: bytes = save(tensors, {_KEY: json.dumps({"version": _VERSION, **about})})
    return data


def read_about(stored: Any) -> dict[str, Any]:
    """What an open file says about itself.

    Raises:
        ValueError: It is of another version.
        LookupError: It says nothing.
    """
    about = json.loads((stored.metadata() or {})[_KEY])
    if about["version"] != _VERSION:
        raise ValueError(f"its version is {about['version']!r}, not {_VERSION}")
    return dict(about)


def check_tensor(stored: Any, name: str, kind: str, shape: tuple[int, ...]) -> None:
    """Check type and shape of a tensor of an open file before it is loaded.

    Raises:
        ValueError: It has others.
        SafetensorError: The file lacks the tensor.
    """
    part = stored.get_slice(name)
    if part.get_dtype() != kind or tuple(part.get_shape()) != shape:
        raise ValueError(f"{name} is {part.get_dtype()} {tuple(part.get_shape())}, not {kind} {tuple(shape)}")


def check_names(*lists: Any) -> None:
    """Check that each of some values is a list of text.

    Raises:
        TypeError: One is not.
    """
    for names in lists:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("its names are not lists of text")


@contextmanager
def clear_damage(path: Path, advice: str) -> Iterator[None]:
    """Turn what a damaged file raises into one clear message."""
    try:
        yield
    except (SafetensorError, OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        raise InputError(
            f"{path}: damaged, or not written by this version of spml ({error}). {advice}"
        ) from error
