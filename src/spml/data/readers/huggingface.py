"""Hugging Face data sets on disk, as `Dataset.save_to_disk` writes them, read with pyarrow alone.

The images stay where they are: each is a part of an .arrow file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels
from ..images import FilePart
from ..records import Records
from ..safe import inside, is_file, shown
from ..splits import SPELLINGS, split_name
from .arrow import cells, require_pyarrow
from .delimited import shorten
from .documents import LIST, OBJECT, TEXT, class_name, load_json, of_kind, optional, require
from .registry import register_reader

SPLITS, INFO, STATE = "dataset_dict.json", "dataset_info.json", "state.json"
_LISTS = ("Sequence", "List", "LargeList")
_RENAME = "Rename one with dataset.rename_column(OLD, 'labels') and save again"


@dataclass(frozen=True)
class _Features:
    """The columns that are used, and how the cells of the label column are meant."""

    image: str
    label: str
    several: bool
    classes: tuple[str, ...] | None  # None if the cells are names
    unused: tuple[str, ...]


def is_huggingface(path: Path) -> bool:
    """Whether a folder is what `Dataset.save_to_disk` or `DatasetDict.save_to_disk` writes."""
    return is_file(path / SPLITS) or (is_file(path / INFO) and is_file(path / STATE))


@register_reader(
    "huggingface",
    "a Hugging Face data set",
    recognises=lambda source: source.is_folder and is_huggingface(source.path),
    priority=2,
)
def read_huggingface(path: Path, config: DataConfig) -> Records:
    """Read a folder that holds one data set, or one per split.

    The image is in the only column of the type Image, or in `image`; the labels are in `labels` or `label`,
    or in the only column of the type ClassLabel or a list of it. A label is an index of a ClassLabel, or a
    name. Nothing is known of a row whose cell is missing or the index -1.

    Raises:
        InputError: pyarrow is missing, or anything that can't be understood; names file and row.
    """
    require_pyarrow(path)
    parts = _parts(path)
    images: list[FilePart] = []
    labels: list[list[Any] | None] = []
    ids: list[str] = []
    splits: list[str] = []
    features: _Features | None = None
    for name, folder in parts:
        before, features = features, _features(folder)
        if before not in (None, features):
            raise InputError(
                f"{folder / INFO}: its image and label columns or classes differ from those of "
                f"{parts[0][1] / INFO}. Give all splits the same features."
            )
        start = len(images)
        for file in _files(folder):
            for more_images, more_labels in _batches(file, features):
                images += more_images
                labels += more_labels
        ids += [f"{name}/{row}" if name else str(row) for row in range(len(images) - start)]
        splits += [split_name(name) or ""] * (len(images) - start)
    if features is None or not images:
        raise InputError(f"{path}: holds no sample.")
    if config.unlisted == "negative" and None in labels:
        raise InputError(
            f"{path}: data.unlisted=negative says that each row lists all labels, but nothing is listed for "
            f"row {ids[labels.index(None)]} (counted from 0), not even an empty list. Remove such rows or "
            "splits."
        )
    classes = features.classes or tuple(sorted({name for some in labels for name in some or ()}))
    if not classes:
        raise InputError(f"{path}: no sample has a label in the column {features.label!r}.")
    what = "several labels" if features.several else "one label"
    notes = [f"{path.name}: images are in the column {features.image!r}, {what} in {features.label!r}."]
    if features.unused:
        notes.append(f"{path.name}: columns that are not used: {shorten(features.unused)}.")
    return Records(
        source=str(path),
        name=path.resolve().name,
        ids=tuple(ids),
        inputs=tuple(images),
        classes=classes,
        classes_given=features.classes is not None,
        labels=ObservedLabels.from_names(
            [names or () for names in labels], classes, unlisted=config.unlisted
        ),
        split=tuple(splits) if parts[0][0] else None,
        notes=tuple(notes),
    )


def _parts(path: Path) -> list[tuple[str, Path]]:
    """Name and folder of each split; one without a name if there are none."""
    if not is_file(path / SPLITS):
        return [("", path)]
    where = str(path / SPLITS)
    names = require(load_json(path / SPLITS), "splits", LIST, where)
    for name in names:
        if split_name(of_kind(name, TEXT, f"{where}: splits")) is None:
            raise InputError(
                f"{where}: the split {shown(name)} is none of {', '.join(SPELLINGS)}. Remove it from the "
                "DatasetDict, or give it such a name, and save again."
            )
    if not names or len(set(names)) < len(names):
        raise InputError(f"{where}: must name at least one split, each once.")
    return [(name, inside(path, name, where)) for name in names]


def _files(folder: Path) -> list[Path]:
    """The .arrow files of a data set, in order."""
    state, where = load_json(folder / STATE), str(folder / STATE)
    if optional(state, "_indices_data_files", LIST, where):
        raise InputError(
            f"{where}: the rows were selected or shuffled and not written in that order. Call "
            "dataset.flatten_indices() and save again."
        )
    entries = require(state, "_data_files", LIST, where)
    files = [inside(folder, require(entry, "filename", TEXT, where), where) for entry in entries]
    for file in files:
        if not is_file(file):
            raise InputError(
                f"{where}: there is no file {shown(file.name)} in {folder}. Copy the whole folder."
            )
    return files


def _features(folder: Path) -> _Features:
    where = str(folder / INFO)
    features = require(load_json(folder / INFO), "features", OBJECT, where)
    kinds = {name: _kind(feature, f"{where}: {shown(name)}") for name, feature in features.items()}
    images = [name for name, (kind, _, _) in kinds.items() if kind == "Image"]
    given = [name for name, (kind, _, _) in kinds.items() if kind == "ClassLabel"]
    named = [name for name in ("labels", "label") if kinds.get(name, ("",))[0] in ("ClassLabel", "string")]
    found = f"found: {shorten(kinds) or 'no column'}"
    if not images or (len(images) > 1 and "image" not in images):
        raise InputError(f"{where}: expected one column of the type Image; {found}.")
    if len(named) != 1 and len(given) != 1:
        raise InputError(
            f"{where}: it can't be told which column holds the labels. Expected `labels` or `label`, of the "
            f"type ClassLabel, a list of it, or names; {found}. {_RENAME}."
        )
    image = "image" if "image" in images else images[0]
    label = named[0] if len(named) == 1 else given[0]
    _, several, classes = kinds[label]
    unused = tuple(name for name in features if name not in (image, label))
    return _Features(image, label, several, classes, unused)


def _kind(feature: Any, where: str) -> tuple[str, bool, tuple[str, ...] | None]:
    """Type of a column, whether it holds lists of it, and the class names of a ClassLabel."""
    several = False
    if type(feature) is list and len(feature) == 1:
        several, feature = True, feature[0]
    elif type(feature) is dict and feature.get("_type") in _LISTS:
        several, feature = True, feature.get("feature")
    if type(feature) is not dict:
        return "", several, None
    kind = feature.get("_type")
    if kind == "ClassLabel":
        names = require(feature, "names", LIST, where)
        classes = tuple(class_name(of_kind(name, TEXT, f"{where}.names"), where) for name in names)
        if not classes or len(set(classes)) < len(classes):
            raise InputError(f"{where}: class names must be distinct, and at least one.")
        return kind, several, classes
    if kind == "Value" and feature.get("dtype") in ("string", "large_string"):
        return "string", several, None
    return ("Image" if kind == "Image" and not several else ""), several, None


def _batches(file: Path, features: _Features) -> Iterator[tuple[list[FilePart], list[list[Any] | None]]]:
    """Images and labels of some rows after the other.

    Nothing of the file is copied, and compressed data, which `datasets` does not write, is refused: so memory
    is bounded by what the rows need.
    """
    import pyarrow as pa
    from pyarrow import ipc

    row = 0
    try:
        with pa.memory_map(str(file)) as source:
            whole = source.read_buffer()
            reader = ipc.MessageReader.open_stream(pa.BufferReader(whole))
            for number, message in enumerate(reader):
                if number and (message.type != "record batch" or _compressed(message.metadata.to_pybytes())):
                    raise InputError(
                        f"{file}: holds compressed data or dictionaries, which `datasets` never writes."
                    )
            schema = ipc.open_stream(pa.BufferReader(whole)).schema
            wanted = [schema.get_field_index(name) for name in (features.image, features.label)]
            if -1 in wanted:
                raise InputError(
                    f"{file}: has no column {features.image!r} or {features.label!r}, or has it twice."
                )
            options = ipc.IpcReadOptions(included_fields=wanted, use_threads=False)
            for batch in ipc.open_stream(pa.BufferReader(whole), options=options):
                images = _image_parts(batch.column(features.image), whole, file, row)
                labels = cells(batch.column(features.label))
                yield images, [_names(cell, features, file, row + place) for place, cell in enumerate(labels)]
                row += len(images)
    except InputError:
        raise
    except Exception as error:  # a damaged file raises nearly anything
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise InputError(
            f"{file}: can't be read as an Arrow stream: {reason}. Save the data set again."
        ) from error


def _compressed(metadata: bytes) -> bool:
    """Whether a record batch says that its buffers are compressed.

    Its metadata is a FlatBuffer: a table Message, whose third field is a table RecordBatch, whose fourth
    field is the compression.

    Raises:
        struct.error: the metadata ends before that.
    """
    (message,) = struct.unpack_from("<I", metadata, 0)
    batch = _field(metadata, message, 2)
    (forward,) = struct.unpack_from("<I", metadata, batch)
    return _field(metadata, batch + forward, 3) > 0


def _field(metadata: bytes, table: int, number: int) -> int:
    """Where a field of a FlatBuffer table is, 0 if the table lacks it."""
    (back,) = struct.unpack_from("<i", metadata, table)
    (size,) = struct.unpack_from("<H", metadata, table - back)
    if size < 6 + 2 * number:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, table - back + 4 + 2 * number)
    return table + int(offset) if offset else 0


def _image_parts(column: Any, whole: Any, file: Path, first: int) -> list[FilePart]:
    """Where the image of each row lies in the file.

    Raises:
        InputError: another type of column, a row without an image, or with the name of a file only.
    """
    from pyarrow import types

    column.validate(full=True)
    kind = column.type
    fields = [kind.field(place).name for place in range(kind.num_fields)] if types.is_struct(kind) else []
    encoded = column.flatten()[fields.index("bytes")] if fields.count("bytes") == 1 else None
    if encoded is None or not (types.is_binary(encoded.type) or types.is_large_binary(encoded.type)):
        raise InputError(f"{file}: the image column holds {str(kind)[:100]}, not encoded images.")
    if encoded.null_count:
        row = first + encoded.is_null().to_pylist().index(True)
        raise InputError(
            f"{file}: row {row} (counted from 0) holds no image. If the column holds names of files, let the "
            "version of `datasets` that made it save it again, which writes the images themselves."
        )
    if not len(encoded):
        return []
    _, offsets, data = encoded.buffers()
    width = np.int64 if types.is_large_binary(encoded.type) else np.int32
    ends: npt.NDArray[Any] = np.frombuffer(offsets, width)[encoded.offset : encoded.offset + len(encoded) + 1]
    start = (data.address - whole.address if data else 0) + ends.astype(np.int64)
    if start.min() < 0 or start.max() > whole.size:
        raise InputError(f"{file}: images do not lie in the file itself. Save the data set again.")
    name = str(file)
    return [
        FilePart(name, begin, end - begin)
        for begin, end in zip(start[:-1].tolist(), start[1:].tolist(), strict=True)
    ]


def _names(cell: Any, features: _Features, file: Path, row: int) -> list[str] | None:
    """The class names in a cell of the label column; None if nothing is known.

    Raises:
        InputError: a value that is none.
    """
    values = cell if isinstance(cell, list) else [] if cell is None else [cell]
    if cell is None or (values == [-1] and features.classes) or cell == "":
        return None
    where = f"{file}: row {row} (counted from 0)"
    if features.classes is None:
        return [class_name(of_kind(value, TEXT, where), where) for value in values]
    for value in values:
        if type(value) is not int or not 0 <= value < len(features.classes):
            raise InputError(
                f"{where}: the label {shown(value)} is no index of the {len(features.classes):,} classes."
            )
    return [features.classes[value] for value in values]
