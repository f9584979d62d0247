"""Safetensors files that carry a checksum of all their bits.

The checksum is a CRC-32, which finds each flipped bit with certainty, and misses other damage once in four
billion times. It protects against damage, not against an attacker, who could compute any checksum again.
Without special instructions of the processor it is several times faster than SHA-256.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from ..common.files import write_with

BLANK = "crc32:00000000"
"""Text in the metadata of a file that `write_checked` replaces by the checksum."""

_CHECKSUM = re.compile(rb"crc32:([0-9a-f]{8})")
_PIECE = 1 << 24
"""Bytes that are written at a time."""

_SMALL = 1 << 18
"""Bytes of the largest piece whose checksum is computed here: handing it to a thread would take longer."""

_TYPES = {
    torch.int64: "I64", torch.float64: "F64", torch.float32: "F32", torch.int32: "I32",
    torch.bfloat16: "BF16", torch.float16: "F16", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
"""Names of the types in a safetensors file, in the order in which it holds their tensors."""

_LARGEST_HEADER = 100_000_000
"""Largest header of a safetensors file in bytes, as its library has it."""


def write_checked(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file, completely or not at all, with its checksum in its own metadata.

    The checksum is that of the content with `BLANK` in its place. The bytes are those of
    `safetensors.torch.save`, but they are written piece by piece: no second copy of the tensors is made,
    which for the checkpoint of a head with a million classes would be gigabytes.

    Args:
        path: File to write.
        tensors: Contiguous tensors on the CPU; they may share their memory.
        metadata: Texts of the file, which contain `BLANK` before any text of a user.

    Raises:
        SpmlError: The file could not be written; the message names it.
    """
    place = {dtype: number for number, dtype in enumerate(_TYPES)}
    ordered = sorted(tensors.items(), key=lambda item: (place[item[1].dtype], item[0]))
    header = _header(ordered, metadata)
    start = header.index(BLANK.encode())

    def write(stream: BinaryIO) -> None:
        checksum = 0
        with ThreadPoolExecutor(1) as pool:  # computes the checksum of a large piece while it is written
            for piece in _pieces(header, ordered):
                if len(piece) <= _SMALL:
                    stream.write(piece)
                    checksum = zlib.crc32(piece, checksum)
                else:
                    updated = pool.submit(zlib.crc32, piece, checksum)
                    stream.write(piece)
                    checksum = updated.result()
        stream.seek(start)
        stream.write(f"crc32:{checksum:08x}".encode())

    write_with(path, write)


def _header(tensors: Sequence[tuple[str, Tensor]], metadata: Mapping[str, str]) -> bytes:
    """Start of a safetensors file: the length of a JSON text, and that text."""
    content: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, tensor in tensors:
        first, end = end, end + tensor.numel() * tensor.element_size()
        shape = list(tensor.shape)
        content[name] = {"dtype": _TYPES[tensor.dtype], "shape": shape, "data_offsets": [first, end]}
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _pieces(header: bytes, tensors: Sequence[tuple[str, Tensor]]) -> Iterator[Any]:
    yield header
    for _, tensor in tensors:
        if tensor.numel():
            content = tensor.reshape(-1).view(torch.uint8).numpy()
            for first in range(0, len(content), _PIECE):
                yield content[first : first + _PIECE]


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
        checksum = zlib.crc32(start + header[: found.start()] + BLANK.encode() + header[found.end() :])
        while block := stream.read(1 << 20):
            checksum = zlib.crc32(block, checksum)
    if checksum != int(found[1], 16):
        raise ValueError("its content does not match its checksum")
    return True
