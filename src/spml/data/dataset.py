"""Data as training, prediction and evaluation see it: inputs, observed labels and, kept apart, the truth."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from ..labels import IntArray, ObservedLabels
from .names import Rows as Rows
from .names import take

Kind = Literal["image", "feature", "text"]


class Augment(NamedTuple):
    """A random change of a sample: together with the row, these values are its whole seed.

    Attributes:
        seed: Seed of the training run.
        epoch: Epoch of the training run.
        view: 0 for the ordinary view, which changes only as the settings of the data say; further views
            have other numbers and are drawn independently.
        strength: Strength of the change of a further view.
    """

    seed: int
    epoch: int
    view: int = 0
    strength: Literal["weak", "strong"] = "weak"


class Inputs(Protocol):
    """Samples without their labels."""

    @property
    def kind(self) -> Kind:
        """Whether samples are images, feature vectors or texts."""
        ...

    def __len__(self) -> int: ...

    def fetch(self, rows: Rows, augment: Augment | None) -> torch.Tensor:
        """Load a batch: uint8 images (B, 3, H, W), or (B, 1, H, W) if grey, float32 features (B, D), or uint8
        bytes (B, L) of texts.

        Args:
            rows: Samples to load.
            augment: Random change, which depends on nothing but this and the row; None for no change.

        Raises:
            SpmlError: A file that could be read when the data was opened can't be read any more.
        """
        ...

    def take(self, rows: Rows) -> Inputs:
        """Select samples, in the order of `rows`."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 over the content of the samples, in order."""
        ...


class Loaded(NamedTuple):
    """Samples of a batch as far as they can be read, or what a network computes of them.

    Identities are the SHA-256 of all images of the batch and of the settings that their pixels depend on,
    uint8 (B, 32); those of unreadable ones mean nothing. They are empty for other samples.
    """

    values: torch.Tensor  # samples as `Inputs.fetch` loads them, or outputs of a network (n, ...)
    rows: list[int]  # which samples of the batch they belong to, as positions in the batch
    identities: npt.NDArray[np.uint8]
    unreadable: dict[int, str]  # reason for each position in the batch whose image can't be used
    machine: str = ""  # name of the machine of a cluster that computed the values


@runtime_checkable
class ImageInputs(Inputs, Protocol):
    """Images, each of which can be told from all others by its content."""

    def identities(self) -> npt.NDArray[np.uint8]:
        """SHA-256 of the content of each image and of all settings that its pixels depend on, (N, 32)."""
        ...


@dataclass(frozen=True)
class Samples:
    """One split, as far as a method may see it.

    Attributes:
        ids: Name of each sample: its file or its row. A tuple, or a sequence that makes names when asked.
        inputs: The samples.
        observed: Observed labels of the samples.
        groups: Group of each sample, int64 (N,), numbered over all splits; None without groups.
    """

    ids: Sequence[str]
    inputs: Inputs
    observed: ObservedLabels
    groups: IntArray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Rows) -> Samples:
        """Select samples, in the order of `rows`."""
        chosen = np.asarray(rows, np.int64)
        groups = None if self.groups is None else self.groups[chosen]
        return Samples(take(self.ids, rows), self.inputs.take(rows), self.observed.take(chosen), groups)


@dataclass(frozen=True)
class Dataset:
    """A data set that has been read, checked and split.

    Attributes:
        name: Name of the file or folder that holds the data.
        classes: Class names, in the order of the columns of every label matrix.
        splits: `train`, `val` and, if the data has one, `test`. Data that is opened for evaluation only may
            lack some of them.
        truth: FULL labels of every split that is fully labelled. For evaluators only: it can't be reached
            from `splits`.
        notes: How the data was understood and what was left out, one line each.
        skipped: (sample, reason) of every sample that was left out: an image that can't be used, a missing
            file, or a sample without any label.
        empty: How a class without positives enters mAP: `exclude`, or `zero` as in publications on the
            benchmarks.
    """

    name: str
    classes: tuple[str, ...]
    splits: Mapping[str, Samples]
    truth: Mapping[str, ObservedLabels]
    notes: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    empty: Literal["exclude", "zero"] = "exclude"

    @property
    def kind(self) -> Kind:
        """Whether samples are images, feature vectors or texts."""
        return next(iter(self.splits.values())).inputs.kind

    @property
    def decoded(self) -> bool:
        """Whether loading a sample decodes a file, so that worker processes speed it up."""
        return any(hasattr(samples.inputs, "fetch_views") for samples in self.splits.values())

    @property
    def width(self) -> int:
        """Channels of an image, or features of a vector."""
        return sample_width(next(iter(self.splits.values())).inputs)

    def fingerprint(self) -> str:
        """SHA-256 over samples, observed labels and groups of all splits."""
        digest = hashlib.sha256()
        for name, samples in self.splits.items():
            digest.update(f"{name} {samples.observed.fingerprint()} {samples.inputs.fingerprint()}".encode())
            if samples.groups is not None:
                digest.update(samples.groups.astype("<i8").tobytes())
        return digest.hexdigest()


def sample_width(inputs: Inputs) -> int:
    """Channels of an image, or features of a vector, of the first sample."""
    return int(inputs.fetch([0], None).shape[1])
