"""Prediction of many samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from ..data import Samples
from .distributed import gather_rows
from .loader import EpochBatches, make_loader


@torch.inference_mode()
def predict_logits(
    model: nn.Module,
    samples: Samples,
    fabric: Any,
    *,
    batch_size: int,
    workers: int = 0,
    progress: Callable[[int], None] | None = None,
) -> npt.NDArray[np.float32]:
    """Compute logits in evaluation mode, float32 (N, C), on every process.

    Args:
        model: Maps inputs to `Outputs`. It is left in the mode it was in.
        samples: Samples to predict; their labels are not used.
        fabric: Lightning Fabric; the processes share the work.
        batch_size: Samples per step over all processes.
        workers: Number of processes that decode images.
        progress: Called after each step with the number of samples in it.
    """
    batches = EpochBatches(len(samples), batch_size, None, fabric.global_rank, fabric.world_size)
    loader = make_loader(samples, batches, None, workers, fabric.device.type == "cuda")
    was_training = model.training
    model.eval()
    parts = []
    for number, (inputs, _, _) in enumerate(loader):
        with fabric.autocast():
            logits = model(inputs.to(fabric.device, non_blocking=True)).logits
        parts.append(gather_rows(fabric, logits.float(), batches.rows(number), differentiable=False).cpu())
        if progress is not None:
            progress(batches.rows(number))
    model.train(was_training)
    return torch.cat(parts).numpy()
