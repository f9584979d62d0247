"""Annotation files in a folder of images: each is read by the reader of its format, and they are joined."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from ...config import DataConfig
from ...errors import InputError
from ..join import Part, join_records, relative_names
from ..listing import Folder, Listing
from ..phrases import counted, first_few
from ..records import Records
from ..safe import is_file, refuse_leaving_link
from ..splits import compound_split_name
from .registry import Source, find_reader
from .voc import read_xml_files

NO_CLASS = re.compile(r"(images?|imgs?|jpegimages|labels?|annotations?)[ _-]?\d*", re.IGNORECASE)
"""Names of folders that hold the parts of a data set, never a class."""

_SUFFIXES = (".json", ".jsonl", ".csv", ".tsv", ".parquet")


class Annotation(NamedTuple):
    """An annotation file, or all XML files in a folder.

    Attributes:
        path: The file, or the folder of the XML files.
        name: Path relative to the folder that is read, for messages.
        title: Format, such as "COCO JSON".
        read: Function that reads it.
        files: Names of the files relative to the folder that is read.
    """

    path: Path
    name: str
    title: str
    read: Callable[[Path, DataConfig], Records]
    files: Sequence[str]

    @property
    def command(self) -> str:
        """The path as it is typed in a shell."""
        return shlex.quote(str(self.path))


def annotations_in(path: Path, folder: Folder) -> list[Annotation]:
    """Annotation files in a folder, or in a folder such as `annotations` in it.

    Args:
        path: Folder that is read.
        folder: Folder below it.
    """
    found = []
    for place in (folder, *(child for child in folder.folders if NO_CLASS.fullmatch(child.name))):
        for name in place.files:
            file = path / place.prefix / name
            if file.suffix.lower() not in _SUFFIXES or not is_file(file):
                continue
            refuse_leaving_link(file, [path], str(path))
            if reader := find_reader(Source(file)):
                found.append(
                    Annotation(file, place.prefix + name, reader.title, reader.read, (place.prefix + name,))
                )
        xml = [name for name in place.files if name.lower().endswith(".xml")]
        images = place if place.images else next(iter(folder.full), None)
        if xml and images and images.images:
            found.append(_xml_files(path, place, images, xml))
    return found


def _xml_files(path: Path, place: Folder, images: Folder, names: Sequence[str]) -> Annotation:
    """All XML files in a folder as one annotation."""
    files = [path / place.prefix / name for name in names]
    for file in files:
        if file.is_symlink():
            refuse_leaving_link(file, [path], str(path))

    def read(folder: Path, config: DataConfig) -> Records:
        return read_xml_files(files, path / images.prefix, config, str(folder))

    name = f"{place.prefix}*.xml"
    used = [place.prefix + each for each in names]
    return Annotation(path / place.prefix, name, "PASCAL VOC's XML files", read, used)


def read_annotated(
    path: Path,
    config: DataConfig,
    listing: Listing,
    levels: Sequence[Folder],
    parts: Mapping[Folder, str],
) -> Records | None:
    """Read the annotation files of a folder without class folders.

    Each split folder has one (a COCO or VOC export), or there is one for all images, or one per split that is
    named after it (`train.csv`, `val.csv`).

    Args:
        path: Folder that is read.
        config: Settings of the data.
        listing: Its content.
        levels: The folder, and those in it that were unwrapped; the last one holds the images.
        parts: Split of each split folder.

    Returns:
        The records; None if there are no annotations.

    Raises:
        InputError: Annotations can't be read, a split folder has none, or it is not clear which count; names
            them.
    """
    found = {part: annotations_in(path, part) for part in parts}
    if any(found.values()):
        chosen = [(_only(path, part, found[part]), split) for part, split in parts.items()]
        read = [each.read(each.path, config) for each, _ in chosen]
    else:
        annotations = next(filter(None, (annotations_in(path, level) for level in reversed(levels))), [])
        if not annotations:
            return None
        splits = [_split_of(each) if len(annotations) > 1 else "" for each in annotations]
        if None in splits or len({*splits}) < len(splits):
            raise _several(path, annotations)
        chosen = [(each, split or "") for each, split in zip(annotations, splits, strict=True)]
        own = {split: [part for part in parts if parts[part] == split] for split in parts.values()}
        folders = [levels[-1], *levels[-1].full]
        read = [read_annotation(path, each, config, own.get(split, folders)) for each, split in chosen]
    parts_read = [
        Part(_named_below(path, records), split or None, config.default_label)
        for records, (_, split) in zip(read, chosen, strict=True)
    ]
    whole = join_records(parts_read, str(path), path.resolve().name)
    notes = [f"{each.name} was read as {each.title}." for each, _ in chosen]
    notes += [
        f"The split in {each.name} is not used: its name says {split}."
        for (each, split), records in zip(chosen, read, strict=True)
        if split and records.split
    ]
    names = relative_names(whole, path)
    if whole.split is None and parts and (split := _split_by_folder(names, parts)):
        whole = replace(whole, split=split)
        notes.append(f"The split is that of the folders {first_few([part.name for part in parts], 5)}.")
    used = {*names}
    if left_out := [name for name in listing.images if name not in used]:
        total = counted(len(left_out), "image is", "images are")
        notes.append(f"{total} in no annotation file and left out: {first_few(left_out, 3)}.")
    notes += listing.notes(name for each, _ in chosen for name in each.files)
    return replace(whole, notes=(*notes, *whole.notes))


def _split_by_folder(names: Sequence[str], parts: Mapping[Folder, str]) -> tuple[str, ...] | None:
    """Split of each image by the folder that it lies in; None if some lie elsewhere."""
    splits = {part.prefix: split for part, split in parts.items()}
    found = [next((splits[prefix] for prefix in splits if name.startswith(prefix)), "") for name in names]
    return None if "" in found else tuple(found)


def _split_of(annotation: Annotation) -> str | None:
    """Split that a file is named after."""
    found = compound_split_name(annotation.path.stem)
    return found[0] if found else None


def _only(path: Path, part: Folder, annotations: Sequence[Annotation]) -> Annotation:
    if not annotations:
        raise InputError(
            f"{path / part.prefix}: holds {counted(len(part.below), 'image')}, but no annotation file, while "
            "other folders of the data have one. Add it, or move the folder elsewhere."
        )
    if len(annotations) > 1:
        raise _several(path / part.prefix, annotations)
    return annotations[0]


def _several(path: Path, annotations: Sequence[Annotation]) -> InputError:
    commands = " or ".join(f"spml data inspect {each.command}" for each in annotations[:5])
    return InputError(
        f"{path}: holds {counted(len(annotations), 'annotation file')}, and which one has the labels is not "
        f"clear. Pass it: {commands}"
    )


def _named_below(path: Path, records: Records) -> Records:
    """The records with samples named by their paths relative to the folder, if they all lie in it."""
    names = relative_names(records, path)
    return replace(records, ids=names) if all(names) else records


def read_annotation(
    path: Path, annotation: Annotation, config: DataConfig, folders: Sequence[Folder]
) -> Records:
    """Read annotations, whose images lie next to them or in one of the folders.

    Raises:
        InputError: They can't be read, or their images may be those of several folders.
    """
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
