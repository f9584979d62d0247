"""Files of predictions, written block by block: CSV, TSV, JSON lines, Parquet or Excel."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from ...common.errors import CONTROL, InputError, require_packages
from ...common.files import write_with
from ...data.tables.parquet import require_pyarrow
from ..decide.inferred_labels import PROBABILITY
from .predict import Predictions

Scores = Literal["auto", "all", "predicted", "none"]
FORMATS = ("csv", "tsv", "jsonl", "parquet", "xlsx")
MANY_CLASSES = 100  # above which `auto` means `predicted`
_ROW_GROUP = 1 << 16


class Format(ABC):
    """Turns predictions into the bytes of a file that grows block by block."""

    @abstractmethod
    def start(self) -> bytes:
        """First bytes of the file."""

    @abstractmethod
    def block(self, predictions: Predictions) -> bytes:
        """Bytes of some samples."""

    def check(self, samples: int) -> None:
        """Check, before any work, that the format can hold a number of samples.

        Raises:
            InputError: It can't.
        """
        del samples

    def complete(self, file: Path, output: Path) -> None:
        """Make the output of the file to which all blocks were appended."""
        os.replace(file, output)


class Csv(Format):
    """Rows of CSV: file, labels, and a column per class or one with the scores of the predicted labels.

    Probabilities follow in the same way. Labels are separated by `;`, or, where a class name holds a
    character that would be read as a separator, written as a JSON list.

    Args:
        classes: Class names.
        scores: `all`, `predicted` or `none`.
        calibrated: Whether there are probabilities.
        delimiter: Separator of cells.
    """

    def __init__(self, classes: Sequence[str], scores: str, calibrated: bool, delimiter: str = ",") -> None:
        self._scores, self._delimiter = scores, delimiter
        self._as_json = any(map(_NEEDS_JSON.search, classes))
        self._header = ["file", "labels", *_columns_of_scores(classes, scores, calibrated)]

    def start(self) -> bytes:
        """The header."""
        return self._lines([self._header])

    def block(self, predictions: Predictions) -> bytes:
        """A row per sample."""
        rows = []
        for name, labels, numbers in _samples(predictions, self._scores):
            cells = [name, json.dumps(labels, ensure_ascii=False) if self._as_json else ";".join(labels)]
            for row in numbers:
                texts = [f"{value:.6g}" for value in row]
                cells += texts if self._scores == "all" else [";".join(texts)]
            rows.append(cells)
        return self._lines(rows)

    def _lines(self, rows: Iterable[Sequence[str]]) -> bytes:
        stream = io.StringIO()
        csv.writer(stream, delimiter=self._delimiter, lineterminator="\n").writerows(rows)
        return stream.getvalue().encode(errors="backslashreplace")


_NEEDS_JSON = re.compile(r"[;,|\n\r\t]|^[\s\[{(<]|\s$")
"""What in a class name a reader of labels may take for a separator or for the start of a list."""


class Xlsx(Csv):
    """Rows of CSV, from which an Excel sheet is made in the end.

    Args:
        classes: Class names.
        scores: `all`, `predicted` or `none`.
        calibrated: Whether there are probabilities.

    Raises:
        InputError: openpyxl is not installed, or a sheet has fewer columns.
    """

    def __init__(self, classes: Sequence[str], scores: str, calibrated: bool) -> None:
        require_packages("tables", "openpyxl")
        super().__init__(classes, scores, calibrated)
        self._numbers = (
            len(self._header) if scores == "all" else 2
        )  # number of the column after the last one of numbers
        if len(self._header) > _SHEET_COLUMNS:
            raise InputError(
                f"an Excel sheet has at most {_SHEET_COLUMNS:,} columns, but {len(self._header):,} are "
                "needed. Use --scores predicted, or write .csv or .parquet."
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
        sheet = book.create_sheet("predictions")
        with open(file, encoding="utf-8", newline="") as stream:
            csv.field_size_limit(1 << 30)
            for number, row in enumerate(csv.reader(stream)):
                cells: list[Any] = []
                for column, text in enumerate(row):
                    if number and 2 <= column < self._numbers:
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


_SHEET_ROWS, _SHEET_COLUMNS, _SHEET_TEXT = 1_048_576, 16_384, 32_767


class JsonLines(Format):
    """An object per line: file, labels, and the scores and probabilities by class.

    Args:
        scores: `all`, `predicted` or `none`.
    """

    def __init__(self, scores: str) -> None:
        self._scores = scores

    def start(self) -> bytes:
        """Nothing."""
        return b""

    def block(self, predictions: Predictions) -> bytes:
        """A line per sample."""
        objects = as_objects(predictions, self._scores)
        pairs = zip(predictions.ids, objects, strict=True)
        lines = [json.dumps({"file": name, **each}, ensure_ascii=False) + "\n" for name, each in pairs]
        return "".join(lines).encode(errors="backslashreplace")


class Parquet(Format):
    """Batches of Arrow, from which a Parquet file is made in the end, because it can't grow by itself.

    Its columns are those of CSV; labels, and the scores of predicted labels, are lists.

    Args:
        classes: Class names.
        scores: `all`, `predicted` or `none`.
        calibrated: Whether there are probabilities.

    Raises:
        InputError: pyarrow is not installed, or a class would have the name of another column.
    """

    def __init__(self, classes: Sequence[str], scores: str, calibrated: bool) -> None:
        pyarrow = require_pyarrow(Path("--format parquet"))
        taken = next((name for name in classes if name in ("file", "labels")), None)
        if scores == "all" and taken:
            raise InputError(
                f"a class is called {taken!r}, as is a column of the file. Use --scores predicted, or "
                "--format csv."
            )
        self._scores = scores
        fields = [("file", pyarrow.string()), ("labels", pyarrow.list_(pyarrow.string()))]
        kind = pyarrow.float32() if scores == "all" else pyarrow.list_(pyarrow.float32())
        fields += [(name, kind) for name in _columns_of_scores(classes, scores, calibrated)]
        self._schema = pyarrow.schema(fields)

    def start(self) -> bytes:
        """The schema."""
        content: bytes = self._schema.serialize().to_pybytes()
        return content

    def block(self, predictions: Predictions) -> bytes:
        """A batch."""
        import pyarrow

        if not predictions.ids:
            return b""
        names = [name.encode(errors="backslashreplace").decode() for name in predictions.ids]
        columns: list[Any] = [names, predictions.labels]
        if self._scores == "all":
            for array in _arrays(predictions):
                columns += [*np.ascontiguousarray(array.T)]
        elif self._scores == "predicted":
            columns += predictions.of_labels()
        arrays = [
            pyarrow.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)
        ]
        batch = pyarrow.RecordBatch.from_arrays(arrays, schema=self._schema)
        content: bytes = batch.serialize().to_pybytes()
        return content

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


def make_format(name: str, classes: Sequence[str], scores: Scores, *, calibrated: bool = False) -> Format:
    """Make a format by its name.

    Args:
        name: One of `FORMATS`.
        classes: Class names.
        scores: Scores to write: of `all` classes, of the `predicted` labels or `none`; `auto` = `all` up to
            100 classes, otherwise `predicted`.
        calibrated: Whether there are probabilities, which are written for the same classes.

    Raises:
        InputError: The format can't hold these classes, or needs a package that is not installed.
    """
    scores = scores_to_give(scores, len(classes))
    if name == "jsonl":
        return JsonLines(scores)
    if name == "tsv":
        return Csv(classes, scores, calibrated, "\t")
    kinds: dict[str, type[Csv | Xlsx | Parquet]] = {"csv": Csv, "xlsx": Xlsx, "parquet": Parquet}
    return kinds[name](classes, scores, calibrated)


def scores_to_give(scores: Scores, classes: int) -> Literal["all", "predicted", "none"]:
    """What `auto` means for a number of classes; everything else as it is."""
    if scores == "auto":
        return "predicted" if classes > MANY_CLASSES else "all"
    return scores


def as_objects(predictions: Predictions, scores: str) -> Iterator[dict[str, Any]]:
    """Labels, scores and probabilities of each sample, for JSON.

    Args:
        predictions: Predictions.
        scores: Classes whose scores and probabilities are given: `all`, `predicted` or `none`.
    """
    for _, labels, numbers in _samples(predictions, scores):
        values: dict[str, Any] = {"labels": labels}
        names = labels if scores == "predicted" else predictions.classes
        for key, row in zip(("scores", "probabilities"), numbers, strict=False):
            values[key] = {name: float(f"{value:.6g}") for name, value in zip(names, row, strict=True)}
        yield values


def _columns_of_scores(classes: Sequence[str], scores: str, calibrated: bool) -> list[str]:
    """Names of the columns of scores, followed by those of probabilities."""
    if scores == "none":
        return []
    if scores == "predicted":
        return ["scores", *(["probabilities"] if calibrated else [])]
    return [*classes, *((PROBABILITY + name for name in classes) if calibrated else ())]


def _arrays(predictions: Predictions) -> list[npt.NDArray[np.float32]]:
    """Scores and, where there are some, probabilities."""
    given = (predictions.scores, predictions.probabilities)
    return [array for array in given if array is not None]


def _samples(
    predictions: Predictions, scores: str
) -> Iterator[tuple[str, list[str], tuple[list[float], ...]]]:
    """Name and labels of each sample, and its scores and probabilities of the classes that are wanted."""
    parts: list[list[list[float]]] = []
    if scores == "all":
        parts = [array.tolist() for array in _arrays(predictions)]
    elif scores == "predicted":
        parts = predictions.of_labels()
    rows = zip(*parts, strict=True) if parts else repeat((), len(predictions.ids))
    return zip(predictions.ids, predictions.labels, rows, strict=True)
