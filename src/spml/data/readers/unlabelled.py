"""Photos of which no label is known, and the names of their classes in a text file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...common.documents import read_text
from ...common.errors import InputError
from ...common.phrases import counted
from ...config import DataConfig
from ..files import list_images
from ..images.image_files import SUFFIXES as IMAGES
from ..names import FilesBelow, PackedNames
from ..records import Records, label_entries
from ..tables.formats import SUFFIXES as TABLES
from ..tables.rows import read_file_list
from .features import distinct


def read_class_list(file: Path) -> tuple[str, ...]:
    """Read the names of classes, one per line.

    Raises:
        InputError: The file is missing, too large, not text or empty, or names a class twice.
    """
    lines = read_text(file, limit=1 << 26).rstrip().splitlines()
    classes = distinct(tuple(map(str.strip, lines)), f"{file}: lines")
    if not classes:
        raise InputError(f"{file}: is empty. Write the name of each class on a line of its own.")
    return classes


def read_unlabelled(path: Path, config: DataConfig) -> Records:
    """Read a folder of photos at any depth, or a table that names them, with the classes in `config.classes`.

    No label is known: names of folders and other columns of the table are not read.
    """
    classes, notes = read_class_list(Path(config.classes)), list[str]()
    if len(classes) < 2:
        raise InputError(f"{config.classes}: names one class only. Names are compared, so list at least two.")
    ids: Sequence[str]
    if path.is_dir():
        listing = list_images(path)
        ids = PackedNames.of(listing.images)
        files = FilesBelow(path, ids)
        notes += listing.notes()
    elif path.suffix.lower() in TABLES:
        ids, files = read_file_list(path, config.images)
    else:
        raise InputError(
            f"{path}: data.classes is for photos without labels: name a folder of them, or a table "
            f"({', '.join(TABLES)}) with a column of file names. For data that has labels, leave it out."
        )
    if not ids:
        raise InputError(" ".join([f"{path}: holds no image ({', '.join(sorted(IMAGES))}).", *notes]))
    return Records(
        source=str(path),
        name=path.resolve().name,
        ids=ids,
        inputs=files,
        classes=classes,
        classes_given=True,
        labels=label_entries(([], []), (len(ids), len(classes)), "unknown"),
        notes=(
            f"{path.name}: {counted(len(ids), 'photo')} without labels; those of {config.classes} are the "
            "classes. Neither folders nor further columns are read as labels.",
            *notes,
        ),
    )
