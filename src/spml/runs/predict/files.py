"""Files of predictions, written block by block: CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from ...common.files import write_with
from ...common.spreadsheets import csv_text
from ...data.tables.formats import require_pyarrow
from .predictions import PROBABILITY, Predictions, score_columns

Scores = Literal["auto", "all", "predicted", "none"]
MOST_SCORE_COLUMNS = 100  # above which `auto` means `predicted`
_ROW_GROUP = 1 << 16
_NEEDS_JSON = re.compile(r"[;,|\n\r\t]|^[\s\[{(<]|\s$")
"""Parts of a class name that a reader of labels may take for a separator or for the start of a list."""


class Format:
    """Turns predictions into the bytes of a file that grows block by block.

    Args:
        classes: Class names.
        scores: Classes whose scores and probabilities are written: `all`, those of the `predicted` labels, or
            `none`; `auto` = `all` up to 100 classes, otherwise `predicted`.
        calibrated: Whether there are probabilities.
        where: Whether there are windows of the labels.

    Raises:
        InputError: A package that the format needs is not installed.
    """

    def __init__(
        self, classes: Sequence[str], scores: Scores, *, calibrated: bool = False, where: bool = False
    ) -> None:
        self._classes, self._scores = classes, scores_to_give(scores, len(classes))
        self._header = ["file", "labels"]
        if self._scores == "predicted":
            self._header += ["scores", "probabilities"][: 1 + calibrated]
        elif self._scores == "all":
            self._header += score_columns(classes)
            self._header += [PROBABILITY + name for name in classes if calibrated]
        self._header += ["where"] * where

    def start(self) -> bytes:
        """First bytes of the file."""
        return b""

    def block(self, predictions: Predictions) -> bytes:
        """Bytes of some samples."""
        raise NotImplementedError

    def complete(self, file: Path, output: Path) -> None:
        """Make the output of the file to which all blocks were appended."""
        os.replace(file, output)


class Csv(Format):
    """Rows of CSV: file, labels, and a column per class or one with the scores of the predicted labels.

    Probabilities follow in the same way, and at last the windows of the labels: left, top, width and height,
    separated by blanks. Labels are separated by `;`, or, where a class name holds a
    character that would be read as a separator, written as a JSON list.
    """

    delimiter = ","

    def start(self) -> bytes:
        """The header."""
        return self._lines([self._header], len(self._header))

    def block(self, predictions: Predictions) -> bytes:
        """A row per sample."""
        as_json, rows = any(map(_NEEDS_JSON.search, self._classes)), []
        for name, labels, numbers, windows in _samples(predictions, self._scores):
            cells = [name, json.dumps(labels, ensure_ascii=False) if as_json else ";".join(labels)]
            for row in numbers:
                texts = [f"{value:.6g}" for value in row]
                cells += texts if self._scores == "all" else [";".join(texts)]
            if windows is not None:
                cells.append(";".join(" ".join(f"{share:.4g}" for share in window) for window in windows))
            rows.append(cells)
        return self._lines(rows)

    def _lines(self, rows: Sequence[Sequence[str]], names: int = 2) -> bytes:
        return csv_text(rows, self.delimiter, names=names).encode(errors="backslashreplace")


class Tsv(Csv):
    """As CSV, separated by tabs."""

    delimiter = "\t"


class JsonLines(Format):
    """An object per line: file, labels, and the scores and probabilities by class."""

    def block(self, predictions: Predictions) -> bytes:
        """A line per sample."""
        pairs = zip(predictions.ids, as_objects(predictions, self._scores), strict=True)
        lines = [json.dumps({"file": name, **each}, ensure_ascii=False) + "\n" for name, each in pairs]
        return "".join(lines).encode(errors="backslashreplace")


class Parquet(Format):
    """Batches of Arrow, from which a Parquet file is made in the end, because it can't grow by itself.

    Its columns are those of CSV; labels, the scores of predicted labels, and windows are lists.

    Raises:
        InputError: pyarrow is not installed.
    """

    def __init__(
        self, classes: Sequence[str], scores: Scores, *, calibrated: bool = False, where: bool = False
    ) -> None:
        pyarrow = require_pyarrow(Path("format=parquet"))
        super().__init__(classes, scores, calibrated=calibrated, where=where)
        listed = pyarrow.list_(pyarrow.float32())
        number = pyarrow.float32() if self._scores == "all" else listed
        numbers = repeat(number, len(self._header) - 2 - where)
        kinds = [pyarrow.string(), pyarrow.list_(pyarrow.string()), *numbers]
        kinds += [pyarrow.list_(listed)] * where
        self._schema = pyarrow.schema(list(zip(self._header, kinds, strict=True)))

    def start(self) -> bytes:
        """The schema."""
        return bytes(self._schema.serialize().to_pybytes())

    def block(self, predictions: Predictions) -> bytes:
        """A batch."""
        import pyarrow

        if not predictions.ids:
            return b""
        names = [name.encode(errors="backslashreplace").decode() for name in predictions.ids]
        columns: list[Any] = [names, predictions.labels]
        if self._scores == "all":
            columns += [column for array in predictions.arrays for column in np.ascontiguousarray(array.T)]
        elif self._scores == "predicted":
            columns += predictions.of_labels()
        if predictions.where is not None:
            columns.append(predictions.where)
        pairs = zip(columns, self._schema, strict=True)
        arrays = [pyarrow.array(column, field.type) for column, field in pairs]
        batch = pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)
        return bytes(batch.serialize().to_pybytes())

    def complete(self, file: Path, output: Path) -> None:
        """Write the Parquet file from the batches in another file.

        Raises:
            SpmlError: It can't be written.
        """
        import pyarrow
        from pyarrow import parquet

        def write(stream: BinaryIO) -> None:
            with pyarrow.memory_map(str(file)) as batches:  # not in memory as a whole
                table = pyarrow.ipc.open_stream(batches).read_all()
                parquet.write_table(table, stream, row_group_size=_ROW_GROUP)

        write_with(output, write)


FORMATS: dict[str, type[Format]] = {
    "csv": Csv, "tsv": Tsv, "jsonl": JsonLines, "parquet": Parquet,
}  # fmt: skip


def scores_to_give(scores: Scores, classes: int) -> Literal["all", "predicted", "none"]:
    """Replace `auto` by what it means for a number of classes."""
    if scores == "auto":
        return "predicted" if classes > MOST_SCORE_COLUMNS else "all"
    return scores


def as_objects(predictions: Predictions, scores: str) -> Iterator[dict[str, Any]]:
    """Labels, scores and probabilities of each sample, and the windows of its labels, for JSON.

    Args:
        predictions: Predictions.
        scores: Classes whose scores and probabilities are given: `all`, `predicted` or `none`.
    """
    for _, labels, numbers, windows in _samples(predictions, scores):
        values: dict[str, Any] = {"labels": labels}
        names = labels if scores == "predicted" else predictions.classes
        for key, row in zip(("scores", "probabilities"), numbers, strict=False):
            values[key] = {name: float(f"{value:.6g}") for name, value in zip(names, row, strict=True)}
        if windows is not None:
            rounded = [[float(f"{share:.4g}") for share in window] for window in windows]
            values["where"] = dict(zip(labels, rounded, strict=True))
        yield values


def _samples(
    predictions: Predictions, scores: str
) -> Iterator[tuple[str, list[str], Sequence[list[float]], list[list[float]] | None]]:
    """Name, labels, scores and probabilities of the classes that are wanted, and windows of each sample."""
    parts: list[list[list[float]]] = []
    if scores == "all":
        parts = [array.tolist() for array in predictions.arrays]
    elif scores == "predicted":
        parts = predictions.of_labels()
    rows = zip(*parts, strict=True) if parts else repeat((), len(predictions.ids))
    windows = predictions.where or repeat(None, len(predictions.ids))
    return zip(predictions.ids, predictions.labels, rows, windows, strict=True)
