"""Cache of the features of a frozen backbone: computed once and kept in a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from ..errors import SpmlError
from .dataset import Inputs
from .matrix import FeatureMatrix
from .partial import PartialMatrix, intact, remove_partial, remove_stale


def cached_features(
    backbone: nn.Module,
    inputs: Inputs,
    folder: Path,
    *,
    key: str,
    batch_size: int = 64,
    workers: int = 0,
    report: Callable[[str], None] = lambda line: None,
    progress: Callable[[int], None] = lambda done: None,
) -> FeatureMatrix:
    """Compute the features of all samples once, or read them from an earlier computation.

    Features are computed in evaluation mode and without augmentation. The file is a .npy file with the
    SHA-256 of its content appended; its name is derived from `key` and the content of the samples. A damaged
    file is computed again. A process that is killed at any moment leaves its finished batches behind, and the
    next one continues after them; unfinished files without progress for a week are removed.

    Args:
        backbone: Module from images (B, channels, H, W) to features (B, D), on any device. It is left in
            evaluation mode.
        inputs: At least one sample.
        folder: Folder of the file; created if it does not exist.
        key: Text that identifies everything about the backbone that the features depend on.
        batch_size: Samples per batch.
        workers: Worker processes that decode images; 0 = decode in this process.
        report: Callback for messages.
        progress: Callback for the number of samples that were completed since the last call; samples that an
            earlier process completed are included.

    Returns:
        float32 features (N, D), memory-mapped.

    Raises:
        SpmlError: An image can no longer be read, or the file can't be written.
    """
    name = hashlib.sha256(f"{key} {inputs.fingerprint()}".encode()).hexdigest()[:32]
    path, count = folder / f"{name}.npy", len(inputs)
    must_compute = not intact(path)
    if must_compute:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpmlError(
                f"{folder}: can't be created ({error.strerror}). Choose another --data.cache."
            ) from error
        with PartialMatrix(path, count, report) as partial:
            # Another process may have finished the file while this one waited for the lock.
            must_compute = not intact(path)
            if must_compute:
                if path.exists():
                    report(f"{path}: damaged; its features are computed again")
                if partial.rows:
                    progress(partial.rows)
                    report(
                        f"features of {count:,} samples: continuing after {partial.rows:,} computed before"
                    )
                _compute(backbone, inputs, partial, batch_size, workers, progress)
    if must_compute:
        remove_stale(folder)
        report(f"features of {count:,} samples: computed once, kept in {path}")
    else:
        remove_partial(path)
        progress(count)
        report(f"features of {count:,} samples: read from {path}")
    return FeatureMatrix(np.load(path, mmap_mode="r", allow_pickle=False))


def _compute(
    backbone: nn.Module,
    inputs: Inputs,
    partial: PartialMatrix,
    batch_size: int,
    workers: int,
    progress: Callable[[int], None],
) -> None:
    """Compute the missing rows and finish the file."""
    backbone.eval()
    device = next(backbone.parameters()).device
    with torch.inference_mode():
        for batch in _loader(inputs, partial.rows, batch_size, workers):
            if isinstance(batch, SpmlError):
                raise batch
            partial.add(backbone(batch.to(device)).float().cpu().numpy())
            progress(len(batch))
    partial.finish()


class _Images(TorchDataset[Any]):
    """Batches of samples, decoded in worker processes."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def __getitems__(self, rows: Sequence[int]) -> Tensor | SpmlError:
        # An exception raised in a worker gets a traceback into its message; a returned one does not.
        try:
            return self.inputs.fetch(rows, None)
        except SpmlError as error:
            return error


def _identity(batch: Any) -> Any:
    return batch


def _loader(inputs: Inputs, start: int, batch_size: int, workers: int) -> DataLoader[Any]:
    rows = range(start, len(inputs))
    batches = [list(rows[i : i + batch_size]) for i in range(0, len(rows), batch_size)]
    return DataLoader(
        _Images(inputs),
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_identity,
        generator=torch.Generator(),  # otherwise the loader draws from the global random state
    )
