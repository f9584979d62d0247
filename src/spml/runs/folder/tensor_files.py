"""Files of tensors that describe themselves: safetensors with one JSON object as metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from ...common.errors import InputError
from ...common.parsing import parse_json
from ...engine.checksum import BLANK, has_checksum, write_checked

_KEY = "spml scores"
"""Only key of the metadata, so that equal contents are equal files: safetensors keeps no order of keys."""

_VERSION = 2


def write_tensors(path: Path, tensors: dict[str, torch.Tensor], **about: Any) -> None:
    """Write a file with these tensors, what it says about itself, and a checksum of all of it.

    Raises:
        SpmlError: The file could not be written.
    """
    # The checksum comes before any text of a user.
    text = json.dumps({"checksum": BLANK, "version": _VERSION, **about})
    write_checked(path, tensors, {_KEY: text})


@contextmanager
def open_tensors(path: Path, advice: str, *, check: bool = True) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a file that `write_tensors` has written.

    Args:
        path: File to read.
        advice: Last sentence of the message if the file is damaged, whether this is found here or by the code
            that reads the open file.
        check: Whether the whole file is read to check it against its checksum.

    Yields:
        The open file, and what it says about itself.

    Raises:
        InputError: The file is damaged or of another version.
    """
    with open_checked(path, advice, check=check) as stored:
        about = parse_json((stored.metadata() or {})[_KEY])
        if about["version"] != _VERSION:
            raise ValueError(f"its version is {about['version']!r}, not {_VERSION}")
        yield stored, about


@contextmanager
def open_checked(path: Path, advice: str, *, check: bool = True) -> Iterator[Any]:
    """Open a file that `write_checked` has written, as `open_tensors` does."""
    try:
        checked = not check or has_checksum(path)
        with safe_open(path, framework="pt") as stored:
            if not checked:
                raise ValueError("its checksum is missing")
            yield stored
    except (SafetensorError, OSError, ValueError, TypeError, LookupError) as error:
        raise InputError(
            f"{path}: damaged, or not written by this version of spml ({error}). {advice}"
        ) from error


def check_names(*lists: Any) -> None:
    """Check that each of some values is a list of text.

    Raises:
        TypeError: One is not.
    """
    for names in lists:
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("its names are not lists of text")
