"""ARFF files with several labels per row, as written by Mulan and MEKA, with dense or sparse rows.

The package `liac-arff` is not used: its messages name no attribute and no value, it cuts off the decimals of
integers, and it expands sparse rows if they may be mixed with dense ones.
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
_VALUE = rf"(?:{_QUOTED}|(?P<plain>[^,'\"]*))\s*(?P<end>,|$)"
_CELL = re.compile(rf"(?P<position>)\s*{_VALUE}")  # of a dense row
_ENTRY = re.compile(rf"\s*(?P<position>\d{{1,9}})\s+{_VALUE}")  # of a sparse one
_TYPES = ("numeric", "real", "integer", "string", "date")
_DENSE = 1 / 3  # share of nonzero entries above which a dense array is smaller

Attributes = dict[str, tuple[str, ...] | None]
"""Values of each nominal attribute by its name; empty for a number, and None for a string or a date."""


class _Column(NamedTuple):
    """Conversion of the cells of an attribute."""

    name: str
    label: bool
    start: int  # its (first) column in the matrix of all rows; -1 if it is not used
    codes: dict[str, int]  # of the values of a nominal attribute, else empty
    omitted: str  # its value in a sparse row that omits it; empty for 0, which it nearly always is


class _Rows(NamedTuple):
    """Nonzero entries of all rows as a CSR matrix stores them: marks of the labels, then the features."""

    values: array[float]
    columns: array[int]
    ends: array[int]


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
    rows = _Rows(array("f"), array("i"), array("q", [0]))  # a number too large for float32 becomes inf
    _read_rows(path, lines, columns, rows)
    training = count = len(rows.ends) - 1
    notes = [f"{len(positions):,} of {len(columns):,} attributes are labels, as {source} says."]
    partner = path.with_name(f"{path.stem[:-6]}-test{path.suffix}")
    if path.stem.lower().endswith("-train") and is_file(partner):
        lines = enumerate(read_lines(partner), start=1)
        if [*_read_header(partner, lines)[1].items()] != [*attributes.items()]:
            raise InputError(f"{partner}: its attributes differ from those of {path.name}.")
        _read_rows(partner, lines, columns, rows)
        count = len(rows.ends) - 1
        notes.append(f"the test rows are those of {partner.name}.")
    elif (stated := _stated_training_rows(relation, count)) is not None:
        text = f"the first {stated:,} rows are for training, as @relation says"
        training = stated if 0 < stated < count else count
        notes.append(
            f"{text}{'' if training < count else '; that leaves one part empty, so there is no split'}."
        )
    if not count or not names:
        raise InputError(f"{path}: has no {'feature' if count else 'row'}.")
    parts = tuple(np.frombuffer(part, part.typecode) for part in rows)
    matrix = csr_matrix(parts, shape=(count, len(positions) + len(names)))
    matrix.sort_indices()
    marks, features = matrix[:, : len(positions)], matrix[:, len(positions) :]
    dense = features.nnz > _DENSE * count * len(names)
    occurring = {*np.unique(marks.data).tolist(), *([0] if marks.nnz < math.prod(marks.shape) else [])}
    zero, blank, sentence = meaning(occurring, config.default_label, str(path))
    marks.data[marks.data == BLANK] = blank
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
    relation, attributes = "", Attributes()
    for number, line in lines:
        text = line.strip()
        word = text[:10].split(None, 1)[0].lower() if text else "%"
        if word == "@data":
            return relation, attributes
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


def _option(relation: str, name: str, decimals: str = "") -> float | None:
    """Number after an option of MEKA in the name of the relation; None if the option is not there."""
    match = re.search(rf"(?:^|\s)-{name}\s+([+-]?\d{{1,9}}{decimals})(?:\s|$)", relation)
    return float(match[1]) if match else None


def _label_positions(
    path: Path, relation: str, attributes: Attributes, config: DataConfig
) -> tuple[Sequence[int], str]:
    """Positions of the attributes that are labels, and what says so: the settings, Mulan's XML file next to
    the data, or MEKA's option -C in the name of the relation."""
    count, positions = len(attributes), list[int]()
    stem = re.sub(r"[-_](train|test)$", "", path.stem, flags=re.IGNORECASE)  # the files of a split share one
    files = [path.with_suffix(".xml"), path.with_name(f"{stem}.xml")]
    xml = next(filter(is_file, files), None)
    if xml and not config.label_columns:
        source = xml.name
        # Nested labels are labels, too.
        labels = (each for each in parse_xml(xml, MAX_XML).iter() if each.tag.rpartition("}")[2] == "label")
        names = {name for each in labels if (name := each.get("name")) is not None}
        if unknown := sorted(names.difference(attributes)):
            raise InputError(f"{xml}: {quote(unknown[0])} is not an attribute of {path.name}.")
        positions = [position for position, name in enumerate(attributes) if name in names]
    elif number := int(config.label_columns or _option(relation, "C") or 0):
        source = "data.label_columns" if config.label_columns else "-C in @relation"
        positions = [*(range(number) if number > 0 else range(count + number, count))]
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


def _stated_training_rows(relation: str, count: int) -> int | None:
    """Number of the first rows, which are for training, by the options of MEKA, which rounds halves up."""
    if (percentage := _option(relation, "split-percentage", r"(?:\.\d{1,9})?")) is not None:
        return math.floor(count * percentage / 100 + 0.5)
    return None if (number := _option(relation, "split-number")) is None else int(number)


def _columns(attributes: Attributes, positions: Sequence[int]) -> tuple[list[_Column], tuple[str, ...]]:
    """Conversion of each attribute, and names of the features."""
    columns: list[_Column] = []
    names: list[str] = []
    labels = {position: column for column, position in enumerate(positions)}
    for position, (name, values) in enumerate(attributes.items()):
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
    """Add the nonzero entries of the rows in some lines."""
    omitted = {position: column.omitted for position, column in enumerate(columns) if column.omitted}
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        try:
            for position, cell in _cells_of_row(text, omitted, len(columns)):
                name, label, start, codes, _ = columns[position]
                value: float
                if label:
                    value = MARKS[cell]
                    unlisted = codes and value != BLANK and cell not in codes
                    if value in (BAD, PLUS, DASH) or not cell or unlisted:
                        raise ValueError(f"the label {quote(name)} is {quote(cell)}, not 0, 1 or ?")
                elif start < 0:
                    continue
                elif cell == "?":
                    raise ValueError(f"{quote(name)} is missing (?), but every feature must have a value")
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
        except ValueError as error:
            raise InputError(f"{path}: line {number}: {error}.") from error
        rows.ends.append(len(rows.columns))


def _cells_of_row(text: str, omitted: dict[int, str], count: int) -> Iterable[tuple[int, str]]:
    """Cells of a row with the positions of their attributes, of which there are `count`; of a sparse row,
    which is between braces, with what is `omitted` there."""
    if not text.startswith("{"):
        if len(cells := _split_cells(text)) != count:
            raise ValueError(f"{len(cells):,} cells, but there are {count:,} attributes")
        return enumerate(cells)
    if not text.endswith("}"):
        raise ValueError("a row that begins with { must end with }")
    own: dict[int, str] = {}
    for number, cell in _matches(text[1:-1], _ENTRY) if text[1:-1].strip() else ():
        if (position := int(number)) in own or position >= count or not cell:
            raise ValueError(
                f"attribute {position} has no value, occurs twice or is not below {count:,} (the first "
                "attribute is 0)"
            )
        own[position] = cell
    return {**omitted, **own}.items()


def _split_cells(text: str) -> list[str]:
    """Split a line at its commas, or at blanks if it has no comma, and remove quotes."""
    if "'" not in text and '"' not in text:
        return [cell.strip() for cell in text.split(",")] if "," in text else text.split()
    return [cell for _, cell in _matches(text, _CELL)]


def _matches(text: str, pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Position, if it is stated, and value of each cell of a row."""
    start, end = 0, ","
    while end:
        match = pattern.match(text, start)
        if match is None:
            what = (
                "the number of an attribute and its value" if pattern is _ENTRY else "a cell, quotes closed"
            )
            raise ValueError(f"expected {what}, found {quote(text[start:])}")
        yield match["position"], _unquoted(match)
        start, end = match.end(), match["end"]


def _unquoted(match: re.Match[str]) -> str:
    if match["plain"] is not None:
        return match["plain"].strip()
    return re.sub(r"\\(.)", r"\1", match["single"] or match["double"] or "")
