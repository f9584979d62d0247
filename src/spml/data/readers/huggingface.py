"""Hugging Face data sets on disk, as `Dataset.save_to_disk` writes them, read with pyarrow alone.

Images are not copied: each sample refers to its bytes in an .arrow file. The package `datasets` is not used:
it would decode or copy the images, and has no limits on compressed data.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from ...common.documents import class_name, class_names, convert, load_json
from ...common.errors import InputError
from ...common.phrases import shorten
from ...common.safe import inside, is_file, quote
from ...config import DataConfig
from ...labels import ObservedLabels
from ..groups import group_names
from ..images.image_files import FilePart
from ..records import Records, without_unlabelled
from ..splits import SPELLINGS, split_name
from ..tables.columns import find_stated
from ..tables.formats import cells, readable, require_pyarrow
from ..tables.names import LABEL_COLUMNS
from . import Source, register_reader

SPLITS, INFO, STATE = "dataset_dict.json", "dataset_info.json", "state.json"
_LISTS = ("Sequence", "List", "LargeList")


class _Splits(msgspec.Struct):  # dataset_dict.json
    splits: list[str]


class _DataFile(msgspec.Struct):
    filename: str


class _State(msgspec.Struct):  # what is read of state.json
    data_files: list[_DataFile] = msgspec.field(name="_data_files")
    indices_files: list[Any] | None = msgspec.field(name="_indices_data_files", default=None)


class _Info(msgspec.Struct):  # what is read of dataset_info.json
    features: dict[str, Any]


class _ClassLabel(msgspec.Struct):
    names: list[str]


class _Column(NamedTuple):
    kind: str  # `Image`, `ClassLabel`, `string`, or empty for any other type
    several: bool = False  # whether each cell is a list
    classes: tuple[str, ...] = ()  # of a ClassLabel


class _Chosen(NamedTuple):
    image: str  # name of a column, as are the next two
    label: str
    group: str  # empty if there are no groups
    labels: _Column  # type of the column `label`


def is_huggingface(source: Source) -> bool:
    """Whether a source is a folder that `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote."""
    path = source.path
    return source.is_folder and (is_file(path / SPLITS) or (is_file(path / INFO) and is_file(path / STATE)))


@register_reader("huggingface", "a Hugging Face data set", recognises=is_huggingface, priority=2)
def read_huggingface(path: Path, config: DataConfig) -> Records:
    """Read a folder that holds one data set, or one per split.

    The image is in the only column of the type Image, or in `image`; the labels are in `labels` or `label`,
    or in the only column of the type ClassLabel or a list of it. A label is an index of a ClassLabel, or a
    name. The labels of a row whose cell is missing or the index -1 are unknown; if `config.default_label` is
    negative, `config.unlabelled` says what becomes of the row. `config.group` names a column of text or
    numbers.
    """
    require_pyarrow(path)
    parts = _parts(path)
    chosen, unused = _choose(parts[0][1], config) if parts else (None, [])
    ids: list[str] = []
    split: list[str] = []
    images: list[FilePart] = []
    labels: list[list[str] | None] = []
    groups: list[object] = []
    for name, folder in parts:
        if _choose(folder, config)[0] != chosen:
            raise InputError(
                f"{folder / INFO}: its image and label columns or classes differ from those of "
                f"{parts[0][1] / INFO}. Give all splits the same features."
            )
        for file in _files(folder):
            start = len(images)
            for found, label_cells, group_cells in _read_file(file, chosen):
                for row, cell in enumerate(label_cells, len(images) - start):
                    labels.append(_names(cell, chosen.labels.classes, f"{file}: row {row} (counted from 0)"))
                images += found
                groups += group_cells
        rows = range(len(images) - len(ids))
        ids += [f"{name}/{row}" if name else str(row) for row in rows]
        split += [split_name(name) or "" for _ in rows]
    if chosen is None or not images:
        raise InputError(f"{path}: has no rows.")
    listed = chosen.labels.classes
    classes = listed or tuple(sorted({name for names in labels for name in names or ()}))
    if not classes:
        raise InputError(f"{path}: no sample has a label in the column {chosen.label!r}.")
    what = "several labels" if chosen.labels.several else "one label"
    notes = [f"{path.name}: images are in the column {chosen.image!r}, {what} in {chosen.label!r}."]
    if unused:
        notes.append(f"{path.name}: unused columns: {shorten(unused)}.")
    records = Records(
        source=str(path),
        name=path.resolve().name,
        ids=tuple(ids),
        inputs=tuple(images),
        classes=classes,
        classes_given=bool(listed),
        labels=ObservedLabels.from_names(
            [names or () for names in labels], classes, unlisted=config.default_label
        ),
        split=tuple(split) if parts[0][0] else None,
        groups=group_names(groups) if config.group else None,
        notes=tuple(notes),
    )
    # A missing cell differs from an empty list, which says that no class applies.
    absent = [row for row, names in enumerate(labels) if names is None]
    return without_unlabelled(records, absent if config.default_label == "negative" else [], config)


def _parts(path: Path) -> list[tuple[str, Path]]:
    """Name and folder of each split; a data set without splits is one part with an empty name."""
    file = path / SPLITS
    if not is_file(file):
        return [("", path)]
    names = dict.fromkeys(load_json(file, _Splits).splits)
    if wrong := [name for name in names if split_name(name) is None]:
        raise InputError(
            f"{file}: the split {quote(wrong[0])} is none of {', '.join(SPELLINGS)}. Remove it from the "
            "DatasetDict or rename it, and save again."
        )
    return [(name, inside(path, name, str(file))) for name in names]


def _files(folder: Path) -> list[Path]:
    where = str(folder / STATE)
    state = load_json(folder / STATE, _State)
    if state.indices_files:
        raise InputError(
            f"{where}: rows were selected or shuffled, and not written in that order. Call "
            "dataset.flatten_indices() and save again."
        )
    files = [inside(folder, file.filename, where) for file in state.data_files]
    if missing := [file for file in files if not is_file(file)]:
        raise InputError(f"{where}: there is no file {quote(missing[0].name)}. Copy the whole folder.")
    return files


def _choose(folder: Path, config: DataConfig) -> tuple[_Chosen, list[str]]:
    """Columns of the images, labels and groups, and the names of the other ones."""
    where, stated = str(folder / INFO), {}
    features = load_json(folder / INFO, _Info).features
    columns = {name: _column(feature, f"{where}: {quote(name)}") for name, feature in features.items()}
    for setting in ("file_column", "label_column", "group"):
        if name := getattr(config, setting):
            stated[setting] = [*columns][find_stated([*columns], name, setting, where)]
    found = f"found: {shorten(columns) or 'no column'}"
    images = [name for name, column in columns.items() if column.kind == "Image"]
    image = stated.get("file_column", images[0] if len(images) == 1 else "image")
    if image not in images:
        raise InputError(
            f"{where}: expected one column of the type Image; {found}. If there are several, pass "
            "data.file_column with one of them."
        )
    indices = [name for name, column in columns.items() if column.kind == "ClassLabel"]
    usable = [name for name, column in columns.items() if column.kind in ("ClassLabel", "string")]
    certain, likely = ([name for name in usable if name in known] for known in LABEL_COLUMNS)
    labels = [stated["label_column"]] if "label_column" in stated else certain
    if len(labels) != 1:
        labels = indices or certain or likely
    if len(labels) != 1 or labels[0] not in usable:
        raise InputError(
            f"{where}: expected the labels in one column of names, or of the type ClassLabel or a list of "
            f"it, called `labels` or `label`; {found}. Pass data.label_column with one of them. Cast indices "
            "to ClassLabel, and 0 and 1 per class to a list of ClassLabel, and save again."
        )
    label, group = labels[0], stated.get("group", "")
    if group and (columns[group].several or columns[group].kind == "Image"):
        raise InputError(
            f"{where}: data.group: the column {quote(group)} holds lists or images. Name one that holds a "
            "text or a number for each sample."
        )
    unused = [name for name in columns if name not in (image, label, group)]
    return _Chosen(image, label, group, columns[label]), unused


def _column(feature: Any, where: str) -> _Column:
    """Type of a column; one that was stated as [TYPE] is written so."""
    several = False
    if type(feature) is list and len(feature) == 1:
        several, feature = True, feature[0]
    elif type(feature) is dict and feature.get("_type") in _LISTS:
        several, feature = True, feature.get("feature")
    kind = feature.get("_type") if type(feature) is dict else None
    if kind == "ClassLabel":
        classes = tuple(class_names(convert(feature, _ClassLabel, where).names, f"{where}.names"))
        if not classes or len(set(classes)) < len(classes):
            raise InputError(f"{where}: expected at least one class name, and distinct ones.")
        return _Column("ClassLabel", several, classes)
    if kind == "Value" and feature.get("dtype") in ("string", "large_string"):
        return _Column("string", several)
    return _Column("Image" if kind == "Image" and not several else "", several)


def _read_file(file: Path, chosen: _Chosen) -> Iterator[tuple[list[FilePart], list[Any], list[Any]]]:
    """Images of a file and the cells of its labels and groups, batch by batch.

    The file is not copied, and compressed data is refused, so memory is bounded by the size of the file.
    """
    import pyarrow as pa
    from pyarrow import ipc

    row, again = 0, " Save the data set again."
    with readable(file, "an Arrow stream", again), pa.memory_map(str(file)) as source:
        whole = source.read_buffer()
        for number, message in enumerate(ipc.MessageReader.open_stream(pa.BufferReader(whole))):
            if number and (message.type != "record batch" or _compressed(message.metadata.to_pybytes())):
                raise InputError(
                    f"{file}: holds compressed data or dictionaries, which `datasets` never writes. Save "
                    "the data set again."
                )
        schema = ipc.open_stream(pa.BufferReader(whole)).schema
        names = (chosen.image, chosen.label, *filter(None, [chosen.group]))
        columns = [schema.get_field_index(name) for name in names]
        if -1 in columns:
            missing = names[columns.index(-1)]
            raise InputError(f"{file}: has no column {missing!r}, or has it twice.")
        options = ipc.IpcReadOptions(included_fields=columns, use_threads=False)
        for batch in ipc.open_stream(pa.BufferReader(whole), options=options):
            images = _image_parts(batch.column(chosen.image), whole, file, row)
            groups = cells(batch.column(chosen.group)) if chosen.group else []
            yield images, cells(batch.column(chosen.label)), groups
            row += len(batch)


def _compressed(metadata: bytes) -> bool:
    """Whether the buffers of a record batch are compressed, which pyarrow can't tell without unpacking them.

    The metadata is a FlatBuffer: a table Message, whose third field is a table RecordBatch, whose fourth
    field is the compression.
    """

    def number(kind: str, position: int) -> int:
        return int(struct.unpack_from(kind, metadata, position)[0])

    def field(table: int, position: int) -> int:
        """Offset of a field of a table; 0 if the table lacks it."""
        fields = table - number("<i", table)
        offset = number("<H", fields + 4 + 2 * position) if number("<H", fields) >= 6 + 2 * position else 0
        return table + offset if offset else 0

    batch = field(number("<I", 0), 2)
    return field(batch + number("<I", batch), 3) > 0


def _image_parts(column: Any, whole: Any, file: Path, first: int) -> list[FilePart]:
    """Part of the file that holds the image of each row."""
    from pyarrow import types

    column.validate(full=True)
    kind = column.type
    position = kind.get_field_index("bytes") if types.is_struct(kind) else -1
    encoded = column.flatten()[position] if position >= 0 else None
    if encoded is None or not (types.is_binary(encoded.type) or types.is_large_binary(encoded.type)):
        raise InputError(f"{file}: the image column holds {str(kind)[:100]}, not encoded images.")
    if encoded.null_count:
        row = first + encoded.is_null().to_pylist().index(True)
        raise InputError(
            f"{file}: row {row} (counted from 0) holds no image. If the column holds names of files, load "
            "and save the data set again with `datasets`, which then writes the images themselves."
        )
    if not len(encoded):
        return []
    _, offsets, data = encoded.buffers()
    width = np.int64 if types.is_large_binary(encoded.type) else np.int32
    ends: npt.NDArray[Any] = np.frombuffer(offsets, width)[encoded.offset : encoded.offset + len(encoded) + 1]
    start = (data.address - whole.address if data else 0) + ends.astype(np.int64)
    if start.min() < 0 or start.max() > whole.size:
        raise InputError(f"{file}: images lie outside the file. Save the data set again.")
    name = str(file)
    return [
        FilePart(name, begin, end - begin)
        for begin, end in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]


def _names(cell: Any, classes: Sequence[str], where: str) -> list[str] | None:
    """Class names in a cell of the label column; None if its labels are unknown."""
    values = cell if isinstance(cell, list) else [] if cell is None else [cell]
    if cell is None or (values == [-1] and classes) or cell == "":
        return None
    if not classes:
        return [class_name(name, where) for name in convert(values, list[str], where)]
    for value in values:
        if type(value) is not int or not 0 <= value < len(classes):
            raise InputError(
                f"{where}: the label {quote(value)} is not an index of the {len(classes):,} classes."
            )
    return [classes[value] for value in values]
