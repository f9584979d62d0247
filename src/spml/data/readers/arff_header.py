"""Header of an ARFF file: its attributes, and which of them are labels."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from ...config import DataConfig
from ...errors import InputError
from ..safe import is_file, shown
from .marks import BAD, MARKS

MAX_XML = 1 << 26  # bytes
_QUOTED = r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+(?:{_QUOTED}|([^\s,{{}}'\"]+))\s*(.*)", re.IGNORECASE | re.DOTALL)
_CELL = re.compile(rf"\s*(?:{_QUOTED}|([^,'\"]*))\s*(,|$)")
_LABELS = re.compile(r"(?:^|\s)-C\s+([+-]?\d{1,9})(?:\s|$)")
_NUMBER = re.compile(r"(?:^|\s)-split-number\s+(\d{1,9})(?:\s|$)")
_PERCENTAGE = re.compile(r"(?:^|\s)-split-percentage\s+(\d{1,3}(?:\.\d{1,9})?)(?:\s|$)")


class Attribute(NamedTuple):
    """One column.

    Attributes:
        name: of the column.
        values: what a nominal attribute may be; empty if it is numeric; None if it is neither.
    """

    name: str
    values: tuple[str, ...] | None


class Header(NamedTuple):
    """What stands before @data.

    Attributes:
        relation: the name of the relation, in which MEKA keeps options.
        attributes: the columns.
    """

    relation: str
    attributes: tuple[Attribute, ...]

    def training(self, count: int) -> int | None:
        """How many of `count` rows, from the first on, MEKA's options make training rows.

        They are -split-percentage, of which halves are rounded up, or else -split-number.
        """
        if found := _PERCENTAGE.search(self.relation):
            return math.floor(count * float(found[1]) / 100 + 0.5)
        found = _NUMBER.search(self.relation)
        return int(found[1]) if found else None


def split_cells(text: str) -> list[str]:
    """The cells of a line between commas, without quotes and blanks around them.

    Raises:
        ValueError: a quote that does not end, or that is within a cell.
    """
    if "'" not in text and '"' not in text:
        # Where there is no comma, blanks separate.
        return [cell.strip() for cell in text.split(",")] if "," in text else text.split()
    cells, place, ended = [], 0, False
    while not ended:
        match = _CELL.match(text, place)
        if match is None:
            raise ValueError(f"a quote that is not closed, or within a cell, at character {place + 1}")
        cells.append(_unquoted(match))
        place, ended = match.end(), not match[4]
    return cells


def unescaped(text: str) -> str:
    """What was between quotes."""
    return re.sub(r"\\(.)", r"\1", text)


def read_header(path: Path, lines: Iterator[tuple[int, str]]) -> Header:
    """Read up to the line @data.

    Raises:
        InputError: a line that is no part of a header, no @data, two attributes of one name.
    """
    relation = ""
    attributes: list[Attribute] = []
    for number, line in lines:
        text = line.strip()
        word = text[:10].split(None, 1)[0].lower() if text else "%"
        if word.startswith("%"):
            continue
        if word == "@relation":
            relation = text[len(word) :].strip().strip("'\"")
        elif word == "@attribute":
            attributes.append(_attribute(f"{path}: line {number}", text))
        elif word == "@data":
            break
        else:
            raise InputError(
                f"{path}: line {number}: expected @relation, @attribute or @data, found {shown(text)}."
            )
    else:
        raise InputError(f"{path}: is no ARFF file: there is no line @data.")
    names = [attribute.name for attribute in attributes]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(f"{path}: two attributes have the name {shown(twice)}.")
    return Header(relation, tuple(attributes))


def label_places(path: Path, header: Header, config: DataConfig) -> tuple[list[int], str]:
    """Which attributes are labels, and what says so.

    `config.label_columns` comes first, then the XML file that Mulan keeps beside, then MEKA's option -C in
    the name of the relation.

    Raises:
        InputError: nothing says it; more labels than attributes; one that is no attribute, or not binary.
    """
    xml = next((file for file in _xml_files(path) if is_file(file)), None)
    option = _LABELS.search(header.relation)
    if config.label_columns:
        what = "data.label_columns"
        places = _counted(path, config.label_columns, len(header.attributes), what)
    elif xml:
        what = xml.name
        places = _named(path, xml, [attribute.name for attribute in header.attributes])
    elif option:
        what = "-C in @relation"
        places = _counted(path, int(option[1]), len(header.attributes), what)
    else:
        raise InputError(
            f"{path}: it can't be told which attributes are labels: there is neither "
            f"{_xml_files(path)[0].name} beside it, as Mulan has, nor -C in @relation, as MEKA has. Say "
            "--data.label_columns N if the first N are, or -N if the last N are."
        )
    for place in places:
        name, values = header.attributes[place]
        if values is None or any(MARKS[value] == BAD for value in values):
            raise InputError(
                f"{path}: the attribute {shown(name)} is a label, as {what} says, but its values are "
                f"{shown(', '.join(values)) if values else 'text'}, not 0 and 1."
            )
    return places, what


def _counted(path: Path, number: int, count: int, what: str) -> list[int]:
    """The first or last attributes."""
    if not 0 < abs(number) < count:
        raise InputError(
            f"{path}: {what} is {number}, but there are {count:,} attributes, of which some must be labels "
            "and some features."
        )
    return list(range(number) if number > 0 else range(count + number, count))


def _named(path: Path, xml: Path, names: Sequence[str]) -> list[int]:
    """The attributes that a list of Mulan names."""
    position = {name: place for place, name in enumerate(names)}
    listed = _listed(xml)
    if not 0 < len(set(listed)) < len(names):
        raise InputError(
            f"{xml}: lists {len(set(listed)):,} labels, but {path.name} has {len(names):,} attributes, of "
            "which some must be labels and some features."
        )
    for name in listed:
        if name not in position:
            raise InputError(f"{xml}: {shown(name)} is no attribute of {path.name}.")
    return sorted({position[name] for name in listed})


def _unquoted(match: re.Match[str]) -> str:
    """A cell or a name: of the first three groups, one has it, the first two between quotes."""
    quoted = match[1] if match[1] is not None else match[2]
    return match[3].strip() if quoted is None else unescaped(quoted)


def _attribute(where: str, text: str) -> Attribute:
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise InputError(f"{where}: expected @attribute, a name and a type, found {shown(text)}.")
    name, kind = _unquoted(match), match[4].strip()
    if kind.startswith("{"):
        inner, brace, _ = kind[1:].rpartition("}")
        try:
            values = tuple(split_cells(inner))
        except ValueError as error:
            raise InputError(f"{where}: {error}.") from error
        if not brace or not all(values) or len(set(values)) < len(values):
            raise InputError(f"{where}: expected distinct values between braces, found {shown(kind)}.")
        return Attribute(name, values)
    word = (kind.split() or [""])[0].lower()
    if word in ("numeric", "real", "integer"):
        return Attribute(name, ())
    if word in ("string", "date"):
        return Attribute(name, None)
    raise InputError(
        f"{where}: the type of {shown(name)} is {shown(kind)}. Known are numeric, real, integer, values "
        "between braces, string and date."
    )


def _xml_files(path: Path) -> Sequence[Path]:
    """Where Mulan keeps the names of the labels; the files of a split share one."""
    stem = re.sub(r"[-_](train|test)$", "", path.stem, flags=re.IGNORECASE)
    return [path.with_suffix(".xml"), path.with_name(f"{stem}.xml")]


def _listed(path: Path) -> list[str]:
    """The names of all elements `label`, in order; nothing of the file is kept beside."""
    names: list[str] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(":")[2] == "label" and "name" in attributes:
            names.append(attributes["name"])

    def refuse(*_: object) -> None:
        raise InputError(f"{path}: has a document type or entities, which a list of labels does not need.")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        if path.stat().st_size > MAX_XML:
            raise InputError(f"{path}: is larger than {MAX_XML:,} bytes, which no list of labels is.")
        with open(path, "rb") as stream:
            parser.ParseFile(stream)
    except expat.ExpatError as error:
        raise InputError(f"{path}: is no valid XML: {error}.") from error
    except (OSError, LookupError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: can't be read: {error}.") from error
    return names
