"""Batches of samples, loaded in this process or by others: for training, and to compute outputs of a network.

The order of training depends on (seed, epoch) alone, so that a run can go on in mid-epoch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset

from ..common.draws import permutation
from ..data import Augment, Inputs, Samples
from ..data.dataset import Loaded
from ..data.images.image_files import NO_KEYS, ImageFiles
from ..methods.base import Batch, Strength

EpochRow = tuple[int, int]
"""(epoch, row): every row carries the epoch, so that loader processes may outlive an epoch."""

Keys = npt.NDArray[np.uint64]
"""Sorted first 8 bytes of the identities of images."""


def epoch_order(count: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Draw the order of `count` samples in an epoch, int64 (count,)."""
    return permutation(count, "order", seed, epoch)


class Batches:
    """Rows of samples, cut into batches; each process takes every `world`-th row of a batch.

    Args:
        rows: Rows of all samples.
        size: Rows of a batch over all processes; the last one may have fewer.
        rank: Index of this process.
        world: Number of processes.
    """

    def __init__(self, rows: Sequence[int], size: int, rank: int = 0, world: int = 1) -> None:
        self.rows, self.size, self.rank, self.world = rows, size, rank, world

    def __len__(self) -> int:
        return -(-len(self.rows) // self.size)

    def __getitem__(self, number: int) -> Sequence[int]:
        return self.rows[number * self.size : (number + 1) * self.size][self.rank :: self.world]

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return map(self.__getitem__, range(len(self)))

    def rows_in(self, number: int) -> int:
        """Number of rows of a batch over all processes."""
        return min(self.size, len(self.rows) - number * self.size)


class EpochBatches(Batches):
    """Batches of one `epoch` in random order, from batch `first` on.

    Args:
        count: Number of samples.
        size, rank, world: As in `Batches`.
        seed: Seed of the order.
    """

    def __init__(self, count: int, size: int, seed: int, rank: int = 0, world: int = 1) -> None:
        super().__init__(range(count), size, rank, world)
        self.seed, self.epoch, self.first = seed, 0, 0

    def __len__(self) -> int:
        return super().__len__() - self.first

    def __iter__(self) -> Iterator[list[EpochRow]]:
        order = epoch_order(len(self.rows), self.seed, self.epoch).tolist()
        shuffled = Batches(order, self.size, self.rank, self.world)
        for number in range(self.first, len(shuffled)):
            yield [(self.epoch, row) for row in shuffled[number]]


class _Training(Dataset[Any]):
    """Fetches whole batches, so that features and small images need one indexing operation."""

    def __init__(self, samples: Samples, seed: int, views: Sequence[Strength], regions: bool) -> None:
        self.samples, self.seed, self.views = samples, seed, views
        self.regions = getattr(samples.inputs, "regions", None) if regions else None

    def __getitems__(self, positions: Sequence[EpochRow]) -> tuple[torch.Tensor, Sequence[Any], Batch]:
        # A process may have no row of an uneven last batch: one row is fetched for its shape, then dropped.
        rows, inputs, count = [row for _, row in positions] or [0], self.samples.inputs, len(positions)
        augment = Augment(self.seed, positions[0][0] if positions else 0)
        further = [
            augment._replace(view=number, strength=strength)
            for number, strength in enumerate(self.views, start=1)
        ]
        if isinstance(inputs, ImageFiles):
            batches = inputs.fetch_views(rows, augment, further)
        else:
            batches = tuple(inputs.fetch(rows, view) for view in (augment, *further))
        first, *views = (batch[:count] for batch in batches)
        target = self.samples.observed.target(rows)[:count]
        regions = torch.from_numpy(self.regions(rows, augment))[:count] if self.regions else None
        return first, tuple(views), Batch(target, torch.tensor(rows)[:count], regions=regions)


def make_loader(
    samples: Samples,
    batches: EpochBatches,
    seed: int,
    workers: int,
    pin: bool,
    *,
    views: Sequence[Strength] = (),
    regions: bool = False,
) -> DataLoader[Any]:
    """Make a loader of (inputs, further views of them, labels) for training.

    Args:
        samples: Samples to load.
        batches: Rows of each batch.
        seed: Seed of random augmentation.
        workers: Number of processes that load; 0 = this process.
        pin: Whether batches are placed in pinned memory.
        views: Further views of each sample.
        regions: Whether batches say which part of each image they show.
    """
    return _data_loader(_Training(samples, seed, views, regions), batches, workers, pin)


class _Loading(Dataset[Any]):
    def __init__(self, inputs: Inputs, known: Keys) -> None:
        self.inputs, self.known = inputs, known

    def __getitems__(self, rows: Sequence[int]) -> Loaded:
        if isinstance(self.inputs, ImageFiles):
            return self.inputs.load(rows, self.known)
        values = self.inputs.fetch(rows, None)
        return Loaded(values, list(range(len(rows))), np.empty((0, 32), np.uint8), {})


def load_batches(
    inputs: Inputs,
    batches: Batches | Sequence[Sequence[int]],
    device: torch.device,
    *,
    workers: int = 0,
    known: Keys = NO_KEYS,
) -> Iterable[Loaded]:
    """Load batches one after the other, without random changes, for a device that computes.

    Args:
        inputs: Samples. Image files need not have been checked; those that can't be read are left out.
        batches: Rows of each batch.
        device: Device that computes.
        workers: Number of processes that decode images; -1 = one per core, at most 8; 0 = this process.
        known: Images that need not be decoded, by their keys.
    """
    workers = min(os.cpu_count() or 1, 8) if workers < 0 else workers
    # Starting a process takes longer than decoding a single batch.
    workers = min(workers, len(batches)) if isinstance(inputs, ImageFiles) and len(batches) > 1 else 0
    return _data_loader(_Loading(inputs, known), batches, workers, device.type == "cuda")


def _data_loader(dataset: Dataset[Any], batches: Any, workers: int, pin: bool) -> DataLoader[Any]:
    return DataLoader(
        dataset,
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_identity,
        pin_memory=pin,
        persistent_workers=workers > 0,
        generator=torch.Generator(),  # otherwise the loader draws from the global random state
    )


def _identity(batch: Any) -> Any:
    return batch
