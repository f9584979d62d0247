"""Images next to hostile files."""

from __future__ import annotations

import pytest
from PIL import Image


@pytest.fixture
def picture(tmp_path):
    """Function that writes a small image below tmp_path, each of another colour."""

    def write(name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 16), (sum(map(ord, name)) % 256, 9, 9)).save(path)
        return path

    return write
