"""COCO JSON: a file of images, categories and annotations, or a folder with annotations/instances_*.json."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from ...common.documents import class_name, load_json
from ...common.errors import InputError
from ...common.phrases import counted, first_few
from ...common.safe import quote
from ...config import DataConfig
from ...labels import IntArray
from ..files import find_files, find_folder, images_folder
from ..join import join_records, relative_names
from ..records import Records, in_both, label_entries, move_classes, objects_of, without_box
from ..splits import split_name
from . import register_reader

KEYS = ("images", "annotations", "categories")
PREFIX = "instances_"
PATTERN = f"annotations/{PREFIX}*.json"

Id = int | str


class Image(Struct, gc=False):
    """The fields of an image that are read; LVIS has `coco_url` instead of `file_name`."""

    id: Id
    file_name: str | None = None
    coco_url: str | None = None
    width: Any = None
    height: Any = None
    neg_category_ids: list[Id] | None = None
    not_exhaustive_category_ids: list[Id] | None = None


class Category(Struct, gc=False):
    """The fields of a category that are read."""

    id: Id
    name: str
    supercategory: Any = None


class Annotation(Struct, gc=False):
    """The fields of an annotation that are read; a usable `bbox` is left, top, width and height."""

    image_id: Id
    category_id: Id
    bbox: Any = None


class Document(Struct):
    """A COCO file."""

    images: list[Image]
    annotations: list[Annotation]
    categories: list[Category]


class _Part(NamedTuple):
    records: Records  # every category is a class
    root: Path  # of the images
    groups: frozenset[str]  # classes that are the supercategory of others, and that no image has or lacks
    unboxed: int  # annotations without a usable box; 0 if none has a box


@register_reader(
    "coco",
    "COCO JSON",
    recognises=lambda source: (
        source.suffix == ".json" and source.outline.kind == "an object" and {*KEYS} <= {*source.outline.keys}
    ),
)
def read_coco(path: Path, config: DataConfig) -> Records:
    """Read one file; images are looked up next to it and in the usual folders (see `_folders`).

    A category is a known positive of an image that has an annotation of it, crowds included, and a known
    negative if the image lists it in `neg_category_ids`. The categories of `not_exhaustive_category_ids` stay
    unknown whatever `config.default_label` says. Categories of the same name are one class, and one that only
    groups others is none. Boxes are used for `config.observe` only, so wrong ones are counted in a note.
    """
    part = _read_part(path, config)
    return _finished(part.records, [part])


@register_reader(
    "coco_folder",
    "a folder with COCO annotations",
    recognises=lambda source: source.is_folder and any(source.path.glob(PATTERN)),
)
def read_coco_folder(path: Path, config: DataConfig) -> Records:
    """Read all annotations/instances_NAME.json of a folder; NAME is the split, such as train2017."""
    files = sorted(path.glob(PATTERN))
    if len(files) > 1 and (unnamed := next((file for file in files if not _split(file)), None)):
        raise InputError(
            f"{path}: {unnamed.name} is not named after a split. With several files, call each of them "
            f"{PREFIX}train.json, {PREFIX}val.json or {PREFIX}test.json, optionally with a year; or pass one "
            f"of them as the data: {unnamed}."
        )
    parts = [_read_part(file, config) for file in files]
    base, named = images_folder(config) or path, []
    for file, (records, *_) in zip(files, parts, strict=True):
        if differing := {*records.classes} ^ {*parts[0].records.classes}:
            raise InputError(
                f"{file}: its categories are not those of {files[0].name}: only one of them has "
                f"{quote(min(differing))}. All splits must have the same categories."
            )
        ids, split = relative_names(records, base), _split(file)
        named.append(replace(records, ids=ids, split=(split,) * len(ids) if split else None))
    return _finished(join_records(named, str(path), path.resolve().name), parts)


def _finished(records: Records, parts: Sequence[_Part]) -> Records:
    """Records of all parts without the categories that only group others, and with notes."""
    groups = frozenset.intersection(*(part.groups for part in parts))
    if len(groups) == len(records.classes):
        groups = frozenset()
    classes = tuple(name for name in records.classes if name not in groups)
    is_class = np.array([name not in groups for name in records.classes])
    moved = move_classes(records, np.where(is_class, np.cumsum(is_class) - 1, -1), classes)
    folders = " and ".join(sorted({str(part.root) for part in parts}))
    size = f"{counted(len(records.ids), 'image')} in {folders}"
    notes = [f"{size}, {counted(len(classes), 'category', 'categories')}.", *records.notes]
    if groups:
        names = first_few([quote(name) for name in sorted(groups)], 12)
        what = "is a supercategory" if len(groups) == 1 else "are supercategories"
        notes.append(f"{names} {what} of others without annotations: left out.")
    if unboxed := sum(part.unboxed for part in parts):
        notes.append(without_box(unboxed, "annotation"))
    if bare := int((records.labels.positives_per_sample() == 0).sum()):
        notes.append(f"{counted(bare, 'image has', 'images have')} no annotation.")
    return replace(moved, notes=tuple(notes))


def _read_part(path: Path, config: DataConfig) -> _Part:
    document = load_json(path, Document)
    for key in ("images", "categories"):
        if not getattr(document, key):
            raise InputError(f"{path}: {key} is empty; at least one entry is needed.")
    classes, columns, notes = _classes(document.categories, f"{path}: categories")
    images, where = document.images, f"{path}: images"
    rows = _positions([image.id for image in images], where)
    options = []
    for row, image in enumerate(images):
        # LVIS has the folder and the file at the end of `coco_url`.
        address = "/".join((image.coco_url or "").split("/")[-2:])
        name = address if image.file_name is None else image.file_name
        if not address and image.file_name is None:
            raise InputError(f"{where}[{row}]: there is no field `file_name` (or `coco_url`, as in LVIS).")
        options.append((name,))
    root = find_folder(_folders(path, config), options, f"{where}[0]")
    files = find_files(root, options, lambda row: f"{where}[{row}]", config.missing)
    annotations, at = document.annotations, f"{path}: annotations"
    row_ids, column_ids = [each.image_id for each in annotations], [each.category_id for each in annotations]
    positive = (
        _look_up("image", rows, row_ids, lambda k: f"{at}[{k}].image_id"),
        _look_up("category", columns, column_ids, lambda k: f"{at}[{k}].category_id"),
    )
    negative = _listed(images, "neg_category_ids", columns, where)
    vague = _listed(images, "not_exhaustive_category_ids", columns, where)
    for other, reason in ((positive, "has an annotation"), (vague, "is in not_exhaustive_category_ids")):
        if both := in_both(negative, other):
            row, column = both
            raise InputError(
                f"{where}[{row}]: {quote(classes[column])} is in neg_category_ids, which says that it is "
                f"absent, but it also {reason}. Remove one of the two."
            )
    if len(negative[0]):
        notes.append("neg_category_ids are known negatives.")
    if len(vague[0]):
        notes.append("not_exhaustive_category_ids without an annotation stay unknown.")
    corners = [_corners(each.bbox) for each in annotations]
    sizes = [_size(image) for image in images]
    boxed = [k for k, row in enumerate(positive[0].tolist()) if corners[k] and sizes[row]]
    records = Records(
        source=str(path),
        name=path.stem.removeprefix(PREFIX),
        ids=tuple(files.names),
        inputs=files,
        classes=classes,
        classes_given=True,
        labels=label_entries(
            positive, (len(files), len(classes)), config.default_label, negative=negative, unknown=vague
        ),
        notes=tuple(notes),
        objects=objects_of(
            (positive[0][boxed], positive[1][boxed]),
            [corners[k] for k in boxed],
            [sizes[row] for row in positive[0][boxed].tolist()],
        ),
    )
    used = {classes[column] for entries in (positive, negative, vague) for column in np.unique(entries[1])}
    stated = [(each.supercategory, each.name) for each in document.categories]
    groups = frozenset(above for above, name in stated if isinstance(above, str) and above != name)
    any_box = any(each.bbox is not None for each in annotations)
    return _Part(records, root, groups & {*classes} - used, corners.count(()) if any_box else 0)


def _classes(categories: Sequence[Category], where: str) -> tuple[tuple[str, ...], dict[Id, int], list[str]]:
    """Distinct names, the position of the name of each id, and notes on names that several ids have."""
    _positions([category.id for category in categories], where)
    ids: dict[str, list[Id]] = {}
    for row, category in enumerate(categories):
        ids.setdefault(class_name(category.name, f"{where}[{row}].name"), []).append(category.id)
    notes = [
        f"The categories {' and '.join(map(quote, same))} have the same name {quote(name)}: one class."
        for name, same in ids.items()
        if len(same) > 1
    ]
    columns = {identity: column for column, same in enumerate(ids.values()) for identity in same}
    return tuple(ids), columns, notes


def _split(path: Path) -> str | None:
    """Split that a file is named after, such as `train` for instances_train2017.json."""
    return split_name(path.stem.removeprefix(PREFIX).rstrip("0123456789_-"))


def _folders(path: Path, config: DataConfig) -> list[Path]:
    """Folders in which the images may be; the first one that holds the first image is used."""
    own = ["", path.stem.removeprefix(PREFIX), _split(path) or ""]
    if stated := images_folder(config):
        return [stated / part for part in own]
    parent = path.parent
    above = parent / ".." if parent.name in ("", "..") else parent.parent  # `.` is its own parent
    # The whole folder above belongs to the data only if the file is in its sub-folder `annotations`.
    within = parent.resolve().name.lower() == "annotations"
    folders = [parent, parent / "images", *(above / "images" / part for part in own)]
    return folders + [above / part for part in own if part or within]


def _positions(ids: Sequence[Id], where: str) -> dict[Id, int]:
    positions: dict[Id, int] = {}
    for position, value in enumerate(ids):
        if positions.setdefault(value, position) != position:
            raise InputError(
                f"{where}[{position}].id: {quote(value)} is also the id of {where}[{positions[value]}]. Each "
                "must have its own."
            )
    return positions


def _look_up(
    what: str, positions: Mapping[Id, int], ids: Sequence[Id], where: Callable[[int], str]
) -> IntArray:
    """Position of each id; `where` says where one is stated."""
    found = np.fromiter((positions.get(each, -1) for each in ids), np.int64, len(ids))
    if (found < 0).any():
        at = int(np.argmax(found < 0))
        no = f"there is no {what} with the id {quote(ids[at])}"
        raise InputError(f"{where(at)}: {no}. Correct or remove the entry.")
    return found


def _listed(
    images: Sequence[Image], key: str, columns: Mapping[Id, int], where: str
) -> tuple[IntArray, IntArray]:
    """Sample and class of each category that the images list under a key."""
    lists: list[Sequence[Id]] = [getattr(image, key) or () for image in images]
    rows = [row for row, listed in enumerate(lists) for _ in listed]
    ids = [category for listed in lists for category in listed]
    listed = _look_up(
        "category", columns, ids, lambda k: f"{where}[{rows[k]}].{key}[{k - rows.index(rows[k])}]"
    )
    return np.asarray(rows, np.int64), listed


def _corners(box: Any) -> tuple[float, ...]:
    """Left, top, right and bottom of a box (left, top, width and height); empty if it is not usable."""
    if type(box) is not list or len(box) != 4 or not all(map(_is_number, box)):
        return ()
    left, top, width, height = map(float, box)
    return (left, top, left + width, top + height) if min(width, height) >= 0 else ()


def _size(image: Image) -> tuple[float, ...]:
    """Width and height of an image; empty if they are not known."""
    size = (image.width, image.height)
    return size if all(_is_number(side) and side >= 1 for side in size) else ()


def _is_number(value: Any) -> bool:
    """Whether a value is a number that a float can hold."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
