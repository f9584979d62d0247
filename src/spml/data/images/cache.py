"""Features of a frozen backbone, computed once and kept in a store on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from ...common.errors import SpmlError
from ...common.locks import one_at_a_time
from ..dataset import ImageInputs, Inputs
from ..matrix import FeatureMatrix
from .feature_store import FeatureStore

Compute = Callable[
    [nn.Module, ImageInputs, Sequence[int], int, torch.dtype | None],
    Iterator[tuple[Sequence[int], npt.NDArray[np.float32]]],
]
"""Computes features of a backbone for rows of the samples, in batches of a size and under autocast to a type.
Yields the rows of each batch with their features (B, D), in order."""

FULL_PRECISION = "32-true"
_HALF = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def store_folder(folder: Path, key: str) -> Path:
    """Folder within the cache `folder` for the features of the backbone that `key` identifies."""
    return folder / hashlib.sha256(key.encode()).hexdigest()[:32]


def cached_features(
    backbone: nn.Module,
    inputs: ImageInputs,
    folder: Path,
    *,
    key: str,
    others: Sequence[Path] = (),
    batch_size: int = 64,
    workers: int = 0,
    precision: str = FULL_PRECISION,
    report: Callable[[str], None] = lambda line: None,
    progress: Callable[[int], None] = lambda done: None,
    compute: Compute | None = None,
) -> FeatureMatrix:
    """Compute the features of images, except those that are in the store already, and add them to it.

    Features are computed in evaluation mode and without augmentation. The store (see `FeatureStore`) is
    a folder whose name is derived from `key`. It finds features by the content of an image, so that other
    splits and other data sets with the same images share them. A process that is killed at any moment leaves
    its finished batches behind. Another process that needs the same samples waits.

    Args:
        backbone: Module from images (B, channels, H, W) to features (B, D), on any device. It is left in
            evaluation mode.
        inputs: At least one sample.
        folder: Folder of the cache; created if it does not exist.
        key: Text that identifies everything about the backbone that the features depend on.
        others: Further folders of caches, which are read only.
        batch_size: Samples per batch.
        workers: Worker processes that decode images; 0 = decode in this process.
        precision: `32-true`, or `bf16-mixed` or `16-mixed`, whose features are rounded and kept apart.
        report: Callback for messages.
        progress: Callback for the number of samples that were completed since the last call; samples whose
            features are in the store are included.
        compute: Computes features elsewhere; None = in this process.

    Returns:
        float32 features (N, D), memory-mapped.

    Raises:
        SpmlError: An image can no longer be read, or the features can't be written.
    """
    key = key if precision == FULL_PRECISION else f"{key} {precision}"
    identities, name = inputs.identities(), store_folder(folder, key)
    with FeatureStore(name, [store_folder(other, key) for other in others], report) as store:
        positions = store.locate(identities)
        missing: dict[bytes, int] = {}  # a row of each image without features, of which there may be copies
        if (positions < 0).any():
            try:
                name.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SpmlError(
                    f"{folder}: can't be created ({error.strerror}). Choose another --data.cache."
                ) from error
            lock = name / f".{inputs.fingerprint()[:32]}.lock"
            with one_at_a_time(lock, report, "computes the same features"):
                store.refresh()  # another process may have computed them while this one waited for the lock
                positions = store.locate(identities)
                for row in np.flatnonzero(positions < 0).tolist():
                    missing.setdefault(identities[row].tobytes(), row)
                if missing and (stored := int((positions >= 0).sum())):
                    report(f"features of {len(inputs):,} samples: {stored:,} of them computed before")
                if missing and (done := len(inputs) - len(missing)):
                    progress(done)
                half, compute = _HALF.get(precision), compute or partial(_compute, workers=workers)
                for rows, features in compute(backbone, inputs, [*missing.values()], batch_size, half):
                    store.append(identities[rows], features)
                    progress(len(rows))
                positions = store.locate(identities)
        if missing:
            report(f"features of {len(inputs):,} samples: computed once, kept in {name}")
        else:
            progress(len(inputs))
            report(f"features of {len(inputs):,} samples: read from {store.origin(positions)}")
        return store.features(positions)


def _compute(
    backbone: nn.Module,
    inputs: Inputs,
    rows: Sequence[int],
    batch_size: int,
    half: torch.dtype | None,
    *,
    workers: int,
) -> Iterator[tuple[Sequence[int], npt.NDArray[np.float32]]]:
    """Yield rows, batch by batch, with their features, which are computed under autocast to `half`."""
    if not rows:
        return
    backbone.eval()
    # A network of the user's own may have no parameters, but its mean and deviation are buffers.
    device = next(chain(backbone.parameters(), backbone.buffers())).device
    batches = [list(rows[i : i + batch_size]) for i in range(0, len(rows), batch_size)]
    loader = DataLoader(
        _Images(inputs),
        batch_size=None,  # because the sampler gives whole batches
        sampler=batches,
        num_workers=workers,
        generator=torch.Generator(),  # otherwise the loader draws from the global random state
    )
    autocast = torch.autocast(device.type, half) if half else nullcontext()
    with torch.inference_mode(), autocast:
        for batch, images in zip(batches, loader, strict=True):
            if isinstance(images, SpmlError):
                raise images
            yield batch, backbone(images.to(device)).float().cpu().numpy()


class _Images(TorchDataset[Any]):
    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs

    def __getitem__(self, rows: Sequence[int]) -> Tensor | SpmlError:
        # An exception raised in a worker gets a traceback into its message; a returned one does not.
        try:
            return self.inputs.fetch(rows, None)
        except SpmlError as error:
            return error
