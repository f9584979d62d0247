"""Annotation files in a folder of images: each is read by the reader of its format, and they are joined."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ...common.errors import InputError
from ...common.phrases import counted, first_few
from ...common.safe import is_file, refuse_leaving_link
from ...config import DataConfig
from ..files.listing import Folder, Listing
from ..join import join_records, relative_names
from ..records import Records
from ..splits import compound_split_name
from . import Read, Source, find_reader
from .voc import read_xml_files

NO_CLASS = re.compile(r"(images?|imgs?|jpegimages|labels?|annotations?)[ _-]?\d*", re.IGNORECASE)
"""Names of folders that hold the parts of a data set, never a class."""

Splits = Mapping[Folder, str]
"""Split of each folder; empty if there is none."""

_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")


class Annotation(NamedTuple):
    """An annotation file, or all XML files in a folder. Names are relative to the folder that is read."""

    path: Path  # the file, or the folder of the XML files
    name: str  # for messages
    title: str  # format, such as "COCO JSON"
    read: Read
    files: Sequence[str]  # names

    @property
    def command(self) -> str:
        """The path as it is typed in a shell."""
        return shlex.quote(str(self.path))


def annotations_in(path: Path, folder: Folder) -> list[Annotation]:
    """Annotation files in a folder below `path`, or in a folder such as `annotations` in it."""
    found = []
    for place in (folder, *(child for child in folder.folders if NO_CLASS.fullmatch(child.name))):
        for name in place.files:
            file = path / place.prefix / name
            if file.suffix.lower() not in _SUFFIXES or not is_file(file):
                continue
            refuse_leaving_link(file, [path], str(path))
            if reader := find_reader(Source(file)):
                name = place.prefix + name
                found.append(Annotation(file, name, reader.title, reader.read, (name,)))
        names = [place.prefix + name for name in place.files if name.lower().endswith(".xml")]
        images = place if place.images else next(iter(folder.full), None)
        if names and images and images.images:
            files = [path / name for name in names]
            for file in filter(Path.is_symlink, files):
                refuse_leaving_link(file, [path], str(path))
            read = partial(read_xml_files, files, path / images.prefix)
            name, title = f"{place.prefix}*.xml", "PASCAL VOC's XML files"
            found.append(Annotation(path / place.prefix, name, title, read, names))
    return found


def read_annotated(
    path: Path, config: DataConfig, listing: Listing, levels: Sequence[Folder], parts: Splits
) -> Records | None:
    """Read the annotation files of a folder without class folders; None if there are none.

    Each split folder has one (a COCO or VOC export), or there is one for all images, or one per split that is
    named after it (`train.csv`, `val.csv`). `levels` are the folder and those in it that were unwrapped, of
    which the last one holds the images; `parts` are the split folders.
    """
    chosen = _choose(path, levels, parts)
    if not chosen:
        return None
    notes = [f"{each.name} was read as {each.title}." for each, _, _ in chosen]
    read = []
    for each, split, folders in chosen:
        records = read_annotation(path, each, config, folders)
        if split and records.split:
            notes.append(f"The split in {each.name} is not used: its name says {split}.")
        names = relative_names(records, path)
        if all(names):
            records = replace(records, ids=names)
        read.append(replace(records, split=(split,) * len(records.ids)) if split else records)
    whole = join_records(read, str(path), path.resolve().name, [config.default_label] * len(read))
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


def _choose(
    path: Path, levels: Sequence[Folder], parts: Splits
) -> list[tuple[Annotation, str, Sequence[Folder]]]:
    """The annotations that count, the split of each, and folders in which its images may be."""
    found = {part: annotations_in(path, part) for part in parts}
    if any(found.values()):
        for part, annotations in found.items():
            if not annotations:
                raise InputError(
                    f"{path / part.prefix}: holds {counted(len(part.below), 'image')}, but no annotation "
                    "file, while other folders of the data have one. Add it, or move the folder elsewhere."
                )
            if len(annotations) > 1:
                raise _several(path / part.prefix, annotations)
        return [(annotations[0], parts[part], ()) for part, annotations in found.items()]
    annotations = next(filter(None, (annotations_in(path, level) for level in reversed(levels))), [])
    splits = [""]
    if len(annotations) > 1:
        named = [compound_split_name(each.path.stem) for each in annotations]
        splits = [words[0] for words in named if words]
        if len({*splits}) < len(annotations):
            raise _several(path, annotations)
    own = {split: [part for part in parts if parts[part] == split] for split in parts.values()}
    folders = [levels[-1], *levels[-1].full]
    return [(each, split, own.get(split, folders)) for each, split in zip(annotations, splits, strict=False)]


def _several(path: Path, annotations: Sequence[Annotation]) -> InputError:
    commands = " or ".join(f"spml data inspect {each.command}" for each in annotations[:5])
    return InputError(
        f"{path}: holds {counted(len(annotations), 'annotation file')}, and which one has the labels is not "
        f"clear. Pass it: {commands}"
    )


def read_annotation(
    path: Path, annotation: Annotation, config: DataConfig, folders: Sequence[Folder]
) -> Records:
    """Read annotations, whose images lie next to them or in one of the folders."""
    try:
        return annotation.read(annotation.path, config)
    except InputError:
        if config.images is not None:
            raise
        found = {}
        for folder in (path / each.prefix for each in folders):
            with suppress(InputError):
                found[folder] = annotation.read(annotation.path, replace(config, images=str(folder)))
        if not found:
            raise
        if len(found) > 1:
            places = " or ".join(shlex.quote(str(folder)) for folder in found)
            raise InputError(
                f"{annotation.path}: its images may be those in {places}. Pass the file, and the folder of "
                f"its images: spml data inspect {annotation.command} --data.images FOLDER"
            ) from None
        return next(iter(found.values()))
