"""Auto heads of few members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def few_members() -> Iterator[None]:
    """Auto heads have the best members only, since more of them are solved, saved and exported alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("spml.models.solved.search.DENSE_WIDTHS", (1.0,))
        patch.setattr("spml.models.solved.auto.LEAST_WEIGHT", 0.6)
        yield
