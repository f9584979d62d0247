"""A matrix on disk that is computed in blocks: a process killed at any moment loses one block at most."""

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

STALE = 7 * 24 * 3600.0  # seconds without a new block after which an unfinished matrix is abandoned
SUFFIXES = (".part", ".rows", ".blocks")  # earlier versions had .blocks where .rows is now
DIGEST_SIZE = hashlib.sha256().digest_size


class PartialMatrix:
    """A float32 matrix that grows block by block and takes up the rows that an earlier process left.

    The rows are appended to a hidden .part file. A second hidden file, the counter, states how many rows are
    complete, where they end, and the SHA-256 of everything before that position; if it does not match, the
    computation starts from the beginning. The counter is locked, so that one process at a time computes a
    matrix; others wait until that process has finished or died. On file systems without locks each process
    uses files of its own and can't resume the work of another.

    As a context manager, it leaves both files behind, unless the matrix is complete or has no rows.

    Args:
        path: Final file: a .npy file with the SHA-256 of its content appended.
        count: Number of rows of the complete matrix.
        report: Callback for messages, such as that this process waits for another one.

    Attributes:
        rows: Number of rows computed so far.

    Raises:
        SpmlError: The files can't be written.
    """

    def __init__(self, path: Path, count: int, report: Callable[[str], None]) -> None:
        self._path, self._count, self._report = path, count, report
        self._digest = hashlib.sha256()
        self._finished = False
        self.rows = 0

    def __enter__(self) -> PartialMatrix:
        with self._os_errors_explained(), contextlib.ExitStack() as stack:
            self._counter = stack.enter_context(_locked(_counter_path(self._path), self._report))
            counter = Path(self._counter.name)
            self._files = counter.with_suffix(".part"), counter
            for path in self._files:
                path.touch()  # so that `remove_stale` in another process does not remove it
            self._part = stack.enter_context(open(self._files[0], "r+b"))
            self._resume()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        # While still holding the lock: the next process to get it then creates new files.
        if self.rows == 0 or self._finished:
            _remove((*self._files, self._files[1].with_suffix(".blocks")))
        with contextlib.suppress(OSError):  # on a full disk, closing fails again
            self._stack.close()

    def add(self, block: npt.NDArray[np.float32]) -> None:
        """Write the next rows, of shape (B, D).

        Raises:
            SpmlError: They can't be written.
        """
        with self._os_errors_explained():
            if self.rows == 0:
                self._append(_header(self._count, block.shape[1]))
            self._append(np.ascontiguousarray(block, "<f4").tobytes())
            self._part.flush()
            self.rows += len(block)
            # One short write, which a kill does not split.
            self._counter.seek(0)
            self._counter.write(f"{self.rows} {self._part.tell()} {self._digest.hexdigest()}\n".encode())
            self._counter.flush()

    def finish(self) -> None:
        """Append the checksum and rename the file to its final name. All rows must have been added.

        Raises:
            SpmlError: The file can't be written.
        """
        if self.rows != self._count:
            raise ValueError(f"{self.rows} of {self._count} rows have been added")
        with self._os_errors_explained():
            self._part.write(self._digest.digest())
            self._part.flush()
            os.fsync(self._part.fileno())
            self._part.close()
            os.replace(self._files[0], self._path)
        self._finished = True

    def _resume(self) -> None:
        """Take up the rows of an earlier process if the counter matches them; remove everything else."""
        size = 0
        with contextlib.suppress(ValueError):
            rows, end, expected = self._counter.read(200).decode().split()
            digest = _digest(self._part, int(end))
            if digest.hexdigest() == expected:
                size, self.rows, self._digest = int(end), int(rows), digest
        self._part.seek(size)
        self._part.truncate()
        if not size:
            self._counter.truncate(0)  # a shorter line must not be followed by the rest of this one

    def _append(self, data: bytes) -> None:
        self._part.write(data)
        self._digest.update(data)

    @contextlib.contextmanager
    def _os_errors_explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SpmlError(
                f"{self._path}: could not be written ({error.strerror or error}). Rows computed so far are "
                "kept. Free some space or choose another --data.cache, then run again."
            ) from error


def remove_partial(path: Path) -> None:
    """Remove the files of the computation of a matrix that is complete."""
    counter = _counter_path(path)
    _remove(counter.with_suffix(suffix) for suffix in SUFFIXES)


def remove_stale(folder: Path) -> None:
    """Remove what processes killed more than a week ago left in `folder`."""
    for suffix in SUFFIXES:
        for path in folder.glob(f".*.npy*{suffix}"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > STALE:
                    path.unlink()


def intact(path: Path) -> bool:
    """Whether a finished file exists and its checksum matches its content."""
    try:
        with open(path, "rb") as stream:
            digest = _digest(stream, path.stat().st_size - DIGEST_SIZE)
            return stream.read() == digest.digest()
    except (OSError, ValueError):
        return False


def _digest(stream: BinaryIO, size: int) -> hashlib._Hash:
    """SHA-256 of the next `size` bytes.

    Raises:
        ValueError: There are fewer.
    """
    digest = hashlib.sha256()
    while size > 0 and (block := stream.read(min(1 << 20, size))):
        digest.update(block)
        size -= len(block)
    if size:
        raise ValueError("the file is too short")
    return digest


def _header(rows: int, width: int) -> bytes:
    header = io.BytesIO()
    array = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, array)
    return header.getvalue()


def _counter_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.rows")


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()


@contextlib.contextmanager
def _locked(path: Path, report: Callable[[str], None]) -> Iterator[BinaryIO]:
    """Open a file that only one process at a time has open; the lock ends with the process, however it ends.

    Where there are no locks, the file gets a random name that no other process uses.
    """
    while True:
        with open(path, "r+b", opener=_open_or_create) as stream:
            if not _lock(stream, report):
                break
            if _is_at(stream, path):
                yield stream
                return
    report(f"{path.parent}: has no file locks, so a run that is stopped can't be resumed")
    _remove([path])
    with open(path.with_name(f"{path.stem}.{secrets.token_hex(8)}{path.suffix}"), "x+b") as stream:
        yield stream


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o666)


def _is_at(stream: BinaryIO, path: Path) -> bool:
    """Whether an open file is still the one at `path`: another process may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _lock(stream: BinaryIO, report: Callable[[str], None]) -> bool:
    """Lock a file, waiting if need be; False where locks don't exist (Windows, some network file systems)."""
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
