"""Texts as samples: their UTF-8 bytes, which a backbone for texts turns into features."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .dataset import Augment, Kind, Rows
from .names import PackedNames

MOST_CHARACTERS = 20_000
"""Length at which a text is cut: a batch has room for the longest one in each row."""


class Texts:
    """Samples that are texts, packed in one block of memory."""

    kind: Kind = "text"

    def __init__(self, texts: PackedNames) -> None:
        self._texts = texts

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Pack texts, each cut at `MOST_CHARACTERS`. NUL and halves of surrogate pairs become `?`."""
        cut = (text[:MOST_CHARACTERS].replace("\0", "?") for text in texts)
        return cls(PackedNames.of(text.encode(errors="replace").decode() for text in cut))

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, row: int) -> str:
        return self._texts[row]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def fetch(self, rows: Rows, augment: Augment | None = None) -> Tensor:
        """UTF-8 bytes of a batch, uint8 of shape (B, L), with zeros after each text. No text is augmented."""
        encoded = [self._texts[int(row)].encode() for row in rows]
        batch = np.zeros((len(encoded), max(map(len, encoded), default=0)), np.uint8)
        for row, text in zip(batch, encoded, strict=True):
            row[: len(text)] = np.frombuffer(text, np.uint8)
        return torch.from_numpy(batch)

    def take(self, rows: Rows) -> Texts:
        """A subset of the samples; the texts are not copied."""
        return Texts(self._texts.take(rows))

    def identities(self) -> npt.NDArray[np.uint8]:
        """SHA-256 of each text, uint8 (N, 32)."""
        digests = b"".join(hashlib.sha256(b"text " + text.encode()).digest() for text in self)
        return np.frombuffer(digests, np.uint8).reshape(len(self), 32)

    def fingerprint(self) -> str:
        """SHA-256 of all texts."""
        return hashlib.sha256(b"texts" + self.identities().tobytes()).hexdigest()


def decoded(batch: Tensor) -> list[str]:
    """Texts of a batch as `Texts.fetch` returns it."""
    return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in batch.cpu().numpy()]
