"""What shows how far slow work is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

Advance = Callable[[int], None]
"""Called with the number of steps that were done since the last call."""
Progress = Callable[[int, str], AbstractContextManager[Advance]]
"""Makes a progress bar from the number of steps and a label, as `Console.progress` does."""


def no_progress(total: int, label: str) -> AbstractContextManager[Advance]:
    """Show nothing."""
    return nullcontext(lambda done: None)
