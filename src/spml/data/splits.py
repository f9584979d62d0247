"""Splits: the names that files use for them, and a seeded hold-out where there is none."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .draws import permutation

SPLITS = ("train", "val", "test")
SPELLINGS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
}


def split_name(text: str) -> str | None:
    """`train`, `val` or `test` for any usual spelling of it; None for anything else."""
    return SPELLINGS.get(text.strip().lower())


def hold_out(
    count: int, share: float, seed: int, part: Literal["val", "test"] = "val"
) -> npt.NDArray[np.bool_]:
    """Draw the training samples that are held out for another split: round(share * count), at least one.

    Returns:
        Boolean of shape (count,), true for a sample held out.

    Raises:
        InputError: too few samples to leave some on both sides.
    """
    held = max(1, round(share * count))
    if held >= count:
        what = "validation" if part == "val" else "the test"
        raise InputError(
            f"{count} training samples are too few to hold out {share:.0%} for {what}: give more samples, a "
            f"smaller data.{part}_share, or a split of your own."
        )
    mask = np.zeros(count, np.bool_)
    # The draw for validation has no name of its own, so that splits stay as they were.
    key = ("split", seed) if part == "val" else ("split", "test", seed)
    mask[permutation(count, *key)[:held]] = True
    return mask
