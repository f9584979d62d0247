"""ARFF files with several labels per row, as written by Mulan and MEKA, with dense or sparse rows.

The package `liac-arff` is not used: reading row by row, it reports no line numbers, and never the column or
the value at fault; it refuses dates; and it expands sparse rows if they may be mixed with dense ones.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...common.documents import class_name, parse_xml
from ...common.errors import InputError
from ...common.phrases import counted, shorten
from ...common.safe import is_file, quote
from ...config import DataConfig
from ...labels import ObservedLabels
from ..records import Records
from ..tables.formats import read_lines
from ..values import BAD, BLANK, DASH, MARKS, PLUS, meaning
from . import register_reader
from .features import feature_matrix

MAX_XML = 1 << 24  # bytes
_QUOTED = r"""'(?P<single>(?:[^'\\]|\\.)*)'|"(?P<double>(?:[^"\\]|\\.)*)\""""
_ATTRIBUTE = re.compile(
    rf"@attribute\s+(?:{_QUOTED}|(?P<plain>[^\s,{{}}'\"]+))\s*(?P<type>.*)", re.IGNORECASE | re.DOTALL
)
_CELL = re.compile(rf"\s*(?:{_QUOTED}|(?P<plain>[^,'\"]*))\s*(?P<end>,|$)")
_ENTRY = re.compile(rf"\s*(?P<position>\d{{1,9}})\s+(?:{_QUOTED}|(?P<plain>[^,'\"]*))\s*(?:,|$)")
_TYPES = ("numeric", "real", "integer", "string", "date")
_LABELS = re.compile(r"(?:^|\s)-C\s+([+-]?\d{1,9})(?:\s|$)")
_NUMBER = re.compile(r"(?:^|\s)-split-number\s+(\d{1,9})(?:\s|$)")
_PERCENTAGE = re.compile(r"(?:^|\s)-split-percentage\s+(\d{1,3}(?:\.\d{1,9})?)(?:\s|$)")
_DENSE = 1 / 3  # share of nonzero entries above which a dense array is smaller


Attributes = tuple[tuple[str, tuple[str, ...] | None], ...]
"""Names of attributes, each with its values if it is nominal, without any if it is a number, and with None if
it is a string or a date."""


class _Column(NamedTuple):
    """Conversion of the cells of an attribute."""

    name: str
    label: bool
    start: int  # its (first) column in the matrix of all rows; -1 if it is not used
    codes: dict[str, int]  # of the values of a nominal attribute, else empty
    omitted: str  # its value in a sparse row that omits it; empty for 0, which it nearly always is


class _Rows(NamedTuple):
    """Nonzero entries of all rows as a CSR matrix stores them: marks of the labels, then the features."""

    ends: array[int]
    columns: array[int]
    values: array[float]


@register_reader("arff", "an ARFF file", recognises=lambda source: source.suffix == ".arff")
def read_arff(path: Path, config: DataConfig) -> Records:
    """Read features and labels; NAME-train.arff is read together with NAME-test.arff if that exists.

    Numeric attributes are features, and so are nominal ones with the values 0 and 1. Any other nominal
    attribute with k values becomes k - 1 features, each 1 where the attribute has that value: all are 0 for
    the first value. Strings and dates are not used. Labels are 0 and 1, or words for them; ? is an unknown
    label, and not allowed in a feature.
    """
    from scipy.sparse import csr_matrix

    lines = enumerate(read_lines(path), start=1)
    relation, attributes = _read_header(path, lines)
    positions, source = _label_positions(path, relation, attributes, config)
    columns, names = _columns(attributes, positions)
    rows = _Rows(array("q", [0]), array("i"), array("f"))  # a number too large for float32 becomes inf
    _read_rows(path, lines, columns, rows)
    training, note = _training_rows(path, relation, attributes, columns, rows)
    count, labels = len(rows.ends) - 1, len(positions)
    if not count or not names:
        raise InputError(f"{path}: has no {'feature' if count else 'row'}.")
    parts = [np.frombuffer(part, part.typecode) for part in (rows.values, rows.columns, rows.ends)]
    matrix = csr_matrix(tuple(parts), shape=(count, labels + len(names)))
    matrix.sort_indices()
    features = matrix[:, labels:]
    dense = features.nnz > _DENSE * count * len(names)
    marks = matrix[:, :labels]
    occurring = {*np.unique(marks.data).tolist(), *([0] if marks.nnz < math.prod(marks.shape) else [])}
    zero, blank, sentence = meaning(occurring, config.default_label, str(path))
    marks.data[marks.data == BLANK] = blank
    notes = [f"{labels:,} of {len(columns):,} attributes are labels, as {source} says.", *note]
    if nominal := sum(len(column.codes) > 2 and not column.label for column in columns):
        notes.append(f"one feature per value except the first for {counted(nominal, 'nominal attribute')}.")
    if unused := [column.name for column in columns if column.start < 0]:
        notes.append(f"unused attributes, which are text: {shorten(unused)}.")
    notes.append(f"labels are {sentence}")
    return Records(
        source=str(path),
        name=path.stem[:-6] if path.stem.lower().endswith("-train") else path.stem,
        ids=tuple(str(row) for row in range(count)),
        inputs=feature_matrix(features.toarray() if dense else features, str(path), names),
        classes=tuple(class_name(columns[k].name, f"{path}: attribute {k}") for k in positions),
        classes_given=True,
        labels=ObservedLabels.from_csr(marks, unlisted="negative" if zero == -1 else "unknown"),
        split=("train",) * training + ("test",) * (count - training) if training < count else None,
        notes=tuple(f"{path.name}: {note}" for note in notes),
    )


def _read_header(path: Path, lines: Iterator[tuple[int, str]]) -> tuple[str, Attributes]:
    """Name of the relation, which holds the options of MEKA, and all attributes: the lines up to @data."""
    relation = ""
    attributes: dict[str, tuple[str, ...] | None] = {}
    for number, line in lines:
        text = line.strip()
        word = text[:10].split(None, 1)[0].lower() if text else "%"
        if word == "@data":
            return relation, tuple(attributes.items())
        if word == "@relation":
            relation = text[len(word) :].strip().strip("'\"")
        elif not word.startswith("%"):
            try:
                name, values = _attribute(text)
                if name in attributes:
                    raise ValueError(f"the name {quote(name)} was used before")
            except ValueError as error:
                raise InputError(f"{path}: line {number}: {error}.") from error
            attributes[name] = values
    raise InputError(f"{path}: is not an ARFF file: there is no line @data.")


def _attribute(text: str) -> tuple[str, tuple[str, ...] | None]:
    """Name and values of an attribute, as in `Attributes`."""
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise ValueError(
            f"expected @attribute, a name and a type, or @relation or @data, found {quote(text)}"
        )
    name, kind = _unquoted(match), match["type"].strip()
    if kind.startswith("{"):
        inner, brace, _ = kind[1:].rpartition("}")
        values = tuple(_split_cells(inner))
        if not brace or not all(values) or len(set(values)) < len(values):
            raise ValueError(f"expected distinct values between braces, found {quote(kind)}")
        return name, values
    word = (kind.split() or [""])[0].lower()
    if word not in _TYPES:
        raise ValueError(
            f"the type of {quote(name)} is {quote(kind)}. Known are {', '.join(_TYPES)}, {{...}}"
        )
    return name, None if word in ("string", "date") else ()


def _label_positions(
    path: Path, relation: str, attributes: Attributes, config: DataConfig
) -> tuple[Sequence[int], str]:
    """Positions of the attributes that are labels, and what says so: the settings, Mulan's XML file next to
    the data, or MEKA's option -C in the name of the relation."""
    count = len(attributes)
    stem = re.sub(r"[-_](train|test)$", "", path.stem, flags=re.IGNORECASE)  # the files of a split share one
    files = [path.with_suffix(".xml"), path.with_name(f"{stem}.xml")]
    xml, option = next(filter(is_file, files), None), _LABELS.search(relation)
    positions: Sequence[int]
    if xml and not config.label_columns:
        source = xml.name
        own = {name: position for position, (name, _) in enumerate(attributes)}
        # Nested labels are labels, too.
        labels = (each for each in parse_xml(xml, MAX_XML).iter() if each.tag.rpartition(":")[2] == "label")
        names = {name for each in labels if (name := each.get("name")) is not None}
        if unknown := sorted(names.difference(own)):
            raise InputError(f"{xml}: {quote(unknown[0])} is not an attribute of {path.name}.")
        positions = sorted(own[name] for name in names)
    elif config.label_columns or option:
        source = "data.label_columns" if config.label_columns else "-C in @relation"
        number = config.label_columns or int(option[1] if option else 0)
        positions = range(number) if number > 0 else range(count + number, count)
    else:
        raise InputError(
            f"{path}: ambiguous which attributes are labels: there is neither {files[0].name} in the same "
            "folder, as in Mulan, nor -C in @relation, as in MEKA. Pass data.label_columns=N if the first "
            "N are labels, or -N if the last N are."
        )
    if not 0 < len(positions) < count:
        raise InputError(
            f"{path}: {source} makes {len(positions):,} of {count:,} attributes labels, but some must be "
            "labels and some features."
        )
    return positions, source


def _training_rows(
    path: Path, relation: str, attributes: Attributes, columns: Sequence[_Column], rows: _Rows
) -> tuple[int, list[str]]:
    """Number of training rows, and a note on the split; adds the rows of NAME-test.arff if that exists.

    By the options of MEKA, -split-percentage or else -split-number, the training rows come first.
    """
    count = len(rows.ends) - 1
    partner = path.with_name(f"{path.stem[:-6]}-test{path.suffix}")
    if path.stem.lower().endswith("-train") and is_file(partner):
        lines = enumerate(read_lines(partner), start=1)
        if _read_header(partner, lines)[1] != attributes:
            raise InputError(f"{partner}: its attributes differ from those of {path.name}.")
        _read_rows(partner, lines, columns, rows)
        return count, [f"the test rows are those of {partner.name}."]
    if percentage := _PERCENTAGE.search(relation):
        stated = math.floor(count * float(percentage[1]) / 100 + 0.5)
    elif number := _NUMBER.search(relation):
        stated = int(number[1])
    else:
        return count, []
    if 0 < stated < count:
        return stated, [f"the first {stated:,} rows are for training, as @relation says."]
    text = f"@relation says that the first {stated:,} of {count:,} rows are for training"
    return count, [f"{text}, which leaves none for another part; there is no split."]


def _columns(attributes: Attributes, positions: Sequence[int]) -> tuple[list[_Column], tuple[str, ...]]:
    columns: list[_Column] = []
    names: list[str] = []
    labels = {position: column for column, position in enumerate(positions)}
    for position, (name, values) in enumerate(attributes):
        label, first = position in labels, values[0] if values else ""
        start = labels.get(position, -1 if values is None else len(labels) + len(names))
        binary = values is not None and {*values} == {"0", "1"}
        codes = {value: code for code, value in enumerate(("0", "1") if binary else values or ())}
        omitted = first if first and (MARKS[first] if label else codes[first]) else ""
        columns.append(_Column(name, label, start, codes, omitted))
        if not label and values is not None:
            names += [f"{name}={value}" for value in values[1:]] if values and not binary else [name]
    return columns, tuple(names)


def _read_rows(path: Path, lines: Iterator[tuple[int, str]], columns: Sequence[_Column], rows: _Rows) -> None:
    omitted = {position: column.omitted for position, column in enumerate(columns) if column.omitted}
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        try:
            if text.startswith("{"):
                _add_cells({**omitted, **_sparse_cells(text, len(columns))}.items(), columns, rows)
            else:
                cells = _split_cells(text)
                if len(cells) != len(columns):
                    raise ValueError(f"{len(cells):,} cells, but there are {len(columns):,} attributes")
                _add_cells(enumerate(cells), columns, rows)
        except ValueError as error:
            raise InputError(f"{path}: line {number}: {error}.") from error
        rows.ends.append(len(rows.columns))


def _add_cells(cells: Iterable[tuple[int, str]], columns: Sequence[_Column], rows: _Rows) -> None:
    """Add the nonzero ones of some cells, each with the position of its attribute."""
    for position, cell in cells:
        name, label, start, codes, _ = columns[position]
        value: float
        if label:
            value = MARKS[cell]
            if value in (BAD, PLUS, DASH) or not cell or (codes and value != BLANK and cell not in codes):
                raise ValueError(f"the label {quote(name)} is {quote(cell)}, not 0, 1 or ?")
        elif start < 0:
            continue
        elif cell == "?":
            raise ValueError(f"{quote(name)} is missing (?), but every feature must have a value: fill it in")
        elif codes:
            if cell not in codes:
                raise ValueError(f"{quote(name)} is {quote(cell)}, which @attribute does not list")
            start, value = start + codes[cell] - 1, 1 if codes[cell] else 0
        else:
            try:
                value = float(cell)
            except ValueError:
                raise ValueError(f"{quote(name)} is {quote(cell)}, not a number") from None
        if value:
            rows.columns.append(start)
            rows.values.append(value)


def _sparse_cells(text: str, count: int) -> dict[int, str]:
    """Cells of a row between braces, by the positions of their attributes, of which there are `count`."""
    if not text.endswith("}"):
        raise ValueError("a row that begins with { must end with }")
    inner, start = text[1:-1].rstrip(), 0
    cells: dict[int, str] = {}
    while start < len(inner):
        match = _ENTRY.match(inner, start)
        if match is None or not (cell := _unquoted(match)):
            raise ValueError(f"expected the number of an attribute and its value at character {start + 2}")
        if (position := int(match["position"])) in cells or position >= count:
            raise ValueError(
                f"attribute {position} occurs twice or is not below {count:,} (the first attribute is 0)"
            )
        cells[position] = cell
        start = match.end()
    return cells


def _split_cells(text: str) -> list[str]:
    """Split a line at its commas, or at blanks if it has no comma, and remove quotes."""
    if "'" not in text and '"' not in text:
        return [cell.strip() for cell in text.split(",")] if "," in text else text.split()
    cells, position, last = [], 0, False
    while not last:
        match = _CELL.match(text, position)
        if match is None:
            raise ValueError(f"a quote that is not closed, or within a cell, at character {position + 1}")
        cells.append(_unquoted(match))
        position, last = match.end(), not match["end"]
    return cells


def _unquoted(match: re.Match[str]) -> str:
    if match["plain"] is not None:
        return match["plain"].strip()
    return re.sub(r"\\(.)", r"\1", match["single"] or match["double"] or "")
