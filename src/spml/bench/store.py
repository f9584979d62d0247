"""Database of finished runs and of claims on series, shared by several processes and machines."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import msgspec
import sqlalchemy as sql
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError, SQLAlchemyError

from ..common.documents import parse_json
from ..common.errors import InputError, SpmlError, quoted
from ..common.locks import has_ended
from .rows import Row, SeriesKey

FILE = "store.sqlite"
VERSION = 1
BEAT = 15.0  # seconds between heartbeats of a worker
MAX_BODY = 1 << 24  # bytes of a row before it is compressed; a run of 10,000 epochs has some two million
STALE = 120.0  # seconds without a heartbeat after which other workers may take over its series
AHEAD = 3600.0  # seconds that the clock of another machine may be ahead; a later heartbeat means nothing

_TABLES = sql.MetaData()
_ABOUT = sql.Table("spml_bench", _TABLES, sql.Column("version", sql.Integer, primary_key=True))
_ROWS = sql.Table(
    "runs",
    _TABLES,
    sql.Column("key", sql.String(64), primary_key=True),
    *(sql.Column(name, sql.Text, nullable=False) for name in ("data", "hiding", "candidate")),
    sql.Column("seed", sql.Integer, nullable=False),
    sql.Column("trial", sql.Integer, nullable=False),
    sql.Column("point", sql.String(64), nullable=False, index=True),
    sql.Column("code", sql.String(64), nullable=False),
    sql.Column("status", sql.String(8), nullable=False),
    sql.Column("body", sql.LargeBinary, nullable=False),
)
_CLAIMS = sql.Table(
    "claims",
    _TABLES,
    sql.Column("series", sql.Text, primary_key=True),
    sql.Column("owner", sql.Text, nullable=False),
    sql.Column("beat", sql.Float, nullable=False),
)


_ERRORS = (SQLAlchemyError, UnicodeDecodeError)
"""Errors of a damaged database: SQLite quotes its content in messages, which may not be text."""


class Store:
    """Rows by key, and claims of workers on series.

    Args:
        url: URL for SQLAlchemy, such as `sqlite:///bench/store.sqlite` or `postgresql://host/name`.
        create: Whether to create the database file and the tables if they do not exist.

    Raises:
        InputError: There is no such database, it holds no store, or a newer version of spml wrote the store.
        SpmlError: From every method, if the database can't be read or written.
    """

    def __init__(self, url: str, *, create: bool = True) -> None:
        self.url = url
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{time.time_ns()}"
        try:
            arguments = {"timeout": 60} if url.startswith("sqlite") else {}
            self._engine = sql.create_engine(url, connect_args=arguments)
            version = self._version() if create or self._exists() else None
        except ImportError as error:
            raise InputError(
                f"{url}: the driver of this database is not installed ({error}). For PostgreSQL: "
                "pip install psycopg2-binary."
            ) from error
        except _ERRORS as error:
            raise InputError(f"{url}: can't be opened as a store ({_first_line(error)}).") from error
        if version is None:
            raise InputError(f"{url}: holds no comparison. Create one with spml bench run.")
        if version > VERSION:
            raise InputError(
                f"{url}: was written by a newer version of spml (store version {version}, this one reads "
                f"{VERSION}). Nothing was changed. Update spml, or pass another `output` or `store`."
            )

    def _exists(self) -> bool:
        url = self._engine.url
        if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
            return False  # connecting would create the file
        return sql.inspect(self._engine).has_table(_ABOUT.name)

    def _version(self) -> int:
        """Create the tables if they do not exist, and return the version of the store."""
        for retry in (True, True, False):
            try:
                with self._engine.begin() as connection:
                    version: int | None = None
                    if sql.inspect(connection).has_table(_ABOUT.name):
                        version = connection.scalar(sql.select(_ABOUT.c.version))
                    if version is None:
                        _TABLES.create_all(connection)
                        connection.execute(_ABOUT.insert().values(version=VERSION))
                return VERSION if version is None else version
            except (OperationalError, ProgrammingError, IntegrityError):
                # Another process may be creating the same tables at this moment.
                if not retry:
                    raise
                time.sleep(0.5)
        raise AssertionError("the last attempt returns or raises")

    # -- rows ------------------------------------------------------------------------------------------------

    def add(self, row: Row, point: str) -> bool:
        """Add a finished run.

        Returns:
            False if the store holds a run of this key already, which is left as it is.
        """
        body = {**asdict(row), "point": point}  # repeats the columns, since only the body has a checksum
        packed = zlib.compress(json.dumps(body, ensure_ascii=False).encode())
        values = {
            "key": row.key, **row.series._asdict(), "trial": row.trial, "point": point,
            "code": row.versions.get("code", ""), "status": row.status, "body": packed,
        }  # fmt: skip
        try:
            with self._connected("written") as connection:
                connection.execute(_ROWS.insert().values(**values))
        except IntegrityError:
            return False
        return True

    def find(self, points: list[str] | None = None) -> dict[str, list[Row]]:
        """Rows by point, the newest first; all of them, or those of some points."""
        query = sql.select(_ROWS) if points is None else sql.select(_ROWS).where(_ROWS.c.point.in_(points))
        by_point: dict[str, list[Row]] = {}
        with self._connected("read") as connection:
            for stored in connection.execute(query).mappings():
                by_point.setdefault(stored["point"], []).append(self._row(stored))
        for rows in by_point.values():
            rows.sort(key=lambda row: row.finished, reverse=True)
        return by_point

    def get(self, key: str) -> Row:
        """Return the run whose key begins with `key`."""
        with self._connected("read") as connection:
            query = sql.select(_ROWS).where(_ROWS.c.key.startswith(key, autoescape=True)).limit(2)
            stored = connection.execute(query).mappings().all()
        if len(stored) != 1:
            what = "several keys begin" if stored else "no key of a run begins"
            raise InputError(f"{self.url}: {what} with {key!r}. results.csv lists the keys.")
        return self._row(stored[0])

    def points(self, code: str | None = None) -> dict[SeriesKey, set[str]]:
        """Points of all runs by series, without reading the runs: of one version of the code, or of all."""
        query = sql.select(*(_ROWS.c[name] for name in SeriesKey._fields), _ROWS.c.point)
        if code is not None:
            query = query.where(_ROWS.c.code == code)
        by_series: dict[SeriesKey, set[str]] = {}
        with self._connected("read") as connection:
            for *series, point in connection.execute(query):
                by_series.setdefault(SeriesKey(*series), set()).add(point)
        return by_series

    def count(self) -> int:
        """Number of rows, of any specification."""
        with self._connected("read") as connection:
            return connection.scalar(sql.select(sql.func.count()).select_from(_ROWS)) or 0

    def forget(self, rows: Iterable[Row]) -> None:
        """Remove runs, so that they are made again."""
        with self._connected("written") as connection:
            for row in rows:
                connection.execute(_ROWS.delete().where(_ROWS.c.key == row.key))

    def _row(self, stored: Any) -> Row:
        columns = {name: stored[name] for name in ("key", "point", "status")}
        columns["series"] = [stored[name] for name in SeriesKey._fields]
        try:
            if not isinstance(stored["body"], bytes):
                raise ValueError("its body is not binary")
            unpacking = zlib.decompressobj()
            try:
                text = unpacking.decompress(stored["body"], MAX_BODY)
            except zlib.error as error:
                raise ValueError(f"its body can't be unpacked: {error}") from error
            if not unpacking.eof:
                raise ValueError(f"its body is cut off, or unpacks to more than {MAX_BODY:,} bytes")
            body = msgspec.convert(parse_json(text), dict[str, Any])
            for name, value in columns.items():
                if body.setdefault(name, value) != value:  # earlier versions did not repeat all of them
                    raise ValueError(f"its {name} is {quoted(value)}, but was {quoted(body[name])}")
            row = msgspec.convert(body, Row)
            if len({len(values) for values in row.history.values()}) > 1:
                raise ValueError("the columns of its history have different lengths")
            if row.versions.get("code", "") != stored["code"]:
                raise ValueError("its code is another one than its column `code` states")
        except ValueError as error:
            raise InputError(
                f"{self.url}: the run {quoted(stored['key'])} is damaged ({error}). Restore the store from a "
                "copy, or delete this row from its table `runs`, so that the run is made again."
            ) from error
        return row

    # -- claims ----------------------------------------------------------------------------------------------

    def claim(self, series: SeriesKey) -> bool:
        """Claim a series for this process.

        Returns:
            Whether this process may work on the series: it was free, or the process that held it has ended.
        """
        name, now = json.dumps(series), time.time()
        own = {"owner": self.owner, "beat": now}
        try:
            with self._connected("written") as connection:
                claim = connection.execute(sql.select(_CLAIMS).where(_CLAIMS.c.series == name)).first()
                if claim is None:
                    connection.execute(_CLAIMS.insert().values(series=name, **own))
                    return True
                if _is_held(claim.owner, claim.beat, now):
                    return False
                take_over = (
                    _CLAIMS.update()
                    .where(*(_CLAIMS.c[part] == value for part, value in claim._asdict().items()))
                    .values(**own)
                )
                return connection.execute(take_over).rowcount == 1
        except IntegrityError:
            return False  # another process was faster

    def release(self, series: SeriesKey) -> None:
        """Release a claimed series."""
        with self._connected("written") as connection:
            own = (_CLAIMS.c.series == json.dumps(series), _CLAIMS.c.owner == self.owner)
            connection.execute(_CLAIMS.delete().where(*own))

    def release_ended(self) -> None:
        """Release the series of processes that have ended.

        Writing also makes SQLite remove its journal of a process that was killed while it wrote.
        """
        with self._connected("read") as connection:
            claims = connection.execute(sql.select(_CLAIMS)).all()
        ended = [claim for claim in claims if not _is_held(claim.owner, claim.beat, time.time())]
        with self._connected("written") as connection:
            for series, owner, _ in ended:
                own = (_CLAIMS.c.series == series, _CLAIMS.c.owner == owner)
                connection.execute(_CLAIMS.delete().where(*own))

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Send heartbeats for the claims of this process while the context lasts."""
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(BEAT):
                # A database that does not answer now may do so at the next beat.
                with contextlib.suppress(*_ERRORS), self._engine.begin() as connection:
                    own = _CLAIMS.c.owner == self.owner
                    connection.execute(_CLAIMS.update().where(own).values(beat=time.time()))

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    @contextmanager
    def _connected(self, purpose: Literal["read", "written"]) -> Iterator[sql.Connection]:
        """Connection; what is written is written as a whole when the context ends, or not at all."""
        try:
            with self._engine.connect() if purpose == "read" else self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise  # another process was faster; the caller handles it
        except _ERRORS as error:
            raise SpmlError(f"{self.url}: can't be {purpose} ({_first_line(error)}).") from error


def store_url(folder: Path) -> str:
    """URL of the store in the folder of a comparison."""
    path = (folder / FILE).resolve()
    if "?" in str(path):
        raise InputError(f"{path}: a database can't lie in a folder whose name contains `?`. Choose another.")
    return f"sqlite:///{path}"


def find_store(source: str | Path) -> Store:
    """Open the store of a comparison, given its folder or the URL of the store."""
    folder = Path(source)
    if not folder.is_dir():
        return Store(str(source), create=False)
    if not (folder / FILE).is_file():
        raise InputError(f"{folder}: holds no comparison ({FILE} is missing). Use spml bench run first.")
    return Store(store_url(folder), create=False)


def _is_held(owner: Any, beat: Any, now: float) -> bool:
    """Whether the process that claimed a series may be alive; False for claims that no process has made."""
    if not isinstance(beat, (int, float)) or not now - STALE < beat < now + AHEAD:
        return False
    process = re.fullmatch(r"(.+):(\d{1,9}):\d+", owner) if isinstance(owner, str) else None
    return process is not None and not has_ended(process[1], int(process[2]))


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0]
