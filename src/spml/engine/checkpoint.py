"""The whole state of a run in one safetensors file: tensors as they are, everything else as JSON metadata.

A checkpoint is written to a temporary name and renamed, and the previous one is kept, so that a run that is
killed at any moment can go on. It carries a checksum of all its bits, so that a damaged one is never resumed.
Nothing in the file is ever executed.
"""

from __future__ import annotations

import json
import os
import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..common.documents import parse_json
from ..common.errors import InputError
from ..common.files import write_with
from ..common.messages import log
from ..common.phrases import class_differences

# -- files with a checksum -------------------------------------------------------------------------------
#
# The checksum is a CRC-32, which finds each flipped bit with certainty, and misses other damage once in four
# billion times. It protects against damage, not against an attacker, who could compute any checksum again.
# Without special instructions of the processor it is several times faster than SHA-256.


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


# -- checkpoints -----------------------------------------------------------------------------------------


CURRENT = "checkpoint.safetensors"
NEW = "checkpoint.new.safetensors"
PREVIOUS = "checkpoint.previous.safetensors"
_NAMES = (CURRENT, NEW, PREVIOUS)
"""Files that may hold a checkpoint, in the order in which they are tried."""

_VERSION = 2


class OtherRun(InputError):
    """A file lies in the folder of another run than the one that it belongs to."""


def save_checkpoint(folder: Path, state: dict[str, Any]) -> None:
    """Write a state of nested dicts, lists, tuples, tensors, numbers, strings and None to a folder.

    Raises:
        SpmlError: The state could not be written; the existing checkpoint is untouched.
    """
    tensors: dict[str, Tensor] = {}
    tree = _encode(state, "", tensors)
    # The checksum comes before any text of a user.
    content = json.dumps({"checksum": BLANK, "content": tree})
    metadata = {"format": "spml checkpoint", "version": str(_VERSION), "state": content}
    write_checked(folder / NEW, tensors, metadata)
    if (folder / CURRENT).exists():
        os.replace(folder / CURRENT, folder / PREVIOUS)
    os.replace(folder / NEW, folder / CURRENT)


def load_checkpoint(folder: Path) -> dict[str, Any]:
    """Read the latest state in a folder, or the one before it if that file is damaged.

    Raises:
        InputError: There is no checkpoint, none can be read, or it was written by a newer version.
    """
    damages: list[str] = []
    for path in (folder / name for name in _NAMES if (folder / name).exists()):
        try:
            state = _read(path)
        except InputError:
            raise
        except (SafetensorError, LookupError, ValueError, TypeError, OSError) as error:
            what = "can't be read" if isinstance(error, OSError) else "damaged"
            damages.append(f"{path}: {what} ({error})")
            continue
        for damage in damages:
            log.info(f"{damage}; continuing from {path.name} instead")
        return state
    if damages:
        raise InputError(
            f"no checkpoint can be read. {'; '.join(damages)}. Restore one of them, or start again with "
            "`overwrite`."
        )
    raise InputError(f"{folder}: holds no checkpoint to resume.")


def has_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a checkpoint to resume from."""
    return any((folder / name).exists() for name in _NAMES)


def data_changed(folder: Path) -> InputError:
    """Error for a run that is resumed with other data."""
    return InputError(
        f"{folder}: can't be resumed, because the data changed since this run was started (its samples or "
        "labels, your own network, or the run that it started from). Restore it, or start again with "
        "`overwrite`."
    )


def check_run(path: Path, stated: object, expected: object, source: Path) -> None:
    """Check that a file belongs to the run that `source` does; an empty identity is that of an old version.

    Raises:
        OtherRun: It belongs to another run; the message names both.
    """
    if stated != expected:
        of, other = (f"run {each}" if each else "a run of an earlier version" for each in (stated, expected))
        raise OtherRun(
            f"{path}: is of {of}, but {source} is of {other}. Restore the file that was replaced, or start "
            "again with `overwrite`."
        )


def check_classes(folder: Path, before: Sequence[str], now: Sequence[str]) -> None:
    """Check that the classes of a run that is resumed still have the names that they had when it started."""
    if list(now) != list(before):
        raise InputError(
            f"{folder}: can't be resumed, because the class names changed since this run was started: "
            f"{class_differences(now, before)}. Restore them, or start again with `overwrite`."
        )


def _read(path: Path) -> dict[str, Any]:
    """Read one checkpoint; raises almost any exception if it is damaged."""
    checked = has_checksum(path)
    with safe_open(path, framework="pt") as stored:
        header = stored.metadata() or {}
        if int(header.get("version", 0)) > _VERSION:
            raise InputError(f"{path}: written by a newer version of spml; update spml to resume.")
        if not checked:
            raise ValueError("its checksum is missing")
        tree = parse_json(header["state"])["content"]
        tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118
    state = _decode(tree, tensors)
    if not isinstance(state, dict):
        raise ValueError("not a checkpoint of spml")
    return state


def random_state() -> dict[str, Any]:
    """Collect the random states of this process: torch (CPU and accelerators), NumPy, Python."""
    numpy_state: Any = np.random.get_state(legacy=True)  # noqa: NPY002
    _, keys, position, has_gauss, cached = numpy_state
    version, internal, gauss = random.getstate()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": [torch.from_numpy(keys.astype(np.int64)), int(position), int(has_gauss), float(cached)],
        "python": [version, list(internal), gauss],
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore the random states of this process."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), position, has_gauss, cached))  # noqa: NPY002
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))


@contextmanager
def restored_states() -> Iterator[None]:
    """Restore the random states of NumPy and Python at the end: a training that is resumed sets them."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


def _encode(value: Any, path: str, tensors: dict[str, Tensor]) -> Any:
    """Encode a nested value as JSON. Dicts become pairs: the state of an optimiser has integer keys."""
    if isinstance(value, Tensor):
        tensors[path] = value.detach().cpu().contiguous()
        return {"tensor": path}
    if isinstance(value, dict):
        return {"dict": [[key, _encode(item, f"{path}/{key}", tensors)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encode(item, f"{path}/{number}", tensors) for number, item in enumerate(value)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{path}: a checkpoint can't hold a {type(value).__name__}")


def _decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    (kind, content), *rest = value.items()
    if rest:
        raise ValueError("not a checkpoint of spml")
    if kind == "tensor":
        if content not in tensors:
            raise ValueError(f"its tensor {content!r} is missing")
        return tensors[content]
    if kind == "dict":
        return {key: _decode(item, tensors) for key, item in content}
    if kind in ("list", "tuple"):
        items = [_decode(item, tensors) for item in content]
        return items if kind == "list" else tuple(items)
    raise ValueError(f"not a checkpoint of spml: unknown part {kind!r}")
