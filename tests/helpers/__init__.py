"""Images and helpers of tests; nothing imports a test module."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

import numpy as np
from PIL import Image


def write_image(path: Path, size: tuple[int, int] = (20, 16), **options: object) -> Path:
    """Write a noisy image; the noise depends on its name and its folder, so that no two are equal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = zlib.crc32(f"{path.parent.name}/{path.name}".encode())
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(noise).save(path, **options)
    return path


def write_odd_photos(folder: Path) -> Path:
    """Write a wide CSV over six images: a copy across splits, a copy with other labels, and a broken file."""
    write_image(folder / "a.png", (20, 10))
    write_image(folder / "b.png", (10, 40))
    write_image(folder / "c.png", (30, 30))
    shutil.copy(folder / "a.png", folder / "copy.png")
    shutil.copy(folder / "c.png", folder / "same.png")
    (folder / "broken.png").write_bytes(b"no image")
    path = folder / "data.csv"
    path.write_text(
        "file,split,horse,Traffic Light,traffic_light,horses\n"
        "a.png,train,1,,-1,\n"
        "b.png,train,1,1,,\n"
        "c.png,train,,1,,-1\n"
        "same.png,train,,1,,-1\n"
        "copy.png,test,,,1,\n"
        "broken.png,val,1,,,\n"
    )
    return path
