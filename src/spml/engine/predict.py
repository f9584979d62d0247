"""Logits of a model for many samples."""

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
    """Logits in evaluation mode, float32 (N, C), on every process. Leaves the model in the mode it was in.

    Args:
        model: inputs to `Outputs`.
        samples: what to predict; labels are not looked at.
        fabric: Lightning Fabric; the processes share the work.
        batch_size: samples per step over all processes.
        workers: processes that decode images.
        progress: called with the number of samples done after each step.
    """
    batches = EpochBatches(len(samples), batch_size, None, fabric.global_rank, fabric.world_size)
    loader = make_loader(samples, batches, None, workers, fabric.device.type == "cuda")
    was_training = model.training
    model.eval()
    parts = []
    for place, (inputs, _, _) in enumerate(loader):
        with fabric.autocast():
            logits = model(inputs.to(fabric.device, non_blocking=True)).logits
        parts.append(gather_rows(fabric, logits.float(), batches.rows(place), differentiable=False).cpu())
        if progress is not None:
            progress(batches.rows(place))
    model.train(was_training)
    return torch.cat(parts).numpy()
