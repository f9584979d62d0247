"""Image folder: the name of a sub-folder is the one label of every image in it."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np

from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.phrases import counted, first_few
from ...common.safe import quote, refuse_leaving_link
from ...config import DataConfig
from ..files.listing import Folder, Listing, list_images, note_unread
from ..files.names import FilesBelow, PackedNames
from ..records import Records, label_entries
from ..splits import compound_split_name
from . import register_reader
from .annotated import NO_CLASS, Annotation, Splits, annotations_in, read_annotated, read_annotation

_FOLLOWED = 4  # levels of folders in which links to folders are followed
_LISTS = re.compile(r"\s*[,;|+&]\s*"), re.compile(r"[_ -]+(?:and[_ -]+)?")
"""Separators in a folder name that may list several labels: surely, and perhaps."""


@register_reader("folder", "an image folder", recognises=lambda source: source.is_folder, priority=-1)
def read_folder(path: Path, config: DataConfig) -> Records:
    """Read `path/CLASS/**/image` or `path/SPLIT/CLASS/**/image`, or the annotation files in the folder.

    Class folders may lie in further folders that hold nothing else (`path/archive/CLASS`,
    `path/seg_train/seg_train/CLASS`). If there are none, annotation files next to the images are read (see
    `read_annotated`). Hidden files and the folders of systems are ignored. Notes name everything that is left
    out. Links may lead to places below `path` or `config.images`.
    """
    if annotation := next(path.glob("*/Annotations/[!.]*.xml"), None):
        raise InputError(f"{path}: holds a PASCAL VOC folder. Did you mean {annotation.parents[1]}?")
    listing = list_images(path, _FOLLOWED)
    roots = [path, *([Path(config.images)] if config.images else [])]
    for link in listing.links:
        refuse_leaving_link(link, roots, str(path))
    levels = _unwrap(path, listing.root)
    root = levels[-1]
    parts = _split_folders(path, root)
    deep = [part for part in parts if _inner(part).full]
    flat = [part for part in parts if part not in deep]
    no_class = [folder.name for folder in root.full if NO_CLASS.fullmatch(folder.name)]
    if not deep and (parts or no_class or len(root.full) < 2):
        records = read_annotated(path, config, listing, levels, parts)
        if records:
            return records
    if flat:
        raise _without_classes(path, flat, deep)
    if not parts and (no_class or not root.full):
        raise _no_classes(path, listing, root, no_class)
    homes = {_inner(part): split for part, split in parts.items()} if parts else {root: ""}
    _check_class_folders(path, listing, homes)
    classes = {folder: split for home, split in homes.items() for folder in home.full}
    annotations = []
    for folder in (*levels, *parts):
        with suppress(InputError):  # a damaged file does not matter where class folders give the labels
            annotations += annotations_in(path, folder)
    notes = [
        *_notes(path, listing, levels, parts, classes),
        *_note_names({folder.name for folder in classes}),
        *_note_annotations(path, levels, annotations, config),
        *(f"{folder.prefix[:-1]} holds no image." for folder in root.folders if parts and not folder.below),
        *listing.notes(name for each in annotations for name in each.files),
    ]
    return _records(path, listing.images, classes, notes, config)


def _records(
    path: Path, images: Sequence[str], folders: Splits, notes: Sequence[str], config: DataConfig
) -> Records:
    """Records of the images below class folders, each of which has a split; an empty one is none."""
    classes = tuple(sorted({folder.name for folder in folders}))
    counts = [len(folder.below) for folder in folders]
    columns = np.repeat(rows_of(classes, (folder.name for folder in folders)), counts)
    below = (images[folder.below.start : folder.below.stop] for folder in folders)
    ids = PackedNames.of(chain.from_iterable(below))
    return Records(
        source=str(path),
        name=path.resolve().name,
        ids=ids,
        inputs=FilesBelow(path, ids),
        classes=classes,
        classes_given=False,
        labels=label_entries((np.arange(len(ids)), columns), (len(ids), len(classes)), config.default_label),
        split=tuple(np.repeat([*folders.values()], counts).tolist()) if any(folders.values()) else None,
        notes=tuple(notes),
        class_folders=True,
    )


def _unwrap(path: Path, folder: Folder) -> list[Folder]:
    """The folder and the folders in it, one in the other, that hold nothing but the next one; the last one
    holds class folders, split folders or images."""
    levels = [folder]
    while not folder.images and len(folder.full) == 1:
        child = folder.full[0]
        is_split = compound_split_name(child.name) and not _split_folders(path, child)
        if is_split or child.images or not child.full:
            break
        levels.append(folder := child)
    return levels


def _inner(part: Folder) -> Folder:
    """The folder that holds the class folders of a split: itself, or one of the same name, or `images`."""
    while not part.images and len(part.full) == 1:
        child = part.full[0]
        if child.name != part.name and not NO_CLASS.fullmatch(child.name):
            break
        part = child
    return part


def _split_folders(path: Path, root: Folder) -> dict[Folder, str]:
    """Split of each folder that is named after one; empty if the folders are classes.

    They are splits if all of them are named so, or if those that are have class folders and the others don't.
    A name such as `seg_train` counts only next to another one such as `seg_test`, since `train_station` may
    be a class.
    """
    named = {folder: found for folder in root.full if (found := compound_split_name(folder.name))}
    splits_with = Counter(rest for _, rest in {*named.values()})
    splits = {f: split for f, (split, rest) in named.items() if not rest or splits_with[rest] > 1}
    others = [folder for folder in root.full if folder not in splits]
    if not others:
        return splits
    classes = {folder.name for part in splits for folder in _inner(part).full}
    several = len({*splits.values()}) > 1
    wrong = [other for other in others if _inner(other).full or not several or other.name in classes]
    if not classes or (not several and all(_inner(other).full for other in others)):
        return {}
    if wrong:
        raise InputError(
            f"{path}: has both folders named as splits and {quote(wrong[0].name)}. Use either one folder per "
            "class, or only train, val and test, each with one folder per class."
        )
    return splits


def _check_class_folders(path: Path, listing: Listing, homes: Splits) -> None:
    """Check that every class folder may be one and holds images."""
    for home, split in homes.items():
        for folder in home.folders:
            place = path / folder.prefix
            if NO_CLASS.fullmatch(folder.name):
                if folder.below:
                    raise _no_classes(path, listing, home, [folder.name])
            elif not folder.below and split in ("", "train"):
                unread = note_unread([name for below in folder.walk() for name in below.files])
                raise InputError(
                    f"{place}: holds no image. {unread}{' ' if unread else ''}Add images of this class or "
                    "remove the folder."
                )
            elif not split and compound_split_name(folder.name) in (("val", ""), ("test", "")):
                others = [other.name for other in home.full if other is not folder]
                raise InputError(
                    f"{place}: holds {counted(len(folder.below), 'image')}, but no class folders, next to "
                    f"the class folders {first_few(others, 3)}. If these images are a split, use train and "
                    f"{folder.name}, each with one folder per class; if they have no labels, move the folder "
                    f"elsewhere; if it is a class, give it another name, such as {folder.name}_class."
                )


def _without_classes(path: Path, flat: Sequence[Folder], deep: Sequence[Folder]) -> InputError:
    """Error for split folders that hold images, but no class folders."""
    holds = [f"{_inner(part).prefix[:-1]} holds {counted(len(part.below), 'image')}" for part in flat]
    files = [f"{part.prefix}{name}" for part in flat for below in part.walk() for name in below.files]
    beside = f" {first_few(files, 3)} next to them can't be read as labels." if files else ""
    others = f", while {deep[0].name} has class folders" if deep else ""
    advice = (
        f"Expected one folder per class, for example {flat[0].prefix}cat/1.jpg, or a file that lists the "
        "labels, such as a table with the columns file, label and split, or COCO JSON."
    )
    if deep:
        advice = (
            f"Sort these images into class folders (such as {flat[0].prefix}{_inner(deep[0]).full[0].name}), "
            "list all images in a table with the columns file, label and split, or move "
            f"{' and '.join(part.name for part in flat)} elsewhere. To use {deep[0].name} alone: spml data "
            f"inspect {shlex.quote(str(path / deep[0].prefix))}"
        )
    return InputError(f"{path}: {' and '.join(holds)} without class folders{others}.{beside} {advice}")


def _no_classes(path: Path, listing: Listing, place: Folder, names: Sequence[str]) -> InputError:
    """Error for a folder without class folders, or with some whose names can't be those of classes."""
    expected = f"Expected one folder per class, for example {path.name}/cat/1.jpg, or a file with the labels."
    boxes = next(
        (f"{f.prefix}{n}" for f in listing.root.walk() for n in f.files if f.images or f.name == "labels"), ""
    )
    if boxes.endswith(".txt"):
        expected += (
            f" If {boxes} is of a YOLO export, put the names of the classes into {path / 'data.yaml'}: "
            "`names: [cat, dog]`."
        )
    number = f"{counted(len(listing.images), 'image')} but " if listing.images else ""
    holds = f"holds {number}no folder with images."
    if names:
        are = "is no class" if len(names) == 1 else "are no classes"
        holds = f"{first_few([f'{place.prefix}{name}' for name in names], 3)} {are}."
    if listing.images:
        expected += (
            " If no label is known yet, names of the classes can make a beginning: data.classes=FILE, with "
            "one per line, and names=MODEL."
        )
    return InputError(" ".join([f"{path}: {holds} {expected}", *listing.notes()]))


def _notes(
    path: Path, listing: Listing, levels: Sequence[Folder], parts: Splits, classes: Splits
) -> list[str]:
    """Notes on how the folders were understood, and on images that are in no class folder."""
    notes = []
    if len(levels) > 1:
        notes.append(f"The folders in {path / levels[-1].prefix} are read, since all images are in it.")
    inner = {part: _inner(part) for part in parts}
    if renamed := [part for part in parts if inner[part] is not part or part.name.lower() != parts[part]]:
        splits = [f"{inner[part].prefix[:-1]} as {parts[part]}" for part in renamed]
        notes.append(f"Splits: {', '.join(splits)}.")
    below = {inside for folder in classes for inside in folder.walk()}
    if outside := [folder for folder in listing.root.walk() if folder.images and folder not in below]:
        total = counted(sum(len(folder.images) for folder in outside), "image is", "images are")
        where = [f"{len(f.images):,} in {f.prefix[:-1] or 'the folder itself'}" for f in outside]
        first = listing.images[outside[0].images[0]]
        notes.append(f"{total} in no class folder and left out: {first_few(where, 5)}, such as {first}.")
    nested = [
        inside.prefix[:-1]
        for folder in classes
        for inside in folder.full
        if inside.name != folder.name and not NO_CLASS.fullmatch(inside.name)
    ]
    if nested:
        parent = shlex.quote(str((path / nested[0]).parent))
        notes.append(
            f"{counted(len(nested), 'folder')} inside class folders: {first_few(nested, 5)}. Their names are "
            "not used as classes; their images have the label of the class folder. If they are the classes, "
            f"pass the folder that they are in (such as {parent}), move them next to each other, or list the "
            "images in a table."
        )
    return notes


def _note_names(classes: set[str]) -> list[str]:
    """Notes on class names that look like several labels or like a split."""
    notes = []
    for name in sorted(classes):
        for separator, enough in zip(_LISTS, (any, all), strict=True):
            labels = separator.split(name)
            if len(labels) > 1 and all(labels) and enough(label in classes for label in labels):
                notes.append(
                    f"The folder name {quote(name)} looks like several labels, but is one class. If its "
                    f"images have the labels {' and '.join(map(quote, labels))}, copy each of them into both "
                    "folders (equal files are one image with both labels), or list them in a table."
                )
                break
        if compound_split_name(name) == ("train", ""):
            notes.append(f"The folder {name} is a class like the folders next to it, not a split.")
    return notes


def _note_annotations(
    path: Path, levels: Sequence[Folder], annotations: Sequence[Annotation], config: DataConfig
) -> list[str]:
    """Notes on annotation files, which are not read where there are class folders.

    One that lies next to the only folder of images and can be read is refused: it is more likely to count.
    """
    root = levels[-1].prefix
    for each in annotations:
        if not each.name.startswith(root):
            with suppress(InputError):
                read_annotation(path, each, config, levels[-1:])
                break
    else:
        return [
            f"{each.name} is not read, because class folders give the labels. To read it instead: spml data "
            f"inspect {each.command}"
            for each in annotations
        ]
    raise InputError(
        f"{path}: labels may be those of {each.name} or the names of the folders in {root[:-1]}. Pass one of "
        f"them: spml data inspect {each.command}, or spml data inspect {shlex.quote(str(path / root))}"
    )
