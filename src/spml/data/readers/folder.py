"""Image folder: the name of a sub-folder is the one label of every image in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...config import DataConfig
from ...errors import InputError
from ..images import SUFFIXES
from ..names import FilesBelow, PackedNames
from ..phrases import counted
from ..records import Records
from ..safe import CONTROL, is_special, quote, refuse_leaving_link
from ..splits import split_name
from .entries import Entries, label_entries
from .registry import Source, register_reader


def is_folder(source: Source) -> bool:
    """Whether a source is a folder."""
    return source.is_folder


@register_reader("folder", "an image folder", recognises=is_folder, priority=-1)
def read_folder(path: Path, config: DataConfig) -> Records:
    """Read `path/CLASS/**/image`, or `path/SPLIT/CLASS/**/image` if all sub-folders are named as splits.

    Hidden files are ignored. Other files are left out, and a note counts those that are not images. Links may
    lead to places below `path` or `config.images`.

    Raises:
        InputError: There is no image, or none of a class; there are both split and class folders; or a link
            leads elsewhere.
    """
    if annotation := next(path.glob("*/Annotations/[!.]*.xml"), None):
        raise InputError(f"{path}: holds a PASCAL VOC folder. Did you mean {annotation.parents[1]}?")
    roots = [path, *([Path(config.images)] if config.images else [])]
    subfolders = _subfolders(path)
    _check_links(subfolders, roots)
    splits = _splits(path, subfolders)
    if splits:
        folders = {folder: splits[parent] for parent in subfolders for folder in _subfolders(parent)}
    else:
        folders = dict.fromkeys(subfolders, "")
    names: list[Iterable[str]] = []
    counts: list[int] = []
    split: list[str] = []
    others = _other_files(path)
    for folder, part in folders.items():
        found = list_images(folder)
        _check_links([folder, *found.links], roots)
        if not found.images and part in ("", "train"):
            raise InputError(f"{folder}: holds no image. Add images of this class or remove the folder.")
        others += found.others
        names.append(_below(folder.relative_to(path).as_posix(), found.images))
        counts.append(len(found.images))
        split += [part] * len(found.images)
    labels = [folder.name for folder, count in zip(folders, counts, strict=True) if count]
    classes = tuple(sorted({*labels}))
    _check_classes(path, classes)
    ids = PackedNames.of(chain.from_iterable(names))
    position = {name: column for column, name in enumerate(classes)}
    columns = np.repeat([position[name] for name in labels], [count for count in counts if count])
    left_out = counted(
        len(others),
        "file that is not an image, or in no class folder, was",
        "files that are not images, or in no class folder, were",
    )
    return Records(
        source=str(path),
        name=path.resolve().name,
        ids=ids,
        inputs=FilesBelow(path, ids),
        classes=classes,
        classes_given=False,
        labels=label_entries(
            Entries.of(np.arange(len(ids)), columns), (len(ids), len(classes)), config.default_label
        ),
        split=tuple(split) if splits else None,
        notes=(f"{left_out} left out, such as {others[0]}.",) if others else (),
    )


class Listing(NamedTuple):
    """Files in a folder and below it, except hidden ones.

    Attributes:
        images: Paths of the images relative to the folder, with slashes: in every folder its own images,
            sorted, and then those of its folders.
        others: Names of the files that are not images.
        links: The images that are links.
    """

    images: list[str]
    others: list[str]
    links: list[Path]


def list_images(folder: Path) -> Listing:
    """List the images in a folder and below it.

    Raises:
        InputError: A folder can't be listed, or a name can't be written.
    """
    listing = Listing([], [], [])
    left = [""]
    while left:
        prefix = left.pop()
        try:
            with os.scandir(folder / prefix) as entries:
                found = sorted(entries, key=attrgetter("name"))
        except OSError as error:
            raise _not_listed(error) from error
        folders: list[os.DirEntry[str]] = []
        files: list[os.DirEntry[str]] = []
        for entry in found:
            (folders if _is_folder(entry) else files).append(entry)
        visible = [entry.name for entry in folders if entry.name[0] != "."]
        _check_names(folder / prefix, [*visible, *(entry.name for entry in files)])
        for entry in files:
            if entry.name[0] != ".":
                _add(listing, prefix, entry)
        real = [entry.name for entry in reversed(folders) if entry.name[0] != "." and not entry.is_symlink()]
        left += [f"{prefix}{name}/" for name in real]
    return listing


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # such as a link to itself
        return False


def _add(listing: Listing, prefix: str, entry: os.DirEntry[str]) -> None:
    """Add a file that is not hidden."""
    name = entry.name
    plain = entry.is_file(follow_symlinks=False)
    if name[name.rfind(".") :].lower() not in SUFFIXES or not (plain or not is_special(Path(entry.path))):
        listing.others.append(name)
        return
    listing.images.append(prefix + name)
    if not plain:
        listing.links.append(Path(entry.path))


def _below(folder: str, names: Sequence[str]) -> Iterator[str]:
    return (f"{folder}/{name}" for name in names)


def _splits(path: Path, subfolders: Sequence[Path]) -> dict[Path, str]:
    """Split of each sub-folder if all of them are named as splits; empty otherwise."""
    splits = {folder: split_name(folder.name) for folder in subfolders}
    named = {folder: split for folder, split in splits.items() if split}
    if len(named) == len(splits):
        return named
    if "train" in named.values() and len({*named.values()}) > 1:
        other = next(folder.name for folder in splits if folder not in named)
        raise InputError(
            f"{path}: has both folders named as splits and {other!r}. Use either one folder per class, or "
            "only train, val and test, each with one folder per class."
        )
    return {}


def _check_classes(path: Path, classes: Sequence[str]) -> None:
    """Check that there is a class, and that one class is not just the folder of images of a data file."""
    if len(classes) > 1:
        return
    files = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in (".csv", ".json", ".npz"))
    suggestion = f" Or did you mean the file {files[0]}?" if files else ""
    if not classes:
        raise InputError(
            f"{path}: holds no folder with images. Expected one folder per class, for example "
            f"{path.name}/cat/1.jpg.{suggestion}"
        )
    if files:
        raise InputError(f"{path}: has only one folder with images, {classes[0]!r}.{suggestion}")


def _other_files(path: Path) -> list[str]:
    """Names of the files next to the class folders, except hidden ones."""
    names = [entry.name for entry in path.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    _check_names(path, names)
    return names


def _subfolders(path: Path) -> list[Path]:
    """Sub-folders that are not hidden, sorted."""
    try:
        folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and entry.name[0] != ".")
    except OSError as error:
        raise _not_listed(error) from error
    _check_names(path, [folder.name for folder in folders])
    return folders


def _not_listed(error: OSError) -> InputError:
    return InputError(f"{error.filename}: can't be listed: {error.strerror}.")


def _check_links(paths: Iterable[Path], roots: Sequence[Path]) -> None:
    for path in paths:
        if os.path.islink(path):
            refuse_leaving_link(path, roots, str(roots[0]))


def _check_names(folder: Path | str, names: Iterable[str]) -> None:
    """Check that names can be ids and class names, which are written in UTF-8, one per line."""
    for name in names:
        if CONTROL.search(name):
            raise InputError(
                f"{folder}: the name {quote(name)} holds a line break, another control character, or a byte "
                "that is not UTF-8. Rename it."
            )
