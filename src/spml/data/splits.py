"""Splits: the names that files use for them, and a seeded hold-out for data without a split."""

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
    """Return `train`, `val` or `test` for any common spelling of it, None for other text."""
    return SPELLINGS.get(text.strip().lower())


def hold_out(
    count: int, share: float, seed: int, part: Literal["val", "test"] = "val"
) -> npt.NDArray[np.bool_]:
    """Draw the training samples that are held out for another split: round(share * count), at least one.

    Args:
        count: Number of training samples.
        share: Share of them that is held out.
        seed: Seed of the draw.
        part: Split that they are held out for.

    Returns:
        Boolean mask of shape (count,), true for the samples that are held out.

    Raises:
        InputError: No sample would be left for training.
    """
    held = max(1, round(share * count))
    if held >= count:
        purpose = "validation" if part == "val" else "the test"
        samples = "1 training sample is" if count == 1 else f"{count} training samples are"
        raise InputError(
            f"{samples} too few to hold out {share:.0%} for {purpose}: provide more samples, a smaller "
            f"data.{part}_share, or data that has a split."
        )
    mask = np.zeros(count, np.bool_)
    # The key for validation does not name the split; changing it would change the splits of earlier versions.
    key = ("split", seed) if part == "val" else ("split", "test", seed)
    mask[permutation(count, *key)[:held]] = True
    return mask
