"""Names of classes and image files, checked to come back as they are when a file is read."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..names import FilesBelow
from ..phrases import counted
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


def image_files(records: Records) -> Sequence[Path] | None:
    """The files of the samples; None if not every sample has a file of its own."""
    inputs: Any = records.inputs
    if isinstance(inputs, FilesBelow):
        return inputs
    are_files = isinstance(inputs, Sequence) and all(isinstance(path, Path) for path in inputs)
    return inputs if are_files else None


def image_names(records: Records, folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """Relative names of the image files, for a file that lies in `folder`.

    Args:
        records: Data whose samples are image files.
        folder: Folder that the names are relative to if `records.root` is not set and all images lie below
            it; otherwise they are relative to that root, or to the folder of the data.

    Returns:
        The names, and unless they are relative to `folder` a note on how to read them back.

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
    own = os.path.abspath(folder)
    base, reason = own, ""
    if records.root is not None:
        base, reason = os.path.abspath(records.root), f"File names are relative to {records.root}"
    elif _outside(paths, own):
        base, reason = _common_folder(paths, records.ids), f"The images do not lie below {folder}"
    notes = () if base == own else (f"{reason}: read it with --data.images {shlex.quote(base)}",)
    names = [os.path.relpath(path, base).replace(os.sep, "/") for path in paths]
    for name in names:
        if name != name.strip() or "\\" in name or CONTROL.search(name):
            raise InputError(
                f"{records.source}: the file name {quote(name)} would change when it is read back, since it "
                "has a backslash, control characters or spaces around it. Rename the file first."
            )
    return names, notes


def named_from(records: Records, root: Path) -> Records:
    """The same data, with the names of its files relative to `root` wherever they are written.

    Raises:
        InputError: `root` is not a folder, the samples are not image files, or one lies outside `root`.
    """
    if not root.is_dir():
        raise InputError(f"--root {root}: is not a folder. Name a folder that holds all images.")
    files = image_files(records)
    if files is None:
        raise InputError(
            f"--root {root}: {records.source} does not consist of image files, so there are no names to be "
            "relative to a folder. Leave --root out."
        )
    paths = [os.path.abspath(path) for path in files]
    if outside := _outside(paths, os.path.abspath(root)):
        raise InputError(
            f"--root {root}: {counted(len(outside), 'image lies', 'images lie')} outside this folder, such "
            f"as {quote(outside[0])}. Name a folder that holds all images, such as {_innermost(paths)}."
        )
    return replace(records, root=root)


def _outside(paths: Sequence[str], folder: str) -> list[str]:
    """The paths that do not lie below a folder; all are absolute."""
    return [path for path in paths if not path.startswith(os.path.join(folder, ""))]


def _common_folder(paths: Sequence[str], ids: Sequence[str]) -> str:
    """The folder that the ids are relative to, or the innermost one that holds all files."""
    ends = [os.sep + name.replace("/", os.sep) for name in ids]
    base = paths[0].removesuffix(ends[0])
    if base and paths == [base + end for end in ends]:
        return base
    return _innermost(paths)


def _innermost(paths: Sequence[str]) -> str:
    """The innermost folder that holds all files."""
    return os.path.commonpath([*map(os.path.dirname, paths)])
