"""Paths and values that come from data files: paths stay below one folder, values are quoted for messages."""

from __future__ import annotations

import errno
import os
import posixpath
import re
import stat
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from .errors import CONTROL as CONTROL
from .errors import InputError

# File systems do not support longer names; none of these characters occurs in an honest name.
MAX_NAME, MAX_PATH = 255, 4096
_DRIVE = re.compile("[A-Za-z]:")
_ELSEWHERE = "If the images are in another folder, pass that folder as data.images."


def inside(root: Path, text: str, where: str) -> Path:
    """Resolve a file name from a data file to a path below `root`; the file need not exist.

    Backslashes are read as slashes, since files written on Windows contain them. An absolute path and one
    with `..` are accepted if they lead to a path below `root`. Links may lead anywhere below `root`, and
    `root` itself may be a link.

    Args:
        root: Folder that names are relative to.
        text: File name.
        where: Position of the name for messages, such as "x.csv: row 3".

    Returns:
        `root` joined with the name, without `.` and `..`.

    Raises:
        InputError: The name is empty, leads out of `root` (an absolute path, `..`, or a link), is longer than
            file systems support, or contains a control character.
    """
    if not text:
        raise InputError(f"{where}: the name of a file is empty.")
    if CONTROL.search(text):
        raise InputError(
            f"{where}: {quote(text)} holds a character that no file name has (a line break, NUL, half of a "
            "surrogate pair). Correct the name."
        )
    relative = posixpath.normpath(text.replace("\\", "/"))
    absolute = relative.startswith("/") or bool(_DRIVE.match(relative))
    if absolute or relative.startswith("../"):
        base = Path(os.path.realpath(root) if absolute else os.path.abspath(root))
        # Links in the folders of an absolute path are resolved; the file itself may be a link, see below.
        folder, name = os.path.split(relative)
        path = Path(os.path.realpath(folder) if absolute else os.path.normpath(base / folder), name)
        relative = path.relative_to(base).as_posix() if path.is_relative_to(base) else ".."
    parts = relative.split("/")
    if parts[0] == "..":
        raise InputError(
            f"{where}: {quote(text)} lies outside the folder {shown(root)}. {_advice(text, absolute)}"
        )
    if relative == ".":
        raise InputError(f"{where}: {quote(text)} is the folder {root}, but must be a file in it.")
    if len(relative.encode()) > MAX_PATH or max(len(part.encode()) for part in parts) > MAX_NAME:
        raise InputError(
            f"{where}: {quote(text)} is longer than a file name can be ({MAX_NAME} bytes, or {MAX_PATH:,} "
            "for a whole path). Correct the name."
        )
    path = root / relative
    prefix = os.fspath(root)
    for part in parts:
        prefix = os.path.join(prefix, part)
        if os.path.islink(prefix):
            refuse_leaving_link(path, (root,), where)
            break
    return path


def shown(folder: Path) -> str:
    """Folder for a message, in which `.` could be treated as the end of the sentence."""
    return str(folder.resolve() if folder.name in ("", "..") else folder)


def refuse_leaving_link(path: Path, roots: Sequence[Path], where: str) -> None:
    """Refuse a path whose links lead outside all folders of `roots`."""
    target = Path(os.path.realpath(path))
    if not any(target.is_relative_to(os.path.realpath(root)) for root in roots):
        raise InputError(
            f"{where}: {quote(str(path))} is a link to {quote(str(target))}, outside the folder "
            f"{roots[0]}. Replace the link by the file. {_ELSEWHERE}"
        )


is_file = os.path.isfile
"""Whether a path is a regular file or a link to one; unlike `Path.is_file`, it never raises."""


def open_file(path: str | Path) -> BinaryIO:
    """Open a file for reading. A pipe or a device, from which reading may never end, is an `OSError`."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError as error:  # a NUL, or half of a character
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from error
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        problem = os.strerror(number) if stat.S_ISDIR(mode) else "it is a pipe or a device, not a file"
        raise OSError(number, problem, str(path))
    return open(file, "rb")


def read_bytes(path: str | Path) -> bytes:
    """Read a file that `open_file` opens."""
    with open_file(path) as stream:
        return stream.read()


def check_readable(path: Path) -> None:
    """Check that a file can be opened or a folder listed, before its format is recognised."""
    try:
        if path.is_dir():
            os.scandir(path).close()
        elif is_file(path):
            open_file(path).close()
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}.") from error


def is_special(path: Path) -> bool:
    """Whether the path exists but is neither a file nor a folder: reading from a pipe may never end."""
    return not os.path.isfile(path) and not os.path.isdir(path) and os.path.exists(path)


def quote(value: object) -> str:
    """Quote a value from a data file for a message: one line of limited length, whatever the value is."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]  # as in JSON
    if isinstance(value, str):
        return repr(value if len(value) <= 100 else value[:97] + "...")
    if isinstance(value, (int, float)):
        return repr(value)[:40]
    if isinstance(value, list):
        return "a list"
    return "an object" if isinstance(value, dict) else type(value).__name__


def spelled(name: str) -> str:
    """A quoted name in which spellings that look alike differ: other Unicode forms are escaped."""
    return quote(name) if unicodedata.is_normalized("NFC", name) else ascii(name)


def _advice(text: str, absolute: bool) -> str:
    """Advice for a path that lies outside the folder of the images."""
    origin = ""
    if "?d=" in text:
        origin = "It is an address of Label Studio, whose JSON export is read as it is. "
    elif absolute and not os.path.exists(os.path.dirname(text)):
        origin = "It is a path on another machine. "
    return f"{origin}Name files relative to that folder. {_ELSEWHERE}"
