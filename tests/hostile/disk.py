"""Count the operations of this process on files, and disturb one of them."""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

BEFORE, AFTER, FULL = HOW = ("killed before", "killed after", "disk full at")
TIMED = "killed at second"
WRITES = ("write", "fsync", "rename", "replace")
STATEMENTS = ("create", "insert", "update", "delete", "commit")
"""Operations for which a full disk has no room, on files and in a database."""


class Stop(NamedTuple):
    """Disturbance of a run, at which operation (from 1; if `name` is given, of that name) or second."""

    number: float
    how: str
    name: str = ""


class Disk:
    """Counts the operations on files below a folder, and disturbs one of them.

    Args:
        folder: Folder whose files count.
        stop: Operation to disturb; None = only count.
    """

    def __init__(self, folder: Path, stop: Stop | None) -> None:
        self.folder, self.stop = str(folder), stop
        self.log: list[str] = []

    def install(self) -> None:
        """Replace the functions of Python that change files."""
        for name in ("rename", "replace", "unlink", "remove", "rmdir", "truncate"):
            self._wrap(os, name, self._first_path)
        for name in ("fsync", "fdatasync", "ftruncate"):
            self._wrap(os, name, lambda arguments, _: os.readlink(f"/proc/self/fd/{arguments[0]}"))
        opened = io.open

        def open_counted(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
            stream = opened(file, mode, *arguments, **named)
            path = os.path.abspath(os.fspath(file)) if not isinstance(file, int) else ""
            if set(mode).isdisjoint("wax+") or not path.startswith(self.folder):
                return stream
            return Stream(stream, path, self)

        builtins.open = io.open = open_counted  # type: ignore[assignment]
        self._count_statements()

    def _count_statements(self) -> None:
        """Count what SQLAlchemy changes in a database, whose files are written by a library in C."""
        from sqlalchemy.engine.default import DefaultDialect

        path = os.path.join(self.folder, "store")
        execute, commit = DefaultDialect.do_execute, DefaultDialect.do_commit

        def do_execute(dialect: Any, cursor: Any, statement: str, *rest: Any) -> None:
            word = statement.split()[0].lower()
            if word in STATEMENTS:
                self.count(word, path, lambda: execute(dialect, cursor, statement, *rest))
            else:
                execute(dialect, cursor, statement, *rest)

        def do_commit(dialect: Any, connection: Any) -> None:
            self.count("commit", path, lambda: commit(dialect, connection))

        DefaultDialect.do_execute, DefaultDialect.do_commit = do_execute, do_commit  # type: ignore[method-assign]

    @staticmethod
    def _first_path(arguments: Sequence[Any], named: dict[str, Any]) -> str:
        base = os.readlink(f"/proc/self/fd/{named['dir_fd']}") if named.get("dir_fd") is not None else ""
        return os.path.abspath(os.path.join(base, os.fspath(arguments[0])))

    def _wrap(self, module: Any, name: str, path_of: Callable[[Sequence[Any], dict[str, Any]], str]) -> None:
        function = getattr(module, name)

        def counted(*arguments: Any, **named: Any) -> Any:
            return self.count(name, path_of(arguments, named), lambda: function(*arguments, **named))

        setattr(module, name, counted)

    def _number(self, operation: str) -> int:
        """Number of the last operation, among all or among those of the name that the run is disturbed at."""
        if self.stop is None or not self.stop.name:
            return len(self.log)
        return self.log.count(operation) if operation == self.stop.name else 0

    def count(self, name: str, path: str, operation: Callable[[], Any]) -> Any:
        """Count an operation, and run it unless it is the one that never happens."""
        if not path.startswith(self.folder):
            return operation()
        operation_of = f"{name} {os.path.relpath(path, self.folder)}"
        if self.log[-1:] == [operation_of]:  # a picture is written in dozens of pieces
            return operation()
        self.log.append(operation_of)
        here = self.stop is not None and self._number(operation_of) == self.stop.number
        if here and self.stop.how == BEFORE:
            os.kill(os.getpid(), signal.SIGKILL)
        if here and self.stop.how == FULL and name in STATEMENTS:
            raise sqlite3.OperationalError("database or disk is full")
        if here and self.stop.how == FULL and name in WRITES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        try:
            return operation()
        finally:  # a file to remove may not exist
            if here and self.stop.how == AFTER:
                os.kill(os.getpid(), signal.SIGKILL)


class Stream:
    """An open file whose operations are counted; what is written reaches the file at once."""

    def __init__(self, stream: Any, path: str, disk: Disk) -> None:
        self._stream, self._path, self._disk = stream, path, disk

    def write(self, data: Any) -> Any:
        def operation() -> Any:
            written = self._stream.write(data)
            self._stream.flush()
            return written

        return self._disk.count("write", self._path, operation)

    def truncate(self, size: int | None = None) -> Any:
        return self._disk.count("truncate", self._path, lambda: self._stream.truncate(size))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def __iter__(self) -> Any:
        return iter(self._stream)
