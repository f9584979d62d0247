"""Random and damaged files: a decorator that makes tests of them, and limits that every reader must keep."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset

MEMORY = 100e6  # bytes, of Python and of Arrow, that no file of a few kilobytes may need
LONG = int(os.environ.get("FUZZ_EXAMPLES", "200"))
"""Examples of each test in the long run."""
SECONDS = 20.0  # far more than any file takes, even if all cores are busy
OUTCOMES: Counter[str] = Counter()


def fuzz(
    *, some_read: bool = True, everyday: int = 50, long: int = LONG, **strategies: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test that calls the decorated function with random arguments; its other arguments are fixtures.

    The examples are the same in every run; see `tests/conftest.py`, which also tells how to draw new ones.

    Args:
        some_read: Whether some of the files must be readable according to `open_or_refuse`.
        everyday: Number of examples in the everyday run.
        long: Number of examples in the long run.
        **strategies: Hypothesis strategies of the random arguments.
    """

    def decorate(attempt: Callable[..., None]) -> Callable[..., None]:
        @pytest.mark.parametrize("examples", [everyday, pytest.param(long, marks=pytest.mark.long)])
        def test(examples: int, **fixtures: Any) -> None:
            before = OUTCOMES["read"]
            run = settings(
                max_examples=examples, deadline=None, database=None,
                suppress_health_check=[HealthCheck.too_slow],
            )(given(**strategies)(lambda **random: attempt(**random, **fixtures)))  # fmt: skip
            run()
            assert OUTCOMES["read"] > before or not some_read, "no example could be read"

        fixtures = [name for name in inspect.signature(attempt).parameters if name not in strategies]
        test.__name__, test.__doc__, test.__module__ = attempt.__name__, attempt.__doc__, attempt.__module__
        test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in ("examples", *fixtures)]
        )
        return test

    return decorate


def arrow_bytes() -> int:
    """Memory allocated by Arrow, which Python does not count."""
    try:
        import pyarrow
    except ImportError:
        return 0
    return pyarrow.total_allocated_bytes()


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Fail if the block takes memory or time out of proportion."""

    def too_long(*_: object) -> None:
        pytest.fail(f"took more than {SECONDS} s")  # not caught by `except Exception`

    arrow = arrow_bytes()
    if hasattr(signal, "SIGALRM"):
        signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
    tracemalloc.start()
    try:
        yield
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        if hasattr(signal, "SIGALRM"):
            signal.setitimer(signal.ITIMER_REAL, 0)
    assert used < MEMORY, f"{used:,} bytes"
    assert arrow_bytes() - arrow < MEMORY


def open_or_refuse(path: Path, **options: object) -> None:
    """Open data within the limits: either as data that can be trained on, or with a one-line error."""
    refusal = ""
    with bounded():
        try:
            data = open_dataset(DataConfig(path=str(path), **options), size=8)
        except InputError as error:
            refusal = str(error)
    OUTCOMES["refused" if refusal else "read"] += 1
    assert "\n" not in refusal
    assert len(refusal) < 2000
    if not refusal:
        assert len(data.splits["train"]) > 0
        assert len(data.splits["val"]) > 0
        assert not any("\n" in note or len(note) > 2000 for note in data.notes)


def damage(data: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    """Replace, remove or insert bytes, at positions modulo the length."""
    damaged = bytearray(data)
    for position, length, new in changes:
        start = position % (len(damaged) + 1)
        damaged[start : start + length] = new
    return bytes(damaged)


def paths_of(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Path of every value in a JSON document."""
    entries: Any = ()
    if isinstance(content, dict):
        entries = content.items()
    elif isinstance(content, list):
        entries = enumerate(content)
    own = [path] if path else []
    return own + [inner for key, value in entries for inner in paths_of(value, (*path, key))]


DELETE = object()


def set_value(content: Any, path: Sequence[Any], value: Any) -> None:
    """Replace the value at a path of a JSON document, or remove it if the new value is DELETE."""
    *parents, last = path
    for key in parents:
        content = content[key]
    if value is DELETE:
        del content[last]
    else:
        content[last] = value


def change_document(content: Any, changes: list[tuple[int, Any]]) -> None:
    """Replace or delete values of a JSON document; each is numbered modulo the number of values."""
    for number, value in changes:
        paths = paths_of(content)
        set_value(content, paths[number % len(paths)], value)
        if not content:
            break


extreme_integers = st.sampled_from(
    [
        (number % (1 << 8 * size)).to_bytes(size, "little")
        for size in (1, 2, 4, 8)
        for number in (-1, 0, 1, 127, 1 << 30)
    ]
)
# Most changes keep the length, so that later parts of the file stay at their offsets.
same_length = extreme_integers.map(lambda new: (len(new), new))
other_length = st.tuples(st.integers(0, 40), st.one_of(st.binary(max_size=20), extreme_integers))
changes = st.lists(
    st.tuples(st.integers(0, 100_000), st.one_of(same_length, same_length, other_length)).map(
        lambda change: (change[0], *change[1])
    ),
    min_size=1,
    max_size=4,
)
pieces = st.sampled_from([b"", *(bytes([code]) for code in b"012-. ?'\",;\n{}</"), b"a.png"])
text_changes = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 2), pieces), max_size=3)
unlisted = st.sampled_from(["unknown", "negative"])
