"""Photographs of plain colours by class."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def scene(width: int = 150, height: int = 110) -> Image.Image:
    """A smooth picture with edges, which unlike noise looks the same when it is reduced."""
    y, x = np.mgrid[:height, :width] / max(width, height)
    waves = np.stack([np.sin(9 * x), np.cos(7 * y), ((x - 0.4) ** 2 + (y - 0.3) ** 2 < 0.03) - 0.5], 2)
    return Image.fromarray(np.uint8(127.5 + 120 * waves))


def make_photos(folder: Path, per_class: int = 40) -> Path:
    """Three classes of noise with a colour of their own."""
    generator = np.random.default_rng(0)
    for channel, name in enumerate(("blue", "green", "red")):
        (folder / name).mkdir(parents=True)
        for place in range(per_class):
            pixels = generator.integers(0, 160, (40, 48, 3), dtype=np.uint8)
            pixels[..., 2 - channel] += 80
            Image.fromarray(pixels).save(folder / name / f"{place:02}.png")
    return folder
