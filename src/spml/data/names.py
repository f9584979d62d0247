"""Names of samples and paths of files that are made when they are asked for: ten million strings take 1 GB,
ten million of these names 200 MB."""

from __future__ import annotations

from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

Rows = Sequence[int] | npt.NDArray[np.int64]
T = TypeVar("T")

_BLOCK = 1 << 16  # made at a time by an iteration


class Made(Sequence[T]):
    """Elements that are made when they are asked for. They equal a tuple of the same elements."""

    @abstractmethod
    def take(self, rows: Rows) -> Made[T]:
        """Some elements, in the order of `rows`."""

    @abstractmethod
    def _make(self, chosen: slice) -> tuple[T, ...]:
        """Make some elements."""

    @overload
    def __getitem__(self, key: int) -> T: ...

    @overload
    def __getitem__(self, key: slice) -> tuple[T, ...]: ...

    def __getitem__(self, key: int | slice) -> T | tuple[T, ...]:
        if isinstance(key, slice):
            return self._make(key)
        position = range(len(self))[key]  # an `IndexError` if there is none
        return self._make(slice(position, position + 1))[0]

    def __iter__(self) -> Iterator[T]:
        for start in range(0, len(self), _BLOCK):
            yield from self[start : start + _BLOCK]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == its for mine, its in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))


class RowNames(Made[str]):
    """Names of samples that are row numbers, counted from 0: all `rows`, or these, int64 (N,).

    Example:
        >>> RowNames(3) == ("0", "1", "2"), RowNames(3).take([2, 0])[0]
        (True, '2')
    """

    def __init__(self, rows: int | npt.NDArray[np.int64]) -> None:
        self._rows: range | npt.NDArray[np.int64] = range(rows) if isinstance(rows, int) else rows

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name.isdecimal() or name != str(int(name)):
            return False
        return bool(int(name) in self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RowNames):
            return np.array_equal(self._rows, other._rows)
        return super().__eq__(other)

    __hash__ = Made.__hash__

    def take(self, rows: Rows) -> RowNames:
        """Names of some samples, in the order of `rows`."""
        return RowNames(np.asarray(self._rows, np.int64)[np.asarray(rows, np.int64)])

    def _make(self, chosen: slice) -> tuple[str, ...]:
        rows: Any = self._rows[chosen]
        return tuple(map(str, rows if isinstance(rows, range) else rows.tolist()))


class PackedNames(Made[str]):
    """Names in one block of text: 16 bytes each plus their characters.

    Args:
        text: UTF-8 of all names, uint8 (M,). Halves of surrogate pairs, which stand for bytes that are not
            UTF-8 in the names of files, are encoded, too.
        start: Where each name begins, int64 (N,).
        stop: Where each name ends, int64 (N,).

    Example:
        >>> PackedNames.of(["a/1.jpg", "b/2.jpg"]).take([1])[0]
        'b/2.jpg'
    """

    def __init__(
        self, text: npt.NDArray[np.uint8], start: npt.NDArray[np.int64], stop: npt.NDArray[np.int64]
    ) -> None:
        self._text, self._start, self._stop = text, start, stop

    @classmethod
    def of(cls, names: Iterable[str]) -> PackedNames:
        """Pack names."""
        text, lengths = bytearray(), array("q")
        rest = iter(names)
        while block := [*islice(rest, _BLOCK)]:
            whole = "".join(block)
            text += whole.encode(errors="surrogatepass")
            if whole.isascii():
                lengths.extend(map(len, block))
            else:
                lengths.extend(len(name.encode(errors="surrogatepass")) for name in block)
        size = np.asarray(lengths, np.int64)
        stop = np.cumsum(size)
        return cls(np.frombuffer(text, np.uint8), stop - size, stop)

    def __len__(self) -> int:
        return len(self._start)

    def take(self, rows: Rows) -> PackedNames:
        """Some names, in the order of `rows`."""
        chosen = np.asarray(rows, np.int64)
        return PackedNames(self._text, self._start[chosen], self._stop[chosen])

    def _make(self, chosen: slice) -> tuple[str, ...]:
        places = zip(self._start[chosen].tolist(), self._stop[chosen].tolist(), strict=True)
        text = self._text.data
        return tuple(str(text[start:stop], "utf-8", "surrogatepass") for start, stop in places)


class FilesBelow(Made[Path]):
    """Files below one folder; `names` are their paths relative to it, with slashes."""

    def __init__(self, root: Path, names: Sequence[str]) -> None:
        self.root, self.names = root, names

    def __len__(self) -> int:
        return len(self.names)

    def take(self, rows: Rows) -> FilesBelow:
        """Some files, in the order of `rows`."""
        return FilesBelow(self.root, take(self.names, rows))

    def _make(self, chosen: slice) -> tuple[Path, ...]:
        return tuple(self.root / name for name in self.names[chosen])


def take(elements: Sequence[T], rows: Rows) -> Sequence[T]:
    """Some elements, in the order of `rows`; those that are made when they are asked for stay so."""
    return elements.take(rows) if isinstance(elements, Made) else tuple(elements[row] for row in rows)
