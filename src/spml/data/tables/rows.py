"""From the rows of a table to samples and their labels: images that it names, or texts that it holds."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

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
from .cells import Column, Rules, label_cells
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
        rows = Rows(table, Columns(find_file(table, "", root)), root, DataConfig())
    except InputError as error:
        message, _, options = str(error).partition(" Pass data.file_column=")
        if options:  # which a list of files to predict does not have
            raise InputError(f"{message} Rename the one that names the images to `file`.") from error
        raise InputError(message.replace("data.images", "`images`")) from error
    return tuple(rows.written), rows.inputs


def read_texts(table: Table, stated: str) -> tuple[Sequence[str], Texts, tuple[str, ...]]:
    """Read the texts of a table to predict, in the columns that `stated` names.

    Returns:
        Names of the samples, their texts, and notes on what was left out.
    """
    config = DataConfig(text=stated)
    rows = Rows(table, Columns(find_id(table), text=find_text(table, stated)), Path(), config)
    filled, _, notes = _split_by_text(rows.names, rows.inputs, str(table.path))
    return take(rows.names, filled), rows.inputs.take(filled), notes


def read_rows(table: Table, root: Path, config: DataConfig) -> Records:
    """Read a table that has been opened, whose files are relative to `root`."""
    path, columns = table.path, find_columns(table, config, root)
    rows, classes, labels, notes = (_read_names if columns.labels else _read_marks)(
        table, columns, root, config
    )
    records = Records(
        source=str(path),
        name=path.stem if path.stem != "labels" else path.resolve().parent.name,
        ids=rows.names,
        inputs=rows.inputs,
        classes=classes,
        classes_given=not columns.labels,
        labels=labels,
        split=rows.splits,
        groups=rows.groups,
        notes=(*table.notes, *columns.notes, *notes, *rows.notes),
    )
    if not columns.text:
        return records
    filled, empty, notes = _split_by_text(records.ids, rows.inputs, records.source)
    left_out = tuple((name, NO_TEXT) for name in empty)
    taken = take_rows(records, filled)
    return replace(taken, notes=(*records.notes, *notes), skipped=(*records.skipped, *left_out))


# -- samples ---------------------------------------------------------------------------------------------


class Rows:
    """Rows of a table, and the samples that they name or hold, in the order in which these first occur.

    Files are relative to `root`. A name without the suffix of an image stands for the one file with it. A
    text is what some columns hold, one below the other. It has the name in the column `Columns.file`, of
    which several rows may have the same one, with the same text; without that column each row is a sample,
    named by its number.

    Args:
        table, columns, root, config: As in `read_rows`.
        further: Columns whose cells `add` receives, in blocks of rows.
        add: Called with the cells of these columns.
    """

    inputs: Any  # paths of the images, or texts
    names: Sequence[str]  # paths relative to `root`, or names of the texts
    written: Sequence[str]  # names as they are first written in the table
    splits: tuple[str, ...] | None  # split of each sample; None if the table has no such column
    groups: tuple[str, ...] | None  # group of each sample, likewise; empty where the cell is blank
    of_row: IntArray  # sample of each row
    first: IntArray  # first row of each sample
    repeats: IntArray  # rows that name a sample which an earlier row names
    notes: Sequence[str]  # on samples with several rows

    def __init__(
        self,
        table: Table,
        columns: Columns,
        root: Path,
        config: DataConfig,
        further: Sequence[int] = (),
        add: Callable[[Sequence[Sequence[Any]]], object] = lambda cells: None,
    ) -> None:
        self.table, self.columns = table, columns
        self._numbers, texts, named = array("q"), list[str](), Column()
        split = columns.split if config.split == "given" else -1
        about = {k: Column() for k in (split, columns.group) if k >= 0}
        own = [*columns.text, *(k for k in (columns.file, columns.folder) if k >= 0)]
        for block in table.blocks([*own, *about, *further]):
            self._numbers.extend(block.numbers)
            cells = iter(block.cells)
            if columns.text:
                texts += map(join_cells, zip(*islice(cells, len(columns.text)), strict=True))
            of_block: Sequence[object] = next(cells) if columns.file >= 0 else block.numbers
            if columns.folder >= 0:
                pairs = zip(map(text, of_block), map(text, next(cells)), strict=True)
                of_block = [name and f"{folder}/{name}".lstrip("/") for name, folder in pairs]
            named.extend(of_block)
            for column in about.values():
                column.extend(next(cells))
            add([*cells])
        if not self._numbers:
            raise InputError(f"{table.path}: has no rows. {EXPECTED}, then one row per image.")
        self.written, self.of_row, self.first = named.values, named.codes, named.first
        if columns.text:
            self.names = self.written
            if columns.file < 0:
                self.names = RowNames(np.array(self.written, np.int64))
            if "" in self.names:
                where = self.where(int(self.first[self.names.index("")]))
                raise InputError(f"{where}: the name of the sample is empty. Fill it in.")
            self.inputs = Texts.of(agreed(texts, self.of_row, self.first, "text", self.both))
        else:
            self._locate(root, config)
        self.repeats = np.flatnonzero(self.first[self.of_row] != np.arange(len(self.of_row)))
        self.splits = self._split(about[split]) if split in about else None
        self.groups = None
        if columns.group in about:
            cells_of_groups = about[columns.group]
            self.groups = self._agreed(group_names(cells_of_groups.values), cells_of_groups, "group")
        self.notes = []
        if len(self.repeats):
            count = len(np.unique(self.of_row[self.repeats]))
            examples = [
                f"{self.names[image]} (rows {self._numbers[self.first[image]]} and {self._numbers[row]})"
                for row, image in zip(self.repeats[:3], self.of_row[self.repeats[:3]], strict=True)
            ]
            self.notes = [
                f"{table.path.name}: {counted(count, 'file has', 'files have')} several rows, whose"
                f" labels were merged, such as {', '.join(examples)}."
            ]

    def where(self, *rows: int) -> str:
        """The table and the numbers of one or two rows, for messages."""
        return self.table.where(*(self._numbers[row] for row in rows))

    def both(self, first: int, second: int) -> str:
        """The beginning of a message on two rows of one sample."""
        return f"{self.where(first, second)} both name {quote(self.names[self.of_row[first]])}"

    def contradiction(self, first: int, second: int, name: str) -> InputError:
        """Error of two rows of one image, of which one says that it has a class and the other that not."""
        rows = self.both(*sorted((first, second)))
        return InputError(f"{rows}, but contradict each other about {name!r}. Correct one of them.")

    def _locate(self, root: Path, config: DataConfig) -> None:
        """Find the images that the written names stand for."""
        names = self.written
        if not all(are_listed(root, names)):
            folder = self.columns.folder
            if folder >= 0 and not any(is_file(root / name.replace("\\", "/")) for name in names):
                raise InputError(
                    f"{self.where(0)}: there is no file {quote(names[0])} in {shown(root)}. The folder "
                    f"of each file is that of the column {quote(self.table.names[folder])}: pass data.images "
                    "with the folder that these paths begin in."
                )
            # An id may lack the suffix of the file.
            whole = (not name or name[name.rfind(".") :].lower() in SUFFIXES for name in names)
            options = [
                (name, *(() if has_suffix else map(name.__add__, IMAGE_SUFFIXES)))
                for name, has_suffix in zip(names, whole, strict=True)
            ]
            located = locate_names(root, options, lambda k: self.where(self.first[k]), config.missing)
            image: dict[str, int] = {}
            codes = (image.setdefault(name, len(image)) for name in located)
            of_written = np.fromiter(codes, np.int64, len(located))
            earliest = np.unique(of_written, return_index=True)[1]
            self.of_row, self.first = of_written[self.of_row], self.first[earliest]
            self.written, names = [names[k] for k in earliest.tolist()], [*image]
        self.names = PackedNames.of(names)
        self.inputs = FilesBelow(root, self.names)

    def _split(self, cells: Column) -> tuple[str, ...]:
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
        return self._agreed(names, cells, "split")

    def _agreed(self, meanings: Sequence[str], cells: Column, what: str) -> tuple[str, ...]:
        """What the rows of each sample say, where the distinct cells of a column mean `meanings`."""
        values = [meanings[code] for code in cells.codes.tolist()]
        return agreed(values, self.of_row, self.first, what, self.both)


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


_Content = tuple[Rows, tuple[str, ...], ObservedLabels, Sequence[str]]
"""Rows of a table, classes, labels of each sample, and how these were understood."""


def _read_marks(table: Table, columns: Columns, root: Path, config: DataConfig) -> _Content:
    """Read columns that stand for one class each."""
    limit, blocks = config.present_above, list[npt.NDArray[np.int8]]()

    def code(cell: Any) -> int:
        value = number(cell)
        return MARKS[cell] if limit is None or value is None else int(value > limit)

    def add(cells: Sequence[Sequence[Any]]) -> None:
        mark = MARKS.__getitem__ if limit is None else code
        blocks.append(np.array([array("b", map(mark, column)) for column in cells], np.int8))

    rows = Rows(table, columns, root, config, columns.marks, add)
    codes = np.concatenate(blocks, axis=1)
    if len(bad := np.flatnonzero((codes == BAD).any(axis=1))):
        raise bad_cells(table, columns.marks[bad[0]])
    if (codes == BLANK).all():
        raise InputError(
            f"{table.path}: no row has a label: the columns of classes are blank: "
            f"{shorten(table.names[k] for k in columns.marks)}."
        )
    classes = tuple(class_name(table.names[k], str(table.path)) for k in columns.marks)
    occurring = np.unique(codes).tolist()
    zero, blank, sentence = meaning(occurring, config.default_label, str(table.path))
    dash = zero if PLUS in occurring else blank
    values = np.array([zero, 1, blank, 0, 1, dash, -1], np.int8)  # by code; -1 is the last one
    stand = counted(len(classes), "column stands", "columns stand")
    above = "" if limit is None else f" A number above {limit:g} is 1, another one 0."
    note = f"{table.path.name}: {stand} for a class ({shorten(classes)}): {sentence}{above}"
    ternary = values[codes.T]
    if len(rows.repeats):  # an image has the labels that any of its rows knows
        order = np.argsort(rows.of_row, kind="stable")
        starts = np.unique(rows.of_row[order], return_index=True)[1]
        largest, smallest = (
            extreme.reduceat(ternary[order], starts, axis=0) for extreme in (np.maximum, np.minimum)
        )
        for image, column in np.argwhere((largest == 1) & (smallest == -1)).tolist():
            signs = np.where(rows.of_row == image, ternary[:, column], 0).tolist()
            raise rows.contradiction(signs.index(1), signs.index(-1), classes[column])
        ternary = np.where(largest == 1, largest, smallest)
    return rows, classes, ObservedLabels.from_ternary(ternary), [note]


def _read_names(table: Table, columns: Columns, root: Path, config: DataConfig) -> _Content:
    """Read the columns that hold class names, and a column that says whether each is present."""
    count, has_presence = len(columns.labels), columns.presence >= 0
    cells, present_cells = Column(), Column()  # `cells`: those of all columns of labels, row by row

    def add(block: Sequence[Sequence[Any]]) -> None:
        cells.extend(block[0] if count == 1 else [*chain.from_iterable(zip(*block[:count], strict=True))])
        present_cells.extend(block[-1] if has_presence else ())

    further = [*columns.labels, *([columns.presence] if has_presence else [])]
    rows = Rows(table, columns, root, config, further, add)
    named = [table.names[k] for k in columns.labels]
    rules = Rules(
        separator=config.separator,
        plural=any(map(is_plural, named)),
        stated=bool(config.label_column),
        keep=wanted_names(config),
        marks=config.marks,
        one_hot=tuple(listed_names(config.one_hot)),
    )
    source = f"{table.path.name}: column{'s' * (count > 1)} {', '.join(map(quote, named))}"
    labels = label_cells(cells, source, lambda cell: rows.where(cell // count), rules)
    classes = labels.classes
    if len(labels.unread) and config.unlabelled == "stop":
        raise InputError(
            f"{labels.notes[-1]} Correct it, or pass data.unlabelled=skip to leave such rows out."
        )
    if not classes:
        unread = f" {labels.notes[-1]}" if len(labels.unread) else ""
        beside = "".join(f" {note}" for note in columns.notes if "not used" in note)
        raise InputError(f"{table.path}: no row has a label.{unread} At least one row must have one.{beside}")
    (present, column), (absent, lacks), (doubted, unsure) = (
        (cell // count, of)
        for cell, of in map(partial(labels.entries, classes), (labels.names, labels.absent, labels.doubtful))
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
    return rows, classes, observed, notes


def _presence(rows: Rows, cells: Column) -> npt.NDArray[np.int64]:
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


def _check_repeats(row: IntArray, column: IntArray, rows: Rows, classes: Sequence[str]) -> None:
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
