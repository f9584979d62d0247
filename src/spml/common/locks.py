"""Locks that keep processes from writing to the same place. A lock ends with its process, however it ends.

`filelock` can't take the place of this module: its lock lives on in the processes that a killed one has
forked to load images, it does not say who holds it, and its file stays.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

from .errors import InputError, SpmlError, quoted
from .messages import log


@contextlib.contextmanager
def only_writer(target: Path, *, inside: bool = False) -> Iterator[None]:
    """Keep other processes from writing to a file or folder while the context lasts.

    What is locked is a hidden file, `.lock` in a folder or `.NAME.lock` next to a file. It names the process
    and is removed in the end. A killed process leaves the file behind, but no lock. Where the file system has
    no locks, the existence of a file with the further suffix `.owner` is the lock; it is taken over from a
    process of this machine that has ended.

    Args:
        target: File or folder.
        inside: Whether the target is a folder, which must exist, with the lock file in it.

    Raises:
        InputError: Another process writes to the target, or the lock file can't be written.
        SpmlError: The disk is full.
    """
    lock, owner_file = _files(target, inside)
    with contextlib.ExitStack() as stack:
        with _os_errors_explained(lock):
            file, locked = stack.enter_context(_held(lock, lambda: _refuse(target, lock)))
            if not locked:
                file = stack.enter_context(_taken(owner_file, target))
            _write_owner(file)
        yield


def check_no_writer(target: Path, *, inside: bool = False) -> None:
    """Check, before long work, that no other process writes to a file or folder. Nothing is written."""
    lock, owner_file = _files(target, inside)
    owner = _read_owner(owner_file)
    if owner and not owner.has_ended():
        _refuse(target, owner_file)
    with contextlib.suppress(OSError), open(_open_file(lock, os.O_RDWR), "r+b", buffering=0) as stream:
        if _lock(stream.fileno(), wait=False) is False:
            _refuse(target, lock)


@contextlib.contextmanager
def one_at_a_time(path: Path, busy: str) -> Iterator[None]:
    """Hold a lock file while the context lasts; others wait for it. Where there are no locks, nobody waits.

    The folder of the file must exist; the file is removed in the end. `busy` says what another process does
    if this one has to wait, such as `writes the report`.
    """
    with contextlib.ExitStack() as stack:
        with _os_errors_explained(path):
            stack.enter_context(_held(path, lambda: log.info(f"another process {busy}: waiting for it")))
        yield


def try_lock(stream: BinaryIO) -> bool:
    """Lock an open file, and return whether it is locked now.

    It is not if another process has locked it, or where there are no locks (Windows, some network file
    systems).
    """
    return _lock(stream.fileno(), wait=False) is True


def has_ended(host: str, process: int) -> bool:
    """Whether a process of this machine has ended; False for other machines, where it can't be known."""
    if host != socket.gethostname() or os.name == "nt":  # on Windows, os.kill would end the process
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        pass
    return False


class _Owner(NamedTuple):
    """Process that holds a lock."""

    process: int  # its number
    host: str  # name of its machine
    since: str  # when it took the lock
    start: str  # when it started: another process may have the same number later. Empty if not known

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"

    def has_ended(self) -> bool:
        if self.host == socket.gethostname() and self.start != _start(self.process):
            return True
        return has_ended(self.host, self.process)

    def command(self) -> str:
        """Its command line in brackets, with a blank before it; empty where it is not known."""
        if self.host != socket.gethostname():
            return ""
        try:
            words = Path(f"/proc/{self.process}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return ""
        text = " ".join(words).strip()
        return f" ({quoted(text[max(text.find('spml '), 0) :])})"


_OWNER = re.compile(
    r"process (\d{1,9}) on ([\w.-]{1,255}) since ([\d: -]{1,30}), start (\d{0,30})\n", re.ASCII
)


def _files(target: Path, inside: bool) -> tuple[Path, Path]:
    """Lock file of a target, and the file that takes its place where there are no locks."""
    lock = target / ".lock" if inside else target.with_name(f".{target.name}.lock")
    return lock, lock.with_name(lock.name + ".owner")


@contextlib.contextmanager
def _os_errors_explained(lock: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        disk = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
        raise (SpmlError if disk else InputError)(
            f"{lock}: can't be written ({error.strerror or error}). This file keeps other processes from "
            "writing to the same place. Check its permissions and those of its folder, or write to another "
            "place."
        ) from error


def _open_file(path: Path, flags: int) -> int:
    """Open a file without following a link, and without waiting where it is a pipe."""
    safe = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags | safe, 0o666)


def _write_owner(file: int) -> None:
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    text = f"process {os.getpid()} on {socket.gethostname()} since {now}, start {_start(os.getpid())}\n"
    os.ftruncate(file, 0)
    os.write(file, text.encode())


def _read_owner(path: Path) -> _Owner | None:
    """Read the owner from a lock file. Returns None if the file does not exist or is still empty."""
    try:
        with open(_open_file(path, os.O_RDONLY), "rb") as stream:
            text = stream.read(1024).decode(errors="replace")
    except OSError:
        return None
    found = _OWNER.fullmatch(text)
    return _Owner(int(found[1]), found[2], found[3], found[4]) if found else None


def _start(process: int) -> str:
    """When a process of this machine started, in ticks since the system did; empty if that is not known."""
    try:
        text = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return ""
    return text.rpartition(b")")[2].split()[19].decode()


def _refuse(target: Path, path: Path) -> NoReturn:
    """Raise the error that another process writes to a target; `path` is the file that it has locked."""
    who = "another process is writing to it"
    for attempt in range(20):
        # A process names itself just after it has taken the lock. Until then the file is empty, or names a
        # process that was killed.
        if attempt:
            time.sleep(0.05)
        owner = _read_owner(path)
        if owner is not None and not owner.has_ended():
            who = f"{owner} has been writing to it since {owner.since}{owner.command()}"
            break
    stale = f" If it has ended, remove {path}." if path.suffix == ".owner" else ""
    raise InputError(f"{target}: {who}. Wait until that process has ended, or write to another place.{stale}")


@contextlib.contextmanager
def _taken(path: Path, target: Path) -> Iterator[int]:
    """Make the file that takes the place of a lock; refuse if another process that may be running has one."""
    while True:
        try:
            file = _open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            break
        except FileExistsError:
            owner = _read_owner(path)
            if owner is None or not owner.has_ended():
                _refuse(target, path)
            log.info(f"{path}: taken over from {owner}, which has ended")
            path.unlink(missing_ok=True)
    try:
        yield file
    finally:
        os.close(file)
        _remove(path)


# Open lock files. A process that loads images has copies of them, and may outlive a killed process that it
# belongs to by some seconds, in which the lock would be held.
_open: set[int] = set()


def _close_copies() -> None:
    for file in _open:
        os.close(file)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_copies)


@contextlib.contextmanager
def _held(path: Path, on_busy: Callable[[], None]) -> Iterator[tuple[int, bool]]:
    """Open a lock file, which is made if it does not exist, and lock it; it is removed in the end.

    `on_busy` is called if another process holds the lock, before this one waits for it. Yields the file
    descriptor, and whether there are locks.
    """
    while True:
        file = _open_file(path, os.O_RDWR | os.O_CREAT)
        _open.add(file)
        try:
            locked = _lock(file, wait=False)
            if locked is False:
                on_busy()
                locked = _lock(file, wait=True)
            same = not locked  # the process that held the lock may have removed the file
            with contextlib.suppress(FileNotFoundError):
                same = same or os.path.samestat(os.fstat(file), path.stat())
            if same:
                try:
                    yield file, locked is True
                finally:
                    _remove(path)
                return
        finally:
            _open.discard(file)
            os.close(file)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _lock(file: int, *, wait: bool) -> bool | None:
    """Whether the file is locked now; None where there are no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True
