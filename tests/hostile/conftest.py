"""Fixtures of the tests of data."""

from tests.data.conftest import picture  # noqa: F401
