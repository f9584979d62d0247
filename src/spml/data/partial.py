"""A matrix that is computed block by block: a process killed at any moment loses the block it was at."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ..errors import SpmlError

STALE = 7 * 24 * 3600.0
"""Seconds without a new block after which nobody is expected to go on."""

_ITEM = 4  # bytes of a float32


class PartialMatrix:
    """Rows of a float32 matrix as they are computed, and those that an earlier process has left.

    The rows lie in a hidden file beside the one they will be. A second hidden file lists the blocks written,
    with their SHA-256: what is not listed, or has another, is dropped. No two processes write at a time; the
    second waits until the first has finished or ended. Where the file system has no locks, each process has
    files of its own, and none goes on from another's. As context manager it leaves both files behind, or none
    if there is no row or the matrix is complete.

    Args:
        path: the file that the matrix is going to be: a .npy with the SHA-256 of its content appended.
        count: rows of the whole matrix.
        report: told that this process waits, or that nobody will go on.

    Attributes:
        rows: how many there are.

    Raises:
        SpmlError: the files can't be written.
    """

    def __init__(self, path: Path, count: int, report: Callable[[str], None]) -> None:
        self._path, self._count, self._report = path, count, report
        self._written = hashlib.sha256()
        self._finished = False
        self.rows = 0

    def __enter__(self) -> PartialMatrix:
        with self._errors_named(), contextlib.ExitStack() as opened:
            self._list = opened.enter_context(_locked(_beside(self._path), self._report))
            self._files = Path(self._list.name).with_suffix(".part"), Path(self._list.name)
            for path in self._files:
                path.touch()  # made, and new, so that `remove_stale` of another process leaves it alone
            self._data = opened.enter_context(open(self._files[0], "r+b"))
            self._go_on()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        # Before the lock is given free: who gets it next makes files of its own.
        if self.rows == 0 or self._finished:
            _remove(self._files)
        # Where a disk is full, closing fails once more.
        with contextlib.suppress(OSError):
            self._open.close()

    def add(self, block: npt.NDArray[np.float32]) -> None:
        """Write the next rows, (B, D).

        Raises:
            SpmlError: they can't be written.
        """
        data = np.ascontiguousarray(block, "<f4").tobytes()
        with self._errors_named():
            if self.rows == 0:
                self._put(_header(self._count, block.shape[1]))
            self._put(data)
            self._data.flush()
            self._list.write(f"{len(block)} {block.shape[1]} {hashlib.sha256(data).hexdigest()}\n".encode())
            self._list.flush()
        self.rows += len(block)

    def finish(self) -> None:
        """Give the file its name; all rows must be there.

        Raises:
            SpmlError: it can't be written.
        """
        if self.rows != self._count:
            raise ValueError(f"{self.rows} of {self._count} rows are there")
        with self._errors_named():
            self._data.write(self._written.digest())
            self._data.flush()
            os.fsync(self._data.fileno())
            self._data.close()
            os.replace(self._files[0], self._path)
        self._finished = True

    def _go_on(self) -> None:
        """Find the whole blocks of an earlier process, and drop what follows on them."""
        width, good, end = -1, 0, 0
        for line in self._list:
            try:
                rows, columns, digest = (part.decode() for part in line.split(b" "))
                found = int(rows), int(columns)
            except ValueError:
                break
            if self.rows == 0:
                width, header = found[1], _header(self._count, found[1])
                if self._data.read(len(header)) != header:
                    break
                self._written.update(header)
            # Checked first, so that no more is read than there can be.
            if not 0 < found[0] <= self._count - self.rows or found[1] != width:
                break
            block = self._data.read(found[0] * width * _ITEM)
            if f"{hashlib.sha256(block).hexdigest()}\n" != digest:
                break
            self._written.update(block)
            self.rows += found[0]
            good, end = good + len(line), self._data.tell()
        if self.rows == 0:
            self._written = hashlib.sha256()
        for stream, length in ((self._list, good), (self._data, end)):
            stream.seek(length)
            stream.truncate()

    def _put(self, data: bytes) -> None:
        self._data.write(data)
        self._written.update(data)

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SpmlError(
                f"{self._path}: could not be written ({error.strerror or error}). What was computed is kept. "
                "Free some space or choose another --data.cache, then run again."
            ) from error


def remove_partial(path: Path) -> None:
    """Remove what lies beside a matrix that is complete."""
    _remove((_beside(path), _beside(path).with_suffix(".part")))


def remove_stale(folder: Path) -> None:
    """Remove what processes left in `folder` that were killed more than a week ago."""
    for path in (*folder.glob(".*.npy*.part"), *folder.glob(".*.npy*.blocks")):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE:
                path.unlink()


def intact(path: Path) -> bool:
    """Whether a finished file is as it was written."""
    size = hashlib.sha256().digest_size
    try:
        with open(path, "rb") as stream:
            digest, left = hashlib.sha256(), path.stat().st_size - size
            while left > 0 and (block := stream.read(min(1 << 20, left))):
                digest.update(block)
                left -= len(block)
            return left == 0 and stream.read() == digest.digest()
    except OSError:
        return False


def _beside(path: Path) -> Path:
    """The list of blocks; the rows lie in the same name with .part."""
    return path.with_name(f".{path.name}.blocks")


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()


def _header(rows: int, width: int) -> bytes:
    header = io.BytesIO()
    about = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, about)
    return header.getvalue()


@contextlib.contextmanager
def _locked(path: Path, report: Callable[[str], None]) -> Iterator[BinaryIO]:
    """A file that one process at a time has open; the system gives it free however that process ends.

    Where there are no locks, a file of another name that only this process knows.
    """
    while True:
        with open(path, "a+b") as stream:
            if not _lock(stream, report):
                break
            if _is_at(stream, path):
                stream.seek(0)
                yield stream
                return
    report(f"{path.parent}: has no file locks, so if this is stopped, the next run computes everything again")
    _remove([path])
    with open(path.with_name(f"{path.stem}.{secrets.token_hex(8)}{path.suffix}"), "x+b") as stream:
        yield stream


def _is_at(stream: BinaryIO, path: Path) -> bool:
    """Whether an open file is still that at `path`: it may have been removed while this process waited."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _lock(stream: BinaryIO, report: Callable[[str], None]) -> bool:
    """Whether it could be locked: Windows and some network file systems have no such locks."""
    try:
        import fcntl

        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report("another process computes the same features: waiting for it")
            fcntl.flock(stream, fcntl.LOCK_EX)
    except (ImportError, OSError):
        return False
    return True
