"""Files that are complete or absent: everything is written to a temporary name and renamed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from .errors import InputError, SpmlError
from .locks import has_ended
from .safe import open_file
from .spreadsheets import csv_text

_TEMPORARY = re.compile(r"\..+\.([0-9a-f]{6})-(\d{1,9})\.[0-9a-f]{6}\.tmp", re.DOTALL)
"""Name of a temporary file: of the final one, machine and process that write it, and a random part."""


def write_with(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Call `write(stream)` on a temporary file next to `path`, flush it to the disk, and rename it to `path`.

    If anything goes wrong, an existing file at `path` is unchanged and the temporary file is removed. What
    killed processes of this machine left in the folder is removed, too.

    Raises:
        SpmlError: The file could not be written (disk full, no permission); the message names it.
    """
    path = Path(path)
    _remove_own_leftovers(path.parent.absolute())
    temporary = _temporary(path)
    try:
        with open(temporary, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise SpmlError(
            f"{path}: could not be written ({error.strerror or error}). An existing file is untouched. "
            "Free some space or choose another folder, then run again."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def create_with(path: Path, make: Callable[[Path], object]) -> None:
    """Call `make(temporary)` to make a file next to `path`, and rename it to `path` unless a file is there.

    Of several processes that do so at once, the first one makes the file.
    """
    _remove_own_leftovers(path.parent.absolute())
    temporary = _temporary(path)
    try:
        make(temporary)
        try:
            os.link(temporary, path)
        except FileExistsError:
            pass
        except OSError:  # the file system has no hard links
            if not path.exists():
                temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def check_output(path: Path, read: Iterable[Path] = ()) -> None:
    """Check, before long work, that a file may be written to `path`.

    The path may not be a folder, and its folder must exist. Files and folders that are `read`, and what is in
    them, must not be replaced. The rest is checked by `check_writable`.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; `output` must name a file.")
        if not path.parent.is_dir():
            raise InputError(f"{path.parent}: no such folder. Make it, or name another `output`.")
        existing = path.resolve() if path.exists() else None
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror}). Name another `output`.") from error
    for source in map(Path.resolve, read):
        if existing and (existing == source or source in existing.parents):
            raise InputError(f"{path}: is read as input and would be replaced. Name another `output`.")
    check_writable(path)


def check_new(path: Path, *, overwrite: bool, other: str = "another `output`") -> None:
    """Refuse to replace what exists, unless that was asked for; `other` says what to name instead."""
    if path.exists() and not overwrite:
        raise InputError(f"{path}: already exists. Replace it (`overwrite`), or name {other}.")


def check_writable(path: Path) -> None:
    """Check, before long work, that `write_with` can make a file of this name: one is made and removed.

    What killed processes of this machine left in the folder is removed, too. A file that is read-only, a
    device or a pipe must not be replaced.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is a device or a pipe; `output` must name a file.")
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{path}: is read-only. Name another `output`, or make it writable.")
    _remove_own_leftovers(path.parent.absolute())
    trial = _temporary(path)
    try:
        with open(trial, "xb"):
            pass
        trial.unlink()
    except OSError as error:
        raise InputError(f"{path}: can't be written ({error.strerror}). Name another `output`.") from error


def check_folder(folder: Path) -> None:
    """Check, before long work, that a folder exists or can be made, and may be written to."""
    try:
        str(folder).encode()  # config.yaml states it
        nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        if nearest.is_dir() and os.access(nearest, os.W_OK):
            return
    except UnicodeEncodeError as error:
        raise InputError(f"{folder}: its name is not UTF-8. Name another `output`.") from error
    except OSError as error:
        raise InputError(f"{folder}: can't be made ({error.strerror}). Name another `output`.") from error
    if nearest == folder and not nearest.is_dir():
        raise InputError(f"{folder}: is a file; `output` must name a folder.")
    if nearest == folder:
        raise InputError(f"{folder}: may not be written to. Name another `output`.")
    problem = "may not be written to" if nearest.is_dir() else "is a file"
    raise InputError(f"{folder}: can't be made, because {nearest} {problem}. Name another `output`.")


def make_folder(folder: Path) -> None:
    """Make a folder if it does not exist, after the checks of `check_folder`."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: can't be made ({error.strerror}). Name another `output`.") from error


def same_path(first: str | Path, second: str | Path) -> bool:
    """Whether two paths lead to the same place; False if one is empty."""
    return bool(str(first) and str(second)) and Path(first).resolve() == Path(second).resolve()


def write_bytes(path: Path, data: bytes) -> None:
    """Write bytes to a file, completely or not at all."""
    write_with(path, lambda stream: stream.write(data))


def write_text(path: Path, text: str) -> None:
    """Write text to a file in UTF-8, completely or not at all."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a value as indented JSON, completely or not at all. NaN, which is not JSON, raises ValueError."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file in UTF-8, completely or not at all."""
    write_text(path, csv_text([header, *rows]))


def remove_leftovers(folder: Path, hours: float = 0.0) -> None:
    """Remove temporary files that a killed process left in a folder and that are older than some hours."""
    for leftover in folder.glob(".*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - leftover.stat().st_mtime >= 3600 * hours:
                leftover.unlink()


def _temporary(path: Path) -> Path:
    """A name that no other process or thread uses, from which it follows who does."""
    return path.with_name(f".{path.name}.{_machine()}-{os.getpid()}.{secrets.token_hex(3)}.tmp")


@functools.cache
def _remove_own_leftovers(folder: Path) -> None:
    """Remove temporary files of processes of this machine that have ended; once per folder and process."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _TEMPORARY.fullmatch(entry.name) if entry.name.endswith(".tmp") else None
            if found and found[1] == _machine() and has_ended(socket.gethostname(), int(found[2])):
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)


@functools.cache
def _machine() -> str:
    """Six digits for the machine, or the container, within which a number belongs to one process."""
    name = socket.gethostname()
    with contextlib.suppress(OSError):
        name += os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(name.encode()).hexdigest()[:6]


def json_sha256(content: Mapping[str, Any]) -> str:
    """SHA-256 of a JSON object without its field `sha256`, independent of the layout of its text."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_checked_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object as `write_json` does, with its SHA-256 in the field `sha256`."""
    write_json(path, {**content, "sha256": json_sha256(content)})


def check_json_sha256(content: Mapping[str, Any]) -> None:
    """Raise a `ValueError` if a JSON object has another SHA-256 than its field `sha256`, if it has one."""
    if "sha256" in content and content["sha256"] != json_sha256(content):
        raise ValueError(
            "its content does not have the SHA-256 that it states; to keep a change of your own, remove the "
            "field sha256"
        )


def sha256_file(path: Path) -> str:
    """SHA-256 of the content of a file, as hexadecimal digits."""
    with open_file(path) as stream:
        digest = hashlib.sha256()
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
