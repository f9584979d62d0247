"""Fabric, and collectives that make several processes compute what one would."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .process_memory import keep_freed_memory


def make_fabric(accelerator: str, devices: int = 1, precision: Any = "32-true") -> Any:
    """Make a Lightning Fabric, not yet launched.

    Raises:
        InputError: The accelerator is not available here, or there are fewer devices.
    """
    with _not_imported("torchmetrics"):
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy

    if not torch.cuda.is_available():
        # Otherwise torch's optimisers look for a driver at every step: 0.1 s in a thousand steps.
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
        keep_freed_memory()
    try:
        return Fabric(
            accelerator=accelerator,
            devices=devices,
            # Memories are already the same on all processes, or differ on purpose.
            strategy=DDPStrategy(broadcast_buffers=False) if devices > 1 else "auto",
            precision=precision,
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"{devices} x {accelerator} is not possible here ({error})") from error


@contextmanager
def _not_imported(name: str) -> Iterator[None]:
    """Make a module look missing while others are imported.

    Fabric imports torchmetrics, which brings transformers and more, only to look up its version for a part
    that is not used here: 3 s at every start.
    """
    hidden = name not in sys.modules
    if hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if hidden:
            del sys.modules[name]


def gather_rows(fabric: Any, own: Tensor, rows: int, *, differentiable: bool) -> Tensor:
    """Gather the rows of a batch of which each process holds every `world`-th, in the order of the batch.

    Args:
        fabric: Lightning Fabric.
        own: (B_rank, ...), rows rank, rank + world, ... of the batch; possibly none.
        rows: Number of rows of the batch over all processes.
        differentiable: Whether the gradient flows back to the process that a row came from.

    Returns:
        (rows, ...), the same on every process.
    """
    world = fabric.world_size
    if world == 1:
        return own if differentiable else own.detach()
    largest = -(-rows // world)
    padded = torch.cat([own, own.new_zeros((largest - len(own), *own.shape[1:]))])
    gathered: Tensor = fabric.all_gather(padded, sync_grads=differentiable)
    return gathered.reshape(world, largest, *own.shape[1:]).transpose(0, 1).flatten(0, 1)[:rows]
