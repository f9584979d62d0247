"""Figures are painted here."""

import pytest


@pytest.fixture
def blank_pictures() -> None:
    """Nothing is left blank."""
