"""Features of a frozen backbone, computed once and kept in a file."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from ..errors import SpmlError
from ..files import write_with
from .arrays import FeatureMatrix
from .dataset import Inputs

_DIGEST = hashlib.sha256().digest_size


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
    of the samples. A damaged file is written anew.

    Args:
        backbone: images (B, channels, H, W) to features (B, D), on any device; left in evaluation mode.
        inputs: N samples, at least one.
        folder: where the file is; made if need be.
        key: everything about the backbone that the features depend on.
        batch_size: samples at a time.
        workers: processes that decode images; 0 = this one.
        report: told what was done.
        progress: told how many more samples are done.

    Returns:
        float32 features (N, D), memory-mapped.

    Raises:
        SpmlError: an image can't be read any more; the file can't be written.
    """
    name = hashlib.sha256(f"{key} {inputs.fingerprint()}".encode()).hexdigest()[:32]
    path = folder / f"{name}.npy"
    if path.exists():
        if _intact(path):
            progress(len(inputs))
            report(f"features of {len(inputs):,} samples: read from {path}")
            return FeatureMatrix(np.load(path, mmap_mode="r", allow_pickle=False))
        report(f"{path}: damaged, so these features are computed again")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpmlError(
            f"{folder}: can't be made ({error.strerror}). Choose another --data.cache."
        ) from error

    def blocks() -> Any:
        device = next(backbone.parameters()).device
        for batch in _loader(inputs, batch_size, workers):
            if isinstance(batch, SpmlError):
                raise batch
            yield backbone(batch.to(device)).float().cpu().numpy()
            progress(len(batch))

    backbone.eval()
    with torch.inference_mode():
        write_with(path, lambda stream: _write(stream, blocks(), len(inputs)))
    report(f"features of {len(inputs):,} samples: computed once, kept in {path}")
    return FeatureMatrix(np.load(path, mmap_mode="r", allow_pickle=False))


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


def _loader(inputs: Inputs, batch_size: int, workers: int) -> DataLoader[Any]:
    rows = list(range(len(inputs)))
    batches = [rows[start : start + batch_size] for start in range(0, len(inputs), batch_size)]
    return DataLoader(
        _Images(inputs),
        batch_sampler=batches,
        num_workers=workers,
        collate_fn=_as_it_is,
        generator=torch.Generator(),  # so that nothing is drawn from torch's global random state
    )


def _write(stream: BinaryIO, blocks: Any, count: int) -> None:
    """A .npy of `count` rows, block after block, and the SHA-256 of all that."""
    digest = hashlib.sha256()

    def put(data: bytes | memoryview) -> None:
        stream.write(data)
        digest.update(data)

    for number, block in enumerate(blocks):
        if number == 0:
            put(_header((count, block.shape[1])))
        put(np.ascontiguousarray(block, "<f4").data)
    stream.write(digest.digest())


def _header(shape: tuple[int, int]) -> bytes:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return header.getvalue()


def _intact(path: Path) -> bool:
    try:
        with open(path, "rb") as stream:
            digest, left = hashlib.sha256(), path.stat().st_size - _DIGEST
            while left > 0 and (block := stream.read(min(1 << 20, left))):
                digest.update(block)
                left -= len(block)
            return left == 0 and stream.read() == digest.digest()
    except OSError:
        return False
