"""Small images and tables for the tests of data."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Picture = Callable[..., Path]


@pytest.fixture
def picture(tmp_path: Path) -> Picture:
    """Function that writes an image of noise below tmp_path; the noise depends on its name."""

    def write(name: str, size: tuple[int, int] = (20, 16), **options: object) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(zlib.crc32(name.encode()))
        noise = rng.integers(0, 256, (size[1], size[0], 3), np.uint8)
        Image.fromarray(noise).save(path, **options)
        return path

    return write


@pytest.fixture
def table(tmp_path: Path, picture: Picture) -> Callable[..., Path]:
    """Function that writes a CSV file of some lines, and an image for each name in `images`."""

    def write(*lines: str, images: str = "a b c d e") -> Path:
        for name in images.split():
            picture(f"{name}.png")
        path = tmp_path / "data.csv"
        path.write_bytes("\n".join(lines).encode())
        return path

    return write


@pytest.fixture
def folder_of(tmp_path: Path, picture: Picture) -> Callable[[str, dict[str, str]], Path]:
    """Function that writes an image for each name in `images`, and text files by their names."""

    def make(images: str, texts: dict[str, str]) -> Path:
        for name in images.split():
            picture(name)
        for name, text in texts.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    return make
