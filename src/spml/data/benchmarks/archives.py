"""Unpacking of archives from elsewhere: nothing lands outside the folder, nothing is left half-written."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import BinaryIO, cast

from ...errors import InputError, SpmlError

CHUNK = 1 << 20
MAX_DEPTH = 32  # folders within folders
MAX_HEADER = 16 * CHUNK  # tarfile reads an extended header in one piece
# What damaged data causes: decompressors complain without a number; a place before the start is invalid.
_DAMAGE = (None, errno.EINVAL, errno.ENAMETOOLONG)


@dataclass(frozen=True)
class Limits:
    """What an archive may unpack to.

    Attributes:
        members: files and folders.
        size: bytes.
        ratio: bytes per byte of the archive (zip bombs); 1 MiB is always allowed.
    """

    members: int = 500_000
    size: int = 1 << 36
    ratio: float = 50.0


def extract(archive: Path, folder: Path, limits: Limits | None = None) -> None:
    """Unpack a .zip, .tar or .tar.gz file, recognised by its content, into a folder.

    Everything is unpacked into a temporary folder inside `folder` and then renamed, so that after an error or
    a kill no file is there in part. Folders that exist are merged, files of the same name are replaced.
    Modes, owners and times in the archive are ignored.

    Args:
        archive: the file.
        folder: where its content goes; made if it does not exist.
        limits: what is refused as too large.

    Raises:
        InputError: damaged; a member with an absolute path or `..`, a link, a device, a name that occurs
            twice; more than `limits` allow; a link in `folder` at a place where a member goes. Nothing was
            unpacked.
        SpmlError: the disk is full, or files can't be written.
    """
    staging = folder / f".{archive.name}.unpacking"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if staging.is_dir():
            shutil.rmtree(staging)  # left by a killed process
        staging.mkdir()
        _unpack(archive, _Target(archive, staging, limits or Limits()))
        for source, place in list(_moves(staging, folder, archive)):
            os.replace(source, place)
    except InputError:
        raise
    except OSError as error:
        if error.errno in _DAMAGE:
            raise InputError(_damaged(archive, error)) from error
        raise SpmlError(
            f"{archive}: could not be unpacked into {folder} ({error.strerror}). Free some space or choose "
            "another folder, then run again."
        ) from error
    except Exception as error:  # damaged archives raise nearly anything, zlib.error and RecursionError too
        raise InputError(_damaged(archive, error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _damaged(archive: Path, error: Exception) -> str:
    reason = " ".join(str(error).split()) or type(error).__name__
    return f"{archive}: is no .zip, .tar or .tar.gz file, or is damaged ({reason}). Remove it, get it again."


class _Target:
    """The temporary folder, and what may still be put there."""

    def __init__(self, archive: Path, staging: Path, limits: Limits) -> None:
        self.archive, self.staging, self.limits = archive, staging, limits
        self.most = min(limits.size, max(int(limits.ratio * archive.stat().st_size), CHUNK))
        self._members, self._written = 0, 0

    def refuse(self, what: str) -> InputError:
        return InputError(f"{self.archive}: is not unpacked: {what}. Get it from its official source.")

    def check_size(self, size: int) -> None:
        if size > self.most:
            raise self.refuse(f"it unpacks to more than {self.most:,} bytes")

    def folder(self, name: str) -> None:
        path = self._place(name)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise self._twice(name) from error

    def file(self, name: str, source: BinaryIO) -> None:
        path = self._place(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "xb") as stream:
                while block := source.read(CHUNK):
                    self._written += len(block)
                    self.check_size(self._written)
                    stream.write(block)
        except (FileExistsError, NotADirectoryError) as error:
            raise self._twice(name) from error

    def _place(self, name: str) -> Path:
        self._members += 1
        if self._members > self.limits.members:
            raise self.refuse(f"it holds more than {self.limits.members:,} files")
        path, windows = PurePosixPath(name.replace("\\", "/")), PureWindowsPath(name)
        if path.is_absolute() or ".." in path.parts or windows.drive or windows.root:
            raise self.refuse(f"its member {name[:200]!r} would lie outside the folder")
        if len(path.parts) > MAX_DEPTH:
            raise self.refuse(f"its member {name[:200]!r} lies more than {MAX_DEPTH} folders deep")
        return self.staging / path

    def _twice(self, name: str) -> InputError:
        return self.refuse(f"its member {name[:200]!r} occurs twice, or both as a file and as a folder")


def _unpack(archive: Path, target: _Target) -> None:
    with open(archive, "rb") as raw:
        magic = raw.read(2)
        raw.seek(0)
        if magic == b"PK":
            with zipfile.ZipFile(raw) as opened:
                _unzip(opened, target)
            return
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if magic == b"\x1f\x8b" else raw
        with tarfile.open(fileobj=_Bounded(stream, target), mode="r:") as tar:
            _untar(tar, target)


def _unzip(archive: zipfile.ZipFile, target: _Target) -> None:
    for member in archive.infolist():
        name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise target.refuse(f"its member {name[:200]!r} is packed in an unusual way")
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise target.refuse(f"its member {name[:200]!r} is a link or a device")
        if member.is_dir():
            target.folder(name)
            continue
        with archive.open(member) as source:
            target.file(name, cast(BinaryIO, source))


def _untar(archive: tarfile.TarFile, target: _Target) -> None:
    for member in archive:
        if member.isdir():
            target.folder(member.name)
        elif member.isfile() and (source := archive.extractfile(member)) is not None:
            with source:
                target.file(member.name, cast(BinaryIO, source))
        else:
            raise target.refuse(f"its member {member.name[:200]!r} is a link or a device")


class _Bounded(io.RawIOBase):
    """A stream that gives no more than the archive may hold; headers and padding are allowed for."""

    def __init__(self, stream: BinaryIO, target: _Target) -> None:
        self._stream, self._target = stream, target

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MAX_HEADER:
            raise self._target.refuse(f"it has a header of {size:,} bytes")
        data = self._stream.read(size)
        self._check(self._stream.tell())
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check(offset)
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def _check(self, position: int) -> None:
        self._target.check_size(position - 1024 * self._target.limits.members)


def _moves(source: Path, target: Path, archive: Path) -> Iterator[tuple[Path, Path]]:
    """What is renamed to what: whole folders where nothing is yet, single files otherwise."""
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if place.is_symlink():
            raise InputError(
                f"{place}: is a link, and {archive.name} holds something of this name. Nothing is unpacked "
                "over or through links: remove it, or unpack the archive yourself."
            )
        if entry.is_dir() and place.is_dir():
            yield from _moves(entry, place, archive)
        else:
            yield entry, place
