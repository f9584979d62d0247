"""Weights in safetensors files: reading them, and checking that they fit a network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ...common.errors import InputError
from ...common.files import sha256_file
from ..spec import BackboneSpec

_EXAMPLES = 3  # names of weights in a message


def with_file(spec: BackboneSpec, path: Path) -> BackboneSpec:
    """Add name and SHA-256 of a weights file to a description.

    Raises:
        InputError: The file can't be read, or is not a .safetensors file.
    """
    check_suffix(path)
    try:
        return replace(spec, weights="file", file=path.name, sha256=sha256_file(path))
    except OSError as error:
        raise InputError(
            f"{path}: can't be read ({error.strerror or error}): check --model.weights."
        ) from error


def check_suffix(path: Path) -> None:
    """Refuse a weights file of another format.

    Raises:
        InputError: It is not a .safetensors file.
    """
    if path.suffix != ".safetensors":
        raise InputError(
            f"--model.weights must be pretrained, random, or a .safetensors file, got {str(path)!r}. "
            "Other formats are not opened, because they can contain programs."
        )


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a weights file.

    Raises:
        InputError: It is no readable .safetensors file.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights: dict[str, Tensor] = load_file(path)
        return weights
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{path}: not a readable .safetensors file ({error}). Download or copy it again."
        ) from error


def check_fit(expected: Mapping[str, Tensor], weights: Mapping[str, Tensor], what: str, advice: str) -> None:
    """Check that weights have the names and shapes that a model expects.

    Args:
        expected: State of the model.
        weights: Weights to be loaded.
        what: First part of the message.
        advice: Last sentence of the message.

    Raises:
        InputError: Names or shapes differ; the message counts them and names the first.
    """
    # Files of other programs may lack these counters, which are never used.
    missing = [n for n in expected if n not in weights and not n.endswith("num_batches_tracked")]
    unexpected = [name for name in weights if name not in expected]
    shapes = [
        f"{name} {tuple(weights[name].shape)} instead of {tuple(expected[name].shape)}"
        for name in expected
        if name in weights and weights[name].shape != expected[name].shape
    ]
    parts = [
        f"{len(names)} {label}: {', '.join(names[:_EXAMPLES])}{', ...' if len(names) > _EXAMPLES else ''}"
        for label, names in (("missing", missing), ("unexpected", unexpected), ("of another shape", shapes))
        if names
    ]
    if parts:
        raise InputError(f"{what} ({'; '.join(parts)}). {advice}")
