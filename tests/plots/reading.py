"""Figures read back from their pixels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image


def pixels(path: Path) -> npt.NDArray[np.int64]:
    """Colours of a PNG file, (height, width, 3)."""
    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(np.int64)


def positions(image: npt.NDArray[np.int64], colour: str) -> npt.NDArray[np.int64]:
    """(row, column) of the pixels of exactly this colour."""
    rgb = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return np.argwhere((image == rgb).all(-1))


def scenes(count: int, channels: int = 1) -> npt.NDArray[np.uint8]:
    """Grey squares to be drawn as examples."""
    return np.full((count, channels, 20, 20), 128, np.uint8)
