"""Figures are painted here."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def painted(painted_pictures: None) -> None:
    """Nothing is left blank."""
