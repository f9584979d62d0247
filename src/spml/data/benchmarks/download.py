"""Downloads that go on where they were cut, and are checked before they get their name."""

from __future__ import annotations

import errno
import hashlib
import http.client
import re
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError

from ...errors import InputError, SpmlError

CHUNK = 1 << 20
TIMEOUT = 60.0  # seconds without a byte
ATTEMPTS = 5  # in a row that bring nothing
PAUSE = 2.0  # seconds before the second attempt, doubled before each further one
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS)  # no fault of the connection

Report = Callable[[str], None]


@dataclass(frozen=True)
class Archive:
    """A file of the official source.

    Attributes:
        url: where it is.
        size: bytes.
        checksum: `sha256:` or `md5:` and the hexadecimal digits.
    """

    url: str
    size: int
    checksum: str

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rsplit("/", 1)[-1].split("?")[0]


def fetch(archive: Archive, folder: Path, report: Report) -> Path:
    """Download an archive into a folder, or go on with what is there of it.

    While it is incomplete it is called NAME.part. A file that is there under its own name is only checked.

    Args:
        archive: what to get.
        folder: where to put it; made if it does not exist.
        report: told how far it is, every tenth.

    Returns:
        The file.

    Raises:
        InputError: the file was there, but is not the official one.
        SpmlError: the server can't be reached or sends something else; what came so far is kept unless it is
            wrong.
    """
    path = folder / archive.name
    if path.exists():
        report(f"{path}: is there already and is checked")
        if found := _wrong(path, archive):
            raise InputError(f"{path}: {found}. Remove it, then run again to download it.")
        return path
    part = path.with_name(path.name + ".part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _complete(archive, part, report)
        report(f"{path}: is checked")
        if found := _wrong(part, archive):
            part.unlink()
            raise SpmlError(
                f"{archive.url}: what was downloaded is not the official file: {found}. It was removed; run "
                "again, or get the file in another way and put it into the folder."
            )
        part.replace(path)
    except OSError as error:
        raise SpmlError(
            f"{part}: could not be written ({error.strerror or error}). Free some space or choose another "
            "folder, then run again: what is there is used."
        ) from error
    return path


def _complete(archive: Archive, part: Path, report: Report) -> None:
    """Ask for the rest of the file until all of it is there."""
    failures = 0
    while True:
        before, reason = _size(part), "the connection was cut"
        try:
            if _go_on(archive, part, report):
                return
        except HTTPError as error:
            reason = f"the server answers {error.code} {error.reason}"
            if error.code < 500 and error.code != 429:
                failures = ATTEMPTS
        except (http.client.HTTPException, OSError) as error:
            if isinstance(error, OSError) and error.errno in _DISK:
                raise
            reason = " ".join(str(error).split()) or type(error).__name__
        failures = 0 if _size(part) > before else failures + 1
        if failures >= ATTEMPTS:
            raise SpmlError(
                f"{archive.url}: can't be downloaded ({reason}). {_size(part):,} of {archive.size:,} bytes "
                "are there; run again to go on."
            )
        if failures:
            time.sleep(PAUSE * 2 ** (failures - 1))


def _go_on(archive: Archive, part: Path, report: Report) -> bool:
    """One request; whether the file is complete afterwards."""
    have = _size(part)
    if have >= archive.size:
        return True
    headers = {"User-Agent": "spml", **({"Range": f"bytes={have}-"} if have else {})}
    request = urllib.request.Request(archive.url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if response.status == 206:
            stated = re.match(r"bytes (\d+)-\d+/(\d+|\*)$", response.headers.get("Content-Range", ""))
            if not stated or int(stated[1]) != have:
                part.unlink()  # the server sends another piece than the one asked for
                return False
        else:
            have = 0  # the server knows no ranges: from the beginning
        with open(part, "ab" if have else "wb") as stream:
            while have < archive.size and (block := response.read(min(CHUNK, archive.size - have))):
                stream.write(block)
                tenth = have * 10 // archive.size
                have += len(block)
                if have * 10 // archive.size > tenth:
                    report(f"{archive.name}: {have / 1e6:,.0f} of {archive.size / 1e6:,.0f} MB")
    return have >= archive.size


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _wrong(path: Path, archive: Archive) -> str:
    """What is wrong with a file; empty if nothing is."""
    if path.stat().st_size != archive.size:
        return f"it has {path.stat().st_size:,} bytes instead of {archive.size:,}"
    name, _, expected = archive.checksum.partition(":")
    found = hashlib.new(name, usedforsecurity=False)
    with open(path, "rb") as stream:
        while block := stream.read(CHUNK):
            found.update(block)
    if found.hexdigest() != expected:
        return f"its {name} is {found.hexdigest()} instead of {expected}"
    return ""
