"""Fabric, and collectives that make several processes compute what one would."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ..common.errors import InputError
from .process_memory import keep_freed_memory


def make_fabric(accelerator: str, devices: int = 1, precision: Any = "32-true") -> Any:
    """Make a Lightning Fabric, not yet launched.

    Args:
        accelerator: `auto`, `cpu`, `cuda` or `mps`.
        devices: Number of processes on all machines together, each with a device of its own.
        precision: As Fabric takes it.

    Raises:
        InputError: The accelerator is not available here, there are fewer devices, or torchrun has started
            another number of processes.
    """
    with _not_imported("torchmetrics"):
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy

    machines = _machines(devices)
    if not torch.cuda.is_available():
        # Otherwise torch's optimisers look for a driver at every step: 0.1 s in a thousand steps.
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
        keep_freed_memory()
    try:
        return Fabric(
            accelerator=accelerator,
            devices=devices // machines,
            num_nodes=machines,
            # Memories are already the same on all processes, or differ on purpose.
            strategy=DDPStrategy(broadcast_buffers=False) if devices > 1 else "auto",
            precision=precision,
        )
    except (RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"{devices} x {accelerator} is not possible here ({error})") from error


def started_processes() -> int:
    """Number of processes on all machines that torchrun has started together; 1 without torchrun."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1


def _machines(devices: int) -> int:
    """Number of machines that torchrun or SLURM has started as many processes on.

    Raises:
        InputError: torchrun has started another number of processes, or not the same on each machine.
    """
    if devices == 1:
        return 1
    if "TORCHELASTIC_RUN_ID" in os.environ:
        started, machines = started_processes(), int(os.environ["GROUP_WORLD_SIZE"])
        if started != devices:
            raise InputError(
                f"--devices is {devices}, but torchrun has started {started} processes. Leave --devices out, "
                "or start as many as the run that is resumed had."
            )
        if int(os.environ["LOCAL_WORLD_SIZE"]) * machines != started:
            raise InputError(
                f"torchrun has started {started} processes on {machines} machines, but each machine needs "
                "the same number (--nproc_per_node)."
            )
        return machines
    if os.environ.get("SLURM_NTASKS") == str(devices):
        return int(os.environ.get("SLURM_NNODES", "1"))
    return 1


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
