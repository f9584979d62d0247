"""Data that several tests of runs share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.features import make_features


@pytest.fixture(scope="session")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Feature file with full labels over four classes."""
    return make_features(tmp_path_factory.mktemp("data") / "features.npz")
