"""Database of the decisions of a review: an append-only log in SQLite, which several reviewers may share.

Each row carries a SHA-256 of its content and of that of the row before it, and the table `about` names the
newest row: one that was changed, moved or removed is found. There is no write-ahead log, since SQLite ends
such a log at the first damaged page without a word, and answers that were saved after it would be lost.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from ..common.errors import InputError, SpmlError
from ..common.files import create_with
from ..common.phrases import counted, first_few
from ..common.safe import quote

FILE = "review.sqlite"
FORMAT = 2
SECONDS_TO_WAIT = 5.0  # for another process that is writing

Answer = Literal["yes", "no", "unsure"]

_SCHEMA = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE decisions (
    id INTEGER PRIMARY KEY,
    file TEXT NOT NULL,
    label TEXT NOT NULL,
    answer TEXT NOT NULL CHECK (answer IN ('yes', 'no', 'unsure', 'undo')),
    reviewer TEXT NOT NULL,
    time TEXT NOT NULL,
    random_check INTEGER NOT NULL CHECK (random_check IN (0, 1)),
    undoes INTEGER REFERENCES decisions (id),
    sha256 TEXT NOT NULL,
    CHECK ((answer = 'undo') = (undoes IS NOT NULL))
)""",
    """CREATE TRIGGER decisions_stay BEFORE DELETE ON decisions
    BEGIN SELECT RAISE(ABORT, 'decisions are never removed'); END""",
    """CREATE TRIGGER decisions_do_not_change BEFORE UPDATE ON decisions
    BEGIN SELECT RAISE(ABORT, 'decisions are never changed'); END""",
)
"""Tables without an index: what SQLite reads are rows, which carry a checksum."""
_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""Errors of a damaged database: SQLite quotes its content in messages, which may not be text."""

_DEVICE = "I/O error"
"""In messages of SQLite about a disk that fails, which says nothing about the content."""

_COLUMNS = "id, file, label, answer, reviewer, time, random_check, undoes"
_TIME = 5
_ADVICE = "Restore a copy, or move it away to begin again."
_LEAST_BYTES = 100  # of a row in the file: its checksum and its time
_MOST_LOST = 100_000  # rows that are looked for in vain before a search ends


class Decision(NamedTuple):
    """One row of the log."""

    id: int  # ascending in time
    file: str
    label: str
    answer: Literal["yes", "no", "unsure", "undo"]  # `yes`: the sample has the label
    reviewer: str
    time: str  # in UTC, as ISO 8601; the same for rows that were added in one step, and for no others
    random_check: bool  # whether the entry was shown as a random check
    undoes: int | None  # row that an `undo` takes back


class Store:
    """Log of decisions about one data set. Rows are added, and never changed or removed.

    A row is on the disk when the method that adds it returns. Several threads and processes may use the same
    file at once, if it is on a local disk.

    Args:
        path: Database file.
        fingerprint: Fingerprint of the data, from `spml.audit.folder.fingerprint`.
        create: Create the database if it does not exist.

    Raises:
        InputError: The file can't be opened, is not such a database, is empty, holds decisions about other
            data, or was written by another version; or it does not exist and `create` is False.
    """

    def __init__(self, path: Path, fingerprint: str, *, create: bool = True) -> None:
        self.path, self._fingerprint = path, fingerprint
        self._lock = threading.Lock()
        try:
            if not path.exists():
                self._begin(create=create)
            if not path.stat().st_size:
                raise InputError(f"{path}: is empty, so the answers that it held are gone. {_ADVICE}")
            # The lock serialises threads; autocommit leaves transactions to `_transaction`.
            self._connection = sqlite3.connect(
                path, timeout=SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
            )
        except _ERRORS as error:
            raise InputError(f"{path}: can't be opened ({error}).") from error
        try:
            self._check_kind()
        except SpmlError:
            self._connection.close()
            raise

    def _begin(self, *, create: bool) -> None:
        """Make the database, with its tables or not at all."""
        for suffix in ("-journal", "-wal"):
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():  # SQLite would write its content into the new file
                raise InputError(
                    f"{part}: belongs to a database {self.path.name} that is not there. Move it back, or "
                    "move this one away, too."
                )
        if not create:
            raise InputError(
                f"{self.path}: no such file: nothing has been reviewed yet. Start with spml review."
            )

        def make(temporary: Path) -> None:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as connection:
                connection.execute("PRAGMA journal_mode = MEMORY")  # leaves no second file if it is killed
                connection.execute("BEGIN")
                for statement in _SCHEMA:
                    connection.execute(statement)
                about = [("fingerprint", self._fingerprint), ("head", _head(0, ""))]
                connection.executemany("INSERT INTO about VALUES (?, ?)", about)
                connection.execute(f"PRAGMA user_version = {FORMAT}")
                connection.execute("COMMIT")

        create_with(self.path, make)

    def _check_kind(self) -> None:
        """Check that the file is a database of this format and about this data."""
        with self._transaction("read") as connection:
            schema = _schema_of(connection)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if not {"about", "decisions"} <= {name for _, name, _ in schema}:
                raise InputError(f"{self.path}: is another database, or was emptied. {_ADVICE}")
            if version != FORMAT:
                raise InputError(
                    f"{self.path}: has the format {version}, but this version of spml reads the format "
                    f"{FORMAT} only. Nothing was changed. Use the version that wrote it, or move it away to "
                    "begin again."
                )
            if schema != _own_schema():
                raise InputError(f"{self.path}: is damaged: its tables are not those of a review. {_ADVICE}")
            other = False  # if that can't be read, it is damaged
            with suppress(*_ERRORS):
                other = _about(connection).get("fingerprint") != self._fingerprint
        if other and not self.intact()[0]:
            raise InputError(
                f"{self.path}: holds decisions about other data: other samples, classes or known labels. "
                "Move it away to begin again, or export it with the data that it belongs to."
            )
        # A commit returns after the file has reached the disk, and the end of the journal, too.
        self._connection.execute("PRAGMA synchronous = EXTRA")

    def add(self, file: str, label: str, answer: Answer, reviewer: str, *, random_check: bool) -> Decision:
        """Add an answer.

        Returns:
            The row, which is on the disk.

        Raises:
            SpmlError: The database can't be written; nothing was added.
        """
        return self.add_all([(file, label, answer, random_check)], reviewer)[0]

    def add_all(self, answers: Iterable[tuple[str, str, Answer, bool]], reviewer: str) -> list[Decision]:
        """Add answers in one step, all or none, which one undo takes back.

        Args:
            answers: Sample, class, answer and whether the entry was shown as a random check, of each.
            reviewer: Name of the reviewer.

        Returns:
            The rows, which are on the disk.

        Raises:
            SpmlError: The database can't be written; nothing was added.
        """
        with self._transaction("write") as connection:
            time = _time_after(connection)
            return [
                self._insert(connection, Decision(0, file, label, answer, reviewer, time, check, None))
                for file, label, answer, check in answers
            ]

    def undo(self, reviewer: str) -> list[Decision]:
        """Take back the newest answers of a reviewer that were added in one step and not been taken back.

        Returns:
            The rows of the undo, those of the newest answer first; none if the reviewer has no answer.

        Raises:
            SpmlError: The database can't be written; nothing was added.
        """
        standing = (
            f"SELECT {_COLUMNS} FROM decisions WHERE reviewer = ? AND undoes IS NULL "
            "AND id NOT IN (SELECT undoes FROM decisions WHERE undoes IS NOT NULL) ORDER BY id DESC"
        )
        with self._transaction("write") as connection:
            rows = connection.execute(standing, [reviewer])
            decisions = list(map(self._decision, rows.fetchmany(1)))
            for row in rows:
                if row[_TIME] != decisions[0].time:
                    break
                decisions.append(self._decision(row))
            time = _time_after(connection)
            return [
                self._insert(connection, last._replace(answer="undo", time=time, undoes=last.id))
                for last in decisions
            ]

    def since(self, last: int) -> list[Decision]:
        """Rows after the row `last`, in order, once their checksums are checked; all rows after 0, and then
        the structure of the file is checked, too.

        Raises:
            InputError: The database is damaged; the message says where.
            SpmlError: The database can't be read.
        """
        query = f"SELECT {_COLUMNS}, sha256 FROM decisions WHERE id >= ? ORDER BY id"
        with self._transaction("read") as connection:
            try:
                (problem,) = ("ok",) if last else connection.execute("PRAGMA quick_check(1)").fetchone()
                rows, about = connection.execute(query, [last]).fetchall(), _about(connection)
            except _ERRORS as error:
                problem = str(error)
                if _DEVICE in problem:
                    raise
        if problem != "ok":
            raise self._damaged(problem)
        number, previous, decisions = last, "", []
        if rows and rows[0][0] == last:
            previous = rows.pop(0)[-1]
        for *row, sha256 in rows:
            number += 1
            if row[0] != number or sha256 != self._sha256(previous, row):
                raise self._damaged(f"row {number} is not as it was written")
            decisions.append(self._decision(row))
            previous = sha256
        if about != {"fingerprint": self._fingerprint, "head": _head(number, previous)}:
            raise self._damaged("its newest rows are missing, or its table `about` is not as it was written")
        return decisions

    def intact(self) -> tuple[list[Decision], list[int]]:
        """Rows of a damaged database whose checksum is right, and the numbers of the others.

        A row whose checksum itself is damaged takes the next one with it.

        Raises:
            SpmlError: The database can't be read.
        """
        query = f"SELECT {_COLUMNS}, sha256 FROM decisions WHERE id = ?"
        numbers = range(1, self.path.stat().st_size // _LEAST_BYTES + 2)
        rows: dict[int, Any] = {0: ("",)}
        about: dict[str, str] = {}
        with self._transaction("read") as connection:
            for number in numbers:  # each by itself: there may be a damaged page among others
                with suppress(*_ERRORS):
                    rows.update((number, row) for row in connection.execute(query, [number]))
                if number - len(rows) > _MOST_LOST:
                    break
            with suppress(*_ERRORS):
                about = _about(connection)
        intact = {
            number: self._decision(row[:-1])
            for number, row in rows.items()
            if number - 1 in rows and row[-1] == self._sha256(rows[number - 1][-1], row[:-1])
        }
        last = max(intact, default=0)
        head = re.fullmatch("([0-9]{1,9}) [0-9a-f]{64}", str(about.get("head")))
        if head and head[0] != _head(int(head[1]), rows[last][-1]):
            last = max(last, min(int(head[1]), numbers.stop))
        return list(intact.values()), [number for number in range(1, last + 1) if number not in intact]

    def _damaged(self, problem: str) -> InputError:
        """Error of a damaged database, which names the rows that are lost."""
        intact, lost = self.intact()
        rows = f" {counted(len(lost), 'row is', 'rows are')} lost: {named(lost)}." if lost else ""
        if intact:
            count = counted(len(intact), "row is", "rows are")
            rows += f" {count} intact: spml review export with --damaged skip writes what they say."
        return InputError(f"{self.path}: is damaged: {problem}.{rows} {_ADVICE}")

    def _decision(self, row: Sequence[Any]) -> Decision:
        """Row of the log; somebody else may have made it, with a checksum that is right."""
        try:
            return msgspec.convert(row, Decision, strict=False)  # SQLite has no bool
        except ValueError as error:
            raise InputError(f"{self.path}: is damaged: row {quote(row[0])}: {error}. {_ADVICE}") from error

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _transaction(self, purpose: Literal["read", "write"]) -> Iterator[sqlite3.Connection]:
        """Transaction that sees one state, and is on the disk when it ends, or leaves no trace."""
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE" if purpose == "write" else "BEGIN")
                try:
                    # Takes the lock of a reader, so that nothing that follows has to wait.
                    self._connection.execute("PRAGMA user_version").fetchone()
                    yield self._connection
                    # Once it has met damage, SQLite refuses to commit even what was only read.
                    self._connection.execute("COMMIT" if purpose == "write" else "ROLLBACK")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except _ERRORS as error:
                if "locked" in str(error):
                    raise SpmlError(
                        f"{self.path}: another process has kept it locked for {SECONDS_TO_WAIT:g} seconds. "
                        "Nothing was saved, and nothing is lost. Try again."
                    ) from error
                if purpose == "write" or _DEVICE in str(error):
                    what = "written" if purpose == "write" else "read"
                    raise SpmlError(f"{self.path}: can't be {what} ({error}). Nothing was saved.") from error
                raise InputError(
                    f"{self.path}: can't be used as the database of a review ({error}). {_ADVICE}"
                ) from error

    def _insert(self, connection: sqlite3.Connection, decision: Decision) -> Decision:
        """Add a row, and return it with its number."""
        newest = "SELECT id, sha256 FROM decisions ORDER BY id DESC LIMIT 1"
        number, previous = connection.execute(newest).fetchone() or (0, "")
        decision = decision._replace(id=number + 1)
        row = [*decision[:6], int(decision.random_check), decision.undoes]
        sha256 = self._sha256(previous, row)
        insert = f"INSERT INTO decisions ({_COLUMNS}, sha256) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        connection.execute(insert, [*row, sha256])
        update = "UPDATE about SET value = ? WHERE key = 'head' AND value = ?"
        heads = [_head(number + 1, sha256), _head(number, previous)]
        if connection.execute(update, heads).rowcount != 1:
            raise InputError(
                f"{self.path}: is damaged: its newest rows are missing. Nothing was saved. {_ADVICE}"
            )
        return decision

    def _sha256(self, previous: str, row: Sequence[Any]) -> str:
        """Checksum of a row, of the data that it is about, and of the row before it."""
        return hashlib.sha256(msgspec.json.encode([previous, self._fingerprint, *row])).hexdigest()


def _time_after(connection: sqlite3.Connection) -> str:
    """The time of now, or just after the newest row if the clock is behind it."""
    newest = connection.execute("SELECT time FROM decisions ORDER BY id DESC LIMIT 1").fetchone()
    now = datetime.now(timezone.utc)
    with suppress(ValueError, TypeError, OverflowError):  # a forged time is not one
        now = max(now, datetime.fromisoformat(*(newest or ())) + timedelta(milliseconds=1))
    return now.isoformat(timespec="milliseconds")


def named(rows: Sequence[int]) -> str:
    """Numbers of rows for a message."""
    return first_few(list(map(str, rows)), 10)


def _head(number: int, sha256: str) -> str:
    """Name of the newest row in the table `about`."""
    return f"{number} {sha256}"


def _about(connection: sqlite3.Connection) -> dict[str, str]:
    return dict(connection.execute("SELECT key, value FROM about"))


def _schema_of(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    return set(connection.execute("SELECT type, name, sql FROM sqlite_master"))


@cache
def _own_schema() -> set[tuple[str, str, str]]:
    """Schema as SQLite keeps it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in _SCHEMA:
            connection.execute(statement)
        return _schema_of(connection)
