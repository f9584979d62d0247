"""The folder that `spml audit` writes and `spml review` reads.

It holds `audit.json` (what was audited, and how), `missing.csv` (probable missing labels, the highest score
first), `wrong.csv` (given labels that look wrong) and `classes.csv` (a report on every class).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from ..common.documents import parse_json
from ..common.errors import InputError
from ..common.files import (
    check_json_sha256,
    make_folder,
    sha256_file,
    write_checked_json,
    write_rows,
)
from ..common.notebook import SHOWN, Listing
from ..common.phrases import counted, shorten
from ..common.safe import quote, read_bytes
from ..common.spreadsheets import unguarded
from ..config import DataConfig, from_dict
from ..data.hiding import check_observe, hide
from ..data.join import merge_unread
from ..data.readers import read
from ..data.records import Records
from ..data.tables.formats import read_rows
from ..labels import ObservedLabels
from ..version import __version__
from .questions import ClassSummary

FORMAT = 1
ABOUT, MISSING, WRONG, CLASSES = "audit.json", "missing.csv", "wrong.csv", "classes.csv"
BETWEEN_NAMES = "|"
"""Separates the given labels of a sample in `missing.csv`."""

_Count = Annotated[int, msgspec.Meta(ge=0)]
_Rank = Annotated[int, msgspec.Meta(ge=1)]
_PLACE = r"^((0|1|0\.\d+) (0|1|0\.\d+) (0|1|0\.\d+) (0|1|0\.\d+))?$"
_Probability = Annotated[float, msgspec.Meta(ge=0, le=1)]
Row = TypeVar("Row", bound=msgspec.Struct)


class MissingLabel(msgspec.Struct, frozen=True):
    """Label that a sample probably has although it is not given.

    Attributes:
        file: Name of the sample.
        given: Known positives of the sample, separated by `|`.
        label: Name of the class.
        probability: Probability that the sample has the label.
        rank: Place in the list; 1 = highest score.
        rank_in_class: Place among the entries of this class.
        where: Window of the image that speaks most for the label: left, top, width and height as shares of
            the image, separated by blanks. Empty where the run does not score windows.
        by_name: Whether its name is among the K best names of the image; empty where the run makes no use of
            names.
    """

    file: str
    given: str
    label: str
    probability: _Probability
    rank: _Rank
    rank_in_class: _Rank
    where: Annotated[str, msgspec.Meta(pattern=_PLACE)] = ""
    by_name: Literal["", "yes", "no"] = ""

    @property
    def window(self) -> tuple[float, ...]:
        """`where` as numbers; empty where there is none."""
        return tuple(map(float, self.where.split()))


class WrongLabel(msgspec.Struct, frozen=True):
    """Given label that looks wrong.

    Attributes:
        file: Name of the sample.
        label: Name of the class.
        confidence: Confidence in the label, as `rank_wrong_labels` computes it. It is no probability.
        rank: Place in the list; 1 = least confidence.
    """

    file: str
    label: str
    confidence: _Probability
    rank: _Rank


class About(msgspec.Struct, frozen=True):
    """Description of an audit: its data, settings and totals.

    Attributes:
        run: Folder of the run whose scores the audit used; empty if there was none.
        data: Settings of the data, as in `DataConfig`.
        fingerprint: SHA-256 of names, classes and observed labels of the data, from `fingerprint`.
        classes: Names of the classes, in the order of the label columns.
        mean_labels: Mean number of labels per sample, K.
        mean_labels_source: Whether K was stated, estimated from fully labelled rows, or follows from labels
            that are known in full.
        samples: Number of samples.
        unknown: Number of pairs of a sample and a class about which nothing is known.
        listed: Number of rows of `missing.csv`.
        expected: Number of them that are expected to be right: the sum of their probabilities.
        hidden: Number of labels that are expected to be missing in all.
        probable: Number of pairs that have a label with a probability above .5.
        warnings: What limits the trust in the numbers, one sentence each.
        how: How the scores were made, for people.
        spreadsheet_safe: Whether an earlier version put ' before names that a spreadsheet would run, which
            `read_audit` undoes.
    """

    run: str
    data: dict[str, Any]
    fingerprint: str
    classes: tuple[str, ...]
    mean_labels: Annotated[float, msgspec.Meta(gt=0)]
    mean_labels_source: Literal["stated", "audit", "labels"]
    samples: _Count
    unknown: _Count
    listed: _Count
    expected: Annotated[float, msgspec.Meta(ge=0)]
    warnings: tuple[str, ...]
    how: str
    hidden: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    probable: _Count = 0
    spreadsheet_safe: bool = False

    @property
    def config(self) -> DataConfig:
        """Settings of the data.

        Raises:
            InputError: A setting is unknown or has an impossible value.
        """
        return from_dict({"data": self.data}).data


class Audit(NamedTuple):
    """Content of the folder of an audit.

    Attributes:
        about: What was audited, and how.
        missing: Probable missing labels by rank.
        wrong: Given labels that look wrong by rank.
        classes: Report on every class.
    """

    about: About
    missing: list[MissingLabel]
    wrong: list[WrongLabel]
    classes: Sequence[ClassSummary] = ()

    def __repr__(self) -> str:
        return self._listing().text()

    def _repr_html_(self) -> str:
        return self._listing().html()

    def _listing(self) -> Listing:
        rows = [
            (row.file, row.given.replace(BETWEEN_NAMES, ", "), row.label, f"{row.probability:.2f}")
            for row in self.missing[:SHOWN]
        ]
        title = (
            f"Audit of {counted(self.about.samples, 'sample')}: {len(self.missing):,} probable missing "
            f"labels, of which {self.about.expected:,.0f} are expected to be right; {len(self.wrong):,} "
            "given labels to check"
        )
        headings = ("sample", "given", "missing", "probability")
        return Listing(title, headings, rows, len(self.missing) - len(rows))


class _Version(msgspec.Struct):
    """The part of `audit.json` that every version has."""

    format: int
    spml: str = "an unknown version"


def fingerprint(ids: Sequence[str], classes: Sequence[str], observed: ObservedLabels) -> str:
    """SHA-256 of the names of samples and classes, in their order, and of the observed labels."""
    parts = [list(ids), list(classes), observed.fingerprint()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def read_observed(config: DataConfig) -> Records:
    """Read the data that an audit is about: all samples, with labels hidden as `config.observe` says.

    Raises:
        InputError: The data can't be read, or its labels can't be hidden that way.
    """
    check_observe(config)
    records = merge_unread(read(config), config)
    if config.observe == "none":
        return records
    labels, _ = hide(records, config)
    return replace(records, labels=labels)


def data_settings(config: DataConfig) -> dict[str, Any]:
    """Settings for `About.data`, with absolute paths, so that an audit can be read from any folder."""
    path = config.path if config.path == "digits" else str(Path(config.path).absolute())
    images = None if config.images is None else str(Path(config.images).absolute())
    return asdict(replace(config, path=path, images=images))


def write_audit(folder: Path, audit: Audit) -> None:
    """Write an audit into a folder, which is made if it does not exist. An earlier audit is replaced.

    Raises:
        InputError: The folder can't be made.
        SpmlError: A file can't be written.
    """
    make_folder(folder)
    # Without audit.json, which comes last, a folder is not an audit: an interrupted one is never read.
    (folder / ABOUT).unlink(missing_ok=True)
    _write_rows(folder / MISSING, MissingLabel, audit.missing)
    _write_rows(folder / WRONG, WrongLabel, audit.wrong)
    _write_rows(folder / CLASSES, ClassSummary, audit.classes)
    about = {"format": FORMAT, "spml": __version__, **msgspec.to_builtins(audit.about)}
    about["spreadsheet_safe"] = False
    about["files"] = {name: sha256_file(folder / name) for name in (MISSING, WRONG, CLASSES)}
    write_checked_json(folder / ABOUT, about)


def _write_rows(path: Path, kind: type[msgspec.Struct], rows: Sequence[msgspec.Struct]) -> None:
    write_rows(path, kind.__struct_fields__, map(msgspec.structs.astuple, rows))


def read_audit(folder: Path) -> Audit:
    """Read the folder of an audit.

    Samples that rows name are not looked up in the data.

    Raises:
        InputError: There is no audit, a file is damaged or was written by a newer version, or a row names a
            class that the audit does not have.
    """
    path = folder / ABOUT
    if not path.is_file():
        inside = folder / "audit"
        advice = f"Did you mean {inside}?" if (inside / ABOUT).is_file() else "Run spml audit."
        raise InputError(f"{folder}: is not the folder of an audit, since it has no {ABOUT}. {advice}")
    try:
        text = read_bytes(path)
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error
    version = _decoded(path, text, _Version)
    if version.format > FORMAT:
        raise InputError(
            f"{path}: was written by a newer version of spml ({version.spml}; format {version.format}, this "
            f"one reads {FORMAT}). Update spml."
        )
    about = _decoded(path, text, About)
    missing = _read_rows(folder / MISSING, MissingLabel, about)
    if len(missing) != about.listed:
        raise InputError(
            f"{folder / MISSING}: has {len(missing):,} rows, but {ABOUT} says {about.listed:,}. Run spml "
            "audit again."
        )
    wrong = _read_rows(folder / WRONG, WrongLabel, about)
    classes = _read_rows(folder / CLASSES, ClassSummary, about)
    # Last, since the messages above say more.
    try:
        check_json_sha256(content := parse_json(text))
    except ValueError as error:
        raise InputError(f"{path}: is damaged ({error}). Run spml audit again.") from error
    digests = content.get("files", {})  # an earlier version states none
    for name in (MISSING, WRONG, CLASSES):
        if sha256_file(folder / name) != digests.get(name, sha256_file(folder / name)):
            raise InputError(
                f"{folder / name}: was changed, or is of another audit: it does not have the SHA-256 that "
                f"{ABOUT} states. Restore it, or run spml audit again."
            )
    return Audit(about, missing, wrong, classes)


def _decoded(path: Path, text: bytes, kind: type[Row]) -> Row:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is damaged ({error}). Run spml audit again.") from error


def _read_rows(path: Path, kind: type[Row], about: About) -> list[Row]:
    if not path.is_file():
        raise InputError(f"{path}: no such file. Run spml audit again.")
    columns, known = kind.__struct_fields__, set(about.classes)
    lines, rows = read_rows(path), list[Row]()
    _, header = next(lines, (1, []))
    if tuple(header) != columns:
        raise InputError(
            f"{path}: has the columns {shorten(header) or 'none'}; expected {', '.join(columns)}. "
            "Run spml audit again."
        )
    for number, cells in lines:
        where = f"{path}: row {number}"
        if len(cells) != len(columns):
            raise InputError(f"{where} has {len(cells):,} cells, but the header has {len(columns):,}.")
        if about.spreadsheet_safe:
            cells = [*map(unguarded, cells)]
        try:
            rows.append(msgspec.convert(dict(zip(columns, cells, strict=True)), kind, strict=False))
        except msgspec.ValidationError as error:
            raise InputError(f"{where}: {error}. Run spml audit again.") from error
        label = cells[columns.index("label")]
        if label not in known:
            raise InputError(f"{where}: the class {quote(label)} is not in {ABOUT}. Run spml audit again.")
    return rows
