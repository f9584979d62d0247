"""Batches in an order that depends on (seed, epoch) alone, so that a run can go on in mid-epoch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from ..common.draws import permutation
from ..data import Augment, Samples
from ..data.dataset import DecodedInputs
from ..methods.base import Batch, Strength

Loaded = tuple[torch.Tensor, tuple[torch.Tensor, ...], Batch]
"""Inputs, further views of them, labels."""

EpochRow = tuple[int, int]
"""(epoch, row): every row carries the epoch, so that loader processes may outlive an epoch."""


def epoch_order(count: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """Draw the order of `count` samples in an epoch, int64 (count,)."""
    return permutation(count, "order", seed, epoch)


class EpochBatches(Sampler[list[EpochRow]]):
    """Batches of one epoch, from batch `first` on; each process takes every `world`-th row of a batch.

    Args:
        count: Number of samples.
        batch_size: Rows per batch over all processes.
        seed: Seed of the order; None = in order, for prediction.
        rank: Index of this process.
        world: Number of processes.
    """

    def __init__(self, count: int, batch_size: int, seed: int | None, rank: int = 0, world: int = 1) -> None:
        self.count, self.batch_size, self.seed = count, batch_size, seed
        self.rank, self.world = rank, world
        self.epoch, self.first = 0, 0

    def __len__(self) -> int:
        return math.ceil(self.count / self.batch_size) - self.first

    def __iter__(self) -> Iterator[list[EpochRow]]:
        order = np.arange(self.count) if self.seed is None else epoch_order(self.count, self.seed, self.epoch)
        for batch in range(self.first, math.ceil(self.count / self.batch_size)):
            rows = order[batch * self.batch_size : (batch + 1) * self.batch_size][self.rank :: self.world]
            yield [(self.epoch, row) for row in rows.tolist()]

    def rows(self, batch: int) -> int:
        """Number of rows of a batch over all processes."""
        return min(self.batch_size, self.count - batch * self.batch_size)


class _Rows(Dataset[Any]):
    """Fetches whole batches, so that features and small images need one indexing operation."""

    def __init__(self, samples: Samples, augment_seed: int | None, views: Sequence[Strength]) -> None:
        self.samples, self.augment_seed, self.views = samples, augment_seed, views
        self.decode_once = isinstance(samples.inputs, DecodedInputs)  # too slow to ask for each batch

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, position: EpochRow) -> Loaded:
        return self.__getitems__([position])

    def __getitems__(self, positions: Sequence[EpochRow]) -> Loaded:
        # A process may have no row of an uneven last batch: one row is fetched for its shape, then dropped.
        rows, inputs, count = [row for _, row in positions] or [0], self.samples.inputs, len(positions)
        augment = (
            None
            if self.augment_seed is None
            else Augment(self.augment_seed, positions[0][0] if positions else 0)
        )
        further = [
            augment._replace(view=number, strength=strength)
            for number, strength in enumerate(self.views, start=1)
            if augment is not None
        ]
        if self.decode_once:
            batches = cast(DecodedInputs, inputs).fetch_views(rows, augment, further)
        else:
            batches = tuple(inputs.fetch(rows, view) for view in (augment, *further))
        first, *views = (batch[:count] for batch in batches)
        target = self.samples.observed.target(rows)[:count]
        return first, tuple(views), Batch(target, torch.tensor(rows)[:count])


def _identity(batch: Any) -> Any:
    return batch


def make_loader(
    samples: Samples,
    batches: EpochBatches,
    augment_seed: int | None,
    workers: int,
    pin: bool,
    *,
    views: Sequence[Strength] = (),
) -> DataLoader[Any]:
    """Make a plain DataLoader over whole batches. It draws nothing from the global random state of torch.

    Args:
        samples: Samples to load.
        batches: Rows of each batch.
        augment_seed: Seed of random augmentation; None = no augmentation.
        workers: Number of processes that load; 0 = this process.
        pin: Whether batches are placed in pinned memory.
        views: Further views of each sample.
    """
    return DataLoader(
        _Rows(samples, augment_seed, views),
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_identity,
        pin_memory=pin,
        persistent_workers=workers > 0,
        generator=torch.Generator(),
    )
