"""Image folder: the name of a sub-folder is the one label of every image in it."""

from __future__ import annotations

import shlex
from collections import Counter
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
from .annotated import NO_CLASS, Splits, annotations_in, read_annotated
from .not_read import recognise_in

_FOLLOWED = 4  # levels of folders in which links to folders are followed


@register_reader("folder", "an image folder", recognises=lambda source: source.is_folder, priority=-1)
def read_folder(path: Path, config: DataConfig) -> Records:
    """Read `path/CLASS/**/image` or `path/SPLIT/CLASS/**/image`, or the annotation files in the folder.

    If there are no class folders, annotation files next to the images are read (see `read_annotated`). Hidden
    files and the folders of systems are ignored. Notes name everything that is left out. Links may lead to
    places below `path` or `config.images`.
    """
    if annotation := next(path.glob("*/Annotations/[!.]*.xml"), None):
        raise InputError(f"{path}: holds a PASCAL VOC folder. Did you mean {annotation.parents[1]}?")
    listing = list_images(path, _FOLLOWED)
    root = listing.root
    for link in listing.links:
        refuse_leaving_link(link, [path, *([Path(config.images)] if config.images else [])], str(path))
    parts = _split_folders(path, root)
    homes: Splits = parts or {root: ""}
    classes = {folder: split for home, split in homes.items() for folder in home.full}
    no_class = any(NO_CLASS.fullmatch(folder.name) for folder in classes)
    if no_class or not classes or (len(classes) < 2 and not parts):
        if records := read_annotated(path, config, listing, [root], parts):
            return records
        if what := recognise_in(path, listing):
            raise InputError(f"{path}: can't be read, as {what}.")
    for home in homes:
        _check_class_folders(path, listing, home, homes)
    described = all(any(name.endswith(".json") for name in folder.files) for folder in classes)
    if described and (what := recognise_in(path, listing)):
        raise InputError(f"{path}: can't be read, as {what}.")
    names = tuple(sorted({folder.name for folder in classes}))
    counts = [len(folder.below) for folder in classes]
    columns = np.repeat(rows_of(names, (folder.name for folder in classes)), counts)
    below = (listing.images[folder.below.start : folder.below.stop] for folder in classes)
    ids = PackedNames.of(chain.from_iterable(below))
    return Records(
        source=str(path),
        name=path.resolve().name,
        ids=ids,
        inputs=FilesBelow(path, ids),
        classes=names,
        classes_given=False,
        labels=label_entries((np.arange(len(ids)), columns), (len(ids), len(names)), config.default_label),
        split=tuple(np.repeat([*classes.values()], counts).tolist()) if parts else None,
        notes=tuple(_notes(path, listing, parts, classes)),
        class_folders=True,
    )


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
    classes = {folder.name for part in splits for folder in part.full}
    several = len({*splits.values()}) > 1
    if not others or not classes or (not several and all(other.full for other in others)):
        return {} if others else splits
    for part, split in splits.items():
        _check_not_nested(path, part, split)
    for other in others:
        if other.full or not several or other.name in classes:
            raise InputError(
                f"{path}: has both folders named as splits and {quote(other.name)}. Use either one folder "
                "per class, or only train, val and test, each with one folder per class."
            )
    return splits


def _check_not_nested(path: Path, home: Folder, split: str) -> None:
    """Check that the class folders are not one level further down than expected."""
    if len(home.full) == 1 and not home.images and (inner := home.full[0]).full and not inner.images:
        place = path / home.prefix
        advice = f"Move its folders to {place}." if split else f"Pass {path / inner.prefix}."
        raise InputError(
            f"{place}: holds only the folder {quote(inner.name)}, with the class folders. {advice}"
        )


def _check_class_folders(path: Path, listing: Listing, home: Folder, homes: Splits) -> None:
    """Check that the folders in a split, or in the data, are classes and hold images."""
    place, split = path / home.prefix, homes[home]
    example = f"Expected one folder per class, for example {home.prefix or f'{path.name}/'}cat/1.jpg"
    expected = f"{example}, or a file that lists the labels, such as a table with the columns file and label."
    _check_not_nested(path, home, split)
    alone = [other for other in homes if other.full and other is not home]
    if alone:
        command = f"spml data inspect {shlex.quote(str(path / alone[0].prefix))}"
        expected += f" Or move {home.name} elsewhere, or use {alone[0].name} alone: {command}"
    no_class = [folder for folder in home.full if NO_CLASS.fullmatch(folder.name)]
    if not home.full or no_class:
        images = f"{counted(len(home.below), 'image')} but " if home.below else ""
        text = f"{no_class[0].name} is no class." if no_class else f"holds {images}no folder with images."
        if home.below and not alone:
            expected += (
                " If no label is known yet, names of the classes can make a beginning: data.classes=FILE, "
                "with one per line, and names=MODEL."
            )
        raise InputError(" ".join([f"{place}: {text} {expected}", *listing.notes()]))
    for folder in home.folders:
        if not folder.below and split in ("", "train"):
            unread = note_unread([name for below in folder.walk() for name in below.files])
            raise InputError(
                f"{path / folder.prefix}: holds no image. {unread}{' ' if unread else ''}Add images of this "
                "class or remove the folder."
            )
        if not split and compound_split_name(folder.name) in (("val", ""), ("test", "")):
            others = first_few([other.name for other in home.full if other is not folder], 3)
            raise InputError(
                f"{path / folder.prefix}: holds {counted(len(folder.below), 'image')}, but no class folders, "
                f"next to the class folders {others}. Give it class folders, and move the others into a "
                f"folder train; or move it elsewhere; or, if it is a class, call it {folder.name}_class."
            )


def _notes(path: Path, listing: Listing, parts: Splits, classes: Splits) -> list[str]:
    """Notes on how the folders were understood, and on what is left out."""
    notes = []
    if any(part.name.lower() != split for part, split in parts.items()):
        notes.append(f"Splits: {', '.join(f'{part.name} as {split}' for part, split in parts.items())}.")
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
    names = {folder.name for folder in classes}
    for name in sorted(names):
        labels = [label.strip() for label in name.split(",")]
        if len(labels) > 1 and names.intersection(labels):
            notes.append(
                f"The folder name {quote(name)} looks like several labels, but is one class. If its images "
                f"have the labels {' and '.join(map(quote, labels))}, copy each of them into both folders "
                "(equal files are one image with both labels), or list them in a table."
            )
        if compound_split_name(name) == ("train", ""):
            notes.append(f"The folder {name} is a class like the folders next to it, not a split.")
    annotations = []
    for folder in (listing.root, *parts):
        with suppress(InputError):  # a damaged file does not matter where class folders give the labels
            annotations += annotations_in(path, folder)
    notes += [
        f"{each.name} is not read, because class folders give the labels. To read it instead: spml data "
        f"inspect {each.command}"
        for each in annotations
    ]
    empty = [folder for folder in listing.root.folders if parts and not folder.below]
    notes += [f"{folder.prefix[:-1]} holds no image." for folder in empty]
    return [*notes, *listing.notes(name for each in annotations for name in each.files)]
