"""Downloads that are resumed after an interruption and get their final name only if the checksum matches.

pooch and torchvision start again from the first byte after an interruption, which is too much for 13 GB.
"""

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
TIMEOUT = 60.0  # seconds without data
ATTEMPTS = 5  # consecutive attempts without progress
PAUSE = 2.0  # seconds before the second attempt; doubled before each further one
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS)  # not caused by the connection

Report = Callable[[str], None]


@dataclass(frozen=True)
class Archive:
    """An archive at its official source.

    Attributes:
        url: URL of the archive.
        size: Size in bytes.
        checksum: `sha256:` or `md5:` and the hexadecimal digits.
    """

    url: str
    size: int
    checksum: str

    @property
    def name(self) -> str:
        """File name of the archive."""
        return self.url.rsplit("/", 1)[-1].split("?")[0]


def fetch(archive: Archive, folder: Path, report: Report) -> Path:
    """Download an archive into a folder, or resume an incomplete download.

    An incomplete file is called NAME.part. If the complete file exists, only its checksum is verified.

    Args:
        archive: Archive to download.
        folder: Folder to download to; created if it does not exist.
        report: Callback for messages; the progress is reported at every tenth.

    Returns:
        Path of the archive.

    Raises:
        InputError: The file existed, but is not the official one.
        SpmlError: The download failed. An incomplete file is kept, unless its content is wrong.
    """
    path = folder / archive.name
    if path.exists():
        report(f"{path}: exists already; verifying its checksum")
        if mismatch := _mismatch(path, archive):
            raise InputError(f"{path}: {mismatch}. Remove it, then run again to download it.")
        return path
    part = path.with_name(path.name + ".part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _complete(archive, part, report)
        report(f"{path}: verifying its checksum")
        if mismatch := _mismatch(part, archive):
            part.unlink()
            raise SpmlError(
                f"{archive.url}: the downloaded file is not the official file: {mismatch}. It was removed; "
                "run again, or get the file in another way and put it into the folder."
            )
        part.replace(path)
    except OSError as error:
        raise SpmlError(
            f"{part}: could not be written ({error.strerror or error}). Free some space or choose another "
            "folder, then run again to resume."
        ) from error
    return path


def _complete(archive: Archive, part: Path, report: Report) -> None:
    """Request the rest of the file until it is complete."""
    failures = 0
    while True:
        before, reason = _size(part), "the connection was interrupted"
        try:
            if _request_rest(archive, part, report):
                return
        except HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
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
                "were downloaded; run again to resume."
            )
        if failures:
            time.sleep(PAUSE * 2 ** (failures - 1))


def _request_rest(archive: Archive, part: Path, report: Report) -> bool:
    """Make one request; return whether the file is complete afterwards."""
    done = _size(part)
    if done >= archive.size:
        return True
    headers = {"User-Agent": "spml", **({"Range": f"bytes={done}-"} if done else {})}
    request = urllib.request.Request(archive.url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if response.status == 206:
            stated = re.match(r"bytes (\d+)-\d+/(\d+|\*)$", response.headers.get("Content-Range", ""))
            if not stated or int(stated[1]) != done:
                part.unlink()  # the server sends another range than the requested one
                return False
        else:
            done = 0  # the server does not support ranges: start from the beginning
        with open(part, "ab" if done else "wb") as stream:
            while done < archive.size and (block := response.read(min(CHUNK, archive.size - done))):
                stream.write(block)
                tenth = done * 10 // archive.size
                done += len(block)
                if done * 10 // archive.size > tenth:
                    report(f"{archive.name}: {done / 1e6:,.0f} of {archive.size / 1e6:,.0f} MB")
    return done >= archive.size


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mismatch(path: Path, archive: Archive) -> str:
    """How the size or checksum of a file differs from the official one; empty if both match."""
    if path.stat().st_size != archive.size:
        return f"it has {path.stat().st_size:,} bytes instead of {archive.size:,}"
    name, _, expected = archive.checksum.partition(":")
    digest = hashlib.new(name, usedforsecurity=False)
    with open(path, "rb") as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
    if digest.hexdigest() != expected:
        return f"its {name} is {digest.hexdigest()} instead of {expected}"
    return ""
