"""COCO JSON: a file of images, categories and annotations, or a folder with annotations/instances_*.json."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ...config import DataConfig
from ...errors import InputError
from ..records import Objects, Records
from ..safe import shown
from ..splits import split_name
from .documents import (
    ID,
    LIST,
    NUMBER,
    TEXT,
    class_name,
    finite,
    keys_of,
    load_json,
    of_kind,
    optional,
    require,
)
from .entries import Entries, in_both, joined, label_entries, objects_of
from .places import find_files, find_folder, images_folder
from .registry import register_reader

KEYS = ("images", "annotations", "categories")
PREFIX = "instances_"
PATTERN = f"annotations/{PREFIX}*.json"


@dataclass(frozen=True)
class _Part:
    """What one file says.

    Attributes:
        path: of the JSON file.
        files: images, in the order of the file.
        root: folder that holds them.
        classes: names of the categories, in the order of the file.
        annotated: sample and class of each annotation.
        negative, vague: `neg_category_ids` and `not_exhaustive_category_ids`.
        objects: boxes, if there are some.
    """

    path: Path
    files: tuple[Path, ...]
    root: Path
    classes: tuple[str, ...]
    annotated: Entries
    negative: Entries
    vague: Entries
    objects: Objects | None


def is_coco(document: Any) -> bool:
    """Whether a JSON document has the three lists of a COCO file."""
    return type(document) is dict and all(key in document for key in KEYS)


def is_coco_folder(path: Path) -> bool:
    """Whether a folder holds annotations/instances_*.json."""
    return any(path.glob(PATTERN))


@register_reader(
    "coco", "COCO JSON", recognises=lambda source: source.suffix == ".json" and is_coco(source.document)
)
def read_coco(path: Path, config: DataConfig) -> Records:
    """Read one file; images are looked up beside it and in the folders that are usual (`_folders`).

    A category is a known positive of an image that has an annotation of it, crowds included, and a known
    negative if `neg_category_ids` of the image lists it. What `not_exhaustive_category_ids` lists stays
    unknown whatever `config.unlisted` says.

    Args:
        path: of the file.
        config: `images` and `unlisted` are used.
        document: the content of the file.

    Raises:
        InputError: the document is not as COCO's format says, or an image is missing; names the entry.
    """
    document = load_json(path)
    part = _part(path, document, config)
    ids = [file.relative_to(part.root).as_posix() for file in part.files]
    return _records(str(path), path.stem.removeprefix(PREFIX), [part], ids, None, config)


@register_reader(
    "coco_folder",
    "a folder with COCO annotations",
    recognises=lambda source: source.is_folder and is_coco_folder(source.path),
)
def read_coco_folder(path: Path, config: DataConfig) -> Records:
    """Read all annotations/instances_NAME.json of a folder; NAME is the split, such as train2017.

    Raises:
        InputError: as `read_coco`; a name that is no split; other categories in one file than in another.
    """
    files = sorted(path.glob(PATTERN))
    splits = {file: _split(file) for file in files}
    odd = next((file for file, split in splits.items() if split is None), None)
    if odd and len(files) > 1:
        raise InputError(
            f"{path}: {odd.name} is named after no split. With several files, each must be called "
            f"{PREFIX}train.json, {PREFIX}val.json or {PREFIX}test.json, perhaps with a year; or give one of "
            f"them as the data: {odd}."
        )
    parts = [_part(file, load_json(file), config) for file in files]
    for part in parts[1:]:
        if part.classes != parts[0].classes:
            differing = sorted({*part.classes} ^ {*parts[0].classes})
            wrong = f"only one of them has {shown(differing[0])}" if differing else "in another order"
            raise InputError(
                f"{part.path}: its categories are not those of {parts[0].path.name}: {wrong}. All splits "
                "must have the same categories."
            )
    base = images_folder(config) or path
    ids = [file.relative_to(base).as_posix() for part in parts for file in part.files]
    if len(first := dict(zip(reversed(ids), reversed(range(len(ids))), strict=True))) < len(ids):
        twice = next(name for row, name in enumerate(ids) if first[name] != row)
        raise InputError(f"{path}: {shown(twice)} is in several of the files. An image must be in one split.")
    split = [splits[part.path] or "" for part in parts for _ in part.files] if odd is None else None
    return _records(str(path), path.resolve().name, parts, ids, split, config)


def _records(
    source: str,
    name: str,
    parts: Sequence[_Part],
    ids: Sequence[str],
    split: Sequence[str] | None,
    config: DataConfig,
) -> Records:
    starts = [0, *accumulate(len(part.files) for part in parts)]
    count = starts.pop()
    positive, negative, vague = (
        joined([getattr(part, name) for part in parts], starts) for name in ("annotated", "negative", "vague")
    )
    classes = parts[0].classes
    folders = sorted({str(part.root) for part in parts})
    notes = [
        f"{count:,} images in {' and '.join(folders)}, {len(positive.rows):,} annotations, "
        f"{len(classes):,} categories."
    ]
    if bare := count - len(np.unique(positive.rows)):
        notes.append(f"{bare:,} images have no annotation.")
    if len(negative.rows):
        notes.append("neg_category_ids are known negatives.")
    if len(vague.rows):
        notes.append("not_exhaustive_category_ids without an annotation stay unknown.")
    return Records(
        source=source,
        name=name,
        ids=tuple(ids),
        inputs=tuple(file for part in parts for file in part.files),
        classes=classes,
        classes_given=True,
        labels=label_entries(
            positive, (count, len(classes)), config.unlisted, negative=negative, unknown=vague
        ),
        split=tuple(split) if split is not None else None,
        notes=tuple(notes),
        objects=_joined_objects([part.objects for part in parts], starts),
    )


def _joined_objects(parts: Sequence[Objects | None], starts: Sequence[int]) -> Objects | None:
    found = [part._replace(row=part.row + start) for part, start in zip(parts, starts, strict=True) if part]
    if not found:
        return None
    return Objects(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _part(path: Path, document: Any, config: DataConfig) -> _Part:
    source = str(path)
    if not is_coco(document):
        raise InputError(
            f"{source}: is no COCO JSON, which is an object with the keys {', '.join(KEYS)}; found "
            f"{keys_of(document)}."
        )
    lists = {key: of_kind(document[key], LIST, f"{source}: {key}") for key in KEYS}
    for key in ("images", "categories"):
        if not lists[key]:
            raise InputError(f"{source}: {key} is empty. Without {key} there is nothing to read.")
    columns, classes = _categories(lists["categories"], f"{source}: categories")
    where = f"{source}: images"
    rows = _ids(lists["images"], where)
    names = [_file_name(image, f"{where}[{row}]") for row, image in enumerate(lists["images"])]
    root = find_folder(_folders(path, config), names[:1], f"{where}[0]")
    files = find_files(root, [(name,) for name in names], lambda row: f"{where}[{row}]")
    annotated, objects = _annotations(lists, rows, columns, source)
    negative = _listed(lists["images"], "neg_category_ids", columns, where)
    vague = _listed(lists["images"], "not_exhaustive_category_ids", columns, where)
    for other, what in ((annotated, "has an annotation"), (vague, "is in not_exhaustive_category_ids")):
        if found := in_both(negative, other):
            raise InputError(
                f"{where}[{found[0]}]: {shown(classes[found[1]])} is in neg_category_ids, so it is not in "
                f"the image, but it {what}, so it is. Remove one of them."
            )
    return _Part(path, tuple(files), root, classes, annotated, negative, vague, objects)


def _part_name(path: Path) -> str:
    return path.stem.removeprefix(PREFIX)


def _split(path: Path) -> str | None:
    """The split that a file is named after, such as instances_train2017.json."""
    return split_name(_part_name(path).rstrip("0123456789_-"))


def _folders(path: Path, config: DataConfig) -> list[Path]:
    """Where the images of a file may be; the first that has its first image is taken."""
    own = ["", _part_name(path), _split(path) or ""]
    if stated := images_folder(config):
        return [stated / part for part in own]
    here, above = path.parent, path.parent.parent
    found = [
        here,
        here / "images",
        *(above / "images" / part for part in own),
        *(above / part for part in own),
    ]
    # The whole of the folder above belongs to the data only if this one is but a part of it.
    within = here.resolve().name.lower() == "annotations"
    return [folder for folder in found if within or folder != above]


def _ids(entries: Sequence[Any], where: str) -> dict[int | str, int]:
    """From the id of each entry to its place."""
    places: dict[int | str, int] = {}
    for place, entry in enumerate(entries):
        key = require(entry, "id", ID, f"{where}[{place}]")
        if places.setdefault(key, place) != place:
            raise InputError(
                f"{where}[{place}].id: {shown(key)} is the id of {where}[{places[key]}], too. Ids must "
                "differ."
            )
    return places


def _categories(entries: Sequence[Any], where: str) -> tuple[dict[int | str, int], tuple[str, ...]]:
    names: dict[str, int] = {}
    for place, entry in enumerate(entries):
        here = f"{where}[{place}]"
        name = class_name(require(entry, "name", TEXT, here), f"{here}.name")
        if names.setdefault(name, place) != place:
            raise InputError(
                f"{here}.name: {shown(name)} is the name of {where}[{names[name]}], too. Give each category "
                "a name of its own, or make one of the two."
            )
    return _ids(entries, where), tuple(names)


def _file_name(image: Any, where: str) -> str:
    """`file_name`; LVIS has only `coco_url`, whose last two parts are the folder and the file."""
    url = optional(image, "coco_url", TEXT, where)
    if url and "file_name" not in image:
        return "/".join(url.split("/")[-2:])
    return str(require(image, "file_name", TEXT, where))


def _annotations(
    lists: dict[str, list[Any]], rows: dict[int | str, int], columns: dict[int | str, int], source: str
) -> tuple[Entries, Objects | None]:
    """Sample and class of each annotation, and the boxes of those that have one in an image of known size."""
    found, boxed = (array("q"), array("q")), (array("q"), array("q"))
    boxes, sizes = array("d"), array("d")
    known = [_size(image, f"{source}: images[{row}]") for row, image in enumerate(lists["images"])]
    for place, annotation in enumerate(lists["annotations"]):
        where = f"{source}: annotations[{place}]"
        row = _place(require(annotation, "image_id", ID, where), rows, f"{where}.image_id", "image")
        column = _place(
            require(annotation, "category_id", ID, where), columns, f"{where}.category_id", "category"
        )
        found[0].append(row)
        found[1].append(column)
        if (box := optional(annotation, "bbox", LIST, where)) is not None:
            corners = _corners(box, f"{where}.bbox")
            if size := known[row]:
                boxed[0].append(row)
                boxed[1].append(column)
                boxes.extend(corners)
                sizes.extend(size)
    return Entries.of(*found), objects_of(Entries.of(*boxed), boxes, sizes)


def _place(key: int | str, places: dict[int | str, int], where: str, what: str) -> int:
    place = places.get(key)
    if place is None:
        raise InputError(
            f"{where}: there is no {what} with the id {shown(key)}. Correct or remove the entry."
        )
    return place


def _size(image: Any, where: str) -> tuple[float, float] | None:
    width, height = (optional(image, key, NUMBER, where) for key in ("width", "height"))
    if width is None or height is None:
        return None
    size = finite(width, f"{where}.width"), finite(height, f"{where}.height")
    if min(size) < 1:
        raise InputError(f"{where}: a width of {shown(width)} and a height of {shown(height)} are no size.")
    return size


def _corners(box: list[Any], where: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a box that is given as left, top, width and height."""
    if len(box) != 4:
        raise InputError(f"{where}: must be left, top, width and height, but has {len(box):,} entries.")
    left, top, width, height = (finite(value, where) for value in box)
    if width < 0 or height < 0:
        raise InputError(f"{where}: a width of {width:g} and a height of {height:g} are no size.")
    return left, top, left + width, top + height


def _listed(images: Sequence[Any], key: str, columns: dict[int | str, int], where: str) -> Entries:
    """Sample and class of what a key of the images lists."""
    found: tuple[list[int], list[int]] = [], []
    for row, image in enumerate(images):
        here = f"{where}[{row}]"
        for place, value in enumerate(optional(image, key, LIST, here) or ()):
            at = f"{here}.{key}[{place}]"
            found[0].append(row)
            found[1].append(_place(of_kind(value, ID, at), columns, at, "category"))
    return Entries.of(*found)
