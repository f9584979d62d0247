"""Header of an ARFF file: its attributes, and which of them are labels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ...config import DataConfig
from ...errors import InputError
from ..safe import is_file, quote
from ..tables.marks import BAD, COUNT, MARKS
from .documents import parse_xml

MAX_XML = 1 << 24  # bytes
_QUOTED = r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+(?:{_QUOTED}|([^\s,{{}}'\"]+))\s*(.*)", re.IGNORECASE | re.DOTALL)
_CELL = re.compile(rf"\s*(?:{_QUOTED}|([^,'\"]*))\s*(,|$)")
_LABELS = re.compile(r"(?:^|\s)-C\s+([+-]?\d{1,9})(?:\s|$)")
_TYPES = ("numeric", "real", "integer", "string", "date")
_NUMBER = re.compile(r"(?:^|\s)-split-number\s+(\d{1,9})(?:\s|$)")
_PERCENTAGE = re.compile(r"(?:^|\s)-split-percentage\s+(\d{1,3}(?:\.\d{1,9})?)(?:\s|$)")


class Attribute(NamedTuple):
    """One column.

    Attributes:
        name: Name of the column.
        values: Values of a nominal attribute; empty if it is numeric; None if it is a string or a date.
    """

    name: str
    values: tuple[str, ...] | None


class Header(NamedTuple):
    """Everything before @data.

    Attributes:
        relation: Name of the relation, which holds the options of MEKA.
        attributes: All columns.
    """

    relation: str
    attributes: tuple[Attribute, ...]

    def training_rows(self, count: int) -> int | None:
        """Number of training rows, which come first, by MEKA's options; None without such an option.

        The options are -split-percentage, of which halves are rounded up, or else -split-number.
        """
        if percentage := _PERCENTAGE.search(self.relation):
            return math.floor(count * float(percentage[1]) / 100 + 0.5)
        number = _NUMBER.search(self.relation)
        return int(number[1]) if number else None


def unescape(text: str) -> str:
    """Replace the escape sequences of a quoted cell."""
    return re.sub(r"\\(.)", r"\1", text)


def split_cells(text: str) -> list[str]:
    """Split a line at its commas, or at blanks if it has no comma, and remove quotes.

    Raises:
        ValueError: A quote is not closed, or lies within a cell.
    """
    if "'" not in text and '"' not in text:
        return [cell.strip() for cell in text.split(",")] if "," in text else text.split()
    cells, position, last = [], 0, False
    while not last:
        match = _CELL.match(text, position)
        if match is None:
            raise ValueError(f"a quote that is not closed, or within a cell, at character {position + 1}")
        cells.append(_unquoted(match))
        position, last = match.end(), not match[4]
    return cells


def read_header(path: Path, lines: Iterator[tuple[int, str]]) -> Header:
    """Read the lines up to @data.

    Raises:
        InputError: A line is not part of a header, there is no @data, or two attributes have the same name.
    """
    relation = ""
    attributes: dict[str, Attribute] = {}
    for number, line in lines:
        text = line.strip()
        word = text[:10].split(None, 1)[0].lower() if text else "%"
        if word == "@data":
            return Header(relation, tuple(attributes.values()))
        if word == "@relation":
            relation = text[len(word) :].strip().strip("'\"")
        elif not word.startswith("%"):
            try:
                attribute = _attribute(text)
                if attributes.setdefault(attribute.name, attribute) is not attribute:
                    raise ValueError(f"the name {quote(attribute.name)} was used before")
            except ValueError as error:
                raise InputError(f"{path}: line {number}: {error}.") from error
    raise InputError(f"{path}: is not an ARFF file: there is no line @data.")


def label_positions(path: Path, header: Header, config: DataConfig) -> tuple[Sequence[int], str]:
    """Positions of the attributes that are labels, and the source of this information.

    `config.label_columns` comes first, then Mulan's XML file next to the data, then MEKA's option -C in the
    name of the relation.

    Raises:
        InputError: There is no such source, it makes all or no attributes labels or names an unknown one, or
            a label is not binary.
    """
    count = len(header.attributes)
    xml = next((file for file in _xml_files(path) if is_file(file)), None)
    option = _LABELS.search(header.relation)
    positions: Sequence[int]
    if config.label_columns:
        positions, source = _first_or_last(config.label_columns, count), "data.label_columns"
    elif xml:
        positions, source = _named(path, xml, header), xml.name
    elif option:
        positions, source = _first_or_last(int(option[1]), count), "-C in @relation"
    else:
        raise InputError(
            f"{path}: ambiguous which attributes are labels: there is neither {_xml_files(path)[0].name} in "
            "the same folder, as in Mulan, nor -C in @relation, as in MEKA. Pass --data.label_columns N if "
            "the first N are labels, or -N if the last N are."
        )
    if not 0 < len(positions) < count:
        raise InputError(
            f"{path}: {source} makes {len(positions):,} of {count:,} attributes labels, but some must be "
            "labels and some features."
        )
    for position in positions:
        name, values = header.attributes[position]
        if values is None or any(MARKS[value] in (BAD, COUNT) for value in values):
            raise InputError(
                f"{path}: the attribute {quote(name)} is a label, as {source} says, but its values are "
                f"{quote(', '.join(values)) if values else 'text'}, not 0 and 1."
            )
    return positions, source


def _first_or_last(number: int, count: int) -> Sequence[int]:
    return range(number) if number > 0 else range(count + number, count)


def _xml_files(path: Path) -> Sequence[Path]:
    """Possible names of Mulan's list of labels; the files of a split share one."""
    stem = re.sub(r"[-_](train|test)$", "", path.stem, flags=re.IGNORECASE)
    return [path.with_suffix(".xml"), path.with_name(f"{stem}.xml")]


def _named(path: Path, xml: Path, header: Header) -> Sequence[int]:
    """Positions of the attributes that a list of Mulan names, nested labels included."""
    positions = {attribute.name: position for position, attribute in enumerate(header.attributes)}
    root = parse_xml(xml, MAX_XML)
    labels = [element for element in root.iter() if element.tag.rpartition(":")[2] == "label"]
    names = {name for element in labels if (name := element.get("name")) is not None}
    if unknown := sorted(names.difference(positions)):
        raise InputError(f"{xml}: {quote(unknown[0])} is not an attribute of {path.name}.")
    return sorted(positions[name] for name in names)


def _unquoted(match: re.Match[str]) -> str:
    """A cell or name, which is in one of the first three groups: in quotes, double quotes, or plain."""
    quoted = match[1] if match[1] is not None else match[2]
    return match[3].strip() if quoted is None else unescape(quoted)


def _attribute(text: str) -> Attribute:
    if not text[:10].lower().startswith("@attribute"):
        raise ValueError(f"expected @relation, @attribute or @data, found {quote(text)}")
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise ValueError(f"expected @attribute, a name and a type, found {quote(text)}")
    name, kind = _unquoted(match), match[4].strip()
    if kind.startswith("{"):
        inner, brace, _ = kind[1:].rpartition("}")
        values = tuple(split_cells(inner))
        if not brace or not all(values) or len(set(values)) < len(values):
            raise ValueError(f"expected distinct values between braces, found {quote(kind)}")
        return Attribute(name, values)
    word = (kind.split() or [""])[0].lower()
    if word not in _TYPES:
        raise ValueError(
            f"the type of {quote(name)} is {quote(kind)}. Known are {', '.join(_TYPES)}, {{...}}"
        )
    return Attribute(name, None if word in ("string", "date") else ())
