"""What training, prediction and evaluation see of the data: inputs, observed labels, and apart from both the
truth."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from ..labels import ObservedLabels

Kind = Literal["image", "feature"]
Rows = Sequence[int] | npt.NDArray[np.int64]


class Augment(NamedTuple):
    """Which random change of a sample is wanted: with its row, the whole seed of that change.

    Attributes:
        seed, epoch: of the training run.
        view: 0 = the ordinary view, changed as little as the data's own settings say; others are further
            views, drawn independently.
        strength: of a further view.
    """

    seed: int
    epoch: int
    view: int = 0
    strength: Literal["weak", "strong"] = "weak"


class Inputs(Protocol):
    """Samples without any label."""

    @property
    def kind(self) -> Kind:
        """Whether samples are images or feature vectors."""
        ...

    def __len__(self) -> int: ...

    def fetch(self, rows: Rows, augment: Augment | None) -> torch.Tensor:
        """The samples of a batch: uint8 of shape (B, 3, H, W), (B, 1, H, W) if grey, or float32 (B, D).

        Args:
            rows: which samples.
            augment: in training, where every random change depends on nothing but this and the row; None
                for no random change.

        Raises:
            SpmlError: a file that could be read when the data was opened can't be read any more.
        """
        ...

    def take(self, rows: Rows) -> Inputs:
        """Some of the samples, in the order given."""
        ...

    def fingerprint(self) -> str:
        """SHA-256 over the content of the samples, in order."""
        ...


@runtime_checkable
class DecodedInputs(Inputs, Protocol):
    """Images that are decoded from files and resized whenever they are fetched."""

    def fetch_views(
        self, rows: Rows, augment: Augment | None, further: Sequence[Augment]
    ) -> tuple[torch.Tensor, ...]:
        """The ordinary view of a batch and further ones, each as `fetch` gives it; a file is decoded once.

        Args:
            rows: which samples.
            augment: of the ordinary view (its `view` is 0); None for no random change.
            further: of the other views (`view` is not 0).
        """
        ...

    def resized(self, size: int, interpolation: str) -> Inputs:
        """The same images at another size, in pixels."""
        ...


@dataclass(frozen=True)
class Samples:
    """One split: what a method may see of it.

    Attributes:
        ids: one name per sample: its file, or its row.
        inputs: the samples.
        observed: their observed labels.
    """

    ids: tuple[str, ...]
    inputs: Inputs
    observed: ObservedLabels

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Dataset:
    """A data set, read, split and checked.

    Attributes:
        name: name of the file or folder it came from.
        classes: class names, in the order of the columns of every label matrix.
        splits: `train`, `val` and, if the data has one, `test` (what is opened only to evaluate may lack
            some).
        truth: FULL labels of every split that is fully labelled. For evaluators only; it can't be reached
            from `splits`.
        notes: what was understood and what was left out, one line each.
        skipped: (file, reason) of every image that can't be used.
        empty: what a class without positives does in mAP: `exclude`, or `zero` as publications on the
            benchmarks count it.
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
        """Whether samples are images or feature vectors."""
        return next(iter(self.splits.values())).inputs.kind

    @property
    def width(self) -> int:
        """Length of the feature vectors, or number of colour channels of the images."""
        return int(next(iter(self.splits.values())).inputs.fetch([0], None).shape[1])

    @property
    def decoded(self) -> bool:
        """Whether fetching a sample decodes a file, so that worker processes pay."""
        return any(isinstance(samples.inputs, DecodedInputs) for samples in self.splits.values())

    def fingerprint(self) -> str:
        """SHA-256 over samples and observed labels of all splits."""
        digest = hashlib.sha256()
        for name, samples in self.splits.items():
            digest.update(f"{name} {samples.observed.fingerprint()} {samples.inputs.fingerprint()}".encode())
        return digest.hexdigest()

    def resized(self, size: int, interpolation: str) -> Dataset:
        """The same data with image files resized to `size` x `size` pixels; other data stays as it is."""
        splits = {
            name: replace(samples, inputs=samples.inputs.resized(size, interpolation))
            if isinstance(samples.inputs, DecodedInputs)
            else samples
            for name, samples in self.splits.items()
        }
        return replace(self, splits=splits)
