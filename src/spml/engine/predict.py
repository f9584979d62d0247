"""Prediction of many samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..data import Samples
from ..metrics import ScoreBlocks
from ..metrics.top_scores import fits
from .distributed import gather_rows
from .loader import EpochBatches, make_loader

_BATCH_SCORES = 1 << 26
"""Largest number of scores of a batch where not all scores fit: 256 MiB."""

Logits = npt.NDArray[np.float32]


def predict_logits(
    model: nn.Module,
    samples: Samples,
    fabric: Any,
    *,
    batch_size: int,
    workers: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Logits:
    """Compute logits in evaluation mode, float32 (N, C), on every process.

    Args:
        model: Maps inputs to `Outputs`. It is left in the mode it was in.
        samples: Samples to predict; their labels are not used.
        fabric: Lightning Fabric; the processes share the work.
        batch_size: Samples per step over all processes.
        workers: Number of processes that decode images.
        progress: Called after each step with the number of samples in it.
    """
    logits, first = np.empty((0, 0), np.float32), 0
    for batch in _batches(model, samples, fabric, batch_size, workers):
        if not first:
            logits = np.empty((len(samples), batch.shape[1]), np.float32)
        logits[first : first + len(batch)] = batch.cpu().numpy()
        first += len(batch)
        if progress is not None:
            progress(len(batch))
    return logits


def predict_scores(
    model: nn.Module,
    samples: Samples,
    classes: int,
    fabric: Any,
    *,
    batch_size: int,
    workers: int = 0,
    check: Callable[[bool], None] = lambda finite: None,
) -> Logits | ScoreBlocks:
    """Logits (N, C) as an array where they fit, else as blocks that are computed whenever they are looked at.

    Args:
        model, samples, fabric, workers: As in `predict_logits`.
        classes: Number of classes C.
        batch_size: Samples per step over all processes; fewer where the logits do not fit.
        check: Called for each block with whether its logits are finite, those of all classes.
    """
    if fits(len(samples), classes):
        return predict_logits(model, samples, fabric, batch_size=batch_size, workers=workers)
    rows = max(1, min(batch_size, _BATCH_SCORES // classes))

    def compute(columns: npt.NDArray[np.int64] | None) -> Iterator[Logits]:
        chosen = None if columns is None else torch.from_numpy(columns).to(fabric.device)
        for batch in _batches(model, samples, fabric, rows, workers):
            check(bool(batch.isfinite().all()))
            # Chosen where they were computed, so that few scores are copied from the device.
            yield (batch if chosen is None else batch.index_select(1, chosen)).cpu().numpy()

    return ScoreBlocks(len(samples), classes, compute)


def _batches(
    model: nn.Module, samples: Samples, fabric: Any, batch_size: int, workers: int
) -> Iterator[Tensor]:
    """Yield the logits of each batch of all processes, float32 (B, C), on the device."""
    batches = EpochBatches(len(samples), batch_size, None, fabric.global_rank, fabric.world_size)
    loader = make_loader(samples, batches, None, workers, fabric.device.type == "cuda")
    was_training = model.training
    model.eval()
    try:
        for number, (inputs, _, _) in enumerate(loader):
            with torch.inference_mode():
                with fabric.autocast():
                    logits = model(inputs.to(fabric.device, non_blocking=True)).logits
                gathered = gather_rows(fabric, logits.float(), batches.rows(number), differentiable=False)
            yield gathered
    finally:
        model.train(was_training)
