"""Safetensors files that carry a checksum of all their bits."""

from __future__ import annotations

import hashlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from ..files import write_with

_NAME = "sha256:"
BLANK = _NAME + 64 * "0"
"""Text in the metadata of a file that `write_checked` replaces by the checksum."""

_CHECKSUM = re.compile(rb"sha256:([0-9a-f]{64})")
_LARGEST_HEADER = 100_000_000
"""Largest header of a safetensors file in bytes, as its library has it."""


def write_checked(path: Path, data: bytes) -> None:
    """Write a safetensors file, completely or not at all, with its SHA-256 in its own metadata.

    The checksum is that of the content with `BLANK` in its place.

    Args:
        path: File to write.
        data: Content of the file. Its metadata contains `BLANK` before any text of a user.

    Raises:
        SpmlError: The file could not be written; the message names it.
    """
    place = data.index(BLANK.encode()) + len(_NAME)
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(hashlib.sha256, data)

        def write(stream: BinaryIO) -> None:
            stream.write(data)
            stream.flush()
            # Waiting for the disk takes longer than the checksum, which therefore costs hardly any time.
            os.fsync(stream.fileno())
            stream.seek(place)
            stream.write(digest.result().hexdigest().encode())

        write_with(path, write)


def has_checksum(path: Path) -> bool:
    """Whether a safetensors file carries a checksum. If it does, its content is checked.

    Raises:
        ValueError: The content has another checksum.
        OSError: The file can't be read.
    """
    with open(path, "rb") as stream:
        start = stream.read(8)
        header = stream.read(min(int.from_bytes(start, "little"), _LARGEST_HEADER))
        found = _CHECKSUM.search(header)
        if found is None:
            return False
        digest = hashlib.sha256(start + header[: found.start()] + BLANK.encode() + header[found.end() :])
        while block := stream.read(1 << 20):
            digest.update(block)
    if digest.hexdigest().encode() != found[1]:
        raise ValueError("its content does not match its checksum")
    return True
