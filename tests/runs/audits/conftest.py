"""Runs that several tests of audits read, trained once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.helpers.commands import execute
from tests.helpers.features import HIDE, make_features


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a feature file, two runs with known K, `lda` with its classes turned, and one without."""
    folder = tmp_path_factory.mktemp("audited")
    data = make_features(folder / "features.npz")
    with np.load(data) as stored:
        arrays = dict(stored)
    turned = folder / "turned.npz"
    np.savez(turned, **{**arrays, "Y": arrays["Y"][:, ::-1], "classes": arrays["classes"][::-1]})
    for name, path, more in (
        ("ridge", data, "--head ridge --mean_labels 2"),
        ("lda", turned, "--head lda --mean_labels 2"),
        ("unknown", data, "--head ridge"),
    ):
        execute("train", path, *HIDE, more, "--threads 1 --output", folder / name)
    return folder
