"""Inferred labels from files: what `spml predict` wrote (CSV or JSON lines), or pseudo-labels (.npz)."""

from __future__ import annotations

import csv
import json
import math
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError, nearest
from ...labels import ObservedLabels
from ..readers.delimited import read_lines
from ..records import Records
from ..safe import shown
from .common import Inferred, image_files


class Guess(NamedTuple):
    """What is inferred of one sample.

    Attributes:
        name: of the sample, or its file.
        labels: (class, 1 or -1, score or NaN).
    """

    name: str
    labels: list[tuple[str, int, float]]


def read_inferred(path: Path, records: Records) -> tuple[Inferred, tuple[str, ...]]:
    """Read what was inferred of the samples of some data.

    Args:
        path: a CSV or JSON lines file of `spml predict`, whose `labels` are inferred positives, or an .npz
            file of pseudo-labels with `ids`, `classes` and `labels` in {-1, 0, +1}.
        records: the data. A sample is found by its name or by its file.

    Returns:
        The inferred labels, and notes on samples that only one of the two has.

    Raises:
        InputError: another file, a class that the data does not have, or no sample in common.
    """
    suffix = path.suffix.lower()
    readers = {".csv": _from_csv, ".jsonl": _from_json_lines, ".npz": _from_pseudo_labels}
    if suffix not in readers:
        raise InputError(
            f"{path}: is no file of predictions. Expected .csv or .jsonl from `spml predict`, .npz with ids, "
            "classes and labels, or the folder of a run."
        )
    if not path.is_file():
        raise InputError(f"{path}: there is no such file.")
    return match(readers[suffix](path), records, str(path))


def match(guesses: Iterable[Guess], records: Records, source: str) -> tuple[Inferred, tuple[str, ...]]:
    """Inferred labels in the order of the data, and notes.

    Raises:
        InputError: an unknown class, a sample twice, or no sample in common.
    """
    rows = _rows(records)
    columns = {name: column for column, name in enumerate(records.classes)}
    found: list[tuple[int, int, int, float]] = []
    seen: set[int] = set()
    strange, example = 0, ""
    for guess in guesses:
        row = rows.get(guess.name)
        if row is None:
            row = rows.get(os.path.abspath(guess.name))
        if row is None:
            strange, example = strange + 1, example or guess.name
            continue
        if row in seen:
            raise InputError(f"{source}: holds {shown(guess.name)} twice.")
        seen.add(row)
        for name, value, score in guess.labels:
            if name not in columns:
                raise InputError(
                    f"{source}: has the class {shown(name)}, which {records.source} does not have. "
                    f"{nearest(name, columns)}"
                )
            found.append((row, columns[name], value, score))
    if not seen:
        raise InputError(
            f"{source}: names none of the samples of {records.source}: found "
            f"{shown(example) if example else 'none'}, expected, for example, {shown(records.ids[0])}."
        )
    notes = []
    if strange:
        notes.append(f"{source}: {strange:,} samples are not in the data, for example {shown(example)}.")
    if len(seen) < len(records.ids):
        notes.append(f"{source}: nothing is said of {len(records.ids) - len(seen):,} of the samples.")
    return _sorted(found), tuple(notes)


def predicted(name: str, labels: Sequence[str], scores: Mapping[str, float], where: str = "") -> Guess:
    """A guess of predicted labels and the scores of all classes.

    Raises:
        InputError: a label without a score; `where` is the place of the sample in a file.
    """
    for label in labels:
        if label not in scores:
            raise InputError(f"{where}: the label {shown(label)} has no score. {nearest(label, scores)}")
    return Guess(name, [(label, 1, scores[label]) for label in dict.fromkeys(labels)])


def known_first(inferred: Inferred, labels: ObservedLabels) -> Inferred:
    """What is inferred of labels that are not known."""
    count = labels.num_classes
    known = np.concatenate([rows * count + columns for rows, columns in map(labels.entries, (1, -1))])
    keep = ~np.isin(inferred.rows * count + inferred.columns, known)
    rows, columns, values, scores = inferred
    return Inferred(rows[keep], columns[keep], values[keep], scores[keep])


def _rows(records: Records) -> dict[str, int]:
    """From the name of each sample, and its file, to its row."""
    rows = {os.path.abspath(path): row for row, path in enumerate(image_files(records) or ())}
    return rows | {name: row for row, name in enumerate(records.ids)}


def _sorted(found: list[tuple[int, int, int, float]]) -> Inferred:
    found.sort(key=lambda entry: entry[:2])
    rows, columns, values, scores = zip(*found, strict=True) if found else ((), (), (), ())
    return Inferred(
        np.array(rows, np.int64),
        np.array(columns, np.int64),
        np.array(values, np.int8),
        np.array(scores, np.float64),
    )


# -- files -----------------------------------------------------------------------------------------------


def _from_csv(path: Path) -> Iterator[Guess]:
    reader = csv.reader(read_lines(path), strict=True)
    try:
        header = next(reader, [])
        if header[:2] != ["file", "labels"] or len(header) < 3:
            raise InputError(
                f"{path}: expected the columns file, labels and one per class, as `spml predict` writes "
                f"them; found {shown(','.join(header))}."
            )
        classes = header[2:]
        if odd := next((name for name in classes if ";" in name), None):
            raise InputError(
                f"{path}: the class {shown(odd)} contains a semicolon, which also separates predicted labels "
                "there. Predict with --format jsonl instead."
            )
        for number, row in enumerate(reader, start=2):
            where = f"{path}: row {number}"
            if len(row) != len(header):
                raise InputError(f"{where} has {len(row):,} cells, but the header has {len(header):,}.")
            scores = {name: _score(text, where) for name, text in zip(classes, row[2:], strict=True)}
            yield predicted(row[0], row[1].split(";") if row[1] else [], scores, where)
    except csv.Error as error:
        raise InputError(f"{path}: is no valid CSV near line {reader.line_num}: {error}.") from error


def _from_json_lines(path: Path) -> Iterator[Guess]:
    for number, line in enumerate(read_lines(path), start=1):
        where = f"{path}: line {number}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where} is no JSON object: {error}.") from error
        name, labels, scores = (
            (entry.get(key) for key in ("file", "labels", "scores")) if type(entry) is dict else (None,) * 3
        )
        if type(name) is not str or type(labels) is not list or type(scores) is not dict:
            raise InputError(
                f"{where}: expected an object with file, labels and scores, as `spml predict` writes it."
            )
        if not all(type(label) is str for label in labels):
            raise InputError(f"{where}: labels must be class names.")
        yield predicted(name, labels, {key: _score(value, where) for key, value in scores.items()}, where)


def _score(value: Any, where: str) -> float:
    try:
        score = float(value) if type(value) in (str, int, float) else math.nan
    except (ValueError, OverflowError):
        score = math.nan
    if not 0 <= score <= 1:
        raise InputError(f"{where}: a score must be a number from 0 to 1, but is {shown(value)}.")
    return score


def _from_pseudo_labels(path: Path) -> Iterator[Guess]:
    try:
        with np.load(path, allow_pickle=False) as file:
            ids, classes, labels = file["ids"], file["classes"], file["labels"]
    except (OSError, ValueError, EOFError, KeyError, TypeError, MemoryError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: no pseudo-labels could be read: {error}. Expected the arrays ids, classes and labels."
        ) from error
    _check_pseudo_labels(path, ids, classes, labels)
    names = classes.tolist()
    for name, row in zip(ids.tolist(), labels, strict=True):
        columns = np.flatnonzero(row).tolist()
        yield Guess(name, [(names[column], int(row[column]), math.nan) for column in columns])


def _check_pseudo_labels(
    path: Path, ids: npt.NDArray[Any], classes: npt.NDArray[Any], labels: npt.NDArray[Any]
) -> None:
    fine = all(array.dtype.kind == "U" and array.ndim == 1 for array in (ids, classes))
    if not fine or labels.dtype.kind not in "iu" or labels.shape != (len(ids), len(classes)):
        raise InputError(
            f"{path}: expected ids and classes as strings and labels as integers of shape ({len(ids)}, "
            f"{len(classes)}); got {ids.dtype}, {classes.dtype}, {labels.dtype} {labels.shape}."
        )
    if not np.isin(labels, (-1, 0, 1)).all():
        raise InputError(f"{path}: labels must be 1 (positive), -1 (negative) or 0 (nothing inferred).")
