"""Image folder: the name of a sub-folder is the one label of every image in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...config import DataConfig
from ...errors import InputError
from ...labels import ObservedLabels
from ..images import SUFFIXES
from ..records import Records
from ..safe import CONTROL, is_special, refuse_leaving_link, shown
from ..splits import split_name
from .registry import register_reader


@register_reader("folder", "an image folder", recognises=lambda source: source.is_folder, priority=-1)
def read_folder(path: Path, config: DataConfig) -> Records:
    """Read `path/CLASS/**/image`, or `path/SPLIT/CLASS/**/image` if all folders are named as splits.

    Hidden files are ignored; files that are not images are left out and counted. Links may lead to places
    below `path` or `config.images`.

    Raises:
        InputError: nothing to read, a class without images, split and class folders side by side, or a link
            that leads elsewhere.
    """
    if inner := next(path.glob("*/Annotations/[!.]*.xml"), None):
        raise InputError(f"{path}: holds a PASCAL VOC folder. Did you mean {inner.parents[1]}?")
    tops = _folders(path)
    splits = {top: split_name(top.name) for top in tops}
    found = set(splits.values()) - {None}
    with_split = bool(tops) and None not in splits.values()
    if "train" in found and len(found) > 1 and not with_split:
        odd = next(top.name for top, split in splits.items() if split is None)
        raise InputError(
            f"{path}: has folders named as splits beside {odd!r}. Have either one folder per class, or only "
            "train, val and test, each with one folder per class."
        )
    roots = [path, *([Path(config.images)] if config.images else [])]
    files: list[Path] = []
    labels: list[str] = []
    split: list[str] = []
    others = [entry.name for entry in path.iterdir() if entry.is_file() and not entry.name.startswith(".")]
    _refuse_unwritable(path, others)
    for top in tops:
        _refuse_leaving([top], roots)
        for folder in _folders(top) if with_split else [top]:
            images, rest = list_images(folder)
            _refuse_leaving([folder, *images], roots)
            others += rest
            if not images and splits[top] in (None, "train"):
                raise InputError(f"{folder}: holds no image. Add images of this class or remove the folder.")
            files += images
            labels += [folder.name] * len(images)
            split += [splits[top] or ""] * len(images)
    if not files:
        raise InputError(
            f"{path}: holds no folder with images. Expected one folder per class, for example "
            f"{path.name}/cat/1.jpg.{_hint(path)}"
        )
    classes = tuple(sorted(set(labels)))
    hint = _hint(path)
    if len(classes) < 2 and hint:
        raise InputError(f"{path}: has only one folder with images, {classes[0]!r}.{hint}")
    notes = []
    if others:
        notes.append(
            f"{len(others):,} files that are no images, or in no class folder, were left out: {others[0]} ..."
        )
    return Records(
        source=str(path),
        name=path.resolve().name,
        ids=tuple(file.relative_to(path).as_posix() for file in files),
        inputs=tuple(files),
        classes=classes,
        classes_given=False,
        labels=ObservedLabels.from_names([[name] for name in labels], classes, unlisted=config.unlisted),
        split=tuple(split) if with_split else None,
        notes=tuple(notes),
    )


def list_images(folder: Path) -> tuple[list[Path], list[str]]:
    """Images in a folder and below, sorted, and the names of other files; hidden ones are ignored.

    Raises:
        InputError: a folder can't be listed; a name that can't be written.
    """

    def refuse(error: OSError) -> None:
        raise InputError(f"{error.filename}: can't be listed: {error.strerror}.")

    images: list[Path] = []
    others: list[str] = []
    for place, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        _refuse_unwritable(place, [*folders, *files])
        for name in sorted(name for name in files if not name.startswith(".")):
            if Path(name).suffix.lower() in SUFFIXES and not is_special(Path(place) / name):
                images.append(Path(place) / name)
            else:
                others.append(name)
    return images, others


def _refuse_leaving(paths: Sequence[Path], roots: Sequence[Path]) -> None:
    for path in paths:
        if os.path.islink(path):
            refuse_leaving_link(path, roots, str(roots[0]))


def _refuse_unwritable(place: Path | str, names: Sequence[str]) -> None:
    """Names become ids and class names, which are written in UTF-8, one to a line."""
    for name in names:
        if CONTROL.search(name):
            raise InputError(
                f"{place}: the name {shown(name)} holds a line break, another control character, or a byte "
                "that is not UTF-8. Rename it."
            )


def _folders(path: Path) -> list[Path]:
    try:
        found = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise InputError(f"{path}: can't be listed: {error.strerror}.") from error
    _refuse_unwritable(path, [entry.name for entry in found])
    return found


def _hint(path: Path) -> str:
    """What the user may have meant instead of this folder."""
    files = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in (".csv", ".json", ".npz"))
    return f" Or did you mean the file {files[0]}?" if files else ""
