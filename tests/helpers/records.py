"""Data sets that are read from files, and what they hold."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from spml.config import DataConfig
from spml.data import Dataset
from spml.data.readers import read
from spml.data.records import Records


def read_rows(path: str | Path) -> list[dict[str, str]]:
    """Rows of a CSV file, each by the name of its column."""
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def opened(path: str | Path, **settings: Any) -> Records:
    """Records of a file or folder."""
    return read(DataConfig(path=str(path), **settings))


def names_of(records: Records) -> dict[str, list[str]]:
    """Names of the known positives of each sample."""
    return dict(zip(records.ids, records.labels.to_names(records.classes), strict=True))


def samples_of(records: Records) -> dict[str, tuple[str, str]]:
    """Names of the known positives of each sample, between semicolons, and its split, perhaps empty."""
    labels = map(";".join, names_of(records).values())
    splits = records.split or [""] * len(records.ids)
    return dict(zip(records.ids, zip(labels, splits, strict=True), strict=True))


def sizes_of(data: Dataset) -> dict[str, int]:
    """Number of samples of each split."""
    return {name: len(samples) for name, samples in data.splits.items()}


def observed_of(data: Dataset) -> dict[str, list[str]]:
    """Names of the observed positives of each sample of all splits."""
    return {
        sample: names
        for samples in data.splits.values()
        for sample, names in zip(samples.ids, samples.observed.to_names(data.classes), strict=True)
    }
