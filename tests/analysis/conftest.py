"""Small runs on images for figures of predictions, maps and landscapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.photo_runs import train_on, write_photos


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("data") / "photos")


@pytest.fixture(scope="session")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with two runs: `em`, and `an` with an L2 penalty."""
    folder = tmp_path_factory.mktemp("runs")
    train_on(photos, folder / "em", method="em")
    train_on(photos, folder / "an", method="an", optim={"l2": 0.01}, seed=1)
    return folder
