"""Features of samples on disk, found again by the content of the sample, whatever data set it is in."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import struct
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ...common.errors import SpmlError
from ...common.files import write_with
from ...common.locks import try_lock
from ...common.messages import log
from ..dataset import Dataset
from ..matrix import FeatureMatrix, ShardedArray

Identities = npt.NDArray[np.uint8]
"""SHA-256 of samples, uint8 of shape (N, 32)."""

Positions = npt.NDArray[np.int64]
"""Where rows are stored, int64; -1 = nowhere."""

SIZE = hashlib.sha256().digest_size
_HEAD = struct.Struct(f"<II{SIZE}s")  # of a block: number of rows, their width, SHA-256 of their content
_SEGMENT = 40  # bits of a position that count rows within a segment
_ROWS = (1 << _SEGMENT) - 1
_MOST_SHARED = 1 << 34  # bytes of a set of features up to which it is made dense
_SHARED_ROWS = 4096
_RECENT = 1 << 16  # new rows that are looked up in a dict before they are sorted into the table


def store_folder(folder: Path, key: str) -> Path:
    """Folder within the cache `folder` for the features of the backbone that `key` identifies."""
    return folder / hashlib.sha256(key.encode()).hexdigest()[:32]


def first_of_each(identities: Identities, rows: Sequence[int]) -> list[int]:
    """Those of some rows that hold the first copy of a sample."""
    first: dict[bytes, int] = {}
    for row in rows:
        first.setdefault(identities[row].tobytes(), row)
    return list(first.values())


class FeatureStore:
    """Rows of features by the identity of their sample.

    The rows lie in segments, each of two files that only grow: `.rows` holds float32 numbers, `.index` a
    record per block of rows with the identities of their samples, the SHA-256 of the rows, and the SHA-256 of
    the record itself. A block is read only if both match, so that whatever a killed process or a damaged disk
    leaves behind is computed again. A process appends to a segment that no other process has locked, or to a
    new one; several processes can therefore use a store at the same time. Rows are read through a memory map.

    As a context manager, it releases the segment that it appended to.

    Args:
        folder: Folder of the segments, which belong to one backbone; made when a row is added.
        others: Further folders to read from, such as those of other runs with the same backbone.
    """

    def __init__(self, folder: Path, others: Sequence[Path] = ()) -> None:
        self.folder, self._others = folder, others
        self._segments: list[_Segment] = []
        self._own: tuple[_Segment, BinaryIO, BinaryIO] | None = None
        # All rows that are known, sorted by the first 8 bytes of their identities, and those added since.
        self._keys = np.empty(0, np.uint64)
        self._identities, self._positions = np.empty((0, SIZE), np.uint8), np.empty(0, np.int64)
        self._recent: dict[bytes, int] = {}
        self.refresh()

    def __enter__(self) -> FeatureStore:
        return self

    def __exit__(self, *error: object) -> None:
        if self._own:
            for stream in self._own[1:]:
                with contextlib.suppress(OSError):  # on a full disk, closing fails again
                    stream.close()
            self._own = None

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Sorted first 8 bytes of all identities: samples that need not be loaded."""
        self._sort_in()
        return self._keys

    def refresh(self) -> None:
        """Take notice of rows that other processes have added since."""
        known = {segment.index for segment in self._segments}
        for folder in (self.folder, *self._others):
            self._segments += [_Segment(path) for path in sorted(folder.glob("*.index")) if path not in known]
        self._sort_in([self._read(segment) for segment in self._segments])

    def locate(self, identities: Identities) -> Positions:
        """Position of the row of each sample, int64 (N,); -1 where there is none, or it is damaged."""
        while True:
            positions = np.full(len(identities), -1, np.int64)
            if len(self._keys):
                at = np.minimum(np.searchsorted(self._keys, _keys(identities)), len(self._keys) - 1)
                known = (self._identities[at] == identities).all(1)
                positions[known] = self._positions[at[known]]
            if self._recent:
                for row in np.flatnonzero(positions < 0).tolist():
                    positions[row] = self._recent.get(identities[row].tobytes(), -1)
            damaged = []
            for number in np.unique(positions[positions >= 0] >> _SEGMENT).tolist():
                own, segment = positions[positions >> _SEGMENT == number], self._segments[number]
                if len(wrong := own[~segment.intact(own & _ROWS)]):
                    log.info(f"{segment.file}: damaged; its features are computed again")
                    damaged.append(wrong)
            if not damaged:
                return positions
            whole = ~np.isin(self._positions, np.concatenate(damaged))
            self._keys, self._identities = self._keys[whole], self._identities[whole]
            self._positions = self._positions[whole]

    def append(self, identities: Identities, rows: npt.NDArray[np.float32]) -> None:
        """Add a block of rows (B, D)."""
        content = np.ascontiguousarray(rows, "<f4").tobytes()
        record = _HEAD.pack(*rows.shape, hashlib.sha256(content).digest()) + identities.tobytes()
        try:
            segment, index, file = self._own = self._own or self._open_own()
            # The rows first: a process that is killed in between leaves rows that no record names.
            file.seek(segment.size)
            file.write(content)
            file.flush()
            index.seek(segment.end)
            index.write(record + hashlib.sha256(record).digest())
            index.flush()
        except OSError as error:
            raise SpmlError(
                f"{self.folder}: features could not be written ({error.strerror or error}). Those computed "
                "so far are kept. Free some space or choose another data.cache, then run again."
            ) from error
        _, positions = self._read(segment, written=True)
        self._recent.update(zip(map(bytes, identities), positions.tolist(), strict=True))
        if len(self._recent) > _RECENT:
            self._sort_in()

    def rows(self, positions: Positions) -> npt.NDArray[np.float32]:
        """Rows at some positions, float32 (N, D)."""
        return self.features(positions).dense(range(len(positions)))

    def features(self, positions: Positions) -> FeatureMatrix:
        """Rows at some positions as samples, memory-mapped. All positions must be known."""
        which, segment = np.unique(positions >> _SEGMENT, return_inverse=True)
        parts = [self._segments[k].map() for k in which.tolist()]
        if len(parts) == 1:
            return FeatureMatrix(parts[0], positions & _ROWS)
        starts = np.cumsum([0, *map(len, parts)])
        return FeatureMatrix(ShardedArray(parts), starts[segment] + (positions & _ROWS))

    def origin(self, positions: Positions) -> Path:
        """Folder that the first of some rows is read from."""
        return self._segments[int(positions[0]) >> _SEGMENT].index.parent

    def _read(self, segment: _Segment, written: bool = False) -> tuple[Identities, Positions]:
        """Identities and positions of the rows that were added to a segment; `written` = by this process."""
        first, identities = segment.count, segment.read(written)
        return identities, np.arange(first, segment.count) | self._segments.index(segment) << _SEGMENT

    def _sort_in(self, added: Sequence[tuple[Identities, Positions]] = ()) -> None:
        """Sort recent and added rows into the table. Of several rows of a sample, the first one is found."""
        recent = np.frombuffer(b"".join(self._recent), np.uint8).reshape(-1, SIZE)
        identities = np.concatenate([self._identities, recent, *(part for part, _ in added)])
        rows = np.fromiter(self._recent.values(), np.int64)
        positions = np.concatenate([self._positions, rows, *(part for _, part in added)])
        keys = _keys(identities)
        order = np.argsort(keys, kind="stable")
        self._keys, self._identities, self._positions = keys[order], identities[order], positions[order]
        self._recent = {}

    def _open_own(self) -> tuple[_Segment, BinaryIO, BinaryIO]:
        """Open and lock a segment to append to: one that no other process writes, or a new one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for segment in self._segments:
            if segment.index.parent == self.folder and segment.file.exists():
                index = open(segment.index, "r+b")  # noqa: SIM115
                if try_lock(index):
                    # Rows that another process added before it released the lock.
                    self._sort_in([self._read(segment)])
                    file = open(segment.file, "r+b")  # noqa: SIM115
                    # What was not completed. Other processes do not map it.
                    index.truncate(segment.end)
                    file.truncate(segment.size)
                    return segment, index, file
                index.close()
        path = self.folder / f"{secrets.token_hex(8)}.index"
        file = open(path.with_suffix(".rows"), "x+b")  # noqa: SIM115
        index = open(path, "x+b")  # noqa: SIM115
        try_lock(index)
        segment = _Segment(path)
        self._segments.append(segment)
        return segment, index, file


class _Segment:
    """Two files of a store: `count` complete rows, and records of them up to byte `end`."""

    def __init__(self, index: Path) -> None:
        self.index, self.file = index, index.with_suffix(".rows")
        self.count = self.end = self.width = 0
        self._starts: list[int] = []  # of the blocks
        self._digests: list[bytes] = []
        self._intact: list[bool | None] = []  # None = not checked yet
        self._map: npt.NDArray[np.float32] | None = None

    @property
    def size(self) -> int:
        """Size of all complete rows in bytes."""
        return 4 * self.width * self.count

    def read(self, written: bool) -> Identities:
        """Read the records that follow those read before. Returns the identities of their rows.

        If they were `written` by this process, their rows need no check.
        """
        try:
            with open(self.index, "rb") as stream:
                stream.seek(self.end)
                content, available = stream.read(), self.file.stat().st_size
        except OSError:
            content, available = b"", 0
        start, blocks = 0, [np.empty((0, SIZE), np.uint8)]
        while len(content) - start >= _HEAD.size:
            count, width, digest = _HEAD.unpack_from(content, start)
            end = start + _HEAD.size + count * SIZE
            sound = content[end : end + SIZE] == hashlib.sha256(content[start:end]).digest()
            if not sound or width != (self.width or width) or 4 * width * (self.count + count) > available:
                break
            identities = np.frombuffer(content, np.uint8, count * SIZE, start + _HEAD.size)
            blocks.append(identities.reshape(count, SIZE))
            self._starts.append(self.count)
            self._digests.append(digest)
            self._intact.append(written or None)
            self.width, self.count = width, self.count + count
            start = end + SIZE
        self.end += start
        return np.concatenate(blocks)

    def intact(self, rows: Positions) -> npt.NDArray[np.bool_]:
        """Whether the block that holds each row is as it was written. Checks each block once."""
        blocks, of_row = np.unique(np.searchsorted(self._starts, rows, "right") - 1, return_inverse=True)
        for block in blocks.tolist():
            if self._intact[block] is None:
                end = [*self._starts[block + 1 : block + 2], self.count][0]
                content = self.map()[self._starts[block] : end]
                self._intact[block] = hashlib.sha256(content.tobytes()).digest() == self._digests[block]
        return np.array([self._intact[block] for block in blocks.tolist()], np.bool_)[of_row]

    def map(self) -> npt.NDArray[np.float32]:
        """All complete rows, mapped into memory."""
        if self._map is None or len(self._map) < self.count:
            mapped = np.memmap(self.file, "<f4", "r", shape=(self.count, self.width))
            self._map = np.asarray(mapped)  # rows of a memmap itself are slower to gather
        return self._map


def _keys(identities: Identities) -> npt.NDArray[np.uint64]:
    return np.ascontiguousarray(identities[:, :8]).view("<u8")[:, 0].astype(np.uint64)


def shared_features(data: Dataset, folder: Path) -> Dataset:
    """Keep the features of a data set as float32 in a folder; the first process to need them writes them.

    Files are named by their content, so that ways of hiding labels share them; one with another is replaced.
    """
    if data.kind != "feature":
        return data
    splits = {}
    for name, samples in data.splits.items():
        inputs = samples.inputs
        assert isinstance(inputs, FeatureMatrix)
        if inputs.num_parts or 4 * len(inputs) * inputs.width > _MOST_SHARED:
            return data
        path = folder / f"{inputs.fingerprint()[:32]}.npy"
        if (shared := _shared(path)) is None:
            folder.mkdir(parents=True, exist_ok=True)
            write_with(path, partial(_write_dense, inputs))
            shared = _shared(path)
        splits[name] = replace(samples, inputs=shared or inputs)
    return replace(data, splits=splits)


def _shared(path: Path) -> FeatureMatrix | None:
    """Features in a file that is named by their fingerprint; None if it is missing or damaged."""
    with contextlib.suppress(Exception):  # damaged headers raise nearly anything
        found = FeatureMatrix(np.asarray(np.load(path, mmap_mode="r", allow_pickle=False)))
        return found if found.fingerprint()[:32] == path.stem else None
    return None


def _write_dense(inputs: FeatureMatrix, stream: BinaryIO) -> None:
    shape = (len(inputs), inputs.width)
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    for start in range(0, shape[0], _SHARED_ROWS):
        stream.write(inputs.dense(range(start, min(start + _SHARED_ROWS, shape[0]))).tobytes())
