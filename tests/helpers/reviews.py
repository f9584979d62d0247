"""Audits to review, answers, and databases that somebody forged."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from base64 import b64encode
from contextlib import closing
from pathlib import Path

from spml.audit.folder import (
    About,
    Audit,
    MissingLabel,
    data_settings,
    fingerprint,
    read_observed,
    write_audit,
)
from spml.audit.sheets import write_sheet
from spml.config import DataConfig
from spml.review.progress import Selection
from spml.review.session import Review
from spml.review.store import Store

from . import write_image

CLASSES = ("bird", "cat", "dog")


# Of each photo the given label and the probabilities of others: rank follows from the probabilities.
PHOTOS = {
    "a.png": ("cat", {"dog": 0.9, "bird": 0.2}),
    "b.png": ("dog", {"cat": 0.8}),
    "c.png": ("bird", {"cat": 0.7, "dog": 0.6}),
    "d.png": ("cat", {"bird": 0.5}),
    "e.png": ("dog", {"bird": 0.4}),
    "f.png": ("bird", {"dog": 0.3}),
    "g.png": ("cat", {}),
}


def make_audit(folder: Path, photos=PHOTOS, size=(60, 40), where="", wrong=(), by_name=None) -> Path:
    """Write photos with a table of labels, and an audit of them, in which every missing label has the same
    window, and `by_name` is what the names of some classes say; returns the folder of the audit."""
    data = folder / "photos"
    for number, name in enumerate(photos):
        if number < 300:
            picture = write_image(data / name, size).read_bytes()
        else:  # what follows the end of a picture tells thousands of them apart, too, and is written at once
            (data / name).write_bytes(picture + name.encode())
    rows = [f"{name},{given}" for name, (given, _) in photos.items()]
    (data / "labels.csv").write_text("\n".join(["file,label", *rows, ""]))
    return audit_of(
        DataConfig(path=str(data / "labels.csv")), folder / "audit", photos, where, wrong, by_name
    )


def audit_of(config: DataConfig, folder: Path, listed, where="", wrong=(), by_name=None) -> Path:
    """Write an audit of data that exists."""
    records = read_observed(config)
    entries = sorted(
        ((p, name, given, label) for name, (given, others) in listed.items() for label, p in others.items()),
        key=lambda entry: -entry[0],
    )
    in_class: dict[str, int] = {}
    missing = []
    for rank, (p, name, given, label) in enumerate(entries, start=1):
        in_class[label] = in_class.get(label, 0) + 1
        opinion = (by_name or {}).get(label, "")
        missing.append(MissingLabel(name, given, label, p, rank, in_class[label], where, by_name=opinion))
    about = About(
        run="",
        data=data_settings(config),
        fingerprint=fingerprint(records.ids, records.classes, records.labels),
        classes=records.classes,
        mean_labels=1.5,
        mean_labels_source="stated",
        samples=len(records.ids),
        unknown=len(records.ids) * (len(records.classes) - 1),
        listed=len(missing),
        expected=sum(entry.probability for entry in missing),
        warnings=("Made for a test.",),
        how="made-up probabilities",
    )
    write_audit(folder, Audit(about, missing, list(wrong)))
    return folder


MERGED = [(-1, 1, 1), (0, 1, 1), (1, 0, -1), (0, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 0)]


def answer(audit, reviewer, *answers):
    review = Review(audit, reviewer)
    for sample, column, given in answers:
        review.decide(sample, column, given, Selection())
    review.store.close()


def forge(path: Path, fingerprint: str, *decisions) -> None:
    """Write a database of a review with any decisions, whose checksums are right.

    A decision is id, file, label, answer, reviewer, time, random_check and undoes.
    """
    Store(path, fingerprint).close()
    previous, number = "", 0
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for decision in decisions:
            sha256 = sha256_of(previous, fingerprint, decision)
            connection.execute(
                f"INSERT INTO decisions VALUES ({'?, ' * len(decision)}?)", [*decision, sha256]
            )
            previous, number = sha256, decision[0]
        connection.execute("UPDATE about SET value = ? WHERE key = 'head'", [f"{number} {previous}"])


def sha256_of(previous: str, fingerprint: str, row) -> str:
    """Checksum of a row, as docs/review.md describes it."""
    values = [b64encode(value).decode() if isinstance(value, bytes) else value for value in row]
    text = json.dumps([previous, fingerprint, *values], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def make_sample(folder: Path, rows: int = 24, skip: int = 0, prefix: str = "", runs=()) -> Path:
    """Write 40 photos with a table of labels, and a sample of them to label in full; returns its table."""
    names = [f"{prefix}{row:02}.png" for row in range(40)]
    given = [CLASSES[row % 3] for row in range(40)]
    data = folder / "photos"
    for name in names:
        write_image(data / name)
    table = "".join(f"{name},{label}\n" for name, label in zip(names, given, strict=True))
    (data / "labels.csv").write_text(f"file,label\n{table}")
    drawn = [7 * place % 40 for place in range(skip, skip + rows)]
    about = {"runs": list(runs), "data": data_settings(DataConfig(path=str(data / "labels.csv")))}
    known = [[given[row]] for row in drawn]
    return write_sheet(folder / "sample.csv", [names[row] for row in drawn], known, CLASSES, about).sheet
