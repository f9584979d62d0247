"""Paths that a data file names: they stay below one folder, and what they name is there."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError

# No file system takes longer names, and none of these characters is part of an honest one.
MAX_NAME, MAX_PATH = 255, 4096
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_DRIVE = re.compile("[A-Za-z]:")
_ELSEWHERE = "If the images are elsewhere, say --data.images with the folder that holds them all."


def inside(root: Path, text: str, where: str) -> Path:
    """The file below `root` that a data file calls `text`; it need not be there.

    A backslash is read as a slash, as files from Windows have it. An absolute path is taken if it lies below
    `root`. Links may lead to any place below `root`, and `root` itself may be one.

    Args:
        root: folder that names are relative to.
        text: the name.
        where: what named it, such as "x.csv: row 3", for messages.

    Returns:
        `root` and the rest of the path, without `.` and `..`.

    Raises:
        InputError: the name is empty, leads out of `root` (absolute, `..`, or a link), is longer than file
            systems take, or holds a control character.
    """
    if not text:
        raise InputError(f"{where}: the name of a file is empty.")
    if CONTROL.search(text):
        raise InputError(
            f"{where}: {shown(text)} holds a character that no file name has (a line break, NUL, half a "
            "surrogate pair). Correct the name."
        )
    relative = posixpath.normpath(text.replace("\\", "/"))
    if relative.startswith("/") or _DRIVE.match(relative):
        relative = _below(root, relative)
    parts = relative.split("/")
    if parts[0] == "..":
        raise InputError(
            f"{where}: {shown(text)} lies outside the folder {root}. Name files relative to that folder, "
            f"without leaving it. {_ELSEWHERE}"
        )
    if relative == ".":
        raise InputError(f"{where}: {shown(text)} is the folder {root}, but must be a file in it.")
    if len(relative.encode()) > MAX_PATH or max(len(part.encode()) for part in parts) > MAX_NAME:
        raise InputError(
            f"{where}: {shown(text)} is longer than a file name can be ({MAX_NAME} bytes, {MAX_PATH:,} with "
            "all folders). Correct the name."
        )
    path = root / relative
    place = os.fspath(root)
    for part in parts:
        place = os.path.join(place, part)
        if os.path.islink(place):
            refuse_leaving_link(path, (root,), where)
            break
    return path


def refuse_leaving_link(path: Path, roots: Sequence[Path], where: str) -> None:
    """Refuse a path whose links lead to a place that is below none of `roots`.

    Raises:
        InputError: names the place.
    """
    target = Path(os.path.realpath(path))
    if not any(target.is_relative_to(os.path.realpath(root)) for root in roots):
        raise InputError(
            f"{where}: {shown(str(path))} is a link to {shown(str(target))}, outside the folder "
            f"{roots[0]}. Put the file itself there. {_ELSEWHERE}"
        )


def is_file(path: Path) -> bool:
    """Whether a file is there, perhaps through a link."""
    return os.path.isfile(path)


def is_special(path: Path) -> bool:
    """Whether there is something that is neither a file nor a folder: reading a pipe may never end."""
    return not os.path.isfile(path) and not os.path.isdir(path) and os.path.exists(path)


def shown(value: object) -> str:
    """A value from a file, for a message: one line, never long, whatever it holds."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]  # as JSON has them
    if isinstance(value, str):
        return repr(value if len(value) <= 100 else value[:97] + "...")
    if isinstance(value, (int, float)):
        return repr(value)[:40]
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else type(value).__name__


def _below(root: Path, text: str) -> str:
    """An absolute path relative to `root`; `..` if it does not lie below."""
    folder, name = os.path.split(text)
    place, base = Path(os.path.realpath(folder), name), os.path.realpath(root)
    return place.relative_to(base).as_posix() if place.is_relative_to(base) else ".."
