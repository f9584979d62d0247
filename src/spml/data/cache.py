"""Features of a frozen backbone, computed once and kept in a file."""

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
    """Features of all samples, computed in evaluation mode without augmentation, or read if they were before.

    The file is a .npy with the SHA-256 of its content appended; its name depends on `key` and on the content
    of the samples. A damaged file is written anew. A process that is killed at any moment leaves its batches
    behind, and the next one goes on from there; what nobody has gone on from for a week is removed.

    Args:
        backbone: images (B, channels, H, W) to features (B, D), on any device; left in evaluation mode.
        inputs: N samples, at least one.
        folder: where the file is; made if need be.
        key: everything about the backbone that the features depend on.
        batch_size: samples at a time.
        workers: processes that decode images; 0 = this one.
        report: told what was done.
        progress: told how many more samples are done, those of an earlier process included.

    Returns:
        float32 features (N, D), memory-mapped.

    Raises:
        SpmlError: an image can't be read any more; the file can't be written.
    """
    name = hashlib.sha256(f"{key} {inputs.fingerprint()}".encode()).hexdigest()[:32]
    path, count = folder / f"{name}.npy", len(inputs)
    if not intact(path):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpmlError(
                f"{folder}: can't be made ({error.strerror}). Choose another --data.cache."
            ) from error
        with PartialMatrix(path, count, report) as partial:
            # Another process may have finished it meanwhile.
            if not intact(path):
                if path.exists():
                    report(f"{path}: damaged, so these features are computed again")
                if partial.rows:
                    progress(partial.rows)
                    report(f"features of {count:,} samples: {partial.rows:,} were computed before, going on")
                _compute(backbone, inputs, partial, batch_size, workers, progress)
                remove_stale(folder)
                report(f"features of {count:,} samples: computed once, kept in {path}")
                return FeatureMatrix(np.load(path, mmap_mode="r", allow_pickle=False))
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
    """Add the rows that are missing."""
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
    """Whole batches, decoded in worker processes."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def __getitems__(self, rows: Sequence[int]) -> Tensor | SpmlError:
        # Raised in a worker, the message would contain a traceback.
        try:
            return self.inputs.fetch(rows, None)
        except SpmlError as error:
            return error


def _as_it_is(fetched: Any) -> Any:
    return fetched


def _loader(inputs: Inputs, first: int, batch_size: int, workers: int) -> DataLoader[Any]:
    rows = range(first, len(inputs))
    batches = [list(rows[start : start + batch_size]) for start in range(0, len(rows), batch_size)]
    return DataLoader(
        _Images(inputs),
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_as_it_is,
        generator=torch.Generator(),  # so that nothing is drawn from torch's global random state
    )
