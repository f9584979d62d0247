"""What the package says while a block runs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

from spml.common.messages import shown


@contextmanager
def listening() -> Iterator[list[str]]:
    """Yields a list, which holds the lines that were said once the block has ended."""
    lines: list[str] = []
    stream = io.StringIO()
    try:
        with shown(stream):
            yield lines
    finally:
        lines += stream.getvalue().splitlines()
