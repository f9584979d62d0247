"""Locks on files. A lock ends with the process that holds it, however it ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO


def try_lock(stream: BinaryIO) -> bool:
    """Lock an open file unless another process has locked it.

    Returns:
        False where another process holds the lock, or where there are no locks (Windows, some network file
        systems).
    """
    return _lock(stream, wait=False) is True


def held_elsewhere(stream: BinaryIO) -> bool:
    """Lock an open file; whether another process holds the lock. Where there are no locks, none does.

    Unlike other locks here, this one is not inherited by processes that load images, which outlive a killed
    process for some seconds. It ends when the file is closed, even if this process has opened it twice.
    """
    try:
        import fcntl

        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except (ImportError, OSError):
        pass
    return False


@contextlib.contextmanager
def one_at_a_time(path: Path, report: Callable[[str], None]) -> Iterator[None]:
    """Hold a lock file while a computation runs that other processes would repeat; they wait.

    Where there are no locks, nobody waits.

    Args:
        path: Lock file, which is removed in the end. Its folder must exist.
        report: Callback for messages, such as that this process waits for another one.
    """
    while True:
        with open(path, "r+b", opener=_open_or_create) as stream:
            held = _lock(stream, wait=False)
            if held is False:
                report("another process computes the same features: waiting for it")
                held = _lock(stream, wait=True)
            if held and not _is_at(stream, path):
                continue  # the process that held the lock has removed the file
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    path.unlink()
            return


def _lock(stream: BinaryIO, *, wait: bool) -> bool | None:
    """Whether the file is locked now; None where there are no locks."""
    try:
        import fcntl

        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


def _is_at(stream: BinaryIO, path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False
