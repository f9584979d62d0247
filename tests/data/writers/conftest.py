"""Images whose labels are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tests.data.writers.samples import FILES


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("images")
    (root / "sub" / "deep").mkdir(parents=True)
    for number, name in enumerate(FILES):
        Image.new("RGB", (4, 4), (number, 0, 0)).save(root / name, format="PNG")
    return root
