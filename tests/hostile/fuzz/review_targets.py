"""Targets for audits and reviews, the requests of the page, and specifications and stores of comparisons."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import shutil
import sqlite3
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from spml.bench.rows import SeriesKey
from spml.bench.spec import read_spec
from spml.bench.store import Store as RunStore
from spml.review.contents import Contents
from spml.review.merged import reviewed
from spml.review.progress import Selection, make_entries
from spml.review.session import Review, open_data
from spml.review.store import FILE
from tests.bench.rows import row
from tests.bench.toys import TOY
from tests.helpers.reviews import forge, make_audit
from tests.hostile.fuzz.change import WORDS, of_bytes, of_json, of_text, of_yaml
from tests.hostile.fuzz.judge import Target
from tests.hostile.fuzz.run_targets import of_file

TOKEN = "t0ken"
EVERYTHING = Selection(None, 0.0)
HTTP_WORDS = (
    *WORDS, b"HTTP/1.0", b"HTTP/9.9", b"Content-Length: 5", b"Content-Length: -1",
    b"Transfer-Encoding: chunked", b"Content-Encoding: gzip", b"Content-Type: text/plain",
    b"Content-Type: application/json; charset=utf-16", b"Content-Type: multipart/form-data; boundary=x",
    b"Cookie: a=b", b"Range: bytes=0-1", b"Expect: 100-continue", b"Host: evil.example", b"Host: localhost",
    b"Origin: null", b"X-Forwarded-Host: x", b"\r\n", b"?", b"&", b"=", b"%00", b"%ff", b"%2e%2e%2f",
    b"samples=0", b"column=1", b"minimum=0.5", b"show=all", b"HEAD", b"OPTIONS", b"PUT", b"DELETE", b"TRACE",
    b"CONNECT", b"0", b"api", b"static", b"photo", b"thumbnail",
)  # fmt: skip


def audits(folder: Path) -> list[Target]:
    """The files of the folder of an audit, a table of rows to show, and the database of answers."""
    make_audit(folder / "made")
    targets = []

    def copied(name: str) -> Path:
        audit = Path(shutil.copytree(folder / "made" / "audit", folder / name))
        about = json.loads((audit / "audit.json").read_text())
        for key in ("files", "sha256"):  # without digests, as older audits are, every change is read
            del about[key]
        (audit / "audit.json").write_text(json.dumps(about))
        return audit

    for name, change in (
        ("audit.json", of_json()),
        ("missing.csv", of_text()),
        ("wrong.csv", of_text()),
        ("classes.csv", of_text()),
    ):
        audit = copied(name.replace(".", "-"))
        seeds = [b"file,label,confidence,rank\na.png,cat,0.01,1\n"] if name == "wrong.csv" else ()

        def use(audit: Path = audit) -> None:
            read, records = open_data(audit)
            make_entries(read.missing, records, "")

        targets.append(
            of_file(f"audit-{name}".replace(".", "-"), audit / name, change, use, seeds=seeds, weight=0.5)
        )
    records = open_data(folder / "made" / "audit")[1]
    table = folder / "rows.csv"
    rows = b"name,text,size\n" + b"".join(f"{name},some text,3\n".encode() for name in records.ids)
    samples = set(range(len(records.ids)))
    table.write_bytes(rows)
    targets.append(of_file("rows-to-show", table, of_text(), lambda: Contents(records, table, samples)))
    return [*targets, *_answers(copied("answers"), copied("database"))]


def _answers(answers: Path, database: Path) -> list[Target]:
    """Rows of the database of answers with checksums that are right, and the file of the database."""
    review = Review(database, "ann")
    fingerprint = review.about.fingerprint
    review.store.add("a.png", "dog", "yes", "ann", random_check=False)
    review.store.add("b.png", "cat", "no", "bob", random_check=True)
    review.store.undo("bob")
    review.store.close()

    def use(audit: Path) -> Sequence[str]:
        _, notes = reviewed(audit)
        review = Review(audit, "ann")
        review.progress(EVERYTHING)
        review.cards([0, 1], EVERYTHING)
        review.undo()
        review.store.close()
        return notes

    seed = {
        "about": {"fingerprint": fingerprint},
        "decisions": [
            [1, "a.png", "dog", "yes", "ann", "2025-01-01T00:00:00.000+00:00", 0, None],
            [2, "a.png", "dog", "no", "bob", "2025-01-01T00:00:01.000+00:00", 1, None],
            [3, "a.png", "dog", "undo", "bob", "2025-01-01T00:00:02.000+00:00", 1, 2],
        ],
    }

    def rows(data: bytes) -> Sequence[str]:
        try:
            content = json.loads(data)
            decisions = [tuple(each) for each in content["decisions"]]
            for path in answers.glob(FILE + "*"):
                path.unlink()
            forge(answers / FILE, content["about"]["fingerprint"], *decisions)
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
            OverflowError,
            sqlite3.Error,
        ):
            return []  # no database can hold it
        return use(answers)

    def whole(data: bytes) -> Sequence[str]:
        for path in database.glob(FILE + "*"):
            path.unlink()
        (database / FILE).write_bytes(data)
        return use(database)

    stored = (database / FILE).read_bytes()
    return [
        Target("review-answers", ".json", (json.dumps(seed).encode(),), of_json(), rows, 0.3),
        Target(
            "review-database", ".sqlite", (stored,), of_bytes((*WORDS, b"decisions", b"CREATE")), whole, 0.2
        ),
    ]


def requests(folder: Path) -> list[Target]:
    """Requests to the page of a review, as bytes; none without FastAPI."""
    try:
        import h11

        from spml.review.app import create_app
    except ImportError:
        return []
    from spml.review.contents import Pictures

    audit = make_audit(folder)
    review = Review(audit, "ann")
    app = create_app(review, Pictures(review.records, audit / "thumbnails", 10**6), TOKEN)
    processes: set[int] = set()

    def attempt(data: bytes) -> Sequence[str]:
        connection = h11.Connection(h11.SERVER)
        head, body = None, b""
        try:
            connection.receive_data(data)
            while type(event := connection.next_event()) in (h11.Request, h11.Data):
                if isinstance(event, h11.Request):
                    head = event
                else:
                    body += bytes(event.data)
        except h11.RemoteProtocolError:  # the server answers it, not the application
            return []
        if head is None:
            return []
        path, _, query = bytes(head.target).partition(b"?")
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": head.http_version.decode(),
            "method": head.method.decode(), "scheme": "http", "path": unquote(path.decode("ascii")),
            "raw_path": path, "query_string": query, "root_path": "", "headers": list(head.headers),
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "state": {},
        }  # fmt: skip
        # A connection to SQLite does not outlive a fork, and an answer would change what follows.
        if os.getpid() not in processes or review.store.since(0):
            review.store.close()
            processes.add(os.getpid())
            for each in audit.glob(FILE + "*"):
                each.unlink()
            review.__init__(audit, "ann")  # type: ignore[misc]
        return _answer(app, scope, body)

    host = b" HTTP/1.1\r\nHost: 127.0.0.1:8000\r\n"
    start = b" /" + TOKEN.encode()
    seeds = [b"GET" + start + path + host + b"Accept: */*\r\n\r\n" for path in (
        b"/", b"/static/page.js", b"/api/about", b"/api/queue?column=1&minimum=0.2&show=undecided",
        b"/api/cards?samples=0&samples=2&column=1", b"/photo/0", b"/thumbnail/1",
    )]  # fmt: skip
    for answer in (
        b'{"samples": [1], "column": 1, "answer": "yes"}',
        b'{"samples": [0], "column": 2, "answer": "unsure"}',
    ):
        length = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(answer)
        seeds.append(b"POST" + start + b"/api/decide?minimum=0" + host + length + answer)
    seeds.append(b"POST" + start + b"/api/undo" + host + b"Content-Length: 0\r\n\r\n")
    bodies = [seed.partition(b"\r\n\r\n")[2] for seed in seeds[-3:-1]]

    def posted(data: bytes) -> Sequence[str]:
        length = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(data)
        return attempt(b"POST" + start + b"/api/decide" + host + length + data)

    return [
        Target("http", ".http", tuple(seeds), of_text(HTTP_WORDS), attempt),
        Target("http-body", ".json", tuple(bodies), of_json(), posted, 0.5),
    ]


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    """An event loop for each process, since none outlives a fork."""
    return asyncio.new_event_loop()


def _answer(app: Any, scope: dict[str, Any], body: bytes) -> Sequence[str]:
    """Messages of errors in what the application answers to a request.

    Raises:
        AssertionError: The answer has no status, or says that the server failed.
    """
    sent: list[dict[str, Any]] = []
    received = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return received.pop() if received else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    _loop(os.getpid()).run_until_complete(app(scope, receive, send))
    assert sent, "no answer"
    assert sent[0]["status"] != 500
    content = b"".join(message.get("body", b"") for message in sent)
    if sent[0]["status"] == 503:
        return [json.loads(content)["error"]]
    return []


def comparisons(folder: Path) -> list[Target]:
    """Specifications of comparisons, bodies of rows in a store, and the file of a store."""
    folder.mkdir(parents=True)
    spec = folder / "spec.yaml"
    small = (
        b"data: {a: {path: a.npz, mean_labels: 1.5}}\nhiding: {u: {observe: single}}\n"
        b"candidates: [an, {name: b, method: em, hp.alpha: 0.1}]\n"
    )
    path = folder / "store.sqlite"
    made = row(
        SeriesKey("voc", "uniform", "an", 0), 0, values={"val/SP": [0.1, 0.2]}, draws={"oracle": [0.25, 0.5]}
    )
    store = RunStore(f"sqlite:///{path}")
    store.add(made, "p0")
    store._engine.dispose()
    stored = path.read_bytes()
    with sqlite3.connect(path) as connection:
        (packed,) = connection.execute("SELECT body FROM runs").fetchone()
    text = zlib.decompress(packed)

    def replaced(body: bytes) -> Sequence[str]:
        if path.read_bytes()[:20] != stored[:20]:
            path.write_bytes(stored)
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE runs SET body = ?", [body])
        connection.close()
        return found(path)

    whole = folder / "whole.sqlite"

    def damaged(data: bytes) -> Sequence[str]:
        whole.write_bytes(data)
        return found(whole)

    def found(path: Path) -> Sequence[str]:
        store = RunStore(f"sqlite:///{path}", create=False)
        try:
            store.points()
            store.count()
            store.find()
        finally:
            store._engine.dispose()
        return []

    return [
        of_file(
            "spec", spec, of_yaml(), lambda: read_spec(spec), seeds=[small, small, TOY.encode()], weight=0.5
        ),
        Target("store-body", ".json", (text,), of_json(), lambda data: replaced(zlib.compress(data, 1)), 0.3),
        Target("store-packed", ".z", (packed,), of_bytes(), replaced, 0.2),
        Target("store", ".sqlite", (stored,), of_bytes((*WORDS, b"runs", b"CREATE")), damaged, 0.3),
    ]
