"""From the rows of a table to samples and their labels: images that it names, or texts that it holds."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...common.documents import class_name
from ...common.errors import InputError
from ...common.phrases import counted, first_few, shorten
from ...common.safe import is_file, quote, shown
from ...config import DataConfig
from ...labels import IntArray, ObservedLabels
from ..files import IMAGE_SUFFIXES, are_listed, images_folder, locate_names
from ..groups import agreed, group_names
from ..images.image_files import SUFFIXES
from ..names import FilesBelow, PackedNames, RowNames, take
from ..records import Records, in_both, label_entries, take_rows
from ..rename import wanted_names
from ..splits import SPELLINGS, split_name
from ..texts import Texts
from ..values import BAD, BLANK, MARKS, PLUS, meaning, number, presence, text
from .cells import CellLabels, Column, Rules, label_cells
from .columns import Columns, bad_cells, find_columns, find_file, find_id, find_text
from .formats import Table, open_table
from .names import EXPECTED, PRESENT_COLUMNS, canonical, is_plural, listed_names, names_files

NO_TEXT = "no text"
"""Reason why a sample is left out that is an empty text."""


def read_table(path: Path, config: DataConfig) -> Records:
    """Read a CSV, TSV, JSON Lines or Parquet file; files are relative to its folder or to `config.images`.

    Labels are in columns of names, of which `label_cells` reads the cells, or in a column per class
    (`values.MARKS`). The labels in all rows of an image are merged.
    """
    return read_rows(open_table(path, config.file_column), images_folder(config) or path.parent, config)


def read_file_list(path: Path, images: str | None) -> tuple[Sequence[str], FilesBelow]:
    """Read the files that a table names, for prediction: the names as written, each once, and the files.

    Names are relative to the folder `images`, or to that of the table if that is None.
    """
    table = open_table(path)
    root = path.parent if images is None else Path(images)
    if not root.is_dir():
        raise InputError(f"`images`: {quote(str(root))} is not a folder.")
    if not names_files(table.names):
        raise InputError(
            f"{path}: the header has no column `file` (or `filename`, `image`, `path`, `id`); found: "
            f"{shorten(table.names)}. Rename the column that names the images to `file`."
        )
    try:
        rows = ImageRows(table, Columns(find_file(table, "", root)), root, DataConfig())
        rows.read_columns([])
    except InputError as error:
        message, _, options = str(error).partition(" Pass data.file_column=")
        if options:  # which a list of files to predict does not have
            raise InputError(f"{message} Rename the one that names the images to `file`.") from error
        raise InputError(message.replace("data.images", "`images`")) from error
    _, first = np.unique(rows.image_of_written, return_index=True)
    return tuple(rows.written[position] for position in first.tolist()), rows.inputs


def read_texts(table: Table, stated: str) -> tuple[Sequence[str], Texts, tuple[str, ...]]:
    """Read the texts of a table to predict, in the columns that `stated` names.

    Returns:
        Names of the samples, their texts, and notes on what was left out.
    """
    config = DataConfig(text=stated)
    rows = TextRows(table, Columns(find_id(table), text=find_text(table, stated)), Path(), config)
    rows.read_columns([])
    filled, _, notes = _split_by_text(rows.names, rows.inputs, str(table.path))
    return take(rows.names, filled), rows.inputs.take(filled), notes


def read_rows(table: Table, root: Path, config: DataConfig) -> Records:
    """Read a table that has been opened, whose files are relative to `root`."""
    path, columns = table.path, find_columns(table, config, root)
    rows = (TextRows if columns.text else ImageRows)(table, columns, root, config)
    content = _read_names(rows) if columns.labels else _read_marks(rows)
    records = Records(
        source=str(path),
        name=path.stem if path.stem != "labels" else path.resolve().parent.name,
        ids=rows.names,
        inputs=rows.inputs,
        classes=content.classes,
        classes_given=not columns.labels,
        labels=content.labels,
        split=rows.splits,
        groups=rows.groups,
        notes=(
            *table.notes,
            *columns.notes,
            *content.notes,
            *rows.notes(),
        ),
    )
    if not columns.text:
        return records
    filled, empty, notes = _split_by_text(records.ids, rows.inputs, records.source)
    left_out = tuple((name, NO_TEXT) for name in empty)
    taken = take_rows(records, filled)
    return replace(taken, notes=(*records.notes, *notes), skipped=(*records.skipped, *left_out))


# -- samples ---------------------------------------------------------------------------------------------


class ImageRows:
    """Rows of a table and the images that they name, in the order in which these first occur.

    Files are relative to `root`. A name without the suffix of an image stands for the one file with it.
    """

    inputs: Any  # paths of the images. This and the following are known once `read` has come to its end
    names: Sequence[str]  # the same relative to `root`
    written: Sequence[str]  # the different names as they are written in the table
    image_of_written: IntArray  # image that each of them names
    splits: tuple[str, ...] | None  # split of each image; None if the table has no such column
    groups: tuple[str, ...] | None  # name of the group of each image, likewise; empty where the cell is blank
    of_row: IntArray  # image of each row
    first: IntArray  # first row of each image
    repeats: IntArray  # rows that name an image which an earlier row names

    def __init__(self, table: Table, columns: Columns, root: Path, config: DataConfig) -> None:
        self.table, self.columns, self.config, self._root = table, columns, config, root
        self._numbers = array("q")
        self._named = Column()

    @property
    def _own(self) -> list[int]:
        """Columns that say what the samples are."""
        return [self.columns.file, *([self.columns.folder] if self.columns.folder >= 0 else [])]

    def _collect(self, numbers: Sequence[int], cells: Sequence[Sequence[Any]]) -> None:
        """Take in the cells of these columns, of some rows with these numbers."""
        if len(cells) == 2:
            pairs = zip(map(text, cells[0]), map(text, cells[1]), strict=True)
            self._named.extend([name and f"{folder}/{name}".lstrip("/") for name, folder in pairs])
        else:
            self._named.extend(cells[0])

    def read(self, columns: Sequence[int]) -> Iterator[Sequence[Sequence[Any]]]:
        """Read the table, and yield the cells of further columns in blocks of rows."""
        own, split = self._own, self.columns.split if self.config.split == "given" else -1
        about = {k: Column() for k in (split, self.columns.group) if k >= 0}
        known = len(own) + len(about)
        for block in self.table.blocks([*own, *about, *columns]):
            self._numbers.extend(block.numbers)
            self._collect(block.numbers, block.cells[: len(own)])
            for column, cells in zip(about.values(), block.cells[len(own) : known], strict=True):
                column.extend(cells)
            yield block.cells[known:]
        if not self._numbers:
            raise InputError(f"{self.table.path}: has no rows. {EXPECTED}, then one row per image.")
        self._find_samples()
        self.repeats = np.flatnonzero(self.first[self.of_row] != np.arange(len(self.of_row)))
        self.splits = self._read_splits(about[split]) if split in about else None
        self.groups = self._read_groups(about[self.columns.group]) if self.columns.group in about else None

    def read_columns(self, columns: Sequence[int]) -> list[Column]:
        """Read the table, and return further columns."""
        found = [Column() for _ in columns]
        for cells in self.read(columns):
            for column, some in zip(found, cells, strict=True):
                column.extend(some)
        return found

    def where(self, *rows: int) -> str:
        """The table and the numbers of one or two rows, for messages."""
        return self.table.where(*(self._numbers[row] for row in rows))

    def both(self, first: int, second: int) -> str:
        """The beginning of a message on two rows of one image."""
        return f"{self.where(first, second)} both name {quote(self.names[self.of_row[first]])}"

    def contradiction(self, first: int, second: int, name: str) -> InputError:
        """Error of two rows of one image, of which one says that it has a class and the other that not."""
        rows = self.both(*sorted((first, second)))
        return InputError(f"{rows}, but contradict each other about {name!r}. Correct one of them.")

    def notes(self) -> list[str]:
        """Notes on images with several rows."""
        notes = []
        if len(self.repeats):
            count = len(np.unique(self.of_row[self.repeats]))
            numbers, first = self._numbers, self.first
            examples = [
                f"{self.names[image]} (rows {numbers[first[image]]} and {numbers[row]})"
                for row, image in zip(self.repeats[:3], self.of_row[self.repeats[:3]], strict=True)
            ]
            notes.append(
                f"{self.table.path.name}: {counted(count, 'file has', 'files have')} several rows, whose"
                f" labels were merged, such as {', '.join(examples)}."
            )
        return notes

    def _find_samples(self) -> None:
        self.written = names = self._named.values
        self.of_row, self.first = self._named.codes, self._named.first
        self.image_of_written = np.arange(len(names))
        if not all(are_listed(self._root, names)):
            folder = self.columns.folder
            if folder >= 0 and not any(is_file(self._root / name.replace("\\", "/")) for name in names):
                raise InputError(
                    f"{self.where(0)}: there is no file {quote(names[0])} in {shown(self._root)}. The folder "
                    f"of each file is that of the column {quote(self.table.names[folder])}: pass data.images "
                    "with the folder that these paths begin in."
                )
            # An id may lack the suffix of the file.
            whole = (not name or name[name.rfind(".") :].lower() in SUFFIXES for name in names)
            options = [
                (name, *(() if has_suffix else map(name.__add__, IMAGE_SUFFIXES)))
                for name, has_suffix in zip(names, whole, strict=True)
            ]
            located = locate_names(
                self._root, options, lambda k: self.where(self.first[k]), self.config.missing
            )
            image: dict[str, int] = {}
            codes = (image.setdefault(name, len(image)) for name in located)
            self.image_of_written = np.fromiter(codes, np.int64, len(located))
            self.of_row = self.image_of_written[self.of_row]
            self.first = self.first[np.unique(self.image_of_written, return_index=True)[1]]
            names = [*image]
        self.names = PackedNames.of(names)
        self.inputs = FilesBelow(self._root, self.names)

    def _read_splits(self, cells: Column) -> tuple[str, ...]:
        if self.columns.split_if:
            other = "test" if self.columns.split_if == "train" else "train"
            names = [{1: self.columns.split_if, 0: other}.get(MARKS[cell], "") for cell in cells.values]
        else:
            names = [split_name(cell) or "" for cell in cells.values]
        if "" in names:
            code = names.index("")
            raise InputError(
                f"{self.where(cells.first[code])}: the split is {quote(cells.values[code])}, but must be "
                f"one of {', '.join(SPELLINGS)}. Fill it in for every row, remove the column, or pass "
                "data.split=ignore."
            )
        return self._agreed([names[code] for code in cells.codes.tolist()], "split")

    def _read_groups(self, cells: Column) -> tuple[str, ...]:
        names = group_names(cells.values)
        return self._agreed([names[code] for code in cells.codes.tolist()], "group")

    def _agreed(self, values: Sequence[str], what: str) -> tuple[str, ...]:
        """What the rows of each sample say."""
        return agreed(values, self.of_row, self.first, what, self.both)


class TextRows(ImageRows):
    """Rows of a table and the texts that they hold: those of some columns, one below the other.

    A sample has the name in the column `Columns.file`, of which several rows may have the same one, with the
    same text; without that column each row is a sample, named by its number.
    """

    def __init__(self, table: Table, columns: Columns, root: Path, config: DataConfig) -> None:
        super().__init__(table, columns, root, config)
        self._texts: list[str] = []

    @property
    def _own(self) -> list[int]:
        return [*self.columns.text, *([self.columns.file] if self.columns.file >= 0 else [])]

    def _collect(self, numbers: Sequence[int], cells: Sequence[Sequence[Any]]) -> None:
        parts = cells[: len(self.columns.text)]
        self._texts += map(join_cells, zip(*parts, strict=True))
        self._named.extend(cells[-1] if self.columns.file >= 0 else numbers)

    def _find_samples(self) -> None:
        self.of_row, self.first = self._named.codes, self._named.first
        named = self._named.values
        self.names = named if self.columns.file >= 0 else RowNames(np.array(named, np.int64))
        if "" in self.names:
            where = self.where(int(self.first[self.names.index("")]))
            raise InputError(f"{where}: the name of the sample is empty. Fill it in.")
        self.inputs = Texts.of(self._agreed(self._texts, "text"))
        self._texts = []


def join_cells(cells: Iterable[object]) -> str:
    """Text of a sample: what its cells hold, one below the other."""
    return "\n".join(filter(None, map(text, cells)))


def _split_by_text(
    names: Sequence[str], texts: Texts, source: str
) -> tuple[npt.NDArray[np.int64], list[str], tuple[str, ...]]:
    """Rows whose text is not empty, names of the others, and a note on these."""
    filled = np.array([bool(each.strip()) for each in texts], bool)
    if not filled.any():
        raise InputError(f"{source}: every text is empty. Name other columns (data.text).")
    empty = [names[row] for row in np.flatnonzero(~filled).tolist()]
    shown = first_few([*map(quote, empty)], 3)
    notes = (f"{counted(len(empty), 'sample')} without text left out: {shown}.",) if empty else ()
    return np.flatnonzero(filled), empty, notes


# -- labels ----------------------------------------------------------------------------------------------


class _Content(NamedTuple):
    classes: tuple[str, ...]
    labels: ObservedLabels  # of each image
    notes: Sequence[str]  # how the labels were understood


def _read_marks(rows: ImageRows) -> _Content:
    """Read columns that stand for one class each."""
    table, columns, limit = rows.table, rows.columns.marks, rows.config.present_above

    def code(cell: Any) -> int:
        value = number(cell)
        return MARKS[cell] if limit is None or value is None else int(value > limit)

    mark = MARKS.__getitem__ if limit is None else code
    blocks = [
        np.array([array("b", map(mark, cells)) for cells in block], np.int8) for block in rows.read(columns)
    ]
    codes = np.concatenate(blocks, axis=1)
    if len(bad := np.flatnonzero((codes == BAD).any(axis=1))):
        raise bad_cells(table, columns[bad[0]])
    if (codes == BLANK).all():
        raise InputError(
            f"{table.path}: no row has a label: the columns of classes are blank: "
            f"{shorten(table.names[k] for k in columns)}."
        )
    classes = tuple(class_name(table.names[k], str(table.path)) for k in columns)
    occurring = np.unique(codes).tolist()
    zero, blank, sentence = meaning(occurring, rows.config.default_label, str(table.path))
    dash = zero if PLUS in occurring else blank
    values = np.array([zero, 1, blank, 0, 1, dash, -1], np.int8)  # by code; -1 is the last one
    stand = counted(len(classes), "column stands", "columns stand")
    above = "" if limit is None else f" A number above {limit:g} is 1, another one 0."
    note = f"{table.path.name}: {stand} for a class ({shorten(classes)}): {sentence}{above}"
    ternary = _merge(values[codes.T], rows, classes)
    return _Content(classes, ObservedLabels.from_ternary(ternary), [note])


def _merge(ternary: npt.NDArray[np.int8], rows: ImageRows, classes: Sequence[str]) -> npt.NDArray[np.int8]:
    """Labels of each image: those that any of its rows knows."""
    if not len(rows.repeats):
        return ternary
    order = np.argsort(rows.of_row, kind="stable")
    starts = np.unique(rows.of_row[order], return_index=True)[1]
    largest, smallest = (
        extreme.reduceat(ternary[order], starts, axis=0) for extreme in (np.maximum, np.minimum)
    )
    for image, column in np.argwhere((largest == 1) & (smallest == -1)).tolist():
        values = np.where(rows.of_row == image, ternary[:, column], 0).tolist()
        raise rows.contradiction(values.index(1), values.index(-1), classes[column])
    return np.where(largest == 1, largest, smallest)


def _read_names(rows: ImageRows) -> _Content:
    """Read the columns that hold class names, and a column that says whether each is present."""
    table, columns, config = rows.table, rows.columns, rows.config
    count, has_presence = len(columns.labels), columns.presence >= 0
    cells, present_cells = Column(), Column()  # `cells`: those of all columns of labels, row by row
    for block in rows.read([*columns.labels, *([columns.presence] if has_presence else [])]):
        cells.extend(block[0] if count == 1 else [*chain.from_iterable(zip(*block[:count], strict=True))])
        present_cells.extend(block[-1] if has_presence else ())
    labels = _cell_labels(rows, columns.labels, cells, lambda cell: rows.where(cell // count))
    classes = labels.classes
    if len(labels.unread) and config.unlabelled == "stop":
        raise InputError(
            f"{labels.notes[-1]} Correct it, or pass data.unlabelled=skip to leave such rows out."
        )
    if not classes:
        unread = f" {labels.notes[-1]}" if len(labels.unread) else ""
        beside = "".join(f" {note}" for note in columns.notes if "not used" in note)
        raise InputError(f"{table.path}: no row has a label.{unread} At least one row must have one.{beside}")
    known = {*classes}
    doubtful = [tuple(name for name in names if name in known) for names in labels.doubtful]
    (present, column), (absent, lacks), (doubted, unsure) = (
        (cell // count, of)
        for cell, of in (labels.entries(classes, some) for some in (labels.names, labels.absent, doubtful))
    )
    if labels.several and config.default_label == "negative":
        _check_repeats(present, column, rows, classes)
    notes = labels.notes
    says_so = has_presence and canonical(table.names[columns.presence]) in PRESENT_COLUMNS
    if has_presence and not len(rows.repeats) and not says_so:  # it may say anything of its image
        name = quote(table.names[columns.presence])
        notes = [*notes, f"{table.path.name}: columns that are not used: {name} (no file has several rows)."]
    elif has_presence:
        marks = _presence(rows, present_cells)
        no, yes = marks[present] == 0, marks[present] == 1
        absent, lacks = np.append(absent, present[no]), np.append(lacks, column[no])
        present, column = present[yes], column[yes]
        says = "says whether the label of a row is present (1) or absent (0)"
        notes = [*notes, f"{table.path.name}: {quote(table.names[columns.presence])} {says}."]
    positive, negative = (rows.of_row[present], column), (rows.of_row[absent], lacks)
    if both := in_both(positive, negative):
        image, k = both
        one, other = (
            int(row[(rows.of_row[row] == image) & (of == k)][0])
            for row, of in ((present, column), (absent, lacks))
        )
        raise rows.contradiction(one, other, classes[k])
    images = np.unique(rows.of_row[labels.unread // count])
    unknown = (
        np.append(rows.of_row[doubted], np.repeat(images, len(classes))),
        np.append(unsure, np.tile(np.arange(len(classes)), len(images))),
    )
    shape = len(rows.names), len(classes)
    observed = label_entries(positive, shape, config.default_label, negative=negative, unknown=unknown)
    return _Content(classes, observed, notes)


def _presence(rows: ImageRows, cells: Column) -> npt.NDArray[np.int64]:
    """Whether the label of each row is present: 1, 0, or `BLANK` where it is not known."""
    marks = presence(cells.values)
    for code, mark in enumerate(marks):
        if mark not in (0, 1, BLANK):
            name, cell = quote(rows.table.names[rows.columns.presence]), quote(cells.values[code])
            raise InputError(
                f"{rows.where(cells.first[code])}: the column {name} holds {cell}, but 1 and 0 in other "
                "rows, as if it said whether the label of a row is present. Correct the cell; if the column "
                "means something else, rename or remove it."
            )
    return np.array(marks)[cells.codes]


def _cell_labels(
    rows: ImageRows, columns: Sequence[int], cells: Column, where: Callable[[int], str]
) -> CellLabels:
    """Labels in columns."""
    config, names = rows.config, [rows.table.names[k] for k in columns]
    column = "column" if len(names) == 1 else "columns"
    rules = Rules(
        separator=config.separator,
        plural=any(map(is_plural, names)),
        stated=bool(config.label_column),
        keep=wanted_names(config),
        marks=config.marks,
        one_hot=tuple(listed_names(config.one_hot)),
    )
    return label_cells(
        cells, f"{rows.table.path.name}: {column} {', '.join(map(quote, names))}", where, rules
    )


def _check_repeats(row: IntArray, column: IntArray, rows: ImageRows, classes: Sequence[str]) -> None:
    """Check that all rows of an image have the same names."""
    from scipy.sparse import csr_matrix

    named = csr_matrix((np.ones(len(row), bool), (row, column)), (len(rows.of_row), len(classes)))
    first = rows.first[rows.of_row[rows.repeats]]
    for k in np.flatnonzero((named[first] != named[rows.repeats]).getnnz(axis=1))[:1].tolist():
        one, other = int(first[k]), int(rows.repeats[k])
        both = [classes[c] for c in (named[one] + named[other]).indices.tolist()]
        raise InputError(
            f"{rows.both(one, other)}, with different labels, but data.unlisted=negative says that each row "
            f"lists all of them. Write one row: {';'.join(sorted(both))[:200]}"
        )
