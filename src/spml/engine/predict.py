"""The one loop from samples to what a network computes of them, and logits of whole splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..data import Samples
from ..data.dataset import Inputs, Loaded
from ..data.images.image_files import ImageFiles
from ..scores import InMemory, ScoreBlocks, Scores, fits
from .distributed import gather_rows
from .loader import Batches, load_batches

_BATCH_SCORES = 1 << 26
"""Largest number of scores of a batch where not all scores fit: 256 MiB."""

_BATCH_PIXELS = 64 * 224**2
"""Largest number of pixels of images that are computed at a time."""

_CHUNK = 256
"""Samples at a time of a pass over features, which are in memory."""

Logits = npt.NDArray[np.float32]


@torch.inference_mode()
def compute(
    network: nn.Module,
    batches: Iterable[Loaded],
    device: torch.device,
    *,
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext,
    choose: Callable[[Loaded], Sequence[int]] | None = None,
) -> Iterator[Loaded]:
    """Compute logits or features batch by batch, float32 (n, ...) on the device.

    Args:
        network: Maps samples to features, or to `Outputs`, of which the logits are taken. It is left in
            evaluation mode.
        batches: Samples, such as from `load_batches`.
        device: Device of the network.
        autocast: Makes the context that the network is called in.
        choose: Chooses the samples of a batch that are computed, by their positions in it; None = all that
            were loaded.
    """
    network.eval()
    for batch in batches:
        rows, samples = batch.rows, batch.values
        if choose:
            place = {row: position for position, row in enumerate(batch.rows)}
            rows = [row for row in choose(batch) if row in place]
            samples = samples[[place[row] for row in rows]]
        if not rows and len(batch.identities):  # a network of the user's own may not take an empty batch
            yield batch._replace(values=torch.empty(0, 0), rows=rows)
            continue
        steps = [samples]
        if samples.ndim == 4:  # what a network computes of large images takes much memory
            steps = list(torch.split(samples, max(1, _BATCH_PIXELS // samples.shape[2:].numel())))
        with autocast():
            outputs = [network(step.to(device, non_blocking=True)) for step in steps]
        values = torch.cat([output if isinstance(output, Tensor) else output.logits for output in outputs])
        yield batch._replace(values=values.float(), rows=rows)


def autocast_to(half: torch.dtype | None, device: torch.device) -> Callable[[], Any]:
    """Autocast to a type as `compute` takes it; None = float32."""
    return partial(torch.autocast, device.type, half) if half else nullcontext


def predict_logits(
    model: nn.Module, samples: Samples, fabric: Any, *, batch_size: int, workers: int = 0
) -> Logits:
    """Compute logits in evaluation mode, float32 (N, C), on every process.

    Args:
        model: Maps inputs to `Outputs`. It is left in the mode it was in.
        samples: Samples to predict; their labels are not used.
        fabric: Lightning Fabric; the processes share the work.
        batch_size: Samples per step over all processes.
        workers: Number of processes that decode images.
    """
    logits, first = np.empty((0, 0), np.float32), 0
    for batch in _logits(model, samples, fabric, batch_size, workers):
        if not first:
            logits = np.empty((len(samples), batch.shape[1]), np.float32)
        logits[first : first + len(batch)] = batch.cpu().numpy()
        first += len(batch)
    return logits


@torch.no_grad()
def head_inputs(model: nn.Module, inputs: Inputs) -> Tensor:
    """Compute the input of the head of a model for features, in evaluation mode, (N, D) on its device."""
    was_training, device = model.training, next(model.parameters()).device
    model.eval()
    starts = range(0, len(inputs), _CHUNK)
    parts = [
        model(inputs.fetch(range(start, min(start + _CHUNK, len(inputs))), None).to(device)).features
        for start in starts
    ]
    model.train(was_training)
    return torch.cat(parts)


def predict_scores(
    model: nn.Module,
    samples: Samples,
    classes: int,
    fabric: Any,
    *,
    batch_size: int,
    workers: int = 0,
    check: Callable[[bool], None] = lambda finite: None,
) -> Scores:
    """Logits (N, C) in memory where they fit, else in blocks that are computed whenever they are looked at.

    Args:
        model, samples, fabric, workers: As in `predict_logits`.
        classes: Number of classes C.
        batch_size: Samples per step over all processes; fewer where the logits do not fit.
        check: Called with whether the logits are finite, of blocks with each of them.
    """
    if fits(len(samples), classes):
        logits = predict_logits(model, samples, fabric, batch_size=batch_size, workers=workers)
        check(bool(np.isfinite(logits).all()))
        return InMemory(logits)
    rows = max(1, min(batch_size, _BATCH_SCORES // classes))

    def blocks(columns: npt.NDArray[np.int64] | None) -> Iterator[Logits]:
        chosen = None if columns is None else torch.from_numpy(columns).to(fabric.device)
        for batch in _logits(model, samples, fabric, rows, workers):
            check(bool(batch.isfinite().all()))
            # Chosen where they were computed, so that few scores are copied from the device.
            yield (batch if chosen is None else batch.index_select(1, chosen)).cpu().numpy()

    return ScoreBlocks(len(samples), classes, blocks)


@torch.inference_mode()
def _logits(
    model: nn.Module, samples: Samples, fabric: Any, batch_size: int, workers: int
) -> Iterator[Tensor]:
    """Yield the logits of each batch of all processes, float32 (B, C), on the device."""
    was_training = model.training
    batches = Batches(range(len(samples)), batch_size, fabric.global_rank, fabric.world_size)
    loading = load_batches(samples.inputs, batches, fabric.device, workers=workers)
    computed = compute(model, loading, fabric.device, autocast=fabric.autocast)
    try:
        for number, (rows, own) in enumerate(zip(batches, computed, strict=True)):
            if isinstance(samples.inputs, ImageFiles):
                samples.inputs.check_readable(rows, own)
            yield gather_rows(fabric, own.values, batches.rows_in(number), differentiable=False)
    finally:
        model.train(was_training)
