"""Files of predictions, written block by block: CSV, TSV, JSON lines, Parquet or Excel."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from ...common.errors import CONTROL, InputError, require_packages
from ...common.files import write_with
from ...common.phrases import counted
from ...common.safe import quote
from ...common.spreadsheets import csv_text
from ...data.tables.formats import require_pyarrow
from .predictions import PROBABILITY, Predictions, score_columns

Scores = Literal["auto", "all", "predicted", "none"]
MANY_CLASSES = 100  # above which `auto` means `predicted`
_ROW_GROUP = 1 << 16
_SHEET_ROWS, _SHEET_COLUMNS, _SHEET_TEXT = 1_048_576, 16_384, 32_767
_NEEDS_JSON = re.compile(r"[;,|\n\r\t]|^[\s\[{(<]|\s$")
"""Parts of a class name that a reader of labels may take for a separator or for the start of a list."""


class Format:
    """Turns predictions into the bytes of a file that grows block by block.

    Args:
        classes: Class names.
        scores: Classes whose scores and probabilities are written: `all`, those of the `predicted` labels, or
            `none`.
        calibrated: Whether there are probabilities.
        where: Whether there are windows of the labels.

    Attributes:
        note: Remark on columns that are not called as their classes are; empty if there is none.
    """

    def __init__(self, classes: Sequence[str], scores: str, calibrated: bool, where: bool) -> None:
        self._classes, self._scores, self._where = classes, scores, where
        self._header, self.note = ["file", "labels"], ""
        if scores == "predicted":
            self._header += ["scores", "probabilities"][: 1 + calibrated]
        elif scores == "all":
            columns = score_columns(classes)
            self._header += columns + [PROBABILITY + name for name in classes if calibrated]
            renamed = [
                (name, column) for name, column in zip(classes, columns, strict=True) if name != column
            ]
            if renamed:
                others = counted(len(renamed) - 1, "other class", "other classes")
                rest = f" (and {others})" if renamed[1:] else ""
                self.note = (
                    f"the scores of the class {quote(renamed[0][0])}{rest} are in the column "
                    f"{quote(renamed[0][1])}, since the name itself stands for another column."
                )
        self._header += ["where"] * where

    def start(self) -> bytes:
        """First bytes of the file."""
        return b""

    def block(self, predictions: Predictions) -> bytes:
        """Bytes of some samples."""
        raise NotImplementedError

    def check(self, samples: int) -> None:
        """Check, before any work, that the format can hold a number of samples.

        Raises:
            InputError: It can't.
        """

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
    guarded = True
    """Whether names are written as `spml.common.spreadsheets.csv_cells` says."""

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
        text = csv_text(rows, self.delimiter, names=names if self.guarded else 0)
        return text.encode(errors="backslashreplace")


class Tsv(Csv):
    """As CSV, separated by tabs."""

    delimiter = "\t"


class Xlsx(Csv):
    """Rows of CSV, from which an Excel sheet is made in the end.

    Raises:
        InputError: openpyxl is not installed, or a sheet has fewer columns.
    """

    guarded = False  # cells of a sheet state that they are text

    def __init__(self, classes: Sequence[str], scores: str, calibrated: bool, where: bool) -> None:
        require_packages("tables", "openpyxl")
        super().__init__(classes, scores, calibrated, where)
        if len(self._header) > _SHEET_COLUMNS:
            raise InputError(
                f"an Excel sheet has at most {_SHEET_COLUMNS:,} columns, but {len(self._header):,} are "
                "needed. Use scores=predicted, or write .csv or .parquet."
            )

    def check(self, samples: int) -> None:
        """Check that a sheet has a row for each sample."""
        if samples >= _SHEET_ROWS:
            raise InputError(
                f"an Excel sheet has at most {_SHEET_ROWS:,} rows, but there are {samples:,} samples. Write "
                ".csv or .parquet instead."
            )

    def complete(self, file: Path, output: Path) -> None:
        """Write the sheet from the rows in another file.

        Raises:
            InputError: A cell is longer than Excel allows.
            SpmlError: It can't be written.
        """
        from openpyxl import Workbook
        from openpyxl.cell import WriteOnlyCell

        book = Workbook(write_only=True)
        numbers = range(2, len(self._header) - self._where if self._scores == "all" else 2)
        sheet = book.create_sheet("predictions")
        with open(file, encoding="utf-8", newline="") as stream:
            csv.field_size_limit(1 << 30)
            for number, row in enumerate(csv.reader(stream)):
                cells: list[Any] = []
                for column, text in enumerate(row):
                    if number and column in numbers:
                        cells.append(float(text))
                        continue
                    if len(text) > _SHEET_TEXT:
                        raise InputError(
                            f"{output}: row {number + 1}: a cell of Excel holds at most {_SHEET_TEXT:,} "
                            "characters. Write .csv or .parquet instead."
                        )
                    cell = WriteOnlyCell(sheet, CONTROL.sub(lambda found: ascii(found[0])[1:-1], text))
                    cell.data_type = "s"  # a name that begins with `=` is no formula
                    cells.append(cell)
                sheet.append(cells)
        write_with(output, book.save)


class JsonLines(Format):
    """An object per line: file, labels, and the scores and probabilities by class."""

    def __init__(self, classes: Sequence[str], scores: str, calibrated: bool, where: bool) -> None:
        super().__init__(classes, scores, calibrated, where)
        self.note = ""  # classes have an object of their own

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

    def __init__(self, classes: Sequence[str], scores: str, calibrated: bool, where: bool) -> None:
        pyarrow = require_pyarrow(Path("format=parquet"))
        super().__init__(classes, scores, calibrated, where)
        listed = pyarrow.list_(pyarrow.float32())
        numbers = repeat(pyarrow.float32() if scores == "all" else listed, len(self._header) - 2 - where)
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
            with pyarrow.OSFile(str(file)) as batches:
                reader = pyarrow.ipc.open_stream(batches)
                with parquet.ParquetWriter(stream, reader.schema) as writer:
                    group: list[Any] = []
                    for batch in reader:
                        group.append(batch)
                        if sum(map(len, group)) >= _ROW_GROUP:
                            writer.write_table(pyarrow.Table.from_batches(group))
                            group = []
                    if group:
                        writer.write_table(pyarrow.Table.from_batches(group))

        write_with(output, write)


FORMATS: dict[str, type[Format]] = {
    "csv": Csv, "tsv": Tsv, "jsonl": JsonLines, "parquet": Parquet, "xlsx": Xlsx,
}  # fmt: skip


def make_format(
    name: str, classes: Sequence[str], scores: Scores, *, calibrated: bool = False, where: bool = False
) -> Format:
    """Make a format by its name.

    Args:
        name: One of `FORMATS`.
        classes: Class names.
        scores: Scores to write: of `all` classes, of the `predicted` labels or `none`; `auto` = `all` up to
            100 classes, otherwise `predicted`.
        calibrated: Whether there are probabilities, which are written for the same classes.
        where: Whether there are windows of the labels.

    Raises:
        InputError: The format can't hold these classes, or needs a package that is not installed.
    """
    return FORMATS[name](classes, scores_to_give(scores, len(classes)), calibrated, where)


def scores_to_give(scores: Scores, classes: int) -> Literal["all", "predicted", "none"]:
    """Replace `auto` by what it means for a number of classes."""
    if scores == "auto":
        return "predicted" if classes > MANY_CLASSES else "all"
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
