"""Files that are whole or not there: everything is written to a temporary name and renamed."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .errors import InputError, SpmlError


def write_with(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write(stream)` on a temporary file beside `path`, flush it to the disk, rename it to `path`.

    Whatever goes wrong, a file that was at `path` stays as it was and the temporary file is removed.

    Raises:
        SpmlError: the file could not be written (disk full, no permission); the message names it.
    """
    path = Path(path)
    # Processes of several machines that share the folder may have the same number.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise SpmlError(
            f"{path}: could not be written ({error.strerror or error}). What was there before is untouched. "
            "Free some space or choose another folder, then run again."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def check_output(path: Path, read: Iterable[Path] = ()) -> None:
    """Check, before long work, that a file may be written to `path`.

    Args:
        path: of the file.
        read: files and folders that are read; nothing that is there may be replaced.

    Raises:
        InputError: it is a folder, its folder is not there, or it would replace what is read.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; --output must name a file.")
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: there is no such folder. Make it, or name another --output.")
        there = path.resolve() if path.exists() else None
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror}). Name another --output.") from error
    for given in map(Path.resolve, read):
        if there and (there == given or given in there.parents):
            raise InputError(
                f"{path}: is a part of what is read, and would be replaced. Name another --output."
            )


def check_folder(folder: Path) -> None:
    """Check, before long work, that `folder` can be made if it is not there.

    Raises:
        InputError: something on the way is a file, or the name is not possible.
    """
    try:
        place = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        if place.is_dir() and os.access(place, os.W_OK):
            return
    except OSError as error:
        raise InputError(f"{folder}: can't be made ({error.strerror}). Name another --output.") from error
    if place == folder and not place.is_dir():
        raise InputError(f"{folder}: is a file; --output must name a folder.")
    what = "may not be written to" if place.is_dir() else "is a file"
    raise InputError(f"{folder}: can't be made, because {place} {what}. Name another --output.")


def make_folder(folder: Path) -> None:
    """Make a folder if it is not there.

    Raises:
        InputError: it can't be made.
    """
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: can't be made ({error.strerror}). Name another --output.") from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all."""
    write_with(path, lambda stream: stream.write(data))


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in UTF-8, whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `value` to `path` as indented JSON, whole or not at all. NaN is refused: it is not JSON."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A CSV file in UTF-8, whole or not at all."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, stream.getvalue())


def remove_leftovers(folder: Path, hours: float = 0.0) -> None:
    """Remove temporary files that a killed process left in `folder`, if nobody wrote to them for so long."""
    for leftover in folder.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime >= 3600 * hours:
                leftover.unlink()


def sha256_file(path: Path) -> str:
    """The SHA-256 of a file's content, as hexadecimal digits."""
    with open(path, "rb") as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
