"""Images next to hostile data files."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with four small images, a.png to d.png."""
    path = tmp_path_factory.mktemp("fuzz")
    for number, name in enumerate("abcd"):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(path / f"{name}.png")
    return path
