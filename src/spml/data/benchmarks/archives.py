"""Safe unpacking of downloaded archives: no file outside the folder, and no incomplete file."""

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
MAX_HEADER = 16 * CHUNK  # tarfile reads an extended header into memory as a whole
# Errors caused by damaged data: those of decompressors have no number; seeking before the start is invalid.
_DAMAGE = (None, errno.EINVAL, errno.ENAMETOOLONG)


@dataclass(frozen=True)
class Limits:
    """Limits on the content of an archive.

    Attributes:
        members: Maximum number of files and folders.
        size: Maximum size of all files in bytes.
        ratio: Maximum of unpacked bytes per byte of the archive, against zip bombs; 1 MiB is always allowed.
    """

    members: int = 500_000
    size: int = 1 << 36
    ratio: float = 50.0


def extract(archive: Path, folder: Path, limits: Limits = Limits()) -> None:
    """Unpack a .zip, .tar or .tar.gz file, recognised by its content, into a folder.

    The archive is unpacked into a temporary folder inside `folder`, whose content is then moved, so that an
    error or a kill leaves no incomplete file. Existing folders are merged and existing files are replaced.
    Modes, owners and times in the archive are ignored.

    Args:
        archive: Archive file.
        folder: Folder to unpack into; created if it does not exist.
        limits: Limits on the content.

    Raises:
        InputError: The archive is damaged, exceeds `limits`, or has a member with an absolute path, with
            `..`, with the name of another member, or that is a link or a device; or `folder` has a link where
            a member would go. No member was unpacked.
        SpmlError: The disk is full, or files can't be written.
    """
    staging = folder / f".{archive.name}.unpacking"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if staging.is_dir():
            shutil.rmtree(staging)  # left by a killed process
        staging.mkdir()
        _unpack(archive, _Target(archive, staging, limits))
        for source, target in list(_moves(staging, folder, archive)):
            os.replace(source, target)
    except InputError:
        raise
    except OSError as error:
        if error.errno in _DAMAGE:
            raise InputError(_damaged(archive, error)) from error
        raise SpmlError(
            f"{archive}: could not be unpacked into {folder} ({error.strerror}). Free some space or choose "
            "another folder, then run again."
        ) from error
    except Exception as error:  # damaged archives raise almost anything, even zlib.error and RecursionError
        raise InputError(_damaged(archive, error)) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _damaged(archive: Path, error: Exception) -> str:
    reason = " ".join(str(error).split()) or type(error).__name__
    return f"{archive}: is not a .zip, .tar or .tar.gz file, or is damaged ({reason}). Download it again."


class _Target:
    """Temporary folder that members are unpacked into, within the limits."""

    def __init__(self, archive: Path, staging: Path, limits: Limits) -> None:
        self.archive, self.staging, self.limits = archive, staging, limits
        self.max_size = min(limits.size, max(int(limits.ratio * archive.stat().st_size), CHUNK))
        self._members, self._written = 0, 0

    def refuse(self, reason: str) -> InputError:
        return InputError(f"{self.archive}: not unpacked, because {reason}. Get it from its official source.")

    def check_size(self, size: int) -> None:
        if size > self.max_size:
            raise self.refuse(f"it unpacks to more than {self.max_size:,} bytes")

    def folder(self, name: str) -> None:
        path = self._path(name)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise self._duplicate(name) from error

    def file(self, name: str, source: BinaryIO) -> None:
        path = self._path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "xb") as stream:
                while block := source.read(CHUNK):
                    self._written += len(block)
                    self.check_size(self._written)
                    stream.write(block)
        except (FileExistsError, NotADirectoryError) as error:
            raise self._duplicate(name) from error

    def _path(self, name: str) -> Path:
        self._members += 1
        if self._members > self.limits.members:
            raise self.refuse(f"it holds more than {self.limits.members:,} files")
        path, windows = PurePosixPath(name.replace("\\", "/")), PureWindowsPath(name)
        if path.is_absolute() or ".." in path.parts or windows.drive or windows.root:
            raise self.refuse(f"its member {name[:200]!r} would lie outside the folder")
        if len(path.parts) > MAX_DEPTH:
            raise self.refuse(f"its member {name[:200]!r} lies more than {MAX_DEPTH} folders deep")
        return self.staging / path

    def _duplicate(self, name: str) -> InputError:
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
            raise target.refuse(f"its member {name[:200]!r} uses an unsupported compression method")
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
    """A stream limited to the maximum size of the archive plus an allowance for headers and padding."""

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
    """Pairs (source, target) to rename: entire folders if the target does not exist, else single files."""
    for entry in sorted(source.iterdir()):
        destination = target / entry.name
        if destination.is_symlink():
            raise InputError(
                f"{destination}: is a link, but {archive.name} has a member of this name, and links are "
                "never replaced or followed. Remove the link, or unpack the archive yourself."
            )
        if entry.is_dir() and destination.is_dir():
            yield from _moves(entry, destination, archive)
        else:
            yield entry, destination
