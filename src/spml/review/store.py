"""Database of the decisions of a review: an append-only log in SQLite, which several reviewers may share."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from ..common.errors import InputError, SpmlError
from ..common.safe import quote

FILE = "review.sqlite"
FORMAT = 1
SECONDS_TO_WAIT = 30.0  # for another process that is writing

Answer = Literal["yes", "no", "unsure"]
UNDO = "undo"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    file TEXT NOT NULL,
    label TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (answer IN ('yes', 'no', 'unsure', 'undo')),
    reviewer TEXT NOT NULL,
    time TEXT NOT NULL,
    random_check INTEGER NOT NULL CHECK (random_check IN (0, 1)),
    undoes INTEGER UNIQUE REFERENCES decisions (id),
    CHECK ((answer = 'undo') = (undoes IS NOT NULL))
);
CREATE TRIGGER IF NOT EXISTS decisions_stay BEFORE DELETE ON decisions
    BEGIN SELECT RAISE(ABORT, 'decisions are never removed'); END;
CREATE TRIGGER IF NOT EXISTS decisions_do_not_change BEFORE UPDATE ON decisions
    BEGIN SELECT RAISE(ABORT, 'decisions are never changed'); END;
"""
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged database raises: SQLite quotes its content in messages, which may be no text."""

_COLUMNS = "id, file, label, answer, reviewer, time, random_check, undoes"


_Row = tuple[int, str, str, Literal["yes", "no", "unsure", "undo"], str, str, Literal[0, 1], int | None]
"""Types of `_COLUMNS`."""


class Decision(NamedTuple):
    """One row of the log.

    Attributes:
        id: Number of the row, ascending in time.
        file: Name of the sample.
        label: Name of the class.
        answer: `yes` (the sample has the label), `no`, `unsure`, or `undo`.
        reviewer: Who answered.
        time: When, in UTC, as ISO 8601.
        random_check: Whether the entry was shown as a random check.
        undoes: Row that an `undo` takes back; None for an answer.
    """

    id: int
    file: str
    label: str
    answer: str
    reviewer: str
    time: str
    random_check: bool
    undoes: int | None


class Store:
    """Log of decisions about one data set. Rows are added, and never changed or removed.

    A row is on the disk when the method that adds it returns. Several threads and processes may use the same
    file at once, if it is on a local disk.

    Args:
        path: Database file.
        fingerprint: Fingerprint of the data, from `spml.audit.folder.fingerprint`.
        classes: Names of its classes.
        create: Create the database if it does not exist.

    Raises:
        InputError: The file can't be opened, is not such a database, holds decisions about other data, or was
            written by a newer version; or it does not exist and `create` is False.
    """

    def __init__(self, path: Path, fingerprint: str, classes: Sequence[str], *, create: bool = True) -> None:
        self.path = path
        if not create and not path.is_file():
            raise InputError(
                f"{path}: no such file: nothing has been reviewed yet. Start with spml review {path.parent}."
            )
        self._lock = threading.Lock()
        try:
            # The lock serialises threads; autocommit leaves transactions to `_writing`.
            self._connection = sqlite3.connect(
                path, timeout=SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
            )
        except _ERRORS as error:
            raise InputError(f"{path}: can't be opened ({error}).") from error
        try:
            self._prepare(fingerprint, classes)
        except _ERRORS as error:
            self._connection.close()
            raise InputError(f"{path}: can't be used as the database of a review ({error}).") from error
        except InputError:
            self._connection.close()
            raise

    def _prepare(self, fingerprint: str, classes: Sequence[str]) -> None:
        # A commit returns after the log of SQLite has reached the disk.
        self._connection.execute("PRAGMA synchronous = FULL")
        about = self._about()
        if about is None:
            self._use_write_ahead_log()
            with self._writing() as connection:
                for statement in _statements(_SCHEMA):
                    connection.execute(statement)
                values = {"format": str(FORMAT), "fingerprint": fingerprint, "classes": json.dumps(classes)}
                connection.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", values.items())
            about = self._about() or {}  # another process may have been quicker, with other data
        self._check(about, fingerprint)

    def _use_write_ahead_log(self) -> None:
        """Let readers and a writer work at once. The database remembers it."""
        deadline = time.monotonic() + SECONDS_TO_WAIT
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                # SQLite does not wait by itself here while another process creates the same database.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _about(self) -> dict[str, str] | None:
        """What the database says about itself; None if it is empty."""
        tables = {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master")}
        if not tables:
            return None
        if not {"about", "decisions"} <= tables:
            raise InputError(f"{self.path}: is another database. Move it away, or name another folder.")
        return dict(self._connection.execute("SELECT key, value FROM about"))

    def _check(self, about: dict[str, str], fingerprint: str) -> None:
        version = about.get("format")
        if not isinstance(version, str) or not re.fullmatch("[0-9]{1,9}", version):
            raise InputError(f"{self.path}: is damaged: it does not say its format.")
        if int(version) > FORMAT:
            raise InputError(
                f"{self.path}: was written by a newer version of spml (format {version}, this one reads "
                f"{FORMAT}). Nothing was changed. Update spml."
            )
        if about.get("fingerprint") != fingerprint:
            raise InputError(
                f"{self.path}: holds decisions about other data: other samples, classes or known labels. "
                "Move it away to begin again, or export it with the data that it belongs to."
            )

    def add(self, file: str, label: str, answer: Answer, reviewer: str, *, random_check: bool) -> Decision:
        """Add an answer.

        Returns:
            The row, which is on the disk.

        Raises:
            SpmlError: The database can't be written; nothing was added.
        """
        with self._writing() as connection:
            return _insert(connection, file, label, answer, reviewer, random_check, None)

    def undo(self, reviewer: str) -> Decision | None:
        """Take back the newest answer of a reviewer that has not been taken back.

        Returns:
            The row of the undo; None if the reviewer has no answer.

        Raises:
            SpmlError: The database can't be written; nothing was added.
        """
        newest = (
            f"SELECT {_COLUMNS} FROM decisions WHERE reviewer = ? AND undoes IS NULL "
            "AND id NOT IN (SELECT undoes FROM decisions WHERE undoes IS NOT NULL) ORDER BY id DESC LIMIT 1"
        )
        with self._writing() as connection:
            row = connection.execute(newest, [reviewer]).fetchone()
            if row is None:
                return None
            last = self._decision(row)
            return _insert(
                connection, last.file, last.label, UNDO, reviewer, last.random_check, undoes=last.id
            )

    def since(self, last: int) -> list[Decision]:
        """Rows after the row `last`, in order; all rows after 0.

        Raises:
            InputError: A row is damaged; the message says which.
            SpmlError: The database can't be read.
        """
        query = f"SELECT {_COLUMNS} FROM decisions WHERE id > ? ORDER BY id"
        with self._lock:
            try:
                return [self._decision(row) for row in self._connection.execute(query, [last])]
            except _ERRORS as error:
                raise SpmlError(f"{self.path}: can't be read ({error}).") from error

    def _decision(self, row: tuple[Any, ...]) -> Decision:
        """Row of the log; the schema of a database that others made may check nothing."""
        try:
            number, file, label, answer, reviewer, when, check, undoes = msgspec.convert(row, _Row)
            return Decision(number, file, label, answer, reviewer, when, bool(check), undoes)
        except ValueError as error:
            raise InputError(
                f"{self.path}: is damaged: row {quote(row[0])}: {error}. Restore a copy, or move it away to "
                "begin again."
            ) from error

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Transaction that is on the disk when it ends, or leaves no trace."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except _ERRORS as error:
                raise SpmlError(f"{self.path}: can't be written ({error}). Nothing was saved.") from error


def _statements(script: str) -> Iterator[str]:
    """Statements of a script; `executescript` would end the transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _insert(
    connection: sqlite3.Connection,
    file: str,
    label: str,
    answer: str,
    reviewer: str,
    random_check: bool,
    undoes: int | None,
) -> Decision:
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    values = (file, label, answer, reviewer, now, int(random_check), undoes)
    inserted = connection.execute(
        "INSERT INTO decisions (file, label, answer, reviewer, time, random_check, undoes) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        values,
    )
    return Decision(int(inserted.lastrowid or 0), file, label, answer, reviewer, now, random_check, undoes)
