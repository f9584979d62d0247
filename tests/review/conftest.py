"""Audits to review."""

from __future__ import annotations

from pathlib import Path

import pytest

from spml.audit.folder import (
    About,
    Audit,
    MissingLabel,
    data_settings,
    fingerprint,
    read_observed,
    write_audit,
)
from spml.config import DataConfig
from tests.helpers import write_image

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


def make_audit(folder: Path, photos=PHOTOS, size=(60, 40)) -> Path:
    """Write photos with a table of labels, and an audit of them; returns the folder of the audit."""
    data = folder / "photos"
    for name in photos:
        write_image(data / name, size)
    rows = [f"{name},{given}" for name, (given, _) in photos.items()]
    (data / "labels.csv").write_text("\n".join(["file,label", *rows, ""]))
    return audit_of(DataConfig(path=str(data / "labels.csv")), folder / "audit", photos)


def audit_of(config: DataConfig, folder: Path, listed) -> Path:
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
        missing.append(MissingLabel(name, given, label, p, rank, in_class[label]))
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
    write_audit(folder, Audit(about, missing, []))
    return folder


@pytest.fixture
def audit(tmp_path) -> Path:
    return make_audit(tmp_path)
