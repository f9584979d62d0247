"""Runs that several tests of audits read, trained once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.audits import train_runs


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a feature file and the runs `ridge`, `lda` and `unknown` on it."""
    return train_runs(tmp_path_factory.mktemp("audited"))
