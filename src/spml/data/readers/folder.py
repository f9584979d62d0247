"""Image folder: the name of a sub-folder is the label of every image in it. Where there are no such folders,
annotation files in it are read by the readers of their formats."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...common.errors import InputError
from ...common.label_checks import rows_of
from ...common.phrases import counted, first_few
from ...common.safe import is_file, quote, refuse_leaving_link
from ...config import DataConfig
from ..files import Folder, Listing, list_images
from ..join import join_records, relative_names
from ..names import FilesBelow, PackedNames
from ..records import Records, label_entries
from ..splits import compound_split_name
from . import Read, Source, find_reader, register_reader
from .not_read import recognise_in
from .voc import read_xml_files

_FOLLOWED = 4  # levels of folders in which links to folders are followed
_NO_CLASS = re.compile(r"(images?|imgs?|jpegimages|labels?|annotations?)[ _-]?\d*", re.IGNORECASE)
_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")  # of annotation files
_EXPECTED = (
    "Expected one folder per class, such as cat/1.jpg, also below train, val and test; or a file that lists "
    "the labels, such as a table with the columns file and label."
)

Splits = Mapping[Folder, str]
"""Split of each folder; empty if there is none."""


@register_reader("folder", "an image folder", recognises=lambda source: source.is_folder, priority=-1)
def read_folder(path: Path, config: DataConfig) -> Records:
    """Read `path/CLASS/**/image` or `path/SPLIT/CLASS/**/image`, or the annotation files in the folder.

    Hidden files and the folders of systems are ignored. Notes name everything that is left out. Links may
    lead to places below `path` or `config.images`.
    """
    if annotation := next(path.glob("*/Annotations/[!.]*.xml"), None):
        raise InputError(f"{path}: holds a PASCAL VOC folder. Did you mean {annotation.parents[1]}?")
    listing = list_images(path, _FOLLOWED)
    for link in listing.links:
        refuse_leaving_link(link, [path, *([Path(config.images)] if config.images else [])], str(path))
    parts = _split_folders(path, listing.root)
    homes: Splits = parts or {listing.root: ""}
    classes = {folder: split for home, split in homes.items() for folder in home.full}
    labelled = (parts or len(classes) > 1) and not any(_NO_CLASS.fullmatch(each.name) for each in classes)
    if not (labelled and classes) and (records := _read_annotated(path, config, listing, parts)):
        return records
    described = all(any(name.endswith(".json") for name in folder.files) for folder in classes)
    if (described or not labelled) and (what := recognise_in(path, listing)):
        raise InputError(f"{path}: can't be read, as {what}.")
    for home in homes:
        _check_class_folders(path, listing, home, homes)
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


def _split_folders(path: Path, root: Folder) -> Splits:
    """Split of each folder that is named after one; empty if the folders are classes.

    A class may be called `train`, so a name counts if all folders have one. It also counts if folders are
    in it, but then there must be no others. A name such as `seg_train` counts only next to another one such
    as `seg_test`, since `train_station` may be a class.
    """
    named = {folder: found for folder in root.full if (found := compound_split_name(folder.name))}
    rests = [rest for _, rest in {*named.values()}]
    splits = {f: split for f, (split, rest) in named.items() if not rest or rests.count(rest) > 1}
    others = [folder for folder in root.full if folder not in splits]
    if others and any(part.full for part in splits):
        raise InputError(
            f"{path}: has both folders named as splits and {quote(others[0].name)}. Use only train, val and "
            "test, each with one folder per class, and move other folders elsewhere; or one folder per class."
        )
    return {} if others else splits


def _check_class_folders(path: Path, listing: Listing, home: Folder, homes: Splits) -> None:
    """Check that the folders in a split, or in the data, are classes and hold images."""
    place, split = path / home.prefix, homes[home]
    if len(home.full) == 1 and not home.images and (inner := home.full[0]).full and not inner.images:
        advice = f"Move its folders to {place}." if split else f"Pass {path / inner.prefix}."
        raise InputError(
            f"{place}: holds only the folder {quote(inner.name)}, with the class folders. {advice}"
        )
    wrong = next((f"{each.name} is no class" for each in home.full if _NO_CLASS.fullmatch(each.name)), "")
    if wrong or not home.full:
        images = f"{counted(len(home.below), 'image')} but " if home.below else ""
        text = f"{place}: {wrong or f'holds {images}no folder with images'}. {_EXPECTED}"
        if any(other.full for other in homes if other is not home):
            text += f" Or move {home.name} elsewhere."
        elif home.below:
            text += (
                " If no label is known yet, start from the names of the classes: data.classes=FILE, "
                "with one name per line, and names=MODEL."
            )
        raise InputError(" ".join([text, *listing.notes()]))
    for folder in home.folders:
        if not folder.below and split in ("", "train"):
            text = f"{path / folder.prefix}: holds no image. Add images of this class or remove the folder."
            raise InputError(" ".join([text, *listing.notes()]))
        if not split and compound_split_name(folder.name) in (("val", ""), ("test", "")):
            raise InputError(
                f"{path / folder.prefix}: is named as a split, but lies next to class folders. Put those "
                "into a folder train and its images into class folders; or move it elsewhere; or, if it is a "
                f"class, call it {folder.name}_class."
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
        if inside.name != folder.name and not _NO_CLASS.fullmatch(inside.name)
    ]
    if nested:
        parent = shlex.quote(str((path / nested[0]).parent))
        notes.append(
            f"{counted(len(nested), 'folder')} inside class folders: {first_few(nested, 5)}. Their names are "
            "not used as classes; their images have the label of the class folder. If they are the classes, "
            f"pass the folder that they are in (such as {parent}), or list the images in a table."
        )
    names = {folder.name for folder in classes}
    for name in sorted(names):
        if "," in name and names.intersection(map(str.strip, name.split(","))):
            notes.append(
                f"The folder name {quote(name)} looks like several labels, but is one class. Copy its images "
                "into the folder of each label (equal files are one image), or list them in a table."
            )
        if compound_split_name(name) == ("train", ""):
            notes.append(f"The folder {name} is a class like the folders next to it, not a split.")
    annotations = []
    for folder in (listing.root, *parts):
        with suppress(InputError):  # a damaged file does not matter where class folders give the labels
            annotations += _annotations_in(path, folder)
    notes += [
        f"{each.name} is not read, because class folders give the labels. To read it instead: spml data "
        f"inspect {shlex.quote(str(each.path))}"
        for each in annotations
    ]
    empty = [folder for folder in listing.root.folders if parts and not folder.below]
    notes += [f"{folder.prefix[:-1]} holds no image." for folder in empty]
    return [*notes, *listing.notes(name for each in annotations for name in each.files)]


class _Annotation(NamedTuple):
    """An annotation file, or all XML files in a folder. Names are relative to the folder that is read."""

    path: Path  # the file, or the folder of the XML files
    name: str  # for messages
    title: str  # format, such as "COCO JSON"
    read: Read
    files: Sequence[str]  # names


def _annotations_in(path: Path, folder: Folder) -> list[_Annotation]:
    """Annotation files in a folder below `path`, or in a folder such as `annotations` in it."""
    found = []
    for place in (folder, *(child for child in folder.folders if _NO_CLASS.fullmatch(child.name))):
        files = [path / place.prefix / name for name in place.files]
        for file in files:
            if file.suffix.lower() in _SUFFIXES and is_file(file):
                refuse_leaving_link(file, [path], str(path))
                if reader := find_reader(Source(file)):
                    name = place.prefix + file.name
                    found.append(_Annotation(file, name, reader.title, reader.read, (name,)))
        xml = [file for file in files if file.suffix.lower() == ".xml"]
        images = place if place.images else next(iter(folder.full), None)
        if xml and images and images.images:
            for file in filter(Path.is_symlink, xml):
                refuse_leaving_link(file, [path], str(path))
            read = partial(read_xml_files, xml, path / images.prefix)
            names = [place.prefix + file.name for file in xml]
            title = "PASCAL VOC's XML files"
            found.append(_Annotation(path / place.prefix, f"{place.prefix}*.xml", title, read, names))
    return found


def _read_annotated(path: Path, config: DataConfig, listing: Listing, parts: Splits) -> Records | None:
    """Read the annotation files of a folder without class folders; None if there are none.

    Each split folder has one, as in exports of Roboflow; or the folder has one for all images, or one per
    split that is named after it (`train.csv`, `val.csv`).
    """
    root = listing.root
    homes = {part: _annotations_in(path, part) for part in parts}
    if not any(homes.values()):
        homes = {root: _annotations_in(path, root)}
    if not any(homes.values()):
        return None
    chosen: list[tuple[_Annotation, str, list[Folder]]] = []  # with its split, and folders of its images
    for home, found in homes.items():
        splits = [parts.get(home, "")]
        if home is root and len(found) > 1:
            named = [compound_split_name(each.path.stem) for each in found]
            splits = [*dict.fromkeys(words[0] for words in named if words)]
        if len(found) != len(splits):
            commands = [f"spml data inspect {shlex.quote(str(each.path))}" for each in found[:5]]
            advice = f"Pass the one with the labels: {' or '.join(commands)}" if found else "Add one."
            raise InputError(
                f"{path / home.prefix}: holds {counted(len(found), 'annotation file')}, but one is needed, "
                f"or one per split that is named after it. {advice}"
            )
        own = {split: [part for part in parts if parts[part] == split] for split in parts.values()}
        chosen += [
            (each, split, home.full if home is not root else own.get(split, root.full))
            for each, split in zip(found, splits, strict=True)
        ]
    notes = [f"{each.name} was read as {each.title}." for each, _, _ in chosen]
    read = []
    for each, split, folders in chosen:
        try:
            records = each.read(each.path, config)
        except InputError:
            if config.images is not None or len(folders) != 1:
                raise
            records = each.read(each.path, replace(config, images=str(path / folders[0].prefix)))
        if split and records.split:
            notes.append(f"The split in {each.name} is not used: its name says {split}.")
        names = relative_names(records, path)
        if all(names):
            records = replace(records, ids=names)
        read.append(replace(records, split=(split,) * len(records.ids)) if split else records)
    whole = join_records(read, str(path), path.resolve().name, config.default_label)
    names = relative_names(whole, path)
    if whole.split is None and parts:
        prefixes = {part.prefix: split for part, split in parts.items()}
        splits = [next((prefixes[each] for each in prefixes if name.startswith(each)), "") for name in names]
        if all(splits):
            whole = replace(whole, split=tuple(splits))
            notes.append(f"The split is that of the folders {first_few([part.name for part in parts], 5)}.")
    used = {*names}
    if left_out := [name for name in listing.images if name not in used]:
        total = counted(len(left_out), "image is", "images are")
        notes.append(f"{total} in no annotation file and left out: {first_few(left_out, 3)}.")
    notes += listing.notes(name for each, _, _ in chosen for name in each.files)
    return replace(whole, notes=(*notes, *whole.notes))
