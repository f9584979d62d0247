"""Audits to review, and a browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.reviews import make_audit
from tests.review.browser import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def audit(tmp_path) -> Path:
    return make_audit(tmp_path)
