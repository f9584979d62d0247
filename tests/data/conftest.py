"""Small images and tables that the data tests are made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Picture = Callable[..., Path]


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    """Write a noisy image below tmp_path; the noise depends on the name, so that no two are alike."""

    def write(name: str, size: tuple[int, int] = (20, 16), **options: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(sum(name.encode())).integers(0, 256, (size[1], size[0], 3), np.uint8)
        Image.fromarray(noise).save(path, **options)
        return path

    return write


@pytest.fixture
def table(tmp_path: Path, picture: Picture) -> Callable[..., Path]:
    """Write a CSV file of the given lines, and an image for each name in `images`."""

    def write(*lines: str, images: str = "a b c d e", encoding: str = "utf-8") -> Path:
        for name in images.split():
            picture(f"{name}.png")
        path = tmp_path / "data.csv"
        path.write_bytes("\n".join(lines).encode(encoding))
        return path

    return write
