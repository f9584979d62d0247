"""Files of predictions, written block by block: CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import io
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from ..data.tables.arrow import require_pyarrow
from ..data.writers.predictions import PROBABILITY
from ..errors import InputError
from ..files import write_with
from .predict import Predictions

Scores = Literal["auto", "all", "predicted", "none"]
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

    def complete(self, file: Path, output: Path) -> None:
        """Make the output of the file to which all blocks were appended."""
        os.replace(file, output)


class Csv(Format):
    """Rows of CSV: file, labels, and a column per class or one with the scores of the predicted labels.

    Probabilities follow in the same way.

    Args:
        classes: Class names.
        scores: `all`, `predicted` or `none`.
        calibrated: Whether there are probabilities.

    Raises:
        InputError: A class name contains the character that separates labels.
    """

    def __init__(self, classes: Sequence[str], scores: str, calibrated: bool) -> None:
        if with_semicolon := next((name for name in classes if ";" in name), None):
            raise InputError(
                f"the class {with_semicolon!r} contains `;`, which separates labels in CSV. Use --format "
                "jsonl."
            )
        self._scores = scores
        self._header = ["file", "labels", *_columns_of_scores(classes, scores, calibrated)]

    def start(self) -> bytes:
        """The header."""
        return _csv([self._header])

    def block(self, predictions: Predictions) -> bytes:
        """A row per sample."""
        rows = []
        for name, labels, numbers in _samples(predictions, self._scores):
            cells = [name, ";".join(labels)]
            for row in numbers:
                texts = [f"{value:.6g}" for value in row]
                cells += texts if self._scores == "all" else [";".join(texts)]
            rows.append(cells)
        return _csv(rows)


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
        name: `csv`, `jsonl` or `parquet`.
        classes: Class names.
        scores: Scores to write: of `all` classes, of the `predicted` labels or `none`; `auto` = `all` up to
            100 classes, otherwise `predicted`.
        calibrated: Whether there are probabilities, which are written for the same classes.

    Raises:
        InputError: The format can't hold these classes, or needs a package that is not installed.
    """
    scores = scores_to_give(scores, len(classes))
    if name == "csv":
        return Csv(classes, scores, calibrated)
    return JsonLines(scores) if name == "jsonl" else Parquet(classes, scores, calibrated)


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


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    return stream.getvalue().encode(errors="backslashreplace")
