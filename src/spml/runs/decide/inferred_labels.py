"""Labels that a model inferred, from a file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from ...common.errors import InputError, nearest
from ...common.phrases import counted
from ...common.safe import quote
from ...data.records import Records
from ...data.tables.formats import open_parquet, read_rows
from ...data.writers.samples import Inferred, image_files
from ..predict.predictions import PROBABILITY, class_of_column


class Guess(NamedTuple):
    """Inferred labels of one sample.

    Attributes:
        name: Name or file of the sample.
        labels: (class, 1, probability or, without one, score; NaN if neither is known).
    """

    name: str
    labels: list[tuple[str, int, float]]


def read_inferred(path: Path, records: Records) -> tuple[Inferred, tuple[str, ...]]:
    """Read labels that a model inferred of the samples of a data set.

    Args:
        path: CSV, TSV or Parquet file of `spml predict`, whose `labels` are inferred positives, with their
            probabilities where it holds some, otherwise with their scores.
        records: The data. A sample is found by its name or by its file.

    Returns:
        The inferred labels, and notes on samples that only one of the two has.

    Raises:
        InputError: The file is of another kind, has a class that the data does not have, or has no sample
            in common with it.
    """
    if path.suffix.lower() not in (".csv", ".tsv", ".parquet"):
        raise InputError(
            f"{path}: is not a predictions table. Expected .csv, .tsv or .parquet from `spml predict`."
        )
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    return match(_from_table(path), records, str(path))


def match(guesses: Iterable[Guess], records: Records, source: str) -> tuple[Inferred, tuple[str, ...]]:
    """Inferred labels in the order of the data, and notes on samples without a counterpart.

    Args:
        guesses: Inferred labels, one entry per sample.
        records: The data.
        source: Name of the origin of the guesses, for messages.

    Raises:
        InputError: An unknown class, a sample that occurs twice, or no sample in common.
    """
    rows = rows_by_name(records)
    columns = {name: column for column, name in enumerate(records.classes)}
    entries: list[tuple[int, int, int, float]] = []
    seen: set[int] = set()
    strangers, example = 0, ""
    for guess in guesses:
        row = rows.get(guess.name, rows.get(os.path.abspath(guess.name)))
        if row is None:
            strangers, example = strangers + 1, example or guess.name
            continue
        if row in seen:
            raise InputError(f"{source}: holds {quote(guess.name)} twice.")
        seen.add(row)
        for name, value, score in guess.labels:
            if name not in columns:
                raise InputError(
                    f"{source}: has the class {quote(name)}, which {records.source} does not have. "
                    f"{nearest(name, columns)}"
                )
            entries.append((row, columns[name], value, score))
    if not seen:
        raise InputError(
            f"{source}: names none of the samples of {records.source}: found "
            f"{quote(example) if example else 'none'}, expected, for example, {quote(records.ids[0])}."
        )
    notes = []
    if strangers:
        notes.append(f"{source}: not in the data: {counted(strangers, 'sample')}, such as {quote(example)}.")
    if missing := len(records.ids) - len(seen):
        notes.append(f"{source}: has no prediction for {counted(missing, 'sample')} of the data.")
    entries.sort(key=lambda entry: entry[:2])
    kinds = {"rows": np.int64, "columns": np.int64, "values": np.int8, "scores": np.float64}
    table = np.array(entries, [*kinds.items()])
    return Inferred(**{name: table[name].copy() for name in kinds}), tuple(notes)


def predicted(name: str, labels: Sequence[str], scores: Mapping[str, float], where: str = "") -> Guess:
    """A guess from predicted labels and the scores of all classes.

    Args:
        name: Name or file of the sample.
        labels: Predicted labels.
        scores: Score of each class.
        where: File and row, for messages.

    Raises:
        InputError: A label without a score.
    """
    for label in labels:
        if label not in scores:
            raise InputError(f"{where}: the label {quote(label)} has no score. {nearest(label, scores)}")
    return Guess(name, [(label, 1, scores[label]) for label in dict.fromkeys(labels)])


def rows_by_name(records: Records) -> dict[str, int]:
    """Row of each sample of data, by its name and by the absolute path of its file."""
    rows = {os.path.abspath(path): row for row, path in enumerate(image_files(records) or ())}
    return rows | {name: row for row, name in enumerate(records.ids)}


# -- files -----------------------------------------------------------------------------------------------


def _from_table(path: Path) -> Iterator[Guess]:
    """Guesses from rows with a score per class, with those of the predicted labels in one cell, or without.

    Where columns of scores are followed by as many of probabilities, those are taken. Windows of the labels
    are not read.
    """
    header: Sequence[str]
    rows: Iterable[tuple[str, Sequence[object]]]
    if path.suffix.lower() == ".parquet":
        table = open_parquet(path)
        header = table.names
        rows = ((table.where(number), cells) for number, cells in table.rows(range(len(header))))
    else:
        lines = read_rows(path, "\t" if path.suffix.lower() == ".tsv" else ",")
        header = next((cells for _, cells in lines), [])
        rows = ((f"{path}: row {number}", cells) for number, cells in lines)
    if tuple(header[:2]) != ("file", "labels"):
        raise InputError(
            f"{path}: expected the columns file, labels, and scores or one per class, as `spml predict` "
            f"writes them; found {quote(','.join(header))}."
        )
    end = len(header) - (header[-1] == "where")
    columns, half = list(header[2:end]), end // 2 - 1
    listed = columns in (["scores"], ["scores", "probabilities"])
    named = [*map(class_of_column, columns)]
    probabilities = ["probabilities"] if listed else [PROBABILITY + name for name in named[:half]]
    first = 2 + half if columns[half:] == probabilities else 2
    classes = named[: end - first]
    for where, cells in rows:
        if len(cells) != len(header):
            raise InputError(f"{where} has {len(cells):,} cells, but the header has {len(header):,}.")
        name, labels = cells[:2]
        if not isinstance(name, str) or not isinstance(labels, (list, str)):
            raise InputError(f"{where}: expected a name and a list of labels, as `spml predict` writes them.")
        labels = list(map(str, _split(labels)))
        scores, known = (_split(cells[first]), labels) if listed else (cells[first:end], classes)
        if len(scores) != len(known):
            scored, labelled = counted(len(scores), "score"), counted(len(known), "label")
            raise InputError(f"{where} has {scored}, but {labelled}.")
        by_name = {name: _score(score, where) for name, score in zip(known, scores, strict=True)}
        yield predicted(name, labels, by_name if columns else dict.fromkeys(labels, math.nan), where)


def _split(cell: object) -> Sequence[object]:
    """Elements of a cell: a list, a JSON list, or texts separated by `;`."""
    if not isinstance(cell, str):
        return cell if isinstance(cell, list) else []
    if cell.startswith("["):
        with suppress(msgspec.DecodeError, RecursionError):
            return msgspec.json.decode(cell, type=list[str])
    return cell.split(";") if cell else []


def _score(value: object, where: str) -> float:
    try:
        score = float(value) if isinstance(value, (str, float)) else math.nan
    except ValueError:
        score = math.nan
    if not 0 <= score <= 1:
        raise InputError(f"{where}: a score must be a number from 0 to 1, but is {quote(value)}.")
    return score
