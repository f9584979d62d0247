"""Attacks by the databases of comparisons and reviews, and by tables that people fill in."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.helpers.reviews import forge
from tests.hostile.attacks.attack import DEEP, ESCAPE, SECRET, Attack, Make, all_of, file

STATUS = "bench status spec.yaml --output bench"
REPORT = "bench report spec.yaml --output bench"
RUN = "bench run spec.yaml --workers 1 --output bench"
USE = "audit-use sample.csv run"
EXPORT = "review-export audit labels.npz --format nan"


def sql(statement: str, *values: Any, name: str = "bench/store.sqlite") -> Make:
    """Change a database."""

    def make(folder: Path) -> None:
        with sqlite3.connect(folder / name) as connection:
            connection.execute(statement, values)
        connection.close()

    return make


def body(data: bytes | str) -> Make:
    """Replace the body of a run in the store."""
    return sql("UPDATE runs SET body = ?", data)


def gigabyte(folder: Path) -> None:
    """A run whose two megabytes unpack to a gigabyte of zeros."""
    compress = zlib.compressobj()
    start = compress.compress(bytes(1 << 20)) + compress.flush(zlib.Z_FULL_FLUSH)
    again = compress.compress(bytes(1 << 20)) + compress.flush(zlib.Z_FULL_FLUSH)
    body(start + 1023 * again)(folder)


def row(change: Callable[[dict[str, Any]], object]) -> Make:
    """Change the content of a run in the store."""

    def make(folder: Path) -> None:
        with sqlite3.connect(folder / "bench" / "store.sqlite") as connection:
            (packed,) = connection.execute("SELECT body FROM runs").fetchone()
        connection.close()
        content = json.loads(zlib.decompress(packed))
        change(content)
        body(zlib.compress(json.dumps(content).encode()))(folder)

    return make


def answers(labels: str = "", complete: str = "yes", name: str = "") -> Make:
    """Fill in the table of an audit."""

    def make(folder: Path) -> None:
        path = folder / "sample.csv"
        header, *rows = path.read_text().splitlines()
        names = [row.split(",")[0] for row in rows]
        names[0] = name or names[0]
        text = "\n".join([header, *(f"{each},{labels or 'blue'},{complete}" for each in names), ""])
        path.write_text(text)

    return make


def audit(name: str, change: Callable[[str], str]) -> Make:
    """Change a file of the audit."""

    def make(folder: Path) -> None:
        path = folder / "audit" / name
        path.write_text(change(path.read_text()))

    return make


def about(**changes: Any) -> Make:
    """Change fields of audit.json, whose checksum is left out."""

    def change(text: str) -> str:
        return json.dumps(
            {key: value for key, value in (json.loads(text) | changes).items() if key != "sha256"}
        )

    return audit("audit.json", change)


def review(*decisions: tuple[Any, ...]) -> Make:
    """Write a database of a review with these decisions, whose checksums are right."""

    def make(folder: Path) -> None:
        fingerprint = json.loads((folder / "audit" / "audit.json").read_text())["fingerprint"]
        forge(folder / "audit" / "review.sqlite", fingerprint, *decisions)

    return make


def in_review(statement: str) -> Make:
    """Change the database of a review."""
    return sql(statement, name="audit/review.sqlite")


ANSWER = (1, "0", "blue", "yes", "x", "now", 0, None)
PREDICTED = "data convert rows.npz out.csv --format csv --predictions p.csv"
ENDLESS = (
    "CREATE VIEW decisions AS WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
    "SELECT id, '0' AS file FROM n"
)
ATTACKS = (
    Attack("a run in a store that is not compressed", body(b"x" * 100), STATUS,
        "is damaged (its body can't be unpacked: Error -3 while decompressing data: incorrect header"),
    Attack("a run in a store that is text", body("x"), STATUS,
        "is damaged (its body is not binary). Restore the store from a copy, or delete this row from"),
    Attack("a run in a store that unpacks to a gigabyte", gigabyte, STATUS,
        "is damaged (its body is cut off, or unpacks to more than 16,777,216 bytes). Restore the"),
    Attack("a run in a store of 100,000 levels", body(zlib.compress(DEEP.encode())), STATUS,
        "is damaged (lists or objects in it are nested too deeply). Restore the store from a copy,"),
    Attack("a run in a store with columns of different lengths",
        row(lambda run: run["history"].update({"val/SP": [0.1, 0.2, 0.3]})), STATUS,
        "is damaged (the columns of its history have different lengths). Restore the store from a"),
    Attack("a run in a store without facts that is run again", row(lambda run: run.update(facts={})), RUN,
        "rows.npz: its content changed since runs of this comparison were made from it. Those runs"),
    Attack("a run in a store without settings", row(lambda run: run.update(config={})), RUN,
        "is damaged: it does not state its settings. Delete this row from the table `runs`"),
    Attack("a run in a store without versions", row(lambda run: run.update(versions={})), STATUS,
        "is damaged (its code is another one than its column `code` states). Restore the store from"),
    Attack("a run in a store with a program in its message",
        all_of(sql("UPDATE runs SET status = 'failed'"),
            row(lambda run: run.update(status="failed", message=f"<script>{ESCAPE}"))), STATUS,
        r"<script>\x1b]0;owned\x07", 0),
    Attack("a store that lacks a column", sql("ALTER TABLE runs DROP COLUMN body"), STATUS,
        "store.sqlite: can't be read ((sqlite3.OperationalError) no such column: runs.body).", 1),
    Attack("a store that is no database", file("bench/store.sqlite", b"x" * 100_000), STATUS,
        "store.sqlite: can't be opened as a store ((sqlite3.DatabaseError) file is not a database)."),
    Attack("a terminal escape as label of an audit", answers(ESCAPE), USE,
        "sample.csv: row 2: '\\x1b]0;owned\\x07' is not a class. Known: blue, green, red. Several"),
    Attack("a terminal escape as name of an audited sample", answers(name=ESCAPE), USE,
        "sample.csv: row 2: '\\x1b]0;owned\\x07' is not one of the samples that were drawn, as"),
    Attack("a table of an audit that names a file elsewhere", answers(name="../secret.png"), USE,
        "sample.csv: row 2: '../secret.png' is not one of the samples that were drawn, as"),
    Attack("an audit of 100,000 levels", file("audit/audit.json", DEEP), EXPORT,
        "audit/audit.json: is damaged (Expected `object`, got `array`). Run spml audit again."),
    Attack("an audit of data elsewhere", about(data={"path": "../secret.txt"}), EXPORT,
        "../secret.txt: is a text file, whose lines may mean anything, such as tags of an image"),
    Attack("an audit whose data settings run code",
        about(data={"path": "rows.npz", "observe": "__import__('os')"}), EXPORT,
        "data.observe must be one of none, single, counts, fraction, frequency, salience, size,"),
    Attack("an audit that lists 10^30 rows", about(listed=10**30), EXPORT,
        "rows, but audit.json says 1,000,000,000,000,000,000,000,000,000,000. Run spml audit"),
    Attack("an audit with a probability of NaN",
        audit("missing.csv", lambda text: text + "x,,blue,nan,1,1,,\n"), EXPORT,
        "Expected `float` >= 0.0 - at `$.probability`. Run spml audit"),
    Attack("an audit of an unknown class", audit("wrong.csv", lambda text: f"{text}x,{ESCAPE},0.5,1\n"),
        EXPORT,
        "audit/wrong.csv: row 19: the class '\\x1b]0;owned\\x07' is not in audit.json. Run spml audit"),
    Attack("a review of an unknown sample", review((1, "nobody", "blue", "yes", "x", "now", 0, None)), EXPORT,
        "audit/review.sqlite: is damaged: row 1 is about the sample 'nobody', which the data does not have."),
    Attack(
        "a review of an unknown class",
        review((1, "0", ESCAPE, "yes", "x", "now", 0, None)),
        EXPORT,
        "audit/review.sqlite: is damaged: row 1 is about the class '\\x1b]0;owned\\x07', which the data does",
    ),
    Attack("a review whose decisions are bytes", review((1, b"\xff", b"\xff", "yes", b"x", b"now", 0, None)),
        EXPORT, "audit/review.sqlite: is damaged: row 1: Expected"),
    Attack("a review of an unknown format",
        all_of(review(ANSWER), in_review("PRAGMA user_version = 2147483647")), EXPORT,
        "audit/review.sqlite: has the format 2147483647, but this version of spml reads the format 2 only."),
    Attack("a review whose decisions never end",
        all_of(review(), in_review("ALTER TABLE decisions RENAME TO other"), in_review(ENDLESS)), EXPORT,
        "audit/review.sqlite: is damaged: its tables are not those of a review."),
    Attack("a review with a row of its own",
        all_of(review(ANSWER),
            in_review("INSERT INTO decisions VALUES (2, '1', 'red', 'yes', 'x', 'now', 0, NULL, 'x')")),
        EXPORT, "audit/review.sqlite: is damaged: row 2 is not as it was written."),
    Attack("a review that is no database", file("audit/review.sqlite", SECRET), EXPORT,
        "audit/review.sqlite: can't be used as the database of a review (file is not a database)."),
    Attack("predictions of 100,000 levels", file("p.csv", f"file,labels\n0,{DEEP}"), PREDICTED,
        "p.csv: has the class '[[[["),
    Attack("predictions of an unknown class", file("p.csv", f"file,labels\n0,{ESCAPE}"),
        PREDICTED, "p.csv: has the class '\\x1b]0', which rows.npz does not have. Known: blue,"),
)  # fmt: skip
