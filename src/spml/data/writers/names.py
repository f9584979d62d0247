"""Names of classes and image files, checked to come back as they are when a file is read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...errors import InputError
from ..records import Records
from ..safe import CONTROL, quote


def check_class_names(records: Records) -> None:
    """Check that every reader returns the class names unchanged.

    Raises:
        InputError: A name is empty, or has spaces around it or control characters.
    """
    for name in records.classes:
        if not name or name != name.strip() or CONTROL.search(name):
            raise InputError(
                f"{records.source}: the class name {quote(name)} would change when it is read back, since it "
                "is empty, or has spaces around it or control characters. Correct it first."
            )


def image_files(records: Records) -> tuple[Path, ...] | None:
    """The files of the samples; None if not every sample has a file of its own."""
    if not isinstance(records.inputs, tuple):
        return None
    files = tuple(path for path in records.inputs if isinstance(path, Path))
    return files if len(files) == len(records.inputs) else None


def image_names(records: Records, folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """Relative names of the image files, for a file that lies in `folder`.

    Args:
        records: Data whose samples are image files.
        folder: Folder that the names are relative to if all images lie below it; otherwise they are
            relative to the folder of the data.

    Returns:
        The names, and in the second case a note on how to read them back.

    Raises:
        InputError: The samples are not files, or a name would change when it is read back.
    """
    files = image_files(records)
    if files is None:
        raise InputError(
            f"{records.source}: this format lists image files, but these samples are not image files. Use "
            "--format nan."
        )
    paths = [os.path.abspath(path) for path in files]
    base = os.path.abspath(folder)
    notes: tuple[str, ...] = ()
    if not all(path.startswith(os.path.join(base, "")) for path in paths):
        base = _common_folder(paths, records.ids)
        notes = (f"The images do not lie below {folder}: read it with --data.images {base}",)
    names = [os.path.relpath(path, base).replace(os.sep, "/") for path in paths]
    for name in names:
        if name != name.strip() or "\\" in name or CONTROL.search(name):
            raise InputError(
                f"{records.source}: the file name {quote(name)} would change when it is read back, since it "
                "has a backslash, control characters or spaces around it. Rename the file first."
            )
    return names, notes


def _common_folder(paths: Sequence[str], ids: Sequence[str]) -> str:
    """The folder that the ids are relative to, or the innermost one that holds all files."""
    ends = [os.sep + name.replace("/", os.sep) for name in ids]
    base = paths[0].removesuffix(ends[0])
    if base and all(path == base + end for path, end in zip(paths, ends, strict=True)):
        return base
    return os.path.commonpath([os.path.dirname(path) for path in paths])
