"""ARFF files with several labels per row, as written by Mulan and MEKA, with dense or sparse rows.

The package `liac-arff` is not used: reading row by row, it reports no line numbers, and never the column or
the value at fault; it refuses dates; and it expands sparse rows if they may be mixed with dense ones.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels, Unlisted
from ..matrix import FeatureMatrix
from ..phrases import counted, shorten
from ..records import Records
from ..safe import is_file, quote
from ..tables.delimited import read_lines
from ..tables.marks import BAD, BLANK, COUNT, MARKS, meaning
from .arff_header import Header, label_positions, read_header, split_cells, unescape
from .documents import class_name
from .features import MAX_WIDTH
from .registry import register_reader

_ENTRY = re.compile(r"""\s*(\d{1,9})\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,'"]*))\s*(?:,|$)""")
_DENSE = 1 / 3  # share of nonzero entries above which a dense array is smaller


class _Column(NamedTuple):
    """Conversion of the cells of an attribute.

    Attributes:
        name: Name of the attribute.
        label: Whether it is a label.
        start: Column among the labels, or first column among the features; -1 if the attribute is not used.
        codes: Code of each value of a nominal attribute, else empty.
        omitted: Mark or code of the attribute in a sparse row that omits it, which is nearly always 0.
    """

    name: str
    label: bool
    start: int
    codes: dict[str, int]
    omitted: int

    def feature_names(self) -> tuple[str, ...]:
        """Names of the features that the attribute becomes, in their order."""
        if self.label or self.start < 0:
            return ()
        values = tuple(self.codes)
        if values in ((), ("0", "1")):
            return (self.name,)
        return tuple(f"{self.name}={value}" for value in values[1:])  # the first value has no feature


class _Rows:
    """Nonzero entries of all rows, in the order of a CSR matrix."""

    def __init__(self) -> None:
        self.ends, self.columns, self.values = array("q", [0]), array("i"), array("d")
        self.label_ends, self.label_columns, self.marks = array("q", [0]), array("i"), array("b")

    def __len__(self) -> int:
        return len(self.ends) - 1

    def add(self, column: _Column, code: int) -> None:
        """Add a nonzero mark of a label, or a nonzero code of a nominal attribute."""
        if column.label:
            self.label_columns.append(column.start)
            self.marks.append(code)
        else:
            self.columns.append(column.start + code - 1)
            self.values.append(1.0)

    def end_row(self) -> None:
        """End the current row."""
        self.ends.append(len(self.columns))
        self.label_ends.append(len(self.label_columns))


@register_reader("arff", "an ARFF file", recognises=lambda source: source.suffix == ".arff")
def read_arff(path: Path, config: DataConfig) -> Records:
    """Read features and labels; NAME-train.arff is read together with NAME-test.arff if that exists.

    Numeric attributes are features, and so are nominal ones with the values 0 and 1. Any other nominal
    attribute with k values becomes k - 1 features, each 1 where the attribute has that value: all are 0 for
    the first value. Strings and dates are not used. Labels are 0 and 1, or words for them; ? is an unknown
    label, and not allowed in a feature.

    Raises:
        InputError: The file can't be read; names the line.
    """
    lines = enumerate(read_lines(path), start=1)
    header = read_header(path, lines)
    positions, source = label_positions(path, header, config)
    columns, width = _columns(path, header, positions)
    rows = _Rows()
    _read_rows(path, lines, columns, rows)
    if not len(rows) or not width:
        raise InputError(f"{path}: has no {'feature' if len(rows) else 'row'}.")
    notes = [f"{len(positions):,} of {len(columns):,} attributes are labels, as {source} says."]
    training, note = _training_rows(path, header, columns, rows)
    classes = tuple(
        class_name(columns[position].name, f"{path}: attribute {position}") for position in positions
    )
    labels, sentence = _labels(rows, len(classes), config.default_label, str(path))
    notes += [note] if note else []
    if nominal := sum(len(column.codes) > 2 and not column.label for column in columns):
        notes.append(f"one feature per value except the first for {counted(nominal, 'nominal attribute')}.")
    if unused := [column.name for column in columns if column.start < 0]:
        notes.append(f"unused attributes, which are text: {shorten(unused)}.")
    notes.append(f"labels are {sentence}")
    return Records(
        source=str(path),
        name=path.stem[:-6] if path.stem.lower().endswith("-train") else path.stem,
        ids=tuple(str(row) for row in range(len(rows))),
        inputs=_features(rows, tuple(name for column in columns for name in column.feature_names())),
        classes=classes,
        classes_given=True,
        labels=labels,
        split=("train",) * training + ("test",) * (len(rows) - training) if training < len(rows) else None,
        notes=tuple(f"{path.name}: {note}" for note in notes),
    )


def _training_rows(path: Path, header: Header, columns: Sequence[_Column], rows: _Rows) -> tuple[int, str]:
    """Number of training rows, and a note on the split; adds the rows of NAME-test.arff if that exists."""
    count = len(rows)
    partner = path.with_name(f"{path.stem[:-6]}-test{path.suffix}")
    if path.stem.lower().endswith("-train") and is_file(partner):
        lines = enumerate(read_lines(partner), start=1)
        if read_header(partner, lines).attributes != header.attributes:
            raise InputError(f"{partner}: its attributes differ from those of {path.name}.")
        _read_rows(partner, lines, columns, rows)
        return count, f"the test rows are those of {partner.name}."
    stated = header.training_rows(count)
    if stated is None:
        return count, ""
    if 0 < stated < count:
        return stated, f"the first {stated:,} rows are for training, as @relation says."
    return count, (
        f"@relation says that the first {stated:,} of {count:,} rows are for training, which leaves none for "
        f"{'the test' if stated else 'training'}; there is no split."
    )


def _columns(path: Path, header: Header, positions: Sequence[int]) -> tuple[list[_Column], int]:
    """Conversion of each attribute, and the number of features."""
    columns, width, labels = [], 0, {position: column for column, position in enumerate(positions)}
    for position, (name, values) in enumerate(header.attributes):
        order = sorted(values) if values and {*values} == {"0", "1"} else values or ()
        codes = {value: code for code, value in enumerate(order)}
        if position in labels:
            columns.append(_Column(name, True, labels[position], codes, MARKS[values[0]] if values else 0))
        elif values is None:
            columns.append(_Column(name, False, -1, codes, 0))
        else:
            columns.append(_Column(name, False, width, codes, codes[values[0]] if values else 0))
            width += len(values) - 1 if values else 1
    if width > MAX_WIDTH:
        raise InputError(f"{path}: has {width:,} features per row, more than the limit of {MAX_WIDTH:,}.")
    return columns, width


def _read_rows(path: Path, lines: Iterator[tuple[int, str]], columns: Sequence[_Column], rows: _Rows) -> None:
    omitted = {position for position, column in enumerate(columns) if column.omitted}
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        try:
            if text.startswith("{"):
                cells = _sparse_cells(text, len(columns))
                _add_cells(cells, columns, rows)
                for position in omitted.difference(cell[0] for cell in cells) if omitted else ():
                    rows.add(columns[position], columns[position].omitted)
            else:
                dense = split_cells(text)
                if len(dense) != len(columns):
                    raise ValueError(f"{len(dense):,} cells, but there are {len(columns):,} attributes")
                _add_cells(enumerate(dense), columns, rows)
        except ValueError as error:
            raise InputError(f"{path}: line {number}: {error}.") from error
        rows.end_row()


def _add_cells(cells: Iterable[tuple[int, str]], columns: Sequence[_Column], rows: _Rows) -> None:
    """Add the nonzero ones of some cells.

    Raises:
        ValueError: A cell has a value that its attribute does not allow.
    """
    for position, cell in cells:
        column = columns[position]
        name, label, start, codes, _ = column
        if label:
            mark = MARKS[cell]
            if mark in (BAD, COUNT) or not cell or (codes and mark != BLANK and cell not in codes):
                raise ValueError(f"the label {quote(name)} is {quote(cell)}, not 0, 1 or ?")
            if mark:
                rows.add(column, mark)
        elif start < 0:
            continue
        elif cell == "?":
            raise ValueError(f"{quote(name)} is missing (?), but every feature must have a value: fill it in")
        elif codes:
            if cell not in codes:
                raise ValueError(f"{quote(name)} is {quote(cell)}, which @attribute does not list")
            if codes[cell]:
                rows.add(column, codes[cell])
        else:
            try:
                value = float(cell)
            except ValueError:
                raise ValueError(f"{quote(name)} is {quote(cell)}, not a number") from None
            if value:
                rows.columns.append(start)
                rows.values.append(value)


def _sparse_cells(text: str, count: int) -> list[tuple[int, str]]:
    """Positions of attributes and their cells in a row between braces.

    Raises:
        ValueError: The row is not of this form, or a position repeats or is too large.
    """
    if not text.endswith("}"):
        raise ValueError("a row that begins with { must end with }")
    inner, start = text[1:-1].rstrip(), 0
    cells = {}
    while start < len(inner):
        match = _ENTRY.match(inner, start)
        quoted = match and (match[2] if match[2] is not None else match[3])
        cell = unescape(quoted) if quoted is not None else match[4].strip() if match else ""
        if match is None or not cell:
            raise ValueError(f"expected the number of an attribute and its value at character {start + 2}")
        if (position := int(match[1])) in cells or position >= count:
            raise ValueError(
                f"attribute {position} occurs twice or is not below {count:,} (the first attribute is 0)"
            )
        cells[position] = cell
        start = match.end()
    return list(cells.items())


def _features(rows: _Rows, names: tuple[str, ...]) -> FeatureMatrix:
    from scipy.sparse import csr_matrix

    parts = (
        np.frombuffer(rows.values),
        np.frombuffer(rows.columns, np.int32),
        np.frombuffer(rows.ends, np.int64),
    )
    # A number too large for float32 becomes inf, which check_finite reports.
    with np.errstate(over="ignore"):
        matrix = csr_matrix(parts, shape=(len(rows), len(names))).astype(np.float32)
    matrix.sort_indices()
    dense = matrix.nnz > _DENSE * len(rows) * len(names)
    return FeatureMatrix(matrix.toarray() if dense else matrix, names=names)


def _labels(rows: _Rows, classes: int, unlisted: Unlisted, source: str) -> tuple[ObservedLabels, str]:
    from scipy.sparse import csr_matrix

    marks = np.frombuffer(rows.marks, np.int8)
    values_present = {*np.unique(marks).tolist(), *([0] if len(marks) < len(rows) * classes else [])}
    zero, blank, sentence = meaning(values_present, unlisted, source)
    values = np.where(marks == BLANK, np.int8(blank), marks)
    columns, ends = np.frombuffer(rows.label_columns, np.int32), np.frombuffer(rows.label_ends, np.int64)
    matrix = csr_matrix((values, columns, ends), shape=(len(rows), classes))
    return ObservedLabels.from_csr(matrix, unlisted="negative" if zero == -1 else "unknown"), sentence
