"""ARFF files with several labels per row, as Mulan and MEKA use them: dense or sparse rows."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels, Unlisted
from ..matrix import FeatureMatrix
from ..records import Records
from ..safe import is_file, shown
from .arff_header import Header, label_places, read_header, split_cells, unescaped
from .delimited import read_lines, shorten
from .documents import class_name
from .features import MAX_WIDTH
from .marks import BAD, BLANK, MARKS, meaning
from .registry import register_reader

_ENTRY = re.compile(r"""\s*(\d{1,9})\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,'"]*))\s*(?:,|$)""")
_DENSE = 1 / 3  # share of entries that are not 0 above which a dense array is smaller


class _Column(NamedTuple):
    """What becomes of the cells of an attribute."""

    name: str
    label: bool
    start: int  # column among the labels, or first one among the features; -1 if it is left out
    codes: dict[str, int]  # place of each value of a nominal attribute, else empty
    omitted: int  # what a sparse row that leaves it out says: a mark, or a code, which few times is not 0


class _Rows:
    """What the rows hold beside zeros, in the order of a CSR matrix."""

    def __init__(self) -> None:
        self.ends, self.columns, self.values = array("q", [0]), array("i"), array("d")
        self.label_ends, self.label_columns, self.marks = array("q", [0]), array("i"), array("b")

    def __len__(self) -> int:
        return len(self.ends) - 1

    def end(self) -> None:
        """End a row."""
        self.ends.append(len(self.columns))
        self.label_ends.append(len(self.label_columns))


@register_reader("arff", "an ARFF file", recognises=lambda source: source.suffix == ".arff")
def read_arff(path: Path, config: DataConfig) -> Records:
    """Read features and labels; NAME-train.arff is read together with NAME-test.arff if that is beside it.

    Numeric attributes are taken as they are, and so are nominal ones with the values 0 and 1. Another one
    with k values becomes k - 1 features, each 1 where the attribute has that value: where all are 0, it has
    the first. Strings and dates are left out. Labels are 0 and 1, or words that mean it; ? is an unknown
    label, and refused in a feature.

    Raises:
        InputError: anything that can't be understood; names the line.
    """
    lines = enumerate(read_lines(path), start=1)
    header = read_header(path, lines)
    places, what = label_places(path, header, config)
    columns, width = _columns(path, header, places)
    rows = _Rows()
    _read_rows(path, lines, columns, rows)
    count = training = len(rows)
    notes = [f"{path.name}: {len(places):,} of {len(columns):,} attributes are labels, as {what} says."]
    partner = path.with_name(f"{path.stem[:-6]}-test{path.suffix}")
    if path.stem.lower().endswith("-train") and is_file(partner):
        lines = enumerate(read_lines(partner), start=1)
        if read_header(partner, lines).attributes != header.attributes:
            raise InputError(f"{partner}: its attributes differ from those of {path.name}.")
        _read_rows(partner, lines, columns, rows)
        notes.append(f"{path.name}: the test rows are those of {partner.name}.")
    elif (stated := header.training(count)) is not None:
        fits = 0 < stated < count
        training = stated if fits else count
        notes.append(
            f"{path.name}: the first {training:,} rows are for training, as @relation says."
            if fits
            else f"{path.name}: @relation says that the first {stated:,} of {count:,} rows are for training, "
            "which leaves none for the test or for training, so there is no split."
        )
    if not count or not width:
        raise InputError(f"{path}: has no {'feature' if count else 'row'}.")
    features = _features(rows, width)
    classes = tuple(class_name(columns[place].name, f"{path}: attribute {place}") for place in places)
    labels, sentence = _labels(rows, len(classes), config.unlisted, str(path))
    nominal = sum(len(column.codes) > 2 and not column.label for column in columns)
    if nominal:
        notes.append(f"{path.name}: {nominal:,} nominal attributes became a feature per value but the first.")
    if left := [column.name for column in columns if column.start < 0]:
        notes.append(f"{path.name}: attributes that are text and not used: {shorten(left)}.")
    return Records(
        source=str(path),
        name=path.stem[:-6] if path.stem.lower().endswith("-train") else path.stem,
        ids=tuple(str(row) for row in range(len(rows))),
        inputs=features,
        classes=classes,
        classes_given=True,
        labels=labels,
        split=("train",) * training + ("test",) * (len(rows) - training) if training < len(rows) else None,
        notes=(*notes, f"{path.name}: labels are {sentence}"),
    )


def _columns(path: Path, header: Header, places: list[int]) -> tuple[list[_Column], int]:
    """What becomes of each attribute, and the number of features."""
    columns, width, labels = [], 0, {place: column for column, place in enumerate(places)}
    for place, (name, values) in enumerate(header.attributes):
        order = sorted(values) if values and {*values} == {"0", "1"} else values or ()
        codes = {value: code for code, value in enumerate(order)}
        if place in labels:
            columns.append(_Column(name, True, labels[place], codes, MARKS[values[0]] if values else 0))
        elif values is None:
            columns.append(_Column(name, False, -1, codes, 0))
        else:
            columns.append(_Column(name, False, width, codes, codes[values[0]] if values else 0))
            width += len(values) - 1 if values else 1
    if width > MAX_WIDTH:
        raise InputError(f"{path}: {width:,} features per row are more than {MAX_WIDTH:,}.")
    return columns, width


def _read_rows(path: Path, lines: Iterator[tuple[int, str]], columns: list[_Column], rows: _Rows) -> None:
    odd = {place for place, column in enumerate(columns) if column.omitted}
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        try:
            if text.startswith("{"):
                cells = _entries(text, len(columns))
                _read_row(cells, columns, rows)
                for place in odd - {place for place, _ in cells} if odd else ():
                    _add(rows, columns[place], columns[place].omitted)
            else:
                dense = split_cells(text)
                if len(dense) != len(columns):
                    raise ValueError(f"{len(dense):,} cells, but there are {len(columns):,} attributes")
                _read_row(enumerate(dense), columns, rows)
        except ValueError as error:
            raise InputError(f"{path}: line {number}: {error}.") from error
        rows.end()


def _add(rows: _Rows, column: _Column, code: int) -> None:
    """Add a mark, or the code of a nominal attribute, that is not 0."""
    if column.label:
        rows.label_columns.append(column.start)
        rows.marks.append(code)
    else:
        rows.columns.append(column.start + code - 1)
        rows.values.append(1.0)


def _read_row(cells: Iterable[tuple[int, str]], columns: list[_Column], rows: _Rows) -> None:
    """Add what is not 0.

    Raises:
        ValueError: a cell that can't be understood.
    """
    for place, cell in cells:
        column = columns[place]
        name, label, start, codes, _ = column
        if label:
            mark = MARKS[cell]
            if mark == BAD or not cell or (codes and mark != BLANK and cell not in codes):
                raise ValueError(f"the label {shown(name)} is {shown(cell)}, not 0, 1 or ?")
            if mark:
                _add(rows, column, mark)
        elif start < 0:
            continue
        elif cell == "?":
            raise ValueError(f"{shown(name)} is missing (?), but every feature must have a value: fill it in")
        elif codes:
            if cell not in codes:
                raise ValueError(f"{shown(name)} is {shown(cell)}, which @attribute does not list")
            if codes[cell]:
                _add(rows, column, codes[cell])
        else:
            try:
                value = float(cell)
            except ValueError:
                raise ValueError(f"{shown(name)} is {shown(cell)}, not a number") from None
            if value:
                rows.columns.append(start)
                rows.values.append(value)


def _entries(text: str, count: int) -> list[tuple[int, str]]:
    """Attributes and cells of a sparse row.

    Raises:
        ValueError: not such a row.
    """
    if not text.endswith("}"):
        raise ValueError("a row that begins with { must end with }")
    inner, place = text[1:-1], 0
    entries = []
    while place < len(inner) and not (place == 0 and inner.isspace()):
        match = _ENTRY.match(inner, place)
        if match is None or not (cell := match[4].strip() if match[4] is not None else _quoted(match)):
            raise ValueError(f"expected the number of an attribute and its value at character {place + 2}")
        entries.append((int(match[1]), cell))
        place = match.end()
    found = {number for number, _ in entries}
    if len(found) < len(entries) or (found and max(found) >= count):
        raise ValueError(f"the numbers of attributes must be distinct, and below {count:,} (the first is 0)")
    return entries


def _quoted(match: re.Match[str]) -> str:
    return unescaped(match[2] if match[2] is not None else match[3])


def _features(rows: _Rows, width: int) -> FeatureMatrix:
    from scipy.sparse import csr_matrix

    parts = (
        np.frombuffer(rows.values),
        np.frombuffer(rows.columns, np.int32),
        np.frombuffer(rows.ends, np.int64),
    )
    # What does not fit into float32 becomes inf, which check_finite names.
    with np.errstate(over="ignore"):
        matrix = csr_matrix(parts, shape=(len(rows), width)).astype(np.float32)
    matrix.sort_indices()
    dense = matrix.nnz > _DENSE * len(rows) * width
    return FeatureMatrix(matrix.toarray() if dense else matrix)


def _labels(rows: _Rows, classes: int, unlisted: Unlisted, source: str) -> tuple[ObservedLabels, str]:
    from scipy.sparse import csr_matrix

    marks = np.frombuffer(rows.marks, np.int8)
    found = {*np.unique(marks).tolist(), *([0] if len(marks) < len(rows) * classes else [])}
    zero, blank, sentence = meaning(found, unlisted, source)
    values = np.where(marks == BLANK, np.int8(blank), marks)
    columns, ends = np.frombuffer(rows.label_columns, np.int32), np.frombuffer(rows.label_ends, np.int64)
    matrix = csr_matrix((values, columns, ends), shape=(len(rows), classes))
    return ObservedLabels.from_csr(matrix, unlisted="negative" if zero == -1 else "unknown"), sentence
