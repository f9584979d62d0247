"""Runs with one known label per sample that several tests read. A test that changes one copies it first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.features import make_weights, train_hidden
from tests.helpers.photo_runs import write_photos


@pytest.fixture(scope="session")
def ridge_run(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run with a ridge head and without K, with held-out scores of the validation samples."""
    return train_hidden(features, tmp_path_factory.mktemp("runs") / "ridge", "--head ridge")


@pytest.fixture(scope="session")
def auto_run(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run with an auto head and without K, with held-out scores of all labelled samples."""
    return train_hidden(features, tmp_path_factory.mktemp("runs") / "auto")


@pytest.fixture(scope="session")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """CSV of 80 photos, in a folder next to weights of a small network."""
    folder = tmp_path_factory.mktemp("coloured")
    make_weights(folder / "weights.safetensors", "test_convnext", 96)
    return write_photos(folder / "photos", 80)


@pytest.fixture(scope="session")
def local_run(coloured: Path) -> Path:
    """Folder, next to that of the photos, of a run that scores windows of them, with K stated."""
    folder = coloured.parent.parent
    source = "--data.separator", " ", "--weights", folder / "weights.safetensors"
    options = "--data.size 96 --data.workers 0 --backbone test_convnext --local on --mean_labels 1.5"
    return train_hidden(coloured, folder / "run", *source, options, "--method auto --overwrite")
