"""What the tests of loops have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_curves() -> Iterator[None]:
    """Curves are not drawn: they take a third of the time of a loop, and none of its tests looks at them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fit_curves", "member_curves", "threshold_curves"):
            patch.setattr(f"spml.plots.{name}", lambda *arguments, **named: None)
        yield
